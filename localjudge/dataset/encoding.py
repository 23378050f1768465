"""Detect the encoding of a text.

    a byte-order mark           UTF-8, UTF-16 or UTF-32, as marked
    only valid UTF-8            UTF-8
    mostly valid UTF-8          UTF-8 with damaged bytes
    otherwise                   the encoding for which the bytes decide (`encoding_guess`)
                                UTF-8 with damaged bytes, if they do not decide

Most bytes above 0x7F of a damaged UTF-8 text are valid, and few of a text in another encoding.
"""

import codecs
import re
from collections.abc import Iterable

from localjudge.dataset.encoding_guess import guess_encoding

UTF_8 = "utf-8"
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, because it begins with the same mark
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_INVALID = re.compile("[\udc80-\udcff]")
_MAX_VALID_SHARE = 0.5
_MAX_SAMPLE = 2**15
_MAX_LINE = 2**16


def marked_encoding(head: bytes) -> str | None:
    """Return the encoding of the byte-order mark at the start of a file, or None without one."""
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    return None


def detect_encoding(blocks: Iterable[bytes]) -> str:
    """Return the encoding of a text without a byte-order mark.

    It is `UTF_8` if the bytes do not decide.
    """
    decoder = codecs.getincrementaldecoder(UTF_8)("surrogateescape")
    sample = _Sample()
    for block in blocks:
        sample.add(decoder.decode(block))
    sample.add(f"{decoder.decode(b'', final=True)}\n")
    if sample.valid > _MAX_VALID_SHARE * sample.invalid or not sample.invalid:
        return UTF_8
    encoding = guess_encoding(_to_bytes(sample.lines))
    if encoding is None or not _has_characters(encoding, sample.damaged):
        return UTF_8
    return encoding


class _Sample:
    """Counts of the characters beyond ASCII of a text, and some of its lines with damaged bytes.

    `damaged` are all bytes that are not UTF-8. Each is in one of the lines, unless the lines are
    very long.
    """

    def __init__(self) -> None:
        self.valid = 0
        self.invalid = 0
        self.damaged: set[str] = set()
        self.lines = ""
        self._begun = ""

    def add(self, text: str) -> None:
        """Add the next characters, with lone surrogates for damaged bytes."""
        if not text.isascii():
            invalid = len(_INVALID.findall(text))
            self.invalid += invalid
            self.valid += len(text) - len(text.encode("ascii", "ignore")) - invalid
        text = self._begun + text
        end = text.rfind("\n") + 1
        self._begun = text[end:][-_MAX_LINE:]
        if not text.isascii() and _INVALID.search(text):
            for line in text[:end].split("\n"):
                damaged = set(_INVALID.findall(line))
                if damaged and (len(self.lines) < _MAX_SAMPLE or not damaged <= self.damaged):
                    self.lines += f"{line[-_MAX_LINE:]}\n"
                self.damaged |= damaged


def _has_characters(encoding: str, damaged: Iterable[str]) -> bool:
    """Return whether bytes, as lone surrogates, are characters of the encoding.

    Bytes of encodings with several bytes for a character are not checked.
    """
    for byte in damaged:
        try:
            _to_bytes(byte).decode(encoding)
        except UnicodeDecodeError as error:
            if error.reason.startswith("character maps to <undefined>"):
                return False
    return True


def _to_bytes(text: str) -> bytes:
    return text.encode(UTF_8, "surrogateescape")


def name_encoding(encoding: str) -> str:
    """Return the name of an encoding for users: `Windows-1252`, `cp850`, `mac_roman`."""
    if encoding.startswith("cp125"):
        return f"Windows-{encoding.removeprefix('cp')}"
    return encoding


def decoding_errors(encoding: str) -> str:
    """Return how to treat damaged bytes: UTF-8 keeps them as lone surrogates."""
    if encoding.startswith(UTF_8):
        return "surrogateescape"
    return "strict"
