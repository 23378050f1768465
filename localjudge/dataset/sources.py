"""Open a file, a pipe or standard input, optionally gzipped, repeatedly.

A source that can be read only once is copied to a temporary file. `encoding` detects the encoding
of a text. Damaged bytes of UTF-8 become lone surrogates (`surrogateescape`), so only their row has
a problem.
"""

import gzip
import hashlib
import io
import os
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self, TextIO, cast

from localjudge.dataset.encoding import (
    UTF_8,
    decoding_errors,
    detect_encoding,
    marked_encoding,
    name_encoding,
)
from localjudge.errors import DataError

PARQUET = b"PAR1"
ARROW_FILE = b"ARROW1"
ARROW_STREAM = b"\xff\xff\xff\xff"  # a message of Arrow 0.15 or later
TABLE_MARKS = (PARQUET, ARROW_FILE, ARROW_STREAM)
STDIN = "-"
ALWAYS_UNPACKED = 64 * 2**20  # bytes; smaller unpacked data and rows are always accepted
_MOST_EXPANSION = 200  # most growth of larger data; text grows 3 to 20 times
_HEAD_BYTES = 65_536
_BLOCK_BYTES = 16_384
_HOLE_BYTES = 4_096
_CONTROLS = bytes({*range(32)} - {*b"\t\n\r"})
_MOST_CONTROLS = 0.08  # share of a text's bytes; it is 0.11 for random bytes

_UNPACK = "unpack it first, or pipe it: {} -dc FILE | localjudge run -"
_REFUSED = {
    b"\xd0\xcf\x11\xe0": ("an old Excel workbook", "save the sheet as CSV"),
    b"PK\x03\x04": (
        "a zip archive",
        "save an Excel sheet as CSV; a log of inspect: inspect log dump FILE > log.json",
    ),
    b"\x28\xb5\x2f\xfd": ("packed with zstd", _UNPACK.format("zstd")),
    b"\xfd7zXZ\x00": ("packed with xz", _UNPACK.format("xz")),
    b"BZh": ("packed with bzip2", _UNPACK.format("bzip2")),
    b"SQLite format 3\x00": ("an SQLite database", "export the table as CSV or JSONL"),
    b"\x80": ("a Python pickle", "write the rows as JSONL"),
}


class OpenSource(NamedTuple):
    """An open source: its unpacked bytes, their head, and the encoding of a text."""

    name: str
    stream: BinaryIO
    head: bytes
    encoding: str = UTF_8

    @contextmanager
    def text(self, newline: str | None = None) -> Iterator[TextIO]:
        stream = self._checked_bytes()
        errors = decoding_errors(self.encoding)
        yield io.TextIOWrapper(stream, encoding=self.encoding, errors=errors, newline=newline)

    def detect_encoding(self) -> str:
        """Read the whole source if it is a text without a byte-order mark.

        Raises DataError if it is no text.
        """
        if self.head.startswith(TABLE_MARKS):
            return UTF_8
        marked = marked_encoding(self.head)
        if marked is not None:
            return marked
        controls = len(self.head) - len(self.head.translate(None, _CONTROLS))
        if controls > _MOST_CONTROLS * len(self.head):
            raise DataError(
                f"{self.name} is not text: {controls:,} of its first {len(self.head):,} bytes "
                "are control characters",
                hint="use JSONL, JSON, CSV (in UTF-8), Parquet or Arrow",
            )
        stream = self._checked_bytes()
        return detect_encoding(iter(lambda: stream.read(_BLOCK_BYTES), b""))

    def _checked_bytes(self) -> io.BufferedReader:

        def refuse_hole(data: bytes) -> None:
            if len(data) >= _HOLE_BYTES and data.count(0) == len(data):
                problem = f"{self.name} contains {len(data):,} NUL bytes instead of text"
                raise DataError(problem, hint="it is sparse or damaged: write it again")

        return io.BufferedReader(_CheckedStream(self.stream, refuse_hole), _HEAD_BYTES)


class Source:
    """A file named by its path, or standard input (`-`). Leaving its context deletes a copy."""

    def __init__(self, name: str) -> None:
        self.name = shown_name(name)
        self._file = name
        self._copy: tempfile.SpooledTemporaryFile[bytes] | None = None
        self._seen: tuple[int, ...] | None = None
        self._encoding: str | None = None

    @property
    def other_encoding(self) -> str | None:
        """Name of the encoding if it was opened and its text is not Unicode, otherwise None."""
        if self._encoding is None or self._encoding.startswith("utf"):
            return None
        return name_encoding(self._encoding)

    @contextmanager
    def open(self) -> Iterator[OpenSource]:
        """Open the source at its beginning. Raises DataError if it is unreadable or has changed."""
        try:
            with self._stream() as stream:
                if self._encoding is None:
                    self._encoding = _unpacked(self.name, stream).detect_encoding()
                    stream.seek(0)
                yield _unpacked(self.name, stream)._replace(encoding=self._encoding)
        except UnicodeDecodeError as error:
            kind = f"is marked as {error.encoding} text but is not"
            if self.other_encoding is not None:
                kind = f"looks like {self.other_encoding} text but is not"
            raise DataError(
                f"{self.name} {kind}: {error.reason}",
                hint="save it as UTF-8",
            ) from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(
                f"{self.name} cannot be unpacked: {error}",
                hint="the file is damaged or incomplete",
            ) from error
        except OSError as error:
            raise DataError(
                f"{self.name:.100} cannot be read: {error.strerror or error}",
                hint="name a file, or - for standard input",
            ) from error

    @property
    def sha256(self) -> str:
        """The sha256 (hexadecimal) of the source as it is, packed or not."""
        digest = hashlib.sha256()
        with self._stream() as stream:
            for block in iter(lambda: stream.read(_HEAD_BYTES), b""):
                digest.update(block)
        return digest.hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._copy is not None:
            self._copy.close()

    @contextmanager
    def _stream(self) -> Iterator[BinaryIO]:
        if self._copy is None and self._file == STDIN:
            if sys.stdin is None:
                raise DataError("there is no standard input to read")
            self._copy = _copy(sys.stdin.buffer)
        elif self._copy is None:
            kind = os.stat(self._file).st_mode
            if stat.S_ISDIR(kind):
                ending = "arrow" if any(Path(self._file).glob("*.arrow")) else "jsonl"
                files = f"{self.name.rstrip('/')}/*.{ending}"
                raise DataError(
                    f"{self.name} is a folder",
                    hint=f"name the files in it, such as {files}",
                )
            if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind)):
                raise DataError(f"{self.name} is a device or a socket, not a file")
            with open(self._file, "rb") as stream:
                if stat.S_ISREG(kind):
                    self._check_unchanged(stream)
                    yield stream
                    self._check_unchanged(stream)
                    return
                self._copy = _copy(stream)
        self._copy.seek(0)
        yield cast(BinaryIO, self._copy)

    def _check_unchanged(self, stream: BinaryIO) -> None:
        status = os.fstat(stream.fileno())
        now = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if self._seen not in {None, now}:
            raise DataError(
                f"{self.name} changed while it was read",
                hint="run the command again when no program writes to it",
            )
        self._seen = now


def shown_name(name: str) -> str:
    if name == STDIN:
        return "stdin"
    return os.fsencode(name).decode(errors="backslashreplace")


def check_expansion(name: str, packed: int, unpacked: int, line: int = 0) -> None:
    """Raise DataError if packed data grow too much or contain too long a line."""
    if unpacked > max(ALWAYS_UNPACKED, packed * _MOST_EXPANSION) or line > ALWAYS_UNPACKED:
        sizes = f"{unpacked:,} bytes of {packed:,}"
        grows = f"unpacks to more than {_MOST_EXPANSION} times its size ({sizes})"
        long = f"is packed and has a line of more than {ALWAYS_UNPACKED:,} bytes"
        raise DataError(
            f"{name} {long if line > ALWAYS_UNPACKED else grows}",
            hint="if you trust it, unpack it first: unpacked files may have any size",
        )


def _copy(stream: BinaryIO) -> "tempfile.SpooledTemporaryFile[bytes]":
    copy = tempfile.SpooledTemporaryFile(max_size=8 * 2**20)  # noqa: SIM115 - `Source.__exit__` closes it
    shutil.copyfileobj(stream, copy)
    return copy


def _unpacked(name: str, stream: BinaryIO) -> OpenSource:
    head = stream.read(_HEAD_BYTES)
    stream.seek(0)
    if head.startswith(b"\x1f\x8b"):
        unpacked = _gunzipped(name, stream)
        stream = cast(BinaryIO, unpacked)
        head = unpacked.peek()
    for beginning, (what, hint) in _REFUSED.items():
        if head.startswith(beginning):
            raise DataError(f"{name} is {what}", hint=hint)
    return OpenSource(name, stream, head)


def _gunzipped(name: str, packed: BinaryIO) -> io.BufferedReader:
    size = 0
    line = 0

    def check(data: bytes) -> None:
        nonlocal size, line
        size += len(data)
        _, line_end, rest = data.rpartition(b"\n")
        if line_end:
            line = len(rest)
        else:
            line += len(data)
        check_expansion(name, packed.tell(), size, line)

    stream = cast(BinaryIO, gzip.GzipFile(fileobj=packed, mode="rb"))
    return io.BufferedReader(_CheckedStream(stream, check), _HEAD_BYTES)


class _CheckedStream(io.RawIOBase):
    """Stream that passes each block to `check`."""

    def __init__(self, stream: BinaryIO, check: Callable[[bytes], None]) -> None:
        self._stream = stream
        self._check = check

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._stream.read(len(buffer))
        self._check(data)
        buffer[: len(data)] = data
        return len(data)
