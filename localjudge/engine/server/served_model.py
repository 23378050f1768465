"""What a server says of its model, and whether the model's bytes are proved.

    names a file that is on this machine  ──whole path, as many tokens, as many bytes of weights──>  its sha256
    anything else                         ──>  a name, and what the server tells: who runs it answers for the rest

A model that is proved is known by its checksum like any file: registered profile, card and caution are that file's. The
checksum is of the file as it lies there now; a server that was started before the file was replaced is told by nothing.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from localjudge import model_registry
from localjudge.engine.llamacpp import gguf_header
from localjudge.engine.llamacpp.model import WHO_IT_IS
from localjudge.engine.server.address import ServerAddress
from localjudge.errors import ModelError
from localjudge.local_models.model_parts import size_of
from localjudge.printable import printable

_VOCABULARY = "tokenizer.ggml.tokens"
_log = logging.getLogger(__name__)


class ProvedFile(NamedTuple):
    """The file that a server named, which is here: its checksum, its size in bytes, what its header says."""

    path: Path
    sha256: str
    size: int
    metadata: Mapping[str, str]
    chat_template: bool


class ServedModel(NamedTuple):
    """A model behind an address.

    `kind` and `build` are the server's, `called` is what it calls the model, `n_ctx` the tokens that it takes at once.
    `bos` and `eos` are texts, as chat templates want them.
    """

    address: ServerAddress
    kind: str
    build: str
    called: str
    n_ctx: int
    vocabulary_size: int
    chat_template: str | None = None
    bos: str = ""
    eos: str = ""
    quantisation: str | None = None
    proved: ProvedFile | None = None
    host: str | None = None
    """The host, where it is not this machine."""
    facts: Mapping[str, int] = MappingProxyType({})
    """What is known of a model that is not proved, to tell it from others: its sizes."""

    @property
    def source(self) -> str:
        """The address, by which the judge is found again."""
        return str(self.address)

    @property
    def sha256(self) -> str | None:
        """The checksum of the model, if it is proved."""
        return self.proved.sha256 if self.proved else None

    @property
    def profile(self) -> str | None:
        """The profile that the model is registered with, if it is proved and registered."""
        known = model_registry.registered_as(self.proved.sha256) if self.proved else None
        return known.profile if known else None

    @property
    def name(self) -> str:
        """What people call the model: as a file of its bytes is called, or as the server calls it."""
        if not self.proved:
            return Path(self.called).name.removesuffix(".gguf") or self.kind
        known = model_registry.registered_as(self.proved.sha256)
        return known.name if known else self.proved.path.stem

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the model's file says of who it is; without one, its name."""
        return self.proved.metadata if self.proved else {"general.name": self.name}


def proved_file(
    named: str, *, vocabulary_size: int | None = None, weight_bytes: int | None = None
) -> ProvedFile | None:
    """The file of this name, if it is one of this machine and can be the server's; None if it is not, or cannot be.

    Numbers that the server gives of its model are held against the file.
    """
    path = Path(named)
    try:
        if not path.is_absolute() or not path.is_file():
            return None
        header = gguf_header.read(path)
        if vocabulary_size not in {None, header.lengths.get(_VOCABULARY)}:
            return None
        if weight_bytes is not None and not _is_about(header.weight_bytes, weight_bytes, tensors=len(header.tensors)):
            return None
        sha256, size = model_registry.sha256_of(path), size_of(path)
    except (ModelError, OSError, ValueError) as error:  # ValueError: a name with a zero byte
        _log.debug(f"the server names {printable(named)[:200]}, which cannot be read: {error}")
        return None
    metadata = {key: header.text(key) for key in WHO_IT_IS}
    return ProvedFile(path, sha256, size, metadata, bool(header.text("tokenizer.chat_template")))


def _is_about(in_file: int, served: int, *, tensors: int) -> bool:
    """Whether the weights are as long as the server says: in a file, each tensor is padded to a whole block."""
    return 0 <= in_file - served <= tensors * 64
