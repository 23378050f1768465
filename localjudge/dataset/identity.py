"""What makes two samples the same: their content, not their place in a file.

    content_hash   sha256 of one sample without its id
    fingerprint    sha256 of the sorted hashes of all samples with their ids

so neither the order of the rows nor the format of the file moves either. Fields that are null and defaults count as
absent, so a field that is added to `Sample` later moves neither.

A million samples are held as a million hashes of 32 bytes, side by side.

Rows that are too many for memory: written once to a private temporary file, read as often as wanted.

    append ──> one file without a name ──a block at a time──> iterators, each with a place of its own

Few rows never leave memory. The file is deleted as it is made (mode 0600, in `TMPDIR`), so nobody else can open it and
nothing is left behind. For one process and one thread at a time.
"""

import hashlib
import json
import tempfile
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from localjudge.errors import OutOfResource
from localjudge.types import Sample

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def content_hash(sample: Sample) -> str:
    """Sha256 (hexadecimal) of all that the sample says, its id aside."""
    return hash_of(sample.model_dump(exclude={"id"}, exclude_defaults=True)).hex()


def fingerprint(samples: Iterable[Sample]) -> str:
    """Sha256 (hexadecimal) of the samples with their ids, whatever their order."""
    hashes = Hashes(32)
    for sample in samples:
        hashes.append(hash_of(sample.model_dump(exclude_defaults=True)))
    return fingerprint_of(hashes)


def fingerprint_of(hashes: "Hashes") -> str:
    """The fingerprint of samples by what `hash_of` gives for each."""
    whole = hashlib.sha256(b"[")
    for position, one in enumerate(hashes.sorted()):
        whole.update(b'%s"%s"' % (b"," if position else b"", one.hex().encode()))
    whole.update(b"]")
    return whole.hexdigest()


def canonical(fields: Mapping[str, Any]) -> bytes:
    """Fields of a sample (without nulls and defaults) as JSON that is the same for the same content."""
    return _ENCODER.encode(fields).encode()


def hash_of(fields: Mapping[str, Any]) -> bytes:
    """Sha256 of what the fields say. An empty text says nothing: CSV cannot tell it from a null."""
    return hashlib.sha256(canonical({name: value for name, value in fields.items() if value != ""})).digest()


class Hashes:
    """Hashes of one length in bytes, without an object for each."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._bytes = bytearray()

    def __len__(self) -> int:
        return len(self._bytes) // self._size

    def __getitem__(self, position: int) -> bytes:
        return bytes(self._bytes[position * self._size : (position + 1) * self._size])

    def append(self, one: bytes) -> None:
        """Add a hash, of which as many bytes are kept as were agreed."""
        self._bytes += one[: self._size]

    def replace(self, position: int, one: bytes) -> None:
        """Put another hash in the place of one."""
        self._bytes[position * self._size : (position + 1) * self._size] = one[: self._size]

    def array(self) -> "npt.NDArray[np.bytes_]":
        """The hashes in their order, (n,). Nothing can be added while it is held: it is no copy."""
        import numpy as np

        # NumPy leaves the zero bytes at the end of a value out when it gives it, and knows them when it compares.
        return np.frombuffer(self._bytes, dtype=f"S{self._size}")

    def sorted(self) -> Iterator[bytes]:
        """The hashes in ascending order."""
        ordered = self._ordered().data.cast("B")
        return (bytes(ordered[start : start + self._size]) for start in range(0, len(ordered), self._size))

    def repeated(self) -> frozenset[bytes]:
        """Those that are there more than once."""
        return frozenset(one for one, other in pairwise(self.sorted()) if one == other)

    def finder(self) -> Callable[[bytes], bool]:
        """Tells whether a hash is there."""
        ordered = self._ordered()

        def has(one: bytes) -> bool:
            place = int(ordered.searchsorted(one[: self._size]))
            return place < len(ordered) and bool(ordered[place] == one[: self._size].rstrip(b"\0"))

        return has

    def _ordered(self) -> "npt.NDArray[np.bytes_]":
        import numpy as np

        return np.sort(self.array())


IN_MEMORY_BYTES = 8 * 2**20
_BLOCK_BYTES = 2**18

T = TypeVar("T")


@contextmanager
def translated() -> Iterator[None]:
    """What fails about a temporary file as OutOfResource."""
    try:
        yield
    except OSError as error:
        raise OutOfResource(
            f"the data cannot be kept in a temporary file ({tempfile.tempdir}): {error.strerror or error}",
            hint="make room there, or name another directory in the environment variable TMPDIR",
        ) from error


class Spool:
    """Records of bytes in the order in which they were appended. Raises OutOfResource where there is no room."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115 - the finalizer closes it
        self._written = 0
        self._waiting = bytearray()
        self._ends = array("Q", [0])
        weakref.finalize(self, self._file.close)

    def append(self, record: bytes) -> None:
        """Add one record at the end."""
        self._waiting += record
        self._ends.append(self._ends[-1] + len(record))
        if len(self._waiting) >= _BLOCK_BYTES:
            with translated():
                self._file.seek(self._written)
                self._file.write(self._waiting)
            self._written += len(self._waiting)
            self._waiting.clear()

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, position: int) -> bytes:
        """The record at a position from 0 on."""
        return self._read(self._ends[position], self._ends[position + 1])

    def __iter__(self) -> Iterator[bytes]:
        first = 0
        while first < len(self):
            begin = self._ends[first]
            after = max(first + 1, bisect_right(self._ends, begin + _BLOCK_BYTES) - 1)
            block = self._read(begin, self._ends[after])
            for position in range(first, after):
                yield block[self._ends[position] - begin : self._ends[position + 1] - begin]
            first = after

    def _read(self, begin: int, end: int) -> bytes:
        if begin >= self._written:
            return bytes(self._waiting[begin - self._written : end - self._written])
        with translated():
            self._file.seek(begin)
            there = self._file.read(min(end, self._written) - begin)
        return there if end <= self._written else there + self._waiting[: end - self._written]


class Spooled(Sequence[T], Generic[T]):
    """The records of a spool as values, made anew each time they are looked at: any number of passes, in little memory.

    `read` takes a position and the record there. Equal to any sequence of equal values.
    """

    def __init__(self, spool: Spool, read: Callable[[int, bytes], T]) -> None:
        self._spool = spool
        self._read = read

    def __len__(self) -> int:
        return len(self._spool)

    def __iter__(self) -> Iterator[T]:
        return map(self._read, range(len(self)), self._spool)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self[position] for position in range(len(self))[index])
        position = range(len(self))[index]
        return self._read(position, self._spool[position])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(one == another for one, another in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self):,} rows>"
