"""Read a GGUF header before llama.cpp opens the file.

It tells whether the model can judge, and whether it fits into memory.

    "GGUF" | version | tensor count, key count | key type value ... | name shape type offset ...
    | padding | tensor data

Every length is checked against the file size, which the `gguf` package does not do. llama.cpp loads
some files that cannot predict the next token (adapters, embedding models), and their output is
meaningless.

    weights    bytes of tensor data, read into memory
    cache      n_ctx x sum over layers of (key + value) x heads x 2 bytes (keys and values, F16)
    working    (max(heads x n_ctx, vocabulary) + 2 x (n_ctx + feed forward + 2 x width))
               x n_ubatch x 4 bytes

For layers without attention, the cache is an upper bound, without their states. A classifier (an
encoder with a classification head) has no cache, writes no token, and evaluates its whole context
at once.
"""

import mmap
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
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
_MAX_LIST_LENGTH = 1024
_LABELS_ENDING = ".classifier.output_labels"
_MAX_LABELS = 64
_UNNAMED_OUTPUT = "LABEL_0"
_HEAD_PREFIX = "cls"
_RANK = 4  # llama.cpp's `LLAMA_POOLING_TYPE_RANK`
_UINT32 = struct.Struct("<I")
_UINT64 = struct.Struct("<Q")
_STRING = 8
_LIST = 9
_NUMBERS = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: _UINT32,
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    7: struct.Struct("<?"),
    10: _UINT64,
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
"""Formats of numbers by the type of a key's value."""


class Header(NamedTuple):
    """Keys and size of a GGUF file.

    A split model has the keys of its first file and the weights of all. Long lists and lists of
    texts, except names of outputs, are empty tuples in `keys`; `lengths` has the lengths of lists.
    `head_tensors` are those of a classification head.
    """

    path: Path
    keys: Mapping[str, Any]
    lengths: Mapping[str, int]
    tensor_count: int
    weight_bytes: int
    head_tensors: tuple[str, ...] = ()

    @property
    def is_classifier(self) -> bool:
        """Whether an encoder's outputs are classes."""
        return self.text("general.architecture") in _ENCODERS and self.size("pooling_type") == _RANK

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of a classifier's outputs. llama.cpp gives one output to a file without names."""
        labels = self.keys.get(f"{self.text('general.architecture')}{_LABELS_ENDING}")
        if isinstance(labels, tuple) and labels:
            return labels
        return (_UNNAMED_OUTPUT,)

    @property
    def metadata(self) -> dict[str, str]:
        """Values that select a prompt profile."""
        values = {key: self.text(key) for key in IDENTITY_KEYS}
        if self.is_classifier:
            values[OUTPUTS_KEY] = ",".join(self.outputs)
        return values

    def text(self, key: str) -> str:
        value = self.keys.get(key)
        if isinstance(value, str):
            return value
        return ""

    def number(self, key: str, default: int = 0) -> int:
        value = self.keys.get(key)
        if isinstance(value, int):
            return int(value)
        return default

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
            start = file.read(len(_MAGIC))
            if not start:
                raise ModelError(f"{path} is empty", hint="download or copy the model again")
            if start != _MAGIC:
                raise ModelError(
                    f"{path} is not a GGUF model",
                    hint="give a GGUF file, not safetensors, an archive, a Git LFS pointer or a "
                    "saved web page",
                )
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
            problem = f"{self._path} is a GGUF file of version {version}"
            raise ModelError(
                f"{problem}, and only version 2 or 3 can be read",
                hint="use a newer conversion of the model, for little-endian machines",
            )
        tensor_count = self._number(_UINT64)
        key_count = self._number(_UINT64)
        keys: dict[str, Any] = {}
        for _ in range(key_count):
            name = self._text()
            if not words and name == "tokenizer.ggml.tokens":
                break
            keys[name] = self._value(self._number(_UINT32), name)
        head_tensors: tuple[str, ...] = ()
        if words:
            head_tensors = self._head_tensors(tensor_count)
        weight_bytes = self._size - self._position
        return Header(self._path, keys, self._lengths, tensor_count, weight_bytes, head_tensors)

    def _head_tensors(self, tensor_count: int) -> tuple[str, ...]:
        """Read the descriptions of all tensors, and return the names of a head's."""
        names = []
        for _ in range(tensor_count):
            name = self._text()
            if name.startswith(_HEAD_PREFIX):
                names.append(name)
            dimensions = self._number(_UINT32)
            self._skip(dimensions * _UINT64.size)  # shape
            self._skip(_UINT32.size + _UINT64.size)  # type, offset
        return tuple(names)

    def _value(self, kind: int, name: str) -> Any:
        if kind == _STRING:
            return self._text()
        if kind != _LIST:
            return self._number(self._kind_of(kind, name))
        kind = self._number(_UINT32)
        count = self._number(_UINT64)
        self._lengths[name] = count
        if kind == _STRING:
            if name.endswith(_LABELS_ENDING) and count <= _MAX_LABELS:
                return tuple(self._text() for _ in range(count))
            self._skip_texts(count)
            return ()
        number = self._kind_of(kind, name)
        if count > _MAX_LIST_LENGTH:
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
        place = self._position
        last = self._size - _UINT64.size
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
    "bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2",
    "jina-bert-v3", "eurobert",
}  # fmt: skip
# Architectures of embedding models; of draft, diffusion, sound and image models, and
# encoder-decoders.
_CANNOT_JUDGE = {
    "gemma-embedding", "llama-embed", "t5encoder",
    "eagle3", "dflash", "gemma4-assistant", "dream", "llada", "llada-moe", "rnd1",
    "wavtokenizer-dec", "qwen3tts", "pockettts", "clip", "t5",
}  # fmt: skip


def check(path: Path, *, words: bool = True) -> Header:
    """Read the header of a model. Raises ModelError if it cannot judge."""
    headers = [read(part, words=words) for part in parts(path)]
    header = _merge_headers(headers)
    problem = _find_file_problem(header, len(headers)) or _find_model_problem(header, words=words)
    if problem is not None:
        raise ModelError(
            f"{path} {problem}",
            hint="use a complete text-generation model (a chat or instruct model in GGUF format), "
            "or a classifier",
        )
    return header


def _merge_headers(headers: Sequence[Header]) -> Header:
    """Return the header of a split model from those of its files."""
    head_tensors: list[str] = []
    for header in headers:
        head_tensors += header.head_tensors
    return headers[0]._replace(
        tensor_count=sum(header.tensor_count for header in headers),
        weight_bytes=sum(header.weight_bytes for header in headers),
        head_tensors=tuple(head_tensors),
    )


def _find_file_problem(header: Header, file_count: int) -> str | None:
    """Return why the files are not a whole model, or None."""
    kind = header.text("general.type")
    if kind == "adapter" or "adapter.type" in header.keys:
        return "is not a model, but an adapter: merge it into its base"
    if kind in ("mmproj", "imatrix", "vocab"):
        return f"is not a model, but of type {kind}"
    architecture = header.text("general.architecture")
    if not architecture:
        return "does not name its architecture"
    count = header.number("split.count", 1)
    if count != file_count:
        return f"has {count} parts by its header, but {file_count} by its name: restore the names"
    if not header.tensor_count:
        return "contains a vocabulary but no weights"
    return None


def _find_model_problem(header: Header, *, words: bool) -> str | None:
    """Return why a model cannot judge, or None."""
    architecture = header.text("general.architecture")
    if architecture in _CANNOT_JUDGE:
        return f"cannot judge: a {architecture} model does not write text word by word"
    if architecture in _ENCODERS:
        if not header.is_classifier:
            return f"cannot judge: a {architecture} model without a classification head"
        if words and not header.head_tensors:
            return "cannot judge: its classification head is missing"
    elif _embeds(header):
        return "cannot judge: it is an embedding or ranking model"
    if header.text("tokenizer.ggml.model") in ("", "none", "no_vocab"):
        return "contains no tokenizer"
    return None


def _embeds(header: Header) -> bool:
    architecture = header.text("general.architecture")
    is_causal = header.keys.get(f"{architecture}.attention.causal")
    return header.size("pooling_type") > 0 or is_causal is False


UBATCH = 512
"""Tokens that llama.cpp evaluates at once."""
_MAX_DEFAULT_CONTEXT = 8192
_MAX_DEFAULT_CLASSIFIER_CONTEXT = 512
_F16_BYTES = 2
_F32_BYTES = 4
_REFUSED = re.compile(
    "cannot allocate memory|resource temporarily unavailable|insufficient memory|out of memory|"
    "bad_alloc|MemoryError|(failed|unable) to (allocate|reserve)",
    re.IGNORECASE,
)


def memory_hint() -> str:
    context = option_name("n_ctx")
    layers = option_name("gpu_layers")
    return (
        f"use a smaller model or quantisation, a shorter context ({context}) or fewer layers on a "
        f"GPU ({layers}); or free memory, or raise its limit (ulimit -v, the container's or the "
        "job's)"
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
    """Return the tokens of context for a model, at most those of its training."""
    if not wanted and model.is_classifier:
        wanted = _MAX_DEFAULT_CLASSIFIER_CONTEXT
    return min(wanted or _MAX_DEFAULT_CONTEXT, model.size("context_length"))


def needed(model: Header, *, n_ctx: int) -> MemoryNeed:
    """Estimate the memory of a model and its context. The module's docstring has the formulas."""
    heads = model.size("attention.head_count")
    width = model.size("embedding_length")
    streams = 2 * (n_ctx + model.size("feed_forward_length") + 2 * width)
    if model.is_classifier:
        working = (heads * n_ctx + streams) * n_ctx * _F32_BYTES
        return MemoryNeed(model.weight_bytes, 0, working)
    vocabulary = model.lengths.get("tokenizer.ggml.tokens", 0)
    working = (max(heads * n_ctx, vocabulary) + streams) * UBATCH * _F32_BYTES
    cache = n_ctx * _cached_numbers(model) * _F16_BYTES
    return MemoryNeed(model.weight_bytes, cache, working)


def _cached_numbers(model: Header) -> int:
    """Return how many numbers of keys and values a token has in all layers."""
    heads = model.size("attention.head_count")
    head_width = 0
    if heads:
        head_width = model.size("embedding_length") // heads
    key_width = model.size("attention.key_length", head_width)
    value_width = model.size("attention.value_length", head_width)
    per_layer = model.keys.get(f"{model.text('general.architecture')}.attention.head_count_kv")
    if isinstance(per_layer, tuple):
        key_value_heads = sum(per_layer)
    else:
        attending = model.size("block_count") // max(1, model.size("full_attention_interval", 1))
        key_value_heads = attending * model.size("attention.head_count_kv", heads)
    return int(key_value_heads * (key_width + value_width))


def needed_and_free(need: MemoryNeed, n_ctx: int) -> str:
    free = hardware.available_bytes()
    room = "the amount of free memory is unknown"
    if free is not None:
        room = f"{readable(free)} are free"
    return (
        f"about {readable(need.total)} (weights {readable(need.weights)}, "
        f"cache for {n_ctx:,} tokens {readable(need.cache)}, "
        f"working space {readable(need.working)}), and {room}"
    )


def is_out_of_memory(message: str) -> bool:
    return bool(_REFUSED.search(message))


# llama.cpp's names of quantisation mixtures (`llama_ftype`).
_FILE_TYPE_NAMES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K",
    11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S",
    17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS",
    23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M",
    30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE",
}  # fmt: skip


def read_model_facts(path: Path, n_ctx: int | None) -> ModelFacts:
    model = check(path)
    n_ctx = context_for(model, n_ctx)
    outputs: tuple[str, ...] = ()
    if model.is_classifier:
        outputs = model.outputs
    return ModelFacts(
        quantisation=_FILE_TYPE_NAMES.get(model.number("general.file_type", -1)),
        trained_context=model.size("context_length"),
        chat_template="tokenizer.chat_template" in model.keys,
        n_ctx=n_ctx,
        memory_bytes=needed(model, n_ctx=n_ctx).total,
        outputs=outputs,
    )
