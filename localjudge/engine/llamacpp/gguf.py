"""Read the header of a GGUF file.

    "GGUF" | version | tensor count, key count | key type value ... | name shape type offset ...
    | padding | tensor data

Every length is checked against the file size, which the `gguf` package does not do.
"""

import mmap
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from localjudge.errors import RETRY_HINTS, ModelError, OutOfResource
from localjudge.types import OUTPUTS_KEY, VOCABULARY_KEY

_MAGIC = b"GGUF"
IDENTITY_KEYS = ("general.architecture", "general.basename", "general.name")
_MAX_LIST_LENGTH = 1024
_LABELS_ENDING = ".classifier.output_labels"
_MAX_LABELS = 64
_WRONG_LABELS = f"damaged: names of a classifier's outputs are a list of up to {_MAX_LABELS} texts"
_UNNAMED_OUTPUT = "LABEL_0"
_HEAD_PREFIX = "cls"
_SCORES = "tokenizer.ggml.scores"
_FLOAT32 = 6
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
# Architectures of encoders, which judge if they have a classification head.
ENCODERS = {
    "bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2",
    "jina-bert-v3", "eurobert",
}  # fmt: skip


class Header(NamedTuple):
    """Keys and size of a GGUF file.

    A split model has the keys of its first file and the weights of all. Long lists and lists of
    texts, except names of outputs, are empty tuples in `keys`; `lengths` has the lengths of lists.
    `head_tensors` has the rows of each tensor of a classification head. `finite_scores`: whether
    all scores of tokens are numbers.
    """

    path: Path
    keys: Mapping[str, Any]
    lengths: Mapping[str, int]
    tensor_count: int
    weight_bytes: int
    head_tensors: Mapping[str, int] = MappingProxyType({})
    finite_scores: bool = True

    @property
    def is_classifier(self) -> bool:
        """Whether an encoder's outputs are classes."""
        return self.text("general.architecture") in ENCODERS and self.size("pooling_type") == _RANK

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of a classifier's outputs. llama.cpp gives one output to a file without names.

        Empty for another model.
        """
        if not self.is_classifier:
            return ()
        labels = self.keys.get(f"{self.text('general.architecture')}{_LABELS_ENDING}")
        if isinstance(labels, tuple) and labels:
            return labels
        return (_UNNAMED_OUTPUT,)

    @property
    def metadata(self) -> dict[str, str]:
        """Values that select a prompt profile."""
        values = {key: self.text(key) for key in IDENTITY_KEYS}
        if self.outputs:
            values[OUTPUTS_KEY] = ",".join(self.outputs)
            values[VOCABULARY_KEY] = str(self.lengths.get("tokenizer.ggml.tokens", 0))
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
        self._finite_scores = True

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
        head_tensors: dict[str, int] = {}
        if words:
            head_tensors = self._head_tensors(tensor_count)
        return Header(
            path=self._path,
            keys=keys,
            lengths=self._lengths,
            tensor_count=tensor_count,
            weight_bytes=self._size - self._position,
            head_tensors=head_tensors,
            finite_scores=self._finite_scores,
        )

    def _head_tensors(self, tensor_count: int) -> dict[str, int]:
        """Read the descriptions of all tensors, and return the rows of a head's by name."""
        rows_by_name: dict[str, int] = {}
        for _ in range(tensor_count):
            name = self._text()
            dimensions = self._number(_UINT32)
            shape_start = self._position
            self._skip(dimensions * _UINT64.size)
            if name.startswith(_HEAD_PREFIX):
                rows_by_name[name] = 1
                if dimensions > 1:
                    second = shape_start + _UINT64.size
                    rows_by_name[name] = _UINT64.unpack_from(self._data, second)[0]
            self._skip(_UINT32.size + _UINT64.size)  # type, offset
        return rows_by_name

    def _value(self, kind: int, name: str) -> Any:
        has_labels = name.endswith(_LABELS_ENDING)
        if has_labels and kind != _LIST:
            self._broken(_WRONG_LABELS)
        if kind == _STRING:
            return self._text()
        if kind != _LIST:
            return self._number(self._find_number_format(kind, name))
        kind = self._number(_UINT32)
        count = self._number(_UINT64)
        self._lengths[name] = count
        if has_labels and (kind != _STRING or count > _MAX_LABELS):
            self._broken(_WRONG_LABELS)
        if has_labels:
            return tuple(self._text() for _ in range(count))
        if kind == _STRING:
            self._skip_texts(count)
            return ()
        number = self._find_number_format(kind, name)
        if name == _SCORES and kind == _FLOAT32:
            start = self._position
            self._skip(count * _NUMBERS[_FLOAT32].size)
            self._position = start
            numbers = np.frombuffer(self._data, dtype="<f4", count=count, offset=start)
            self._finite_scores = bool(np.isfinite(numbers).all())
        if count > _MAX_LIST_LENGTH:
            self._skip(count * number.size)
            return ()
        return tuple(self._number(number) for _ in range(count))

    def _find_number_format(self, kind: int, name: str) -> struct.Struct:
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
        position = self._position
        last = self._size - _UINT64.size
        for _ in range(count):
            if position > last:
                self._skip(self._size)  # raises
            position += _UINT64.size + _UINT64.unpack_from(self._data, position)[0]
        self._skip(position - self._position)

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
