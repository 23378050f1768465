"""What was named as data, opened as often as anybody likes: a file, a pipe or standard input, packed with gzip or not.

    name ──open──> bytes ──gzip?──> bytes ──first 64 KiB──> head, for whoever decides what format it is

What can be read only once is copied to a temporary file when it is opened first. What cannot be data (a folder, a
device, an Excel workbook) is refused by its name, whatever fails while reading is a DataError, and a file that somebody
writes to meanwhile, or between two readings, is noticed. Text is UTF-8, or what a byte-order mark says; bytes that are
not become lone surrogates (`surrogateescape`), which no sound text has, so that their row can be named.
"""

import codecs
import difflib
import gzip
import io
import os
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO, cast

from localjudge.dataset.problems import shown
from localjudge.errors import DataError

STDIN = "-"
_HEAD_BYTES = 65_536
_COPY_IN_MEMORY_BYTES = 8 * 2**20
_GZIP = b"\x1f\x8b"
ALWAYS_UNPACKED = 64 * 2**20
"""Packed data may grow to so many bytes, and one row of them."""
_MOST_EXPANSION = 200
"""Packed data of more bytes may be at most so many times as large as they are packed: text grows 3 to 20 times."""
_REFUSED = {
    b"\xd0\xcf\x11\xe0": ("an old Excel workbook", "save the sheet as CSV"),
    b"\x28\xb5\x2f\xfd": ("packed with zstd", "unpack it first, or pipe it: zstd -dc FILE | localjudge run -"),
    b"\xfd7zXZ\x00": ("packed with xz", "unpack it first, or pipe it: xz -dc FILE | localjudge run -"),
    b"BZh": ("packed with bzip2", "unpack it first, or pipe it: bzip2 -dc FILE | localjudge run -"),
    b"FEA1": ("a Feather file of the first version", "write it as Parquet"),
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


class Source:
    """A file by its path, or standard input by `-`. Closing it forgets the copy of what can be read only once."""

    def __init__(self, name: str) -> None:
        self.name = shown_name(name)
        self._file = name
        self._copy: tempfile.SpooledTemporaryFile[bytes] | None = None
        self._seen: tuple[int, ...] | None = None

    @contextmanager
    def open(self) -> Iterator[OpenSource]:
        """Read it from its beginning.

        Raises DataError if it cannot be opened, read to its end or unpacked, is not text, or changed meanwhile.
        """
        try:
            with self._stream() as stream:
                yield _unpacked(self.name, stream)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.name} is not {error.encoding} text, which it says it is: {error.reason}",
                hint="save it as UTF-8",
            ) from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(
                f"{self.name} cannot be unpacked: {error}", hint="the file is damaged or not complete"
            ) from error
        except FileNotFoundError as error:
            raise DataError(f"{self.name} cannot be read: {self._why_missing()}", hint=self._meant()) from error
        except OSError as error:
            if self._file.lstrip()[:1] in {"[", "{"}:
                raise DataError(
                    f"{shown(self.name)} names no file: it looks like JSON text",
                    hint="give its rows, json.loads(TEXT), or write it to a file",
                ) from error
            raise DataError(f"{self.name} cannot be read: {error.strerror or error}") from error

    def close(self) -> None:
        """Forget the copy, if there is one."""
        if self._copy is not None:
            self._copy.close()

    def _why_missing(self) -> str:
        if not os.path.islink(self._file):
            return "there is no such file"
        return f"it is a link to {shown_name(os.readlink(self._file))}, which is not there"

    def _meant(self) -> str | None:
        """The files of that folder that are called nearly so."""
        path = Path(self._file)
        there = [file.name for file in path.parent.iterdir() if file.exists()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, there)
        return f"did you mean {', '.join(shown_name(str(path.with_name(name))) for name in near)}?" if near else None

    @contextmanager
    def _stream(self) -> Iterator[BinaryIO]:
        if self._copy is None and self._file == STDIN:
            if sys.stdin is None:
                raise DataError("there is no standard input to read")
            self._copy = _copied(sys.stdin.buffer)
        elif self._copy is None:
            kind = os.stat(self._file).st_mode
            if stat.S_ISDIR(kind):
                kind_of_files = "arrow" if any(Path(self._file).glob("*.arrow")) else "jsonl"
                hint = f"name the files in it, such as {self.name.rstrip('/')}/*.{kind_of_files}"
                raise DataError(f"{self.name} is a folder", hint=hint)
            if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind)):
                raise DataError(f"{self.name} is a device or a socket, not a file")
            with open(self._file, "rb") as stream:
                if stat.S_ISREG(kind):
                    self._check_unchanged(stream)
                    yield stream
                    self._check_unchanged(stream)
                    return
                self._copy = _copied(stream)
        self._copy.seek(0)
        yield cast(BinaryIO, self._copy)

    def _check_unchanged(self, stream: BinaryIO) -> None:
        """Raise DataError if this is not what was seen before: another file, other bytes."""
        found = os.fstat(stream.fileno())
        now = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if self._seen not in {None, now}:
            raise DataError(f"{self.name} changed while it was read", hint="run again when nothing writes to it")
        self._seen = now


def _copied(stream: BinaryIO) -> "tempfile.SpooledTemporaryFile[bytes]":
    copy = tempfile.SpooledTemporaryFile(max_size=_COPY_IN_MEMORY_BYTES)  # noqa: SIM115 - `Source.close` closes it
    shutil.copyfileobj(stream, copy)
    return copy


def _unpacked(shown: str, stream: BinaryIO) -> OpenSource:
    head, stream = _look_ahead(stream)
    if head.startswith(_GZIP):
        head, stream = _look_ahead(cast(BinaryIO, _LimitedGzip(shown, stream)))
    for beginning, (what, hint) in _REFUSED.items():
        if head.startswith(beginning):
            raise DataError(f"{shown} is {what}", hint=hint)
    return OpenSource(shown, stream, head)


def _look_ahead(stream: BinaryIO) -> tuple[bytes, BinaryIO]:
    head = stream.read(_HEAD_BYTES)
    if not isinstance(stream, gzip.GzipFile) and stream.seekable():
        stream.seek(-len(head), os.SEEK_CUR)
        return head, stream
    return head, cast(BinaryIO, io.BufferedReader(_Rejoined(head, stream)))


def check_expansion(name: str, packed: int, unpacked: int) -> None:
    """Raise DataError for data that grow more than text does when they are unpacked: nobody may have meant them."""
    if unpacked > max(ALWAYS_UNPACKED, packed * _MOST_EXPANSION):
        raise DataError(
            f"{name} unpacks to more than {_MOST_EXPANSION} times its size ({unpacked:,} bytes of {packed:,})",
            hint="look at it before you trust it; what you unpack yourself is read at any size",
        )


class _LimitedGzip(gzip.GzipFile):
    """What is packed with gzip. Raises DataError where it grows too much, and for a line that is too long."""

    def __init__(self, name: str, packed: BinaryIO) -> None:
        super().__init__(fileobj=packed, mode="rb")
        self._name = name
        self._packed = packed
        self._unpacked = 0
        self._line = 0

    def read(self, size: int | None = -1) -> bytes:
        """At most so many bytes more."""
        data = super().read(size)
        self._unpacked += len(data)
        check_expansion(self._name, self._packed.tell(), self._unpacked)
        end = data.rfind(b"\n")
        self._line = self._line + len(data) if end < 0 else len(data) - end - 1
        if self._line > ALWAYS_UNPACKED:
            raise DataError(
                f"{self._name} is packed and has a line of more than {ALWAYS_UNPACKED:,} bytes",
                hint="look at it before you trust it; what you unpack yourself is read at any size",
            )
        return data


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


NOT_UTF8 = "UTF-8 (to convert a file: iconv -f WINDOWS-1252 -t UTF-8)"
_ZERO_BYTES_SEEN = 4
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def encoding_of(source: OpenSource) -> str:
    """Encoding of a source by its byte-order mark. Raises DataError if it begins like no text at all."""
    for mark, encoding in _MARKS:
        if source.head.startswith(mark):
            return encoding
    if b"\0" in source.head[:_ZERO_BYTES_SEEN]:
        raise DataError(
            f"{source.name} is not UTF-8 text: it begins with a NUL byte",
            hint="if it is UTF-16: iconv -f UTF-16LE -t UTF-8",
        )
    return "utf-8"


@contextmanager
def text_of(source: OpenSource, newline: str | None = None) -> Iterator[TextIO]:
    """The source as text; `newline` as for `open`. The stream below stays open: it is not ours to close."""
    encoding = encoding_of(source)
    errors = "surrogateescape" if encoding.startswith("utf-8") else "strict"
    text = io.TextIOWrapper(source.stream, encoding=encoding, errors=errors, newline=newline)
    try:
        yield text
    finally:
        text.detach()


def head_of(source: OpenSource) -> str:
    """How the text begins."""
    return source.head.decode(encoding_of(source), errors="ignore").lstrip("\ufeff")


def undecodable(text: str) -> str | None:
    """The first byte of a text that was not UTF-8, in words."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"the byte 0x{ord(text[error.start]) - 0xDC00:02X}, which is not UTF-8"
    return None


def refuse_undecodable(text: str, source: str, line: int) -> None:
    """Raise DataError for the first byte that was not UTF-8 in a text that begins at a line of the source."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line += text.count("\n", 0, error.start)
        raise DataError(f"{source}:{line} has {undecodable(text)}", hint=f"save it as {NOT_UTF8}") from error
