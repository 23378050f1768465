"""Says what text becomes before it is cut into tokens: case, accents, signs and thousands are written one way.

    "Été 1889: 1,000 km² in the U.S."  ->  "ete 1889 :  1000 km2 in the usa "

llama.cpp's unigram tokenizer applies a table of replacements that comes in the model file, always the longest entry
that fits. So the table is the judge's own: `derive` makes it from the Unicode database, and it is committed
(`normalisation.tsv`), because that database changes with the version of Python. Only replacements that follow a
pattern of digits are left out and made here.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

_LAST = 0xFFFF
_SURROGATES = range(0xD800, 0xF900)
_HANGUL = range(0xAC00, 0xD7A4)
_IDEOGRAPHS = (range(0x3400, 0x4DC0), range(0x4E00, 0xA000))
_FOLDED_MARKS = (
    range(0x300, 0x370),
    range(0x483, 0x488),
    range(0x591, 0x5C8),
    range(0x610, 0x61B),
    range(0x64B, 0x660),
)
"""Accents and vowel points that a reader may leave out; the vowel signs of Indic scripts are not among them."""
_UNTOUCHED = frozenset(" \x00")
_FIXED = {
    "U.S.A.": " usa ", "U.S.": " usa ", "U.K.": " uk ", "U.N.": " un ", "E.U.": " eu ", "D.C.": " dc ",
    "Ph.D.": " phd ", "a.m.": " am ", "p.m.": " pm ", "per cent": "percent", "ß": "ss", "æ": "ae", "œ": "oe",
    "ø": "o", "đ": "d", "ł": "l", "ı": "i", "Æ": "ae", "Œ": "oe", "Ø": "o", "Đ": "d", "Ł": "l", "ς": "σ",
    "▁": " ", "ـ": "", "ى": "ي", "ة": "ه", "ی": "ي", "ک": "ك",
}  # fmt: skip
_AFTER_US = " .,;:!?)'’-"


def derive(kept: frozenset[str]) -> dict[str, str]:
    """The committed part of the table. `kept`: syllables and ideographs that are tokens, and stay whole."""
    table = {}
    for code in range(1, _LAST + 1):
        if code in _SURROGATES or chr(code) in _UNTOUCHED:
            continue
        replacement = _replacement(chr(code), kept)
        if replacement != chr(code):
            table[chr(code)] = replacement
    table.update(_FIXED)
    table.update({f" US{after}": f" usa{table.get(after, after)}" for after in _AFTER_US})
    return table


def save(table: Mapping[str, str], path: Path) -> None:
    """Write one line per entry: code points of the text, and of what it becomes, in hexadecimal."""
    lines = [f"{_codes(text)}\t{_codes(replacement)}" for text, replacement in sorted(table.items())]
    path.write_text("\n".join([*lines, ""]), encoding="ascii")


def load(path: Path) -> dict[str, str]:
    """The whole table: what `save` wrote, and the thousands."""
    table = dict(_thousands())
    for line in path.read_text(encoding="ascii").splitlines():
        text, _, replacement = line.partition("\t")
        table[_text(text)] = _text(replacement)
    return table


class Normaliser:
    """Applies a table of replacements, the longest entry first: a mirror of llama.cpp's."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self._table = table
        lengths: dict[str, set[int]] = {}
        for text in table:
            lengths.setdefault(text[0], set()).add(len(text))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    def words(self, text: str) -> list[str]:
        """The words of a text, normalised."""
        return self._normalised(text).split(" ")

    def _normalised(self, text: str) -> str:
        parts, place = [], 0
        while place < len(text):
            for length in self._lengths.get(text[place], ()):
                if (found := self._table.get(text[place : place + length])) is not None:
                    parts.append(found)
                    place += length
                    break
            else:
                parts.append(text[place])
                place += 1
        return "".join(parts)


def _thousands() -> Iterator[tuple[str, str]]:
    """A comma before exactly three digits joins them to the number; before four it does not."""
    for digits in product("0123456789", repeat=3):
        yield "," + "".join(digits), "".join(digits)
    for digits in product("0123456789", repeat=4):
        yield "," + "".join(digits), " , " + "".join(digits)


def _replacement(character: str, kept: frozenset[str]) -> str:
    category = unicodedata.category(character)
    if character.isspace() or category.startswith("Z"):
        return " "
    if category in ("Cc", "Cf", "Cn") or any(ord(character) in marks for marks in _FOLDED_MARKS):
        return ""
    if ord(character) in _HANGUL:
        return character if character in kept else unicodedata.normalize("NFD", character)
    if any(ord(character) in block for block in _IDEOGRAPHS):
        return f" {character} " if character in kept else character
    if category == "Pd":
        return " - "
    folded = _folded(character)
    return f" {folded} " if category[0] in "PS" else folded


def _folded(character: str) -> str:
    """Lower case without accents; compatibility forms as their plain equals."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
    folded = "".join(part for part in plain if not any(ord(part) in marks for marks in _FOLDED_MARKS))
    return "".join(str(unicodedata.decimal(part, part)) for part in folded)


def _codes(text: str) -> str:
    return " ".join(f"{ord(character):x}" for character in text)


def _text(codes: str) -> str:
    return "".join(chr(int(code, 16)) for code in codes.split())
