"""Derive the replacements from the Unicode database, and the vocabulary from prose and questions.

    Unicode ─> normalisation.tsv
    prose ─> frequent words ─> pieces of all other words ─> weights, capitals ─> vocabulary.tsv

The weight of a word is the evidence in its presence, counted in questions with an answer in a known
paragraph:

    weight of a class = log( P(found | right text) / P(found | wrong text) )
                      - log( P(missing | right text) / P(missing | wrong text) )

For attribution, a question with its answer is used as a statement; the right text is its paragraph,
the wrong one the next paragraph of the same article. For relevance, the right text is the sentence
with the answer, the wrong ones are the other sentences of the paragraph. The weights of rare
classes are shrunk to the average of classes of about the same rarity.
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from pathlib import Path
from typing import NamedTuple

from .committed import CONTROL, Token, Vocabulary
from .labelled import Paragraph
from .text import SPACE, Normaliser

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
"""Accents and vowel points that a reader may leave out, but no vowel signs of Indic scripts."""
_UNTOUCHED = frozenset(" \x00")
_FIXED = {
    "U.S.A.": " usa ", "U.S.": " usa ", "U.K.": " uk ", "U.N.": " un ", "E.U.": " eu ",
    "D.C.": " dc ", "Ph.D.": " phd ", "a.m.": " am ", "p.m.": " pm ", "per cent": "percent",
    "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ł": "l", "ı": "i",
    "Æ": "ae", "Œ": "oe", "Ø": "o", "Đ": "d", "Ł": "l", "ς": "σ",
    "▁": " ", "ـ": "", "ى": "ي", "ة": "ه", "ی": "ي", "ک": "ك",
}  # fmt: skip
_AFTER_US = " .,;:!?)'’-"
_WORDS = 20_000
_PIECES = 5_000
_LONGEST_WORD = 20
_LONGEST_PIECE = 7
_LAST_NUMBER = 2100
_RAREST = 10.0
_LETTERS = (
    (0x21, 0x7F), (0xA1, 0x180), (0x250, 0x2B0), (0x370, 0x400), (0x400, 0x530),
    (0x531, 0x590), (0x5D0, 0x5F0), (0x620, 0x700), (0x900, 0xE00), (0xE00, 0x1000),
    (0x10A0, 0x1200), (0x11A8, 0x11C3), (0x1780, 0x17E0),
    (0x2010, 0x2070), (0x20A0, 0x20C0), (0x2100, 0x2200), (0x2200, 0x2270), (0x3000, 0x3100),
)  # fmt: skip
_ALPHABETS = (
    ("абвгдежзийклмнопрстуфхцчшщъыьэюяіїє",) * 2,
    ("αβγδεζηθικλμνξοπρστυφχψω",) * 2,
    ("ابتثجحخدذرزسشصضطظعغفقكلمنهوي",) * 2,
    ("אבגדהוזחטיכלמנסעפצקרשתךםןףץ",) * 2,
    ("कखगघचछजझटठडढणतथदधनपफबभमयरलवशषसह", "कखगघचछजझटठडढणतथदधनपफबभमयरलवशषसहािीुूेैोौ्ं"),
)
"""Alphabets with words cut into pairs of letters: the possible first and second letters."""
_STANDARDS = {
    "gb2312": range(0xB0, 0xF8),
    "big5": range(0xA4, 0xC7),
    "euc_jp": range(0xB0, 0xD0),
    "euc_kr": range(0xB0, 0xC9),
}
"""Rows of two-byte character sets.

GB 2312, the common characters of Big5 and of JIS X 0208, Hangul of KS X 1001.
"""
_CELLS = range(0x40, 0xFF)
_WORD = re.compile(r"\w+")
_PRIOR_STRENGTH = 20.0
_CERTAIN_RIGHT = 0.01
_CERTAIN_WRONG = 0.003
_FULL_WEIGHT = 6.0
_LEAST = 0.01
_RARITY_STEPS = 10

Classes = Callable[[str], frozenset[str]]


def derive_table(kept: frozenset[str]) -> dict[str, str]:
    """The committed part of the table.

    `kept`: syllables and ideographs that are tokens, and stay whole.
    """
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


def save_table(table: Mapping[str, str], path: Path) -> None:
    """Write one line per entry: code points of the text, and of what it becomes, in hexadecimal."""
    lines = [
        f"{_codes(text)}\t{_codes(replacement)}" for text, replacement in sorted(table.items())
    ]
    path.write_text("\n".join([*lines, ""]), encoding="ascii")


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
    folded = "".join(
        part for part in plain if not any(ord(part) in marks for marks in _FOLDED_MARKS)
    )
    return "".join(str(unicodedata.decimal(part, part)) for part in folded)


def _codes(text: str) -> str:
    return " ".join(f"{ord(character):x}" for character in text)


def whole_characters() -> frozenset[str]:
    """Return the common characters of Chinese, Japanese and Korean standards: each is a token."""
    return frozenset(
        character
        for code, rows in _STANDARDS.items()
        for cell in product(rows, _CELLS)
        for character in bytes(cell).decode(code, errors="ignore")
        if character.isalpha()
    )


def count(
    prose: Sequence[str], articles: Sequence[Sequence[Paragraph]], normaliser: Normaliser
) -> Vocabulary:
    """Choose the tokens in prose and weigh them by questions with known answers."""
    texts = _texts(prose, normaliser)
    vocabulary = Vocabulary([Token(text) for text in texts], normaliser)
    identities = [token.identity if _is_content(token) else "" for token in vocabulary.tokens]

    def classes(text: str) -> frozenset[str]:
        return frozenset(identities[token] for token in vocabulary.tokenizer.encode(text)) - {""}

    rarity = _rarity(prose, classes, identities)
    weight = weights(statement_trials(articles, classes), rarity)
    question_weight = weights(question_trials(articles, classes), rarity)
    capitals = _capitals(prose, vocabulary)
    tokens = []
    for token, name in zip(vocabulary.tokens, identities, strict=True):
        if not name:
            tokens.append(token)
            continue
        share = 0.0
        if token.text.startswith(SPACE):
            share = capitals.get(token.word, 0.0)
        tokens.append(Token(token.text, weight[name], question_weight[name], share))
    return Vocabulary(tokens, normaliser)


def _is_content(token: Token) -> bool:
    return not token.is_control and any(character.isalnum() for character in token.word)


def _rarity(prose: Sequence[str], classes: Classes, identities: Iterable[str]) -> dict[str, float]:
    """How rare each class is, from 0 (in every paragraph) to 1 (in one of e^10 or none)."""
    holding: Counter[str] = Counter()
    for paragraph in prose:
        holding.update(classes(paragraph))
    names = set(identities) - {""}
    return {
        name: min(math.log(len(prose) / max(holding[name], 1)) / _RAREST, 1.0)
        for name in sorted(names)
    }


def _capitals(prose: Sequence[str], vocabulary: Vocabulary) -> dict[str, float]:
    """Share of a word's uses that begin with a capital."""
    uses: Counter[str] = Counter()
    capital: Counter[str] = Counter()
    forms: Counter[str] = Counter()
    for paragraph in prose:
        forms.update(_WORD.findall(paragraph))
    for form, times in forms.items():
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
    codes = chain.from_iterable(range(first, end) for first, end in _LETTERS)
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
    """Beginnings and insides of the words that are no tokens, in order of saved characters."""
    saved: Counter[str] = Counter()
    for word in frequency:
        if not word.isalpha():
            continue
        for start in range(len(word)):
            for end in range(start + 2, min(len(word), start + _LONGEST_PIECE) + 1):
                saved[(SPACE if start == 0 else "") + word[start:end]] += end - start - 1
    return sorted(saved, key=lambda piece: (-saved[piece], piece))[:_PIECES]


class Trials(NamedTuple):
    """How often a class was looked for, and found, in right and wrong texts."""

    right: Counter[str]
    found_right: Counter[str]
    wrong: Counter[str]
    found_wrong: Counter[str]

    @classmethod
    def none(cls) -> "Trials":
        """No trial yet."""
        return cls(Counter(), Counter(), Counter(), Counter())

    def add(
        self, asked: frozenset[str], right: frozenset[str], wrong: Sequence[frozenset[str]]
    ) -> None:
        """Look for every class asked for in the right text and in the wrong ones."""
        self.right.update(asked)
        self.found_right.update(asked & right)
        for text in wrong:
            self.wrong.update(asked)
            self.found_wrong.update(asked & text)


def statement_trials(articles: Iterable[Sequence[Paragraph]], classes: Classes) -> Trials:
    """Questions with their answers, looked for in paragraphs."""
    trials = Trials.none()
    for paragraphs in articles:
        held = [classes(paragraph.text) for paragraph in paragraphs]
        for place, paragraph in enumerate(paragraphs):
            following = held[(place + 1) % len(held)]
            for question, answer in paragraph.answered:
                trials.add(classes(f"{question} {answer}"), held[place], [following])
    return trials


def question_trials(articles: Iterable[Sequence[Paragraph]], classes: Classes) -> Trials:
    """Questions, looked for in the sentences of the paragraph that answers them."""
    trials = Trials.none()
    for paragraph in chain.from_iterable(articles):
        held = [classes(sentence) for sentence in paragraph.sentences]
        for question, answer in paragraph.answered:
            right = [
                place for place, sentence in enumerate(paragraph.sentences) if answer in sentence
            ]
            if len(right) == 1:
                wrong = held[: right[0]] + held[right[0] + 1 :]
                trials.add(classes(question), held[right[0]], wrong)
    return trials


def weights(trials: Trials, rarity: Mapping[str, float]) -> dict[str, float]:
    """Weight of every class in `rarity` (0 common to 1 rare), from 0.01 to 1."""
    right = _rates(trials.right, trials.found_right, rarity, _CERTAIN_RIGHT)
    wrong = _rates(trials.wrong, trials.found_wrong, rarity, _CERTAIN_WRONG)
    return {name: _weight(right(name), wrong(name)) for name in rarity}


def _weight(right: float, wrong: float) -> float:
    evidence = math.log(right / wrong) - math.log((1 - right) / (1 - wrong))
    return min(max(evidence / _FULL_WEIGHT, _LEAST), 1.0)


def _rates(
    tried: Counter[str], found: Counter[str], rarity: Mapping[str, float], certain: float
) -> Callable[[str], float]:
    """Return the detection rate of a class, shrunk to the average of its rarity, never 0 or 1."""
    tried_at: dict[int, float] = defaultdict(float)
    found_at: dict[int, float] = defaultdict(float)
    for name, trials in tried.items():
        tried_at[_step(rarity, name)] += trials
        found_at[_step(rarity, name)] += found[name]

    def rate(name: str) -> float:
        step = _step(rarity, name)
        average = found_at[step] / tried_at[step] if tried_at[step] else 0.5
        share = (found[name] + _PRIOR_STRENGTH * average) / (tried[name] + _PRIOR_STRENGTH)
        return min(max(share, certain), 1 - certain)

    return rate


def _step(rarity: Mapping[str, float], name: str) -> int:
    return round(_RARITY_STEPS * rarity.get(name, 1.0))
