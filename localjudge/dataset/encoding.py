"""Detect the encoding of a text.

    a byte-order mark           UTF-8, UTF-16 or UTF-32, as marked
    only valid UTF-8            UTF-8
    otherwise                   Windows-1252, if the bytes look like a Western European text in it
                                UTF-8 with damaged bytes, if not

Most bytes above 0x7F of a damaged UTF-8 text are valid, and hardly any of a Windows-1252 text.
Texts in Cyrillic, Greek or Chinese encodings are not valid either, but their bytes above 0x7F
follow each other.
"""

import codecs
import re
from collections.abc import Iterable

UTF_8 = "utf-8"
WINDOWS_1252 = "cp1252"
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, because it begins with the same mark
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_INVALID_RUN = re.compile("[\udc80-\udcff]+")
_UNDEFINED = re.compile("[\udc81\udc8d\udc8f\udc90\udc9d]")
"""Bytes without a letter in Windows-1252."""
_MAX_VALID_SHARE = 0.1
_MAX_FOLLOWING_SHARE = 0.5


def marked_encoding(head: bytes) -> str | None:
    """Return the encoding of the byte-order mark at the start of a file, or None without one."""
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    return None


def detect_encoding(blocks: Iterable[bytes]) -> str:
    """Return the encoding of a text without a byte-order mark: `UTF_8` or `WINDOWS_1252`."""
    decoder = codecs.getincrementaldecoder(UTF_8)("surrogateescape")
    valid = 0
    invalid = 0
    following = 0
    for block in blocks:
        text = decoder.decode(block)
        if text.isascii():
            continue
        if _UNDEFINED.search(text):
            return UTF_8
        runs = _INVALID_RUN.findall(text)
        damaged = sum(map(len, runs))
        invalid += damaged
        following += damaged - len(runs)
        valid += len(text) - len(text.encode("ascii", "ignore")) - damaged
    invalid += len(decoder.decode(b"", final=True))
    is_western = valid <= _MAX_VALID_SHARE * invalid and following <= _MAX_FOLLOWING_SHARE * invalid
    if invalid and is_western:
        return WINDOWS_1252
    return UTF_8


def decode_bytes(data: bytes) -> tuple[str, str]:
    """Return the text of a whole file and its encoding.

    Damaged bytes become lone surrogates (`surrogateescape`). Raises UnicodeDecodeError if the text
    does not have the encoding of its byte-order mark.
    """
    marked = marked_encoding(data)
    encoding = marked or detect_encoding([data])
    return data.decode(encoding, decoding_errors(encoding)), encoding


def decoding_errors(encoding: str) -> str:
    """Return how to treat damaged bytes: UTF-8 keeps them as lone surrogates."""
    if encoding.startswith(UTF_8):
        return "surrogateescape"
    return "strict"
