"""Opens what was named as data: a file, a pipe or standard input, packed with gzip or not.

    name ──open──> bytes ──gzip?──> bytes ──first 64 KiB──> head, for whoever decides what format it is

What cannot be data (a folder, a device, an Excel workbook) is refused with its name, whatever fails while reading
becomes a DataError, and a file that somebody writes to meanwhile is noticed.
"""

import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, cast

from localjudge.errors import DataError

STDIN = "-"
_HEAD_BYTES = 65_536
_GZIP = b"\x1f\x8b"
_REFUSED = {
    b"PK\x03\x04": ("a zip archive or an Excel workbook", "save the sheet as CSV, or unpack the archive"),
    b"\xd0\xcf\x11\xe0": ("an old Excel workbook", "save the sheet as CSV"),
    b"\x28\xb5\x2f\xfd": ("packed with zstd", "unpack it first, or pipe it: zstd -dc FILE | localjudge run -"),
    b"\xfd7zXZ\x00": ("packed with xz", "unpack it first, or pipe it: xz -dc FILE | localjudge run -"),
    b"BZh": ("packed with bzip2", "unpack it first, or pipe it: bzip2 -dc FILE | localjudge run -"),
    b"ARROW1": ("an Arrow or Feather file", "write it as Parquet"),
    b"SQLite format 3\x00": ("an SQLite database", "export the table as CSV or JSONL"),
    b"\x80\x04\x95": ("a Python pickle", "write the rows as JSONL"),
    b"\x80\x05\x95": ("a Python pickle", "write the rows as JSONL"),
}


class OpenSource(NamedTuple):
    """Data that is being read: `stream` gives all bytes, unpacked; `head` is how they begin."""

    name: str
    stream: BinaryIO
    head: bytes


def shown_name(name: str) -> str:
    """The name of a source for people and for files: file names need not be Unicode text."""
    return "stdin" if name == STDIN else os.fsencode(name).decode(errors="backslashreplace")


@contextmanager
def open_source(name: str) -> Iterator[OpenSource]:
    """Open a file by its path, or standard input by `-`.

    Raises DataError if it cannot be opened, read to its end or unpacked, is not text, or changed while it was read.
    """
    shown = shown_name(name)
    try:
        with _standard_input() if name == STDIN else _file(name, shown) as stream:
            yield _unpacked(shown, stream)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{shown} is not {error.encoding} text, which it says it is: {error.reason}", hint="save it as UTF-8"
        ) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{shown} cannot be unpacked: {error}", hint="the file is damaged or not complete") from error
    except OSError as error:
        raise DataError(f"{shown} cannot be read: {error.strerror or error}") from error


@contextmanager
def _standard_input() -> Iterator[BinaryIO]:
    if sys.stdin is None:
        raise DataError("there is no standard input to read")
    yield sys.stdin.buffer


@contextmanager
def _file(name: str, shown: str) -> Iterator[BinaryIO]:
    kind = os.stat(name).st_mode
    if stat.S_ISDIR(kind):
        raise DataError(f"{shown} is a folder", hint=f"name the files in it, such as {shown.rstrip('/')}/*.jsonl")
    if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind)):
        raise DataError(f"{shown} is a device or a socket, not a file")
    with open(name, "rb") as stream:
        before = os.fstat(stream.fileno())
        yield stream
        after = os.fstat(stream.fileno())
        if stat.S_ISREG(kind) and (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise DataError(f"{shown} changed while it was read", hint="run again when nothing writes to it")


def _unpacked(shown: str, stream: BinaryIO) -> OpenSource:
    head, stream = _look_ahead(stream)
    if head.startswith(_GZIP):
        head, stream = _look_ahead(cast(BinaryIO, gzip.GzipFile(fileobj=stream)))
    for beginning, (what, hint) in _REFUSED.items():
        if head.startswith(beginning):
            raise DataError(f"{shown} is {what}", hint=hint)
    return OpenSource(shown, stream, head)


def _look_ahead(stream: BinaryIO) -> tuple[bytes, BinaryIO]:
    head = stream.read(_HEAD_BYTES)
    if isinstance(stream, io.BufferedReader) and stream.seekable():
        stream.seek(-len(head), os.SEEK_CUR)
        return head, stream
    return head, cast(BinaryIO, io.BufferedReader(_Rejoined(head, stream)))


class _Rejoined(io.RawIOBase):
    """A stream that cannot go back, with what was already read from it put in front again."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer)
        data = self._head[: len(view)] or self._rest.read(len(view))
        self._head = self._head[len(view) :]
        view[: len(data)] = data
        return len(data)
