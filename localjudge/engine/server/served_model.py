"""Identify the model of a llama-server. Any other server is refused.

If the server reports the full path of a file on this machine, with the same number of tokens and size of weights, the
file's checksum identifies the model, and its registered profile, card and caution apply. Any other name is no proof.
"""

import logging
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from localjudge import model_registry
from localjudge.engine.llamacpp import gguf as gguf_header
from localjudge.engine.llamacpp.model import IDENTITY_KEYS
from localjudge.engine.protocol import EngineSettings
from localjudge.engine.server.connection import Refused, ServerAddress, ServerConnection, read_address
from localjudge.errors import ModelError, OutOfResource
from localjudge.model_registry import ModelFile
from localjudge.words import option, printable

LLAMA_SERVER = "llama-server"
_log = logging.getLogger(__name__)
_UNKNOWN = (404, 405, 501)
_FACTS = {"size": "weight_bytes", "n_params": "parameters", "n_embd": "width"}
"""Sizes in /v1/models, with their names in an identity."""


class ProvedFile(NamedTuple):
    """Local file of a served model, with facts from its header."""

    file: ModelFile
    metadata: Mapping[str, str]
    chat_template: bool


class ServedModel(NamedTuple):
    """Model at a server address.

    `called` is the server's name for it. `bos` and `eos` are texts for chat templates. `host` is set for another
    machine. `facts` are sizes that distinguish models without a proved file.
    """

    address: ServerAddress
    build: str
    called: str
    n_ctx: int
    vocabulary_size: int
    chat_template: str | None
    bos: str
    eos: str
    quantisation: str | None
    proved: ProvedFile | None
    host: str | None
    facts: Mapping[str, int]

    @property
    def source(self) -> str:
        return str(self.address)

    @property
    def sha256(self) -> str | None:
        return self.proved.file.sha256 if self.proved else None

    @property
    def profile(self) -> str | None:
        return self.proved.file.profile if self.proved else None

    @property
    def name(self) -> str:
        return self.proved.file.name if self.proved else Path(self.called).name.removesuffix(".gguf") or LLAMA_SERVER

    @property
    def metadata(self) -> Mapping[str, str]:
        return self.proved.metadata if self.proved else {"general.name": self.name}


def served_model(judge: str, settings: EngineSettings) -> ServedModel:
    """Identify the model at the address in a judge's name.

    Raises ModelError if there is no server that can judge, InputError for an invalid address or another machine,
    OutOfResource for a server that does not become ready.
    """
    with closing(ServerConnection(read_address(judge), settings.allow_host)) as connection:
        return read_model(connection)


def read_model(connection: ServerConnection) -> ServedModel:
    """Read the server's model description and compare it with a local file. Raises the errors of `served_model`."""
    address = connection.address
    try:
        props = _ask_if_known(connection, "/props")
    except OutOfResource as error:
        if connection.made:
            raise
        raise ModelError(
            f"there is no server at {address}: {error.message}",
            hint="start it, for example: llama-server -m MODEL.gguf --port 8080",
        ) from error
    if not isinstance(props.get("default_generation_settings"), dict):
        raise ModelError(
            f"the server at {address} is not a llama-server",
            hint=f"name the model's file with {option('judge', '/PATH/MODEL.gguf')}, or a model of Ollama or LM Studio "
            f"with {option('judge', 'ollama:NAME')} (`localjudge models` lists them)",
        )
    meta = inside(connection.ask("/v1/models"), "data", 0, "meta", kind=dict)
    size = whole(inside(meta, "n_vocab"), "the size of its vocabulary")
    model_path = str(props.get("model_path", ""))
    proved = (
        _proved_file(model_path, size, whole(meta.get("size", 0), "the model's size")) if connection.is_local else None
    )
    _refuse_adapters(connection)
    template = str(props.get("chat_template") or "")
    return ServedModel(
        address=address,
        build=printable(str(props.get("build_info", "unknown"))),
        called=printable(str(props.get("model_alias") or model_path)),
        # 0 from a router, which has no model itself.
        n_ctx=whole(inside(props, "default_generation_settings", "n_ctx"), "its context", least=1),
        vocabulary_size=size,
        # If the file has no template, the server reports the one that it would use instead.
        chat_template=None if proved and not proved.chat_template else template or None,
        bos=str(props.get("bos_token", "")),
        eos=str(props.get("eos_token", "")),
        quantisation=printable(str(meta.get("ftype") or "")) or None,
        proved=proved,
        host=None if connection.is_local else address.host,
        facts={fact: whole(meta[name], fact) for name, fact in _FACTS.items() if meta.get(name) is not None},
    )


def _proved_file(model_path: str, vocabulary_size: int, weight_bytes: int) -> ProvedFile | None:
    path = Path(model_path)
    try:
        if not path.is_absolute() or not path.is_file():
            return None
        header = gguf_header.read(path)
        padding = header.tensor_count * 64  # in a file, each tensor is padded to a whole block
        if vocabulary_size != header.lengths.get("tokenizer.ggml.tokens"):
            return None
        if not 0 <= header.weight_bytes - weight_bytes <= padding:
            return None
        file = model_registry.find(model_path)
    except (ModelError, OSError, ValueError) as error:  # ValueError: a name with a zero byte
        _log.debug(f"the server names {printable(model_path)[:200]}, which cannot be read: {error}")
        return None
    metadata = {key: header.text(key) for key in IDENTITY_KEYS}
    return ProvedFile(file, metadata, bool(header.text("tokenizer.chat_template")))


def _refuse_adapters(connection: ServerConnection) -> None:
    """Raise ModelError for a model with LoRA adapters: it has the path and size of the base file."""
    for row in _ask_if_known(connection, "/lora-adapters", list):
        if inside(row, "scale") != 0:
            raise ModelError(
                f"the server at {connection.address} applies a LoRA adapter, {printable(str(row.get('path')))[:200]!r}",
                hint="merge it into the model (llama-export-lora), or start the server without --lora",
            )


def _ask_if_known(connection: ServerConnection, path: str, kind: type[Any] = dict) -> Any:
    try:
        return connection.ask(path, kind=kind)
    except Refused as error:
        if error.status not in _UNKNOWN:
            raise
        return kind()


def inside(reply: Any, *steps: str | int, kind: type[Any] = object) -> Any:
    """Return the value at a path of keys and indices. Raises ModelError if it is missing or of another type."""
    value, place, hint = reply, ".".join(map(str, steps)), "use a recent version of the server"
    try:
        for step in steps:
            value = value[step]
    except (LookupError, TypeError) as error:
        raise ModelError(f"the server's reply has no {place}", hint=hint) from error
    if not isinstance(value, kind):
        raise ModelError(f"the server gives {value!r:.40} as {place}", hint=hint)
    return value


def whole(value: Any, what: str, *, least: int = 0, most: int | None = None) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        raise ModelError(f"the server gives {value!r:.40} as {what}")
    return value
