"""What a GGUF file says of itself: can it judge, and does it fit into memory? Read before llama.cpp is trusted with it.

    "GGUF" | version | how many tensors, keys | key type value ... | name shape type offset ... | padding | tensor data

llama.cpp answers a damaged file with "failed to load model" or, for some damage, by ending the process. This reader
never does more than read: every length is held against the file's own size, and what is wrong is said in words. The
`gguf` package does not: it takes 9 s and 500 MiB for the header of a model with 152,000 tokens (this reader 0.2 s, and
0.01 s for what a list of models shows), and a header of 100 bytes that promises a list of 8 billion numbers keeps it
busy without an end.

A judge reads a prompt from left to right and says which token comes next. Many files cannot do that: vocabularies,
adapters, projectors, models that turn a text into a vector, encoder-decoders. llama.cpp loads some of them without a
word, and what comes out then is not a verdict.

    weights    bytes of tensor data, read into memory
    cache      n_ctx x sum over layers of (key + value) x heads x 2 bytes          attention keys and values, F16
    working    (max(heads x n_ctx, vocabulary) + 2 x (n_ctx + feed forward + 2 x width)) x n_ubatch x 4 bytes
                                     the largest matrix of one step, the masks, and what passes between layers

The formulas follow llama.cpp's buffers without flash attention; a test holds them against what it allocates. For models
whose layers are not all attention, and which do not say which are, the cache is an upper bound; the states that the
other layers keep (tens of MiB for a model of billions of weights) are not counted.
"""

import mmap
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from localjudge.engine import hardware
from localjudge.engine.hardware import readable
from localjudge.engine.protocol import ModelFacts
from localjudge.errors import RETRY_HINTS, ModelError, OutOfResource
from localjudge.local_models import parts, size_of
from localjudge.words import option_name

Value = bool | int | float | str | tuple[Any, ...]
"""Value of a key. A long list is given as an empty tuple: nobody asks for the words of a vocabulary here."""

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_LONGEST_LIST_KEPT = 1024
_MOST_DIMENSIONS = 4
_STRING, _LIST = 8, 9
_NUMBERS = {kind: struct.Struct(f"<{code}") for kind, code in enumerate("BbHhIif?  Qqd") if code != " "}
_UINT32, _UINT64 = _NUMBERS[4], _NUMBERS[10]

# Numbers and bytes of one block of each tensor type, from ggml's definition of the format. Types that are not listed
# (newer than this table) are left to llama.cpp.
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66),
    17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136),
    24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54),
    35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18),
}  # fmt: skip

_VOCABULARY = "tokenizer.ggml.tokens"
_TEMPLATE, _FILE_TYPE = "tokenizer.chat_template", "general.file_type"


def _spelt(name: str) -> bytes:
    """A text as the file has it: its length, its bytes."""
    return _UINT64.pack(len(name)) + name.encode()


_A_TENSOR = _spelt("token_embd.weight")
"""Where this is, the keys are over."""
_SEARCHED_AT_ONCE, _OVERLAP, _MOST_SEARCHED = 1 << 21, 1 << 10, 1 << 25
"""Bytes. The longest vocabularies with their merges take some 15 million."""

_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive (PyTorch saves its weights in one)",
    b"\x80\x02": "a Python pickle (an old PyTorch file)",
    b"\x1f\x8b": "compressed with gzip: unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed with zstd: unpack it first",
    b"\xfd7zXZ": "compressed with xz: unpack it first",
    b"version https://git-lfs": "a Git LFS pointer, not the file that it points to: fetch it with `git lfs pull`",
    b"tjgg": "a GGML file from before GGUF",
    b"fmgg": "a GGML file from before GGUF",
    b"lmgg": "a GGML file from before GGUF",
}


class Header(NamedTuple):
    """Keys and size of one GGUF file."""

    path: Path
    keys: Mapping[str, Value]
    lengths: Mapping[str, int]
    """Of the keys that are lists."""
    tensors: frozenset[str]
    """Names of its tensors."""
    weight_bytes: int
    """Bytes of tensor data."""

    def text(self, key: str) -> str:
        """Value of a key that should be a text; "" if it is missing or something else."""
        value = self.keys.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str, default: int = 0) -> int:
        """Value of a key that should be a whole number; `default` if it is missing or something else."""
        value = self.keys.get(key)
        return int(value) if isinstance(value, int) else default


class Glance(NamedTuple):
    """The keys in front of a file's vocabulary, and what stands behind it that can be found without reading it."""

    header: Header
    """Without tensors, as if all bytes behind the vocabulary's start were weights."""
    tensors: int
    """How many the file says that it has."""
    chat_template: bool
    file_type: int | None
    """The quantisation by the number that llama.cpp gives it; None if it is not found."""


def read(path: Path) -> Header:
    """Read the header of a GGUF file. Raises ModelError if it is not one, is damaged or is cut off."""
    with _opened(path) as reader:
        return reader.header()


@contextmanager
def _opened(path: Path) -> Iterator["_Reader"]:
    try:
        size = path.stat().st_size
        if not size:
            raise ModelError(f"{path} is empty", hint="download or copy the model again")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield _Reader(path, data)
    except OSError as error:
        problem = f"{path} cannot be read: {error.strerror}"
        if error.errno in RETRY_HINTS:
            raise OutOfResource(problem, hint=RETRY_HINTS[error.errno]) from error
        raise ModelError(problem, hint="check the file and its permissions") from error


class _Reader:
    """A place in a file that only moves forward, and never past the end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path = path
        self._data = data
        self._size = len(data)
        self._position = 0
        self._lengths: dict[str, int] = {}

    def header(self) -> Header:
        tensor_count, keys = self._keys()
        tensors = dict(self._tensor() for _ in range(tensor_count))
        weight_bytes = max(tensors.values(), default=0)
        if tensors:
            alignment = keys.get("general.alignment", _DEFAULT_ALIGNMENT)
            if not isinstance(alignment, int) or alignment < 1:
                self._broken(f"damaged: its alignment is {alignment!r}")
            needed = -(-self._position // alignment) * alignment + weight_bytes
            if needed > self._size:
                self._broken(f"cut off: it has {self._size:,} bytes and should have {needed:,}")
        return Header(self._path, keys, self._lengths, frozenset(tensors), weight_bytes)

    def glance(self) -> Glance:
        """The keys up to the vocabulary, word for word the longest part of a header, and what is found behind it."""
        tensors, keys = self._keys(up_to_vocabulary=True)
        sought = [name for name in (_TEMPLATE, _FILE_TYPE) if name not in keys and _VOCABULARY in self._lengths]
        behind = self._behind_vocabulary(sought)
        header = Header(self._path, keys, self._lengths, frozenset(), self._size - self._position)
        return Glance(
            header,
            tensors,
            chat_template=_TEMPLATE in keys or _TEMPLATE in behind,
            file_type=header.number(_FILE_TYPE, -1) if _FILE_TYPE in keys else behind.get(_FILE_TYPE),
        )

    def _keys(self, *, up_to_vocabulary: bool = False) -> tuple[int, dict[str, Value]]:
        """How many tensors the file says that it has, and its keys."""
        self._check_format()
        tensor_count, key_count = self._number(_UINT64), self._number(_UINT64)
        keys: dict[str, Value] = {}
        for _ in range(key_count):
            name = self._text()
            if up_to_vocabulary and name == _VOCABULARY:
                self._skip(2 * _UINT32.size)  # a list, of texts
                self._lengths[name] = self._number(_UINT64)
                break
            keys[name] = self._value(self._number(_UINT32), name)
        return tensor_count, keys

    def _behind_vocabulary(self, sought: list[str]) -> dict[str, int]:
        """Those of these keys that stand somewhere behind, each with the number that is its value or its length."""
        numbers: dict[str, int] = {}
        for start in range(self._position, min(self._size, self._position + _MOST_SEARCHED), _SEARCHED_AT_ONCE):
            window = self._data[start : start + _SEARCHED_AT_ONCE + _OVERLAP]
            for name in sought:
                value = window.find(spelt := _spelt(name)) + len(spelt) + _UINT32.size  # behind the kind of value
                if value > len(spelt) + _UINT32.size and value + _UINT32.size <= len(window):
                    numbers.setdefault(name, _UINT32.unpack_from(window, value)[0])
            if len(numbers) == len(sought) or _A_TENSOR in window:
                break
        return numbers

    def _check_format(self) -> None:
        head = self._data[:64]
        if not head.startswith(_MAGIC):
            self._not_gguf(head)
        self._position = len(_MAGIC)
        version = self._number(_UINT32)
        if version not in _VERSIONS:
            readable_versions = " or ".join(map(str, _VERSIONS))
            raise ModelError(
                f"{self._path} is a GGUF file of version {version}, and only version {readable_versions} can be read",
                hint="use a newer conversion of the model, for little-endian machines",
            )

    def _not_gguf(self, head: bytes) -> NoReturn:
        what = next((name for magic, name in _OTHER_FORMATS.items() if head.startswith(magic)), None)
        if what is None and head.lstrip()[:1] == b"<":
            what = "a web page: the download went wrong"
        if what is None and head[8:9] == b"{":
            what = "a safetensors file"
        raise ModelError(
            f"{self._path} is not a GGUF model" + (f", but {what}" if what else ""),
            hint="give the path to a GGUF file; llama.cpp's convert_hf_to_gguf.py makes one of safetensors",
        )

    def _tensor(self) -> tuple[str, int]:
        """Name of a tensor, and where in the data it ends."""
        name = self._text()
        dimensions = self._number(_UINT32)
        if dimensions > _MOST_DIMENSIONS:
            self._broken(f"damaged: the tensor {name!r} has {dimensions} dimensions")
        shape = [self._number(_UINT64) for _ in range(dimensions)]
        kind, offset = self._number(_UINT32), self._number(_UINT64)
        numbers, size = _BLOCKS.get(kind, (1, 0))
        return name, offset + -(-prod(shape) // numbers) * size

    def _value(self, kind: int, name: str) -> Value:
        if kind == _STRING:
            return self._text()
        if kind == _LIST:
            return self._list(name)
        if kind not in _NUMBERS:
            self._broken(f"damaged: the key {name!r} has a value of an unknown type, {kind}")
        value: Value = self._plain(_NUMBERS[kind])
        return value

    def _list(self, name: str) -> tuple[Any, ...]:
        kind, count = self._number(_UINT32), self._number(_UINT64)
        self._lengths[name] = count
        if kind == _STRING:
            for _ in range(count):
                self._skip(self._number(_UINT64))
            return ()
        if kind not in _NUMBERS:
            self._broken(f"damaged: the key {name!r} is a list of an unknown type, {kind}")
        number = _NUMBERS[kind]
        if count > _LONGEST_LIST_KEPT:
            self._skip(count * number.size)
            return ()
        return tuple(self._plain(number) for _ in range(count))

    def _text(self) -> str:
        length = self._number(_UINT64)
        start = self._position
        self._skip(length)
        return self._data[start : self._position].decode(errors="replace")

    def _number(self, number: struct.Struct) -> int:
        return int(self._plain(number))

    def _plain(self, number: struct.Struct) -> Any:
        start = self._position
        self._skip(number.size)
        return number.unpack_from(self._data, start)[0]

    def _skip(self, length: int) -> None:
        if length > self._size - self._position:
            self._broken(f"damaged or cut off: its header goes on past its end, at byte {self._size:,}")
        self._position += length

    def _broken(self, what: str) -> NoReturn:
        raise ModelError(f"{self._path} is {what}", hint="download or copy the model again")


_TEXT_MODEL_HINT = "use a text-generation model (a chat or instruct model in GGUF format)"
_EMBEDS = "turns a text into a vector and cannot answer"
_DRAFTS = "only drafts tokens for another model"
_DIFFUSES = "writes all of an answer at once, by diffusion, and gives no next-token probabilities"
_SPEAKS = "is about sound, not text"

_CANNOT_JUDGE = {
    architecture: why
    for why, architectures in {
        _EMBEDS: "bert modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert "
        "gemma-embedding llama-embed t5encoder",
        _DRAFTS: "eagle3 dflash gemma4-assistant",
        _DIFFUSES: "dream llada llada-moe rnd1",
        _SPEAKS: "wavtokenizer-dec qwen3tts pockettts",
        "is an encoder-decoder, which reads its prompt and writes its answer by different networks": "t5",
        "is the image part of another model": "clip",
    }.items()
    for architecture in architectures.split()
}
_FILE_TYPES = {
    "adapter": "an adapter (LoRA): a small change to another model",
    "mmproj": "a projector: the image or sound part of another model",
    "imatrix": "an importance matrix: notes for quantising another model",
    "vocab": "a vocabulary",
}


class CheckedModel(NamedTuple):
    """A model's header, and the bytes of weights in all of its parts."""

    header: Header
    weight_bytes: int

    def number(self, key: str, default: int = 0) -> int:
        """Value of a key that llama.cpp names after the architecture."""
        return self.header.number(f"{self.header.text('general.architecture')}.{key}", default)


def check(path: Path) -> CheckedModel:
    """The header of a model that can judge. Raises ModelError that says why a file is none."""
    headers = [read(part) for part in parts(path)]
    first = headers[0]
    _check_parts(first, len(headers))
    _check_header(first, has_weights=any(header.tensors for header in headers))
    return CheckedModel(first, sum(header.weight_bytes for header in headers))


def glance_at_model(path: Path) -> tuple[CheckedModel, Glance]:
    """The same of a file that is not going to be opened now: quick, and no proof that it is whole.

    Raises ModelError that says why a file cannot judge, as far as its first bytes show it.
    """
    with _opened(path) as reader:
        seen = reader.glance()
    _check_header(seen.header, has_weights=seen.tensors > 0 or len(parts(path)) > 1)
    return CheckedModel(seen.header, size_of(path)), seen


def _check_header(header: Header, *, has_weights: bool) -> None:
    """Raise ModelError that says why it is not the header of a model that can judge."""
    path, kind, architecture = header.path, header.text("general.type"), header.text("general.architecture")
    if kind in _FILE_TYPES or "adapter.type" in header.keys:
        what = _FILE_TYPES.get(kind, _FILE_TYPES["adapter"])
        is_adapter = what == _FILE_TYPES["adapter"]
        hint = "merge an adapter into its base model first" if is_adapter else _TEXT_MODEL_HINT
        raise ModelError(f"{path} is not a model, but {what}", hint=hint)
    pools = header.number(f"{architecture}.pooling_type") > 0
    for is_so, problem in (
        (not architecture, "does not say which architecture it has"),
        (not has_weights, "holds a vocabulary and no weights"),
        (architecture in _CANNOT_JUDGE, f"cannot judge: a {architecture} model {_CANNOT_JUDGE.get(architecture)}"),
        (
            pools or header.keys.get(f"{architecture}.attention.causal") is False,
            f"cannot judge: it is an embedding or ranking model, which {_EMBEDS}",
        ),
    ):
        if is_so:
            raise ModelError(f"{path} {problem}", hint=_TEXT_MODEL_HINT)
    if header.text("tokenizer.ggml.model") in ("", "none", "no_vocab"):
        raise ModelError(f"{path} holds no tokenizer", hint="use a complete conversion of the model")


def _check_parts(header: Header, present: int) -> None:
    """A model in several files is found by their names; a renamed part looks like a whole model that lacks tensors."""
    count = header.number("split.count", 1)
    if count > 1 and present == 1:
        raise ModelError(
            f"{header.path} is part {header.number('split.no') + 1} of a model in {count} files, but is not called so",
            hint=f"name the parts MODEL-00001-of-{count:05d}.gguf and so on, in one folder, and give the first",
        )
    if present > 1 and count != present:
        raise ModelError(
            f"{header.path} is named as the first of {present} parts, and says that there are {count}",
            hint="give the model's files the names that they were published under",
        )


UBATCH = 512
"""Tokens that llama.cpp evaluates at once."""
_MAX_DEFAULT_CONTEXT = 8192
_BYTES_OF_F16 = 2
_BYTES_OF_F32 = 4
_REFUSED = re.compile(
    "cannot allocate memory|resource temporarily unavailable|insufficient memory|out of memory|bad_alloc|MemoryError|"
    "(failed|unable) to (allocate|reserve)",
    re.IGNORECASE,
)


def what_to_do() -> str:
    """The hint about too little memory."""
    return (
        f"use a smaller model or quantisation, a shorter context ({option_name('n_ctx')}) or fewer layers on a GPU "
        f"({option_name('gpu_layers')}); or free memory, or raise its limit (ulimit -v, the container's or the job's)"
    )


class MemoryNeed(NamedTuple):
    """Bytes that a judge takes."""

    weights: int
    cache: int
    working: int

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self)


def context_for(model: CheckedModel, wanted: int | None) -> int:
    """Tokens of context that a model gets: at most its own."""
    return min(wanted or _MAX_DEFAULT_CONTEXT, model.number("context_length"))


def needed(model: CheckedModel, *, n_ctx: int, n_ubatch: int) -> MemoryNeed:
    """Estimate for a context of `n_ctx` tokens, evaluated in steps of `n_ubatch`."""
    heads = model.number("attention.head_count")
    width = model.number("embedding_length")
    head_width = width // heads if heads else 0
    key_and_value = model.number("attention.key_length", head_width) + model.number(
        "attention.value_length", head_width
    )
    per_layer = model.header.keys.get(f"{model.header.text('general.architecture')}.attention.head_count_kv")
    if isinstance(per_layer, tuple):
        key_value_heads = sum(per_layer)
    else:
        attending = model.number("block_count") // max(1, model.number("full_attention_interval", 1))
        key_value_heads = attending * model.number("attention.head_count_kv", heads)
    cache = n_ctx * key_value_heads * key_and_value * _BYTES_OF_F16
    vocabulary = model.header.lengths.get("tokenizer.ggml.tokens", 0)
    streams = 2 * (n_ctx + model.number("feed_forward_length") + 2 * width)
    working = (max(heads * n_ctx, vocabulary) + streams) * n_ubatch * _BYTES_OF_F32
    return MemoryNeed(model.weight_bytes, cache, working)


def require(model: CheckedModel, need: MemoryNeed, *, n_ctx: int) -> None:
    """Raise OutOfResource with the numbers if the model does not fit into what is free."""
    free = hardware.available_bytes()
    if free is not None and need.total > free:
        raise OutOfResource(
            f"{model.header.path} does not fit into memory: it needs {beside_free(need, n_ctx)}", hint=what_to_do()
        )


def beside_free(need: MemoryNeed, n_ctx: int) -> str:
    """The numbers, for a message: how much is needed, for what, and how much is free."""
    free = hardware.available_bytes()
    room = "the system does not tell how much is free" if free is None else f"{readable(free)} are free"
    return (
        f"about {readable(need.total)} (weights {readable(need.weights)}, cache for {n_ctx:,} tokens "
        f"{readable(need.cache)}, working space {readable(need.working)}), and {room}"
    )


def was_refused(message: str) -> bool:
    """Whether a library or a process says here that the system gave it no more memory, or no thread for want of it."""
    return bool(_REFUSED.search(message))


_FILE_TYPE_NAMES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS",
    20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M",
    28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE",
}  # fmt: skip
"""How llama.cpp calls the mixtures of quantisations in a file, by its number for them (`llama_ftype`)."""


def facts_of(path: Path, n_ctx: int | None) -> ModelFacts:
    """The facts of one file, with the memory that it takes for `n_ctx` tokens, or as many as a judge gets by default.

    Raises ModelError that says why it cannot judge, or cannot be read.
    """
    model, seen = glance_at_model(path)
    taken = context_for(model, n_ctx)
    return ModelFacts(
        quantisation=_FILE_TYPE_NAMES.get(seen.file_type) if seen.file_type is not None else None,
        trained_context=model.number("context_length"),
        chat_template=seen.chat_template,
        n_ctx=taken,
        memory_bytes=needed(model, n_ctx=taken, n_ubatch=UBATCH).total,
    )
