"""Chooses the tokens from plain prose, and counts what is known of each.

prose ─> frequent words ─> pieces of all other words ─> tokenise again ─> weights, capitals
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from . import evidence
from .labelled import Paragraph
from .normalisation import Normaliser
from .tokenizer import SPACE
from .vocabulary import CONTROL, Token, Vocabulary

_WORDS, _PIECES = 20_000, 5_000
_LONGEST_WORD, _LONGEST_PIECE = 20, 7
_LAST_NUMBER = 2100
_RAREST = 10.0
_LETTERS = (
    (0x21, 0x7F), (0xA1, 0x180), (0x250, 0x2B0), (0x370, 0x400), (0x400, 0x530), (0x531, 0x590), (0x5D0, 0x5F0),
    (0x620, 0x700), (0x900, 0xE00), (0xE00, 0x1000), (0x10A0, 0x1200), (0x11A8, 0x11C3), (0x1780, 0x17E0),
    (0x2010, 0x2070), (0x20A0, 0x20C0), (0x2100, 0x2200), (0x2200, 0x2270), (0x3000, 0x3100),
)  # fmt: skip
_ALPHABETS = (
    ("абвгдежзийклмнопрстуфхцчшщъыьэюяіїє",) * 2,
    ("αβγδεζηθικλμνξοπρστυφχψω",) * 2,
    ("ابتثجحخدذرزسشصضطظعغفقكلمنهوي",) * 2,
    ("אבגדהוזחטיכלמנסעפצקרשתךםןףץ",) * 2,
    ("कखगघचछजझटठडढणतथदधनपफबभमयरलवशषसह", "कखगघचछजझटठडढणतथदधनपफबभमयरलवशषसहािीुूेैोौ्ं"),
)
"""Alphabets whose words are cut into pairs of letters: those that may stand first, and second."""
_STANDARDS = {
    "gb2312": range(0xB0, 0xF8),
    "big5": range(0xA4, 0xC7),
    "euc_jp": range(0xB0, 0xD0),
    "euc_kr": range(0xB0, 0xC9),
}
"""Rows of two-byte character sets: GB 2312, the common characters of Big5 and of JIS X 0208, Hangul of KS X 1001."""
_CELLS = range(0x40, 0xFF)
_WORD = re.compile(r"\w+")


def whole_characters() -> frozenset[str]:
    """Characters that are tokens of their own: the common ones of Chinese, Japanese and Korean national standards."""
    return frozenset(
        character
        for code, rows in _STANDARDS.items()
        for cell in product(rows, _CELLS)
        for character in bytes(cell).decode(code, errors="ignore")
        if character.isalpha()
    )


def count(prose: Sequence[str], articles: Sequence[Sequence[Paragraph]], normaliser: Normaliser) -> Vocabulary:
    """Choose the tokens in prose and weigh them by questions with known answers."""
    texts = _texts(prose, normaliser)
    vocabulary = Vocabulary([Token(text) for text in texts], normaliser)
    identities = [token.identity if _is_content(token) else "" for token in vocabulary.tokens]

    def classes(text: str) -> frozenset[str]:
        return frozenset(identities[token] for token in vocabulary.tokenizer.encode(text)) - {""}

    rarity = _rarity(prose, classes, identities)
    weight = evidence.weights(evidence.statement_trials(articles, classes), rarity)
    question_weight = evidence.weights(evidence.question_trials(articles, classes), rarity)
    capitals = _capitals(prose, vocabulary)
    tokens = [
        Token(token.text, weight[name], question_weight[name], _name_share(token, capitals)) if name else token
        for token, name in zip(vocabulary.tokens, identities, strict=True)
    ]
    return Vocabulary(tokens, normaliser)


def _is_content(token: Token) -> bool:
    return not token.is_control and any(character.isalnum() for character in token.word)


def _rarity(prose: Sequence[str], classes: evidence.Classes, identities: Iterable[str]) -> dict[str, float]:
    """How rare each class is, from 0 (in every paragraph) to 1 (in one of e^10 or none)."""
    holding: Counter[str] = Counter()
    for paragraph in prose:
        holding.update(classes(paragraph))
    names = set(identities) - {""}
    return {name: min(math.log(len(prose) / max(holding[name], 1)) / _RAREST, 1.0) for name in sorted(names)}


def _name_share(token: Token, capitals: dict[str, float]) -> float:
    return capitals.get(token.word, 0.0) if token.text.startswith(SPACE) else 0.0


def _capitals(prose: Sequence[str], vocabulary: Vocabulary) -> dict[str, float]:
    """Share of a word's uses that begin with a capital."""
    uses: Counter[str] = Counter()
    capital: Counter[str] = Counter()
    for form, times in Counter(form for paragraph in prose for form in _WORD.findall(paragraph)).items():
        word = "".join(vocabulary.tokenizer.words(form))
        uses[word] += times
        capital[word] += times * form[0].isupper()
    return {word: capital[word] / times for word, times in uses.items()}


def _texts(prose: Sequence[str], normaliser: Normaliser) -> list[str]:
    frequency: Counter[str] = Counter()
    for paragraph in prose:
        frequency.update(normaliser.words(paragraph))
    fixed = [*CONTROL, *_numbers(), *_characters(normaliser), *_pairs(), *_words(frequency)]
    known = set(fixed)
    rest = {word: times for word, times in frequency.items() if SPACE + word not in known}
    return list(dict.fromkeys([*fixed, *_pieces(rest)]))


def _numbers() -> Iterator[str]:
    yield from (f"{SPACE}{number}" for number in range(_LAST_NUMBER))
    for digits in (1, 2, 3):
        yield from (f"{number:0{digits}}" for number in range(10**digits))


def _characters(normaliser: Normaliser) -> Iterator[str]:
    codes = (code for first, end in _LETTERS for code in range(first, end))
    for character in [*map(chr, codes), *sorted(whole_characters())]:
        for word in normaliser.words(character):
            for part in word:
                yield SPACE + part
                if normaliser.words(f"a{part}") == [f"a{part}"]:
                    yield part
    yield from ("{", "}", SPACE)


def _pairs() -> Iterator[str]:
    for first, second in _ALPHABETS:
        for pair in map("".join, product(first, second)):
            yield from (SPACE + pair, pair)


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
