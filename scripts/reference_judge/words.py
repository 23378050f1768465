"""Cuts text into the words that the tokenizer will see, as llama.cpp's WPM tokenizer does.

    "Été 1889, in Paris."  ->  ete  1889  ,  in  paris  .

Case and accents are folded, and every punctuation mark and every Chinese character is a word of its own. The judge is
counted and fitted with this mirror; a test holds it against llama.cpp itself.
"""

import unicodedata
from functools import cache

_CHINESE = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))


def words(text: str) -> list[str]:
    """Words of a text in order: lower case, without accents, punctuation and Chinese characters apart."""
    found: list[str] = []
    current: list[str] = []
    for character in text:
        folded, alone = _folded(character)
        if not folded or alone:
            if folded or character.isspace():
                if current:
                    found.append("".join(current))
                    current = []
                if folded:
                    found.append(folded)
        else:
            current.append(folded)
    if current:
        found.append("".join(current))
    return found


def is_chinese(code: int) -> bool:
    """Whether a code point is in the blocks of unified Chinese characters."""
    return any(first <= code <= last for first, last in _CHINESE)


@cache
def _folded(character: str) -> tuple[str, bool]:
    """What a character becomes ("" for a blank or nothing), and whether it stands alone."""
    base = unicodedata.normalize("NFD", character)[0]
    category = unicodedata.category(base)
    if base.isspace() or category.startswith("Z") or category in ("Cc", "Cf") or base == "\ufffd":
        return "", False
    lower = base.lower()
    symbol = category.startswith("S") and base.isascii()
    return lower[0], category.startswith("P") or symbol or is_chinese(ord(base))
