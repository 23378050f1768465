"""Counts the vocabulary in plain prose: which words and pieces become tokens, how rare each is, which are names.

prose ─> frequent words ─> pieces of all other words ─> tokenise the prose again ─> paragraphs per class
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from .tokenizer import SPACE
from .vocabulary import CONTROL, Token, Vocabulary
from .words import is_chinese, words

_WORDS, _PIECES = 20_000, 5_000
_LONGEST_WORD, _LONGEST_PIECE = 20, 7
_LAST_NUMBER, _FIRST_YEAR, _LAST_YEAR = 999, 1500, 2050
_LETTERS = (
    (0x21, 0x7F), (0xA1, 0xC0), (0xD7, 0xD8), (0xDF, 0x100), (0x100, 0x180), (0x2B0, 0x300), (0x370, 0x400),
    (0x400, 0x530), (0x531, 0x590), (0x590, 0x600), (0x600, 0x700), (0x900, 0xE00), (0xE00, 0xE80), (0x10A0, 0x1200),
    (0x2010, 0x2070), (0x20A0, 0x20C0), (0x2100, 0x2200), (0x2200, 0x2270), (0x3000, 0x3100), (0xFF00, 0xFFF0),
)  # fmt: skip
_WORD = re.compile(r"\w+")


def count(paragraphs: Sequence[str]) -> Vocabulary:
    """Choose the tokens from paragraphs of prose and count each of them there."""
    frequency: Counter[str] = Counter()
    for paragraph in paragraphs:
        frequency.update(words(paragraph))
    texts = list(dict.fromkeys([*CONTROL, *_numbers(), *_characters(), *_words(frequency)]))
    known = set(texts)
    rest = {word: times for word, times in frequency.items() if SPACE + word not in known}
    texts = list(dict.fromkeys([*texts, *_pieces(rest)]))
    return _counted(texts, paragraphs)


def _numbers() -> Iterator[str]:
    for number in [*range(_LAST_NUMBER + 1), *range(_FIRST_YEAR, _LAST_YEAR + 1)]:
        yield f"{SPACE}{number}"
    for digits in (1, 2, 3):
        yield from (f"{number:0{digits}}" for number in range(10**digits))


def _characters() -> Iterator[str]:
    codes = [code for first, end in _LETTERS for code in range(first, end)]
    chinese = [ord(character) for character in _common_chinese()]
    for code in [*codes, *chinese]:
        for word in words(chr(code)):
            yield SPACE + word
            if not is_chinese(ord(word)):
                yield word
    yield SPACE


def _common_chinese() -> Iterator[str]:
    """The 3,755 most common Chinese characters: level 1 of the national standard GB 2312."""
    for row in range(0xB0, 0xD8):
        for cell in range(0xA1, 0xFF):
            yield from bytes([row, cell]).decode("gb2312", errors="ignore")


def _words(frequency: Counter[str]) -> Iterator[str]:
    common = sorted(frequency, key=lambda word: (-frequency[word], word))
    candidates = (word for word in common if word.isalpha() and 1 < len(word) <= _LONGEST_WORD)
    for _, word in zip(range(_WORDS), candidates, strict=False):
        yield SPACE + word


def _pieces(frequency: dict[str, int]) -> Iterable[str]:
    """Beginnings and insides of the words that are no tokens, those first that save most characters."""
    saved: Counter[str] = Counter()
    for word in frequency:
        if not word.isalpha():
            continue
        for start in range(len(word)):
            for end in range(start + 2, min(len(word), start + _LONGEST_PIECE) + 1):
                saved[(SPACE if start == 0 else "") + word[start:end]] += end - start - 1
    return sorted(saved, key=lambda piece: (-saved[piece], piece))[:_PIECES]


def _counted(texts: Sequence[str], paragraphs: Sequence[str]) -> Vocabulary:
    blank = Vocabulary([Token(text, 0, 0) for text in texts], 1)
    identities = [token.identity for token in blank.tokens]
    holding: Counter[str] = Counter()
    for paragraph in paragraphs:
        holding.update({identities[token] for token in blank.tokenizer.encode(paragraph)})
    capitals = _capitals(paragraphs)
    tokens = [
        Token(token.text, holding[identity], capitals.get(token.word, 0) if token.text.startswith(SPACE) else 0)
        for token, identity in zip(blank.tokens, identities, strict=True)
    ]
    return Vocabulary(tokens, len(paragraphs))


def _capitals(paragraphs: Sequence[str]) -> dict[str, int]:
    """Percent of a word's uses that begin with a capital."""
    uses: Counter[str] = Counter()
    capital: Counter[str] = Counter()
    for paragraph in paragraphs:
        for form in _WORD.findall(paragraph):
            word = "".join(words(form))
            uses[word] += 1
            capital[word] += form[0].isupper()
    return {word: round(100 * capital[word] / times) for word, times in uses.items()}
