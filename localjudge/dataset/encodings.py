"""Bytes of a data file as text: UTF-8, or what a byte-order mark says.

Bytes that are not UTF-8 do not stop the reading: they become lone surrogates (`surrogateescape`), which no sound text
has, so the row that they stand in can be named and the others are read.
"""

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from localjudge.dataset.sources import OpenSource
from localjudge.errors import DataError

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
