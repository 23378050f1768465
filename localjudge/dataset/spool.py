"""Rows that are too many for memory: written once to a private temporary file, read as often as wanted.

    append ──> one file without a name ──a block at a time──> iterators, each with a place of its own

Few rows never leave memory. The file is deleted as it is made (mode 0600, in `TMPDIR`), so nobody else can open it and
nothing is left behind. For one process and one thread at a time.
"""

import tempfile
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar, overload

from localjudge.errors import OutOfResource

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
