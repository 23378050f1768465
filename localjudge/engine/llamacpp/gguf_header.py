"""What a GGUF file says of itself, read before llama.cpp is trusted with it.

    "GGUF" | version | how many tensors, keys | key type value ... | name shape type offset ... | padding | tensor data

llama.cpp answers a damaged file with "failed to load model" or, for some damage, by ending the process. This reader
never does more than read: every length is held against the file's own size, and what is wrong is said in words.
"""

import mmap
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from localjudge.errors import RETRY_HINTS, ModelError, OutOfResource

Value = bool | int | float | str | tuple[Any, ...]
"""Value of a key. A long list is given as an empty tuple: nobody asks for the words of a vocabulary here."""

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_LONGEST_LIST_KEPT = 1024
_MOST_DIMENSIONS = 4
_STRING, _LIST = 8, 9
_NUMBERS = {
    kind: struct.Struct("<" + code)
    for kind, code in {
        0: "B",
        1: "b",
        2: "H",
        3: "h",
        4: "I",
        5: "i",
        6: "f",
        7: "?",
        10: "Q",
        11: "q",
        12: "d",
    }.items()
}
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


def glance(path: Path) -> Glance:
    """What a list of models shows of a GGUF file: a hundred times quicker, and no proof that the file is whole.

    Raises ModelError if it is not one, or if what was read is damaged.
    """
    with _opened(path) as reader:
        return reader.glance()


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
        self._check_format()
        tensor_count, key_count = self._number(_UINT64), self._number(_UINT64)
        keys: dict[str, Value] = {}
        for _ in range(key_count):
            name = self._text()
            keys[name] = self._value(self._number(_UINT32), name)
        tensors = dict(self._tensor() for _ in range(tensor_count))
        weight_bytes = max(tensors.values(), default=0)
        if tensors:
            self._check_length(self._data_start(keys) + weight_bytes)
        return Header(self._path, keys, self._lengths, frozenset(tensors), weight_bytes)

    def glance(self) -> Glance:
        """The keys up to the vocabulary, word for word the longest part of a header, and what is found behind it."""
        self._check_format()
        tensors, key_count = self._number(_UINT64), self._number(_UINT64)
        keys: dict[str, Value] = {}
        for _ in range(key_count):
            name = self._text()
            if name == _VOCABULARY:
                self._skip(2 * _UINT32.size)  # a list, of texts
                self._lengths[name] = self._number(_UINT64)
                break
            keys[name] = self._value(self._number(_UINT32), name)
        sought = [name for name in (_TEMPLATE, _FILE_TYPE) if name not in keys and _VOCABULARY in self._lengths]
        behind = self._behind_vocabulary(sought)
        header = Header(self._path, keys, self._lengths, frozenset(), self._size - self._position)
        return Glance(
            header,
            tensors,
            chat_template=_TEMPLATE in keys or _TEMPLATE in behind,
            file_type=header.number(_FILE_TYPE, -1) if _FILE_TYPE in keys else behind.get(_FILE_TYPE),
        )

    def _behind_vocabulary(self, sought: list[str]) -> dict[str, int]:
        """Those of these keys that stand somewhere behind, each with the number that is its value or its length."""
        found: dict[str, int] = {}
        for start in range(self._position, min(self._size, self._position + _MOST_SEARCHED), _SEARCHED_AT_ONCE):
            window = self._data[start : start + _SEARCHED_AT_ONCE + _OVERLAP]
            for name in sought:
                value = window.find(spelt := _spelt(name)) + len(spelt) + _UINT32.size  # behind the kind of value
                if value > len(spelt) + _UINT32.size and value + _UINT32.size <= len(window):
                    found.setdefault(name, _UINT32.unpack_from(window, value)[0])
            if len(found) == len(sought) or _A_TENSOR in window:
                break
        return found

    def _check_format(self) -> None:
        head = self._data[:64]
        if not head.startswith(_MAGIC):
            self._not_gguf(head)
        self._position = len(_MAGIC)
        version = self._number(_UINT32)
        if version not in _VERSIONS:
            known = " or ".join(map(str, _VERSIONS))
            raise ModelError(
                f"{self._path} is a GGUF file of version {version}, and only version {known} can be read",
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
            self._damaged(f"the tensor {name!r} has {dimensions} dimensions")
        shape = [self._number(_UINT64) for _ in range(dimensions)]
        kind, offset = self._number(_UINT32), self._number(_UINT64)
        numbers, size = _BLOCKS.get(kind, (1, 0))
        return name, offset + -(-prod(shape) // numbers) * size

    def _data_start(self, keys: Mapping[str, Value]) -> int:
        alignment = keys.get("general.alignment", _DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1:
            self._damaged(f"its alignment is {alignment!r}")
        return -(-self._position // alignment) * alignment

    def _check_length(self, needed: int) -> None:
        if needed > self._size:
            raise ModelError(
                f"{self._path} is cut off: it has {self._size:,} bytes and should have {needed:,}",
                hint="download or copy the model again",
            )

    def _value(self, kind: int, name: str) -> Value:
        if kind == _STRING:
            return self._text()
        if kind == _LIST:
            return self._list(name)
        if kind not in _NUMBERS:
            self._damaged(f"the key {name!r} has a value of an unknown type, {kind}")
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
            self._damaged(f"the key {name!r} is a list of an unknown type, {kind}")
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
            raise ModelError(
                f"{self._path} is damaged or cut off: its header goes on past its end, at byte {self._size:,}",
                hint="download or copy the model again",
            )
        self._position += length

    def _damaged(self, what: str) -> NoReturn:
        raise ModelError(f"{self._path} is damaged: {what}", hint="download or copy the model again")
