"""Read a GGUF header before llama.cpp opens the file: can the model judge, and does it fit into memory?

    "GGUF" | version | tensor count, key count | key type value ... | name shape type offset ... |
    padding | tensor data

Every length is checked against the file size, which the `gguf` package does not do. llama.cpp loads
some files that cannot predict the next token (adapters, embedding models), and their output is
meaningless.

    weights    bytes of tensor data, read into memory
    cache      n_ctx x sum over layers of (key + value) x heads x 2 bytes          attention keys and values, F16
    working    (max(heads x n_ctx, vocabulary) + 2 x (n_ctx + feed forward + 2 x width)) x n_ubatch x 4 bytes

For layers without attention, the cache is an upper bound, without their states. A classifier (an
encoder with a classification head) has no cache, writes no token, and evaluates its whole context
at once.
"""

import mmap
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from localjudge.engine import hardware
from localjudge.engine.hardware import readable
from localjudge.engine.protocol import ModelFacts
from localjudge.errors import RETRY_HINTS, ModelError, OutOfResource
from localjudge.local_models import parts
from localjudge.types import OUTPUTS_KEY
from localjudge.words import option_name

_MAGIC = b"GGUF"
IDENTITY_KEYS = ("general.architecture", "general.basename", "general.name")
_LONGEST_LIST_KEPT = 1024
_LABELS_ENDING = ".classifier.output_labels"
_MOST_LABELS = 64
_UNNAMED_OUTPUT = "LABEL_0"
_HEAD_PREFIX = "cls"
_RANK = 4  # llama.cpp's `LLAMA_POOLING_TYPE_RANK`
_STRING, _LIST = 8, 9
_NUMBERS = {
    kind: struct.Struct(f"<{code}") for kind, code in enumerate("BbHhIif?  Qqd") if code != " "
}
_UINT32, _UINT64 = _NUMBERS[4], _NUMBERS[10]


class Header(NamedTuple):
    """Keys and size of a GGUF file; for a split model, the keys of its first file and the weights of all."""

    path: Path
    keys: Mapping[
        str, Any
    ]  # long lists and lists of texts (except names of outputs) are empty tuples
    lengths: Mapping[str, int]  # of lists
    tensor_count: int
    weight_bytes: int
    head_tensors: tuple[str, ...] = ()  # of a classification head

    @property
    def is_classifier(self) -> bool:
        """Whether an encoder's outputs are classes."""
        return self.text("general.architecture") in _ENCODERS and self.size("pooling_type") == _RANK

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of a classifier's outputs. llama.cpp gives one output to a file without names."""
        labels = self.keys.get(f"{self.text('general.architecture')}.classifier.output_labels")
        return labels if isinstance(labels, tuple) and labels else (_UNNAMED_OUTPUT,)

    @property
    def metadata(self) -> dict[str, str]:
        """Values that select a prompt profile."""
        values = {key: self.text(key) for key in IDENTITY_KEYS}
        if self.is_classifier:
            values[OUTPUTS_KEY] = ",".join(self.outputs)
        return values

    def text(self, key: str) -> str:
        value = self.keys.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str, default: int = 0) -> int:
        value = self.keys.get(key)
        return int(value) if isinstance(value, int) else default

    def size(self, key: str, default: int = 0) -> int:
        """Return an integer of the architecture, such as `llama.context_length`."""
        return self.number(f"{self.text('general.architecture')}.{key}", default)


def read(path: Path, *, words: bool = True) -> Header:
    """Read the header of a GGUF file. Without `words`, read its first keys, in a millisecond.

    Raises ModelError for an invalid file.
    """
    with _opened(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _Reader(path, data).header(words=words)


def require_gguf(path: Path) -> None:
    with _opened(path):
        pass


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    try:
        with path.open("rb") as file:
            if not (start := file.read(len(_MAGIC))):
                raise ModelError(f"{path} is empty", hint="download or copy the model again")
            if start != _MAGIC:
                hint = "give a GGUF file, not safetensors, an archive, a Git LFS pointer or a saved web page"
                raise ModelError(f"{path} is not a GGUF model", hint=hint)
            yield file
    except OSError as error:
        problem = f"{path} cannot be read: {error.strerror}"
        if error.errno in RETRY_HINTS:
            raise OutOfResource(problem, hint=RETRY_HINTS[error.errno]) from error
        raise ModelError(problem, hint="check the file and its permissions") from error


class _Reader:
    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path = path
        self._data = data
        self._size = len(data)
        self._position = 0
        self._lengths: dict[str, int] = {}

    def header(self, *, words: bool) -> Header:
        self._position = len(_MAGIC)
        version = self._number(_UINT32)
        if version not in (2, 3):
            raise ModelError(
                f"{self._path} is a GGUF file of version {version}, and only version 2 or 3 can be read",
                hint="use a newer conversion of the model, for little-endian machines",
            )
        tensor_count, key_count = self._number(_UINT64), self._number(_UINT64)
        keys: dict[str, Any] = {}
        for _ in range(key_count):
            name = self._text()
            if not words and name == "tokenizer.ggml.tokens":
                break
            keys[name] = self._value(self._number(_UINT32), name)
        head_tensors: list[str] = []
        for _ in range(tensor_count if words else 0):
            name = self._text()
            if name.startswith(_HEAD_PREFIX):
                head_tensors.append(name)
            self._skip(
                _UINT64.size * self._number(_UINT32) + _UINT32.size + _UINT64.size
            )  # shape, type, offset
        weight_bytes = self._size - self._position
        return Header(
            self._path, keys, self._lengths, tensor_count, weight_bytes, tuple(head_tensors)
        )

    def _value(self, kind: int, name: str) -> Any:
        if kind == _STRING:
            return self._text()
        if kind != _LIST:
            return self._number(self._kind_of(kind, name))
        kind, count = self._number(_UINT32), self._number(_UINT64)
        self._lengths[name] = count
        if kind == _STRING:
            if name.endswith(_LABELS_ENDING) and count <= _MOST_LABELS:
                return tuple(self._text() for _ in range(count))
            self._skip_texts(count)
            return ()
        number = self._kind_of(kind, name)
        if count > _LONGEST_LIST_KEPT:
            self._skip(count * number.size)
            return ()
        return tuple(self._number(number) for _ in range(count))

    def _kind_of(self, kind: int, name: str) -> struct.Struct:
        if kind not in _NUMBERS:
            self._broken(f"damaged: the key {name!r} is of an unknown type, {kind}")
        return _NUMBERS[kind]

    def _text(self) -> str:
        length = self._number(_UINT64)
        start = self._position
        self._skip(length)
        return self._data[start : self._position].decode(errors="replace")

    def _skip_texts(self, count: int) -> None:
        # Faster than `_text`, because a model has hundreds of thousands of words and merges.
        place, last = self._position, self._size - _UINT64.size
        for _ in range(count):
            if place > last:
                self._skip(self._size)  # raises
            place += _UINT64.size + _UINT64.unpack_from(self._data, place)[0]
        self._skip(place - self._position)

    def _number(self, number: struct.Struct) -> Any:
        start = self._position
        self._skip(number.size)
        return number.unpack_from(self._data, start)[0]

    def _skip(self, length: int) -> None:
        if length > self._size - self._position:
            self._broken(
                f"damaged or truncated: its header continues beyond its end at byte {self._size:,}",
            )
        self._position += length

    def _broken(self, what: str) -> NoReturn:
        raise ModelError(f"{self._path} is {what}", hint="download or copy the model again")


# Architectures of encoders, which judge if they have a classification head.
_ENCODERS = {
    "bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2", "jina-bert-v3", "eurobert",
}  # fmt: skip
# Architectures of embedding models; of draft, diffusion, sound and image models, and encoder-decoders.
_CANNOT_JUDGE = {
    "gemma-embedding", "llama-embed", "t5encoder",
    "eagle3", "dflash", "gemma4-assistant", "dream", "llada", "llada-moe", "rnd1", "wavtokenizer-dec", "qwen3tts",
    "pockettts", "clip", "t5",
}  # fmt: skip


def check(path: Path, *, words: bool = True) -> Header:
    """Read the header of a model. Raises ModelError if it cannot judge."""
    headers = [read(part, words=words) for part in parts(path)]
    header = headers[0]._replace(
        tensor_count=sum(part.tensor_count for part in headers),
        weight_bytes=sum(part.weight_bytes for part in headers),
        head_tensors=tuple(name for part in headers for name in part.head_tensors),
    )
    kind, architecture = header.text("general.type"), header.text("general.architecture")
    count = header.number("split.count", 1)
    embeds = (
        header.size("pooling_type") > 0
        or header.keys.get(f"{architecture}.attention.causal") is False
    )
    is_encoder = architecture in _ENCODERS
    for is_so, problem in (
        (
            kind == "adapter" or "adapter.type" in header.keys,
            "is not a model, but an adapter: merge it into its base",
        ),
        (kind in ("mmproj", "imatrix", "vocab"), f"is not a model, but of type {kind}"),
        (not architecture, "does not name its architecture"),
        (
            count != len(headers),
            f"has {count} parts by its header, but {len(headers)} by its name: restore the names",
        ),
        (not header.tensor_count, "contains a vocabulary but no weights"),
        (
            architecture in _CANNOT_JUDGE,
            f"cannot judge: a {architecture} model does not write text word by word",
        ),
        (embeds and not is_encoder, "cannot judge: it is an embedding or ranking model"),
        (
            is_encoder and not header.is_classifier,
            f"cannot judge: a {architecture} model without a classification head",
        ),
        (
            words and is_encoder and not header.head_tensors,
            "cannot judge: its classification head is missing",
        ),
        (header.text("tokenizer.ggml.model") in ("", "none", "no_vocab"), "contains no tokenizer"),
    ):
        if is_so:
            hint = "use a complete text-generation model (a chat or instruct model in GGUF format), or a classifier"
            raise ModelError(f"{path} {problem}", hint=hint)
    return header


UBATCH = 512  # tokens that llama.cpp evaluates at once
_MAX_DEFAULT_CONTEXT = 8192
_MAX_DEFAULT_CLASSIFIER_CONTEXT = 512
_REFUSED = re.compile(
    "cannot allocate memory|resource temporarily unavailable|insufficient memory|out of memory|bad_alloc|MemoryError|"
    "(failed|unable) to (allocate|reserve)",
    re.IGNORECASE,
)


def memory_hint() -> str:
    return (
        f"use a smaller model or quantisation, a shorter context ({option_name('n_ctx')}) or fewer layers on a GPU "
        f"({option_name('gpu_layers')}); or free memory, or raise its limit (ulimit -v, the container's or the job's)"
    )


class MemoryNeed(NamedTuple):
    """Memory of a judge in bytes."""

    weights: int
    cache: int
    working: int

    @property
    def total(self) -> int:
        return sum(self)


def context_for(model: Header, wanted: int | None) -> int:
    default = _MAX_DEFAULT_CLASSIFIER_CONTEXT if model.is_classifier else _MAX_DEFAULT_CONTEXT
    return min(wanted or default, model.size("context_length"))


def needed(model: Header, *, n_ctx: int) -> MemoryNeed:
    heads, width = model.size("attention.head_count"), model.size("embedding_length")
    head_width = width // heads if heads else 0
    key_and_value = model.size("attention.key_length", head_width) + model.size(
        "attention.value_length", head_width
    )
    per_layer = model.keys.get(f"{model.text('general.architecture')}.attention.head_count_kv")
    if isinstance(per_layer, tuple):
        key_value_heads = sum(per_layer)
    else:
        attending = model.size("block_count") // max(1, model.size("full_attention_interval", 1))
        key_value_heads = attending * model.size("attention.head_count_kv", heads)
    cache = n_ctx * key_value_heads * key_and_value * 2  # bytes of F16
    vocabulary = model.lengths.get("tokenizer.ggml.tokens", 0)
    streams = 2 * (n_ctx + model.size("feed_forward_length") + 2 * width)
    if model.is_classifier:
        return MemoryNeed(
            model.weight_bytes, 0, (heads * n_ctx + streams) * n_ctx * 4
        )  # bytes of F32
    working = (max(heads * n_ctx, vocabulary) + streams) * UBATCH * 4  # bytes of F32
    return MemoryNeed(model.weight_bytes, cache, working)


def needed_and_free(need: MemoryNeed, n_ctx: int) -> str:
    free = hardware.available_bytes()
    room = "the amount of free memory is unknown" if free is None else f"{readable(free)} are free"
    return (
        f"about {readable(need.total)} (weights {readable(need.weights)}, cache for {n_ctx:,} tokens "
        f"{readable(need.cache)}, working space {readable(need.working)}), and {room}"
    )


def is_out_of_memory(message: str) -> bool:
    return bool(_REFUSED.search(message))


# llama.cpp's names of quantisation mixtures (`llama_ftype`).
_FILE_TYPE_NAMES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS",
    20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M",
    28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE",
}  # fmt: skip


def facts_of(path: Path, n_ctx: int | None) -> ModelFacts:
    model = check(path)
    n_ctx = context_for(model, n_ctx)
    return ModelFacts(
        quantisation=_FILE_TYPE_NAMES.get(model.number("general.file_type", -1)),
        trained_context=model.size("context_length"),
        chat_template="tokenizer.chat_template" in model.keys,
        n_ctx=n_ctx,
        memory_bytes=needed(model, n_ctx=n_ctx).total,
        outputs=model.outputs if model.is_classifier else (),
    )
