r"""Compare names as a reader sees them: annotators, and the values of a column.

    clean("Ann\u200b ")                 "Ann"               no invisible characters (NFKC)
    fold("ANN") == fold("ann")          True                one name
    look_alikes(["Ann", "\u0410nn"])    [("Ann", "\u0410nn")]   one has a Cyrillic letter
    is_damaged("J\u00c3\u00bcrgen")     True                UTF-8, read as Windows-1252

Source of the letters that look alike: Unicode Technical Standard 39, Unicode Security Mechanisms,
section 4.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress

_SPACES = re.compile(r"\s+")
_INVISIBLE = {"Cc", "Cf"}
"""General categories of control and format characters, such as a zero-width space."""
_EUROPEAN = (
    *("cp1252", "latin-1", "cp850", "cp437", "mac_roman", "cp1250", "iso8859_2", "cp852"),
    *("cp1254", "cp1251", "cp1253", "koi8_r"),
)
_ENCODINGS = (
    *("utf-8", *_EUROPEAN, "cp1257", "iso8859_13", "cp775", "cp857", "mac_latin2", "mac_turkish"),
    *("iso8859_5", "cp866", "koi8_u", "mac_cyrillic", "iso8859_7", "cp737", "mac_greek"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
)
"""Encodings in which spreadsheets save a text, and read it wrongly."""
_REPLACED = re.compile(r"(?<=[^\W\d_])\?+(?=[^\W\d_])|[\ufffd\x80-\x9f\ud800-\udfff]")
_LATIN = {
    **str.maketrans("авеікмнорстухјѕһԁԛԝьӏ", "abeikmhopctyxjshdqwbl"),  # Cyrillic
    **str.maketrans("αβεζηικμνορτυχϲ", "abezhikmnoptyxc"),  # Greek
    **str.maketrans("ı01|", "ioll"),
}


def clean(text: str) -> str:
    """Return the text in the form NFKC, trimmed, without invisible characters, and with single
    spaces.
    """
    spaced = _SPACES.sub(" ", unicodedata.normalize("NFKC", text))
    visible = "".join(sign for sign in spaced if unicodedata.category(sign) not in _INVISIBLE)
    return _SPACES.sub(" ", visible).strip()


def fold(text: str) -> str:
    """Return the text for comparisons: clean, and without case."""
    return unicodedata.normalize("NFKC", clean(text).casefold())


def common_spellings(texts: Iterable[str]) -> dict[str, str]:
    """Return the clean spelling of each folded text: the most frequent one, else the first in the
    alphabet.
    """
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        spellings[fold(text)][clean(text)] += 1
    chosen = {}
    for folded, counts in spellings.items():
        chosen[folded] = min(counts, key=lambda spelling: (-counts[spelling], spelling))
    return chosen


def look_alikes(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return groups of different names that a reader can hardly tell apart."""
    groups: dict[str, dict[str, str]] = defaultdict(dict)
    for name in names:
        groups[skeleton(name)].setdefault(fold(name), name)
    return [tuple(group.values()) for group in groups.values() if len(group) > 1]


def skeleton(name: str) -> str:
    """Return what is equal for names that a reader can hardly tell apart."""
    return fold(name).translate(_LATIN).replace("rn", "m")


def is_damaged(name: str) -> bool:
    """Return whether a name lost letters, or is UTF-8 that was read in another encoding."""
    if _REPLACED.search(name):
        return True
    if name.isascii():
        return False
    for encoding in _EUROPEAN:
        with suppress(UnicodeError):
            name.encode(encoding).decode("utf-8")
            return True
    return False


def damaged_forms(name: str) -> frozenset[str]:
    """Return what a name becomes if it is saved in one encoding and read in another."""
    forms: set[str] = set()
    for encoded in {name.encode(saved, "replace") for saved in _ENCODINGS}:
        for read in _ENCODINGS:
            forms.add(clean(encoded.decode(read, "replace")))
    ascii_name = name.encode("ascii", "replace").decode()
    forms |= {ascii_name, ascii_name.replace("?", "_")}
    return frozenset(forms - {clean(name)})
