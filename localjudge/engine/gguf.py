"""Read the header of a GGUF file, and check whether its model can judge.

    "GGUF" | version | tensor count, key count | key type value ... | name shape type offset ...
    | padding | tensor data

Every length is checked against the file size, which the `gguf` package does not do. llama.cpp loads
some files that cannot predict the next token (adapters, embedding models), and their output is
meaningless, so the header is checked before it opens the file.
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
from localjudge.local_models import parts
from localjudge.types import OUTPUTS_KEY, VOCABULARY_KEY
from localjudge.words import numbered

_MAGIC = b"GGUF"
_IDENTITY_KEYS = ("general.architecture", "general.basename", "general.name")
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
_FIRST_OF_HEAD = "cls.weight"
_LAST_OF_HEAD = "cls.output.weight"
# llama.cpp's names of quantisation mixtures (`llama_ftype`).
_FILE_TYPE_NAMES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K",
    11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S",
    17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS",
    23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M",
    30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE",
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
        return self.text("general.architecture") in _ENCODERS and self.size("pooling_type") == _RANK

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
        values = {key: self.text(key) for key in _IDENTITY_KEYS}
        if self.outputs:
            values[OUTPUTS_KEY] = ",".join(self.outputs)
            values[VOCABULARY_KEY] = str(self.lengths.get("tokenizer.ggml.tokens", 0))
        return values

    @property
    def quantisation(self) -> str | None:
        """Name of the mixture of quantisations, None if the file does not say."""
        return _FILE_TYPE_NAMES.get(self.number("general.file_type", -1))

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


def read_model(path: Path, *, words: bool = True) -> Header:
    """Read the header of a model, which may be in several files.

    Raises ModelError if it cannot judge.
    """
    headers = [read(part, words=words) for part in parts(path)]
    head_tensors: dict[str, int] = {}
    for header in headers:
        head_tensors |= header.head_tensors
    header = headers[0]._replace(
        tensor_count=sum(header.tensor_count for header in headers),
        weight_bytes=sum(header.weight_bytes for header in headers),
        head_tensors=head_tensors,
        finite_scores=all(header.finite_scores for header in headers),
    )
    problem = _find_file_problem(header, len(headers)) or _find_model_problem(header, words=words)
    if problem is not None:
        raise ModelError(
            f"{path} {problem}",
            hint="use a complete text-generation model (a chat or instruct model in GGUF format), "
            "or a classifier",
        )
    return header


def can_judge(path: Path) -> bool:
    """Return whether the first keys of a model's header say that it can judge."""
    try:
        read_model(path, words=False)
    except (ModelError, OutOfResource):
        return False
    return True


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
    is_causal = header.keys.get(f"{architecture}.attention.causal")
    if architecture in _CANNOT_JUDGE:
        return f"cannot judge: a {architecture} model does not write text word by word"
    if architecture in _ENCODERS:
        if not header.is_classifier:
            return f"cannot judge: a {architecture} model without a classification head"
        if words:
            problem = _find_head_problem(header)
            if problem is not None:
                return problem
    elif header.size("pooling_type") > 0 or is_causal is False:
        return "cannot judge: it is an embedding or ranking model"
    if header.text("tokenizer.ggml.model") in ("", "none", "no_vocab"):
        return "contains no tokenizer"
    return None


def _find_head_problem(header: Header) -> str | None:
    """Return why a classifier's outputs cannot be read, or None.

    llama.cpp reads as many numbers as there are outputs, whatever the head's last tensor gives.
    """
    rows = header.head_tensors.get(_LAST_OF_HEAD)
    if rows is None:
        rows = header.head_tensors.get(_FIRST_OF_HEAD)  # a head of one tensor
    if rows is None:
        return "cannot judge: its classification head is missing"
    count = len(header.outputs)
    if rows != count:
        outputs = numbered(count, "output")
        return f"cannot judge: its classification head gives {rows:,} numbers for {outputs}"
    if not header.finite_scores:
        return "cannot judge: scores of its tokens are not finite numbers"
    return None
