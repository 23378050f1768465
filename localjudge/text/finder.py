"""Find the sentences that come closest to a statement, by their words.

    score = weight of the statement's words in the sentence / weight of the statement's words

    weight of a word    ln(1 + (n + 1) / (sentences with the word + 0.5)), n sentences in all texts;
                        a tenth of this for a stop word
    heading             words in the heading of its text, but not in the sentence, count 0.4
    question            no assertion: its score counts half, and it is a heading of the next
                        sentence

Case, accents, English endings, the commas in numbers, and the spelling of a character as a
reference (&uuml;) make no difference. In other languages, words are equal if their first six
letters are:

    "Prices rose by 1,000 in Köln."   pric rose by 1000 in koln     (English)
    "東京は首都"                        東京 京は は首 首都          (no spaces: pairs)

A rare word says more than a frequent one. A heading ("Ulm" above "It lies on the Danube") names
what the sentences below it are about, and so does a question before its answer. Scores are in
[0, 1]. The weights were chosen by measurement on public data
(`scripts/benchmarks/evidence-accuracy`), except the weight of questions, which are rare there.

Everything depends on the statement and the texts only: no model is asked.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

from localjudge.text.markup import read_characters
from localjudge.text.segmenter import import_spacy
from localjudge.types import Span

FINDER = "words"
VERSION = 3
"""Raised when the finder could name other sentences, or give other scores."""
CLOSE = 0.2
"""A sentence with this score or a higher one can support its statement, if the judge agrees."""
CLOSE_UNREAD = 0.6
"""The same for a text that the judge has not read for this statement, where only words decide.

Of 410 supported statements on public data, the best sentence of 90 % reaches 0.2 and of 36 % 0.6;
of 410 unsupported ones 73 % and 12 %.
"""

_STOP_WORD = 0.1
_HEADING = 0.4
_QUESTION = 0.5
_SECOND = 0.5
"""A second sentence is named if its score is at least this share of the first one's."""
_DIGITS = 4
_MAX_PART = 500
_MAX_HEADING = 100
_HEADING_LINE = re.compile(r"\s*(?P<heading>[^\n]+)\n\s*\S")
_STOPS = ".!?:;。！？"
_QUESTION_MARKS = ("?", "？", "؟")
_CLOSING = "\"'”’»)]」 "
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""Characters of Thai, Lao, Burmese, Khmer, Japanese and Chinese."""
_ENDINGS = (
    "ingly",
    "tions",
    "edly",
    "tion",
    "ing",
    "ies",
    "ers",
    "ed",
    "es",
    "er",
    "ly",
    "al",
    "s",
)
"""English endings, the longest first."""
_MIN_WITH_ENDING = 5
_MIN_STEM = 3
_LETTERS_COMPARED = 6
_FORMS_KEPT = 1 << 16
ENGLISH = "en"

Cut = Callable[[str], Iterable[Span]]


class Part(NamedTuple):
    """Consecutive sentences, or a piece of one, with the number of their text."""

    text: int
    span: Span

    def contains(self, text: int | None, offset: int) -> bool:
        """Return whether the character at an offset of a text is in this part."""
        return self.text == text and self.span.start <= offset < self.span.end


class Match(NamedTuple):
    """A sentence close to a statement: the number of its text, and its score in [0, 1]."""

    text: int
    span: Span
    score: float


@dataclass(frozen=True)
class Sentence:
    """A sentence, or a piece of a long one, with its words and those of its heading."""

    text: int
    span: Span
    words: frozenset[str]
    heading: frozenset[str]
    is_question: bool


class Finder:
    """Search the sentences of some texts, cut by `cut`, for those closest to a statement."""

    def __init__(self, texts: Sequence[str], cut: Cut, language: str = ENGLISH) -> None:
        self._language = language
        self.sentences: list[Sentence] = []
        for number, text in enumerate(texts):
            self.sentences += _cut_sentences(number, text, cut, language)
        self._counts = Counter[str]()
        for sentence in self.sentences:
            self._counts.update(sentence.words)

    def find(
        self,
        statement: str,
        texts: Iterable[int] | None = None,
        parts: Sequence[Part] | None = None,
    ) -> list[Match]:
        """Return at most two sentences, the closest first; of equally close ones the earlier.

        `texts` are the numbers of the texts to search, and `parts` where in them, by default
        everywhere. Without a common word, there is no sentence.
        """
        scores = self.scores(self.weights(statement), texts)
        matches: list[Match] = []
        for number, score in scores.items():
            if score <= 0:
                continue
            sentence = self.sentences[number]
            start = sentence.span.start
            if parts is None or any(part.contains(sentence.text, start) for part in parts):
                matches.append(Match(sentence.text, sentence.span, score))
        matches.sort(key=lambda match: (-match.score, match.text, match.span.start))
        return [match for match in matches[:2] if match.score >= _SECOND * matches[0].score]

    def scores(
        self, weights: Mapping[str, float], texts: Iterable[int] | None = None
    ) -> dict[int, float]:
        """Return the score of each sentence of these texts, by its number."""
        searched = None if texts is None else frozenset(texts)
        total = add_weights(weights)
        scores: dict[int, float] = {}
        for number, sentence in enumerate(self.sentences):
            if searched is None or sentence.text in searched:
                covered = self.covered_words(number, weights)
                scores[number] = self.score_of(number, covered, weights, total)
        return scores

    def is_same_text(self, number: int, other: int) -> bool:
        """Return whether both sentences exist and are of the same text."""
        if not 0 <= min(number, other) <= max(number, other) < len(self.sentences):
            return False
        return self.sentences[number].text == self.sentences[other].text

    def score(self, number: int, weights: Mapping[str, float]) -> float:
        """Return the score of the sentence with this number, by the weights of a statement."""
        covered = self.covered_words(number, weights)
        return self.score_of(number, covered, weights, add_weights(weights))

    def covered_words(self, number: int, words: Iterable[str]) -> list[tuple[str, float]]:
        """Return the words that a sentence has, each with the share of its weight that counts."""
        sentence = self.sentences[number]
        covered: list[tuple[str, float]] = []
        for word in words:
            if word in sentence.words:
                covered.append((word, 1.0))
            elif word in sentence.heading:
                covered.append((word, _HEADING))
        return covered

    def score_of(
        self,
        number: int,
        covered: Iterable[tuple[str, float]],
        weights: Mapping[str, float],
        total: float,
    ) -> float:
        """Return the score of a sentence by its covered words and the total of the weights."""
        if not total:
            return 0.0
        score = 0.0
        for word, counts in covered:
            score += counts * weights[word]
        score /= total
        if self.sentences[number].is_question:
            score *= _QUESTION
        return round(score, _DIGITS)

    def weights(self, statement: str) -> dict[str, float]:
        """Return the weight of each word of the statement, in the order of the words."""
        frequent = stop_words(self._language)
        weights: dict[str, float] = {}
        for word in words_in(statement, self._language):
            weight = math.log(1 + (len(self.sentences) + 1) / (self._counts[word] + 0.5))
            if word in frequent:
                weight *= _STOP_WORD
            weights[word] = weight
        return weights


def identity(language: str) -> dict[str, str | int]:
    """Return everything that affects the evidence, besides sentences and versions of packages."""
    return {"finder": FINDER, "version": VERSION, "language": language}


def add_weights(weights: Mapping[str, float]) -> float:
    """Return the total. `sum` rounds otherwise since Python 3.12."""
    total = 0.0
    for weight in weights.values():
        total += weight
    return total


def _cut_sentences(number: int, text: str, cut: Cut, language: str) -> Iterator[Sentence]:
    heading = frozenset[str]()
    line = _HEADING_LINE.match(text)
    first = line["heading"].strip() if line else ""
    # A first line above others is a heading if it is short and does not end like a sentence.
    if len(first) <= _MAX_HEADING and not first.endswith(tuple(_STOPS)):
        heading = frozenset(words_in(first, language))
    question = frozenset[str]()
    for sentence in cut(text):
        is_question = read_characters(sentence.text).text.rstrip(_CLOSING).endswith(_QUESTION_MARKS)
        for part in _parts(sentence):
            words = frozenset(words_in(part.text, language))
            yield Sentence(number, part, words, heading | question, is_question)
        question = frozenset[str]()
        if is_question:
            question = frozenset(words_in(sentence.text, language))


def _parts(sentence: Span) -> Iterator[Span]:
    """Cut a sentence that is too long to be read at a glance, such as a list without stops."""
    start = 0
    while start < len(sentence.text):
        end = end_of_part(sentence.text, start, _MAX_PART)
        part = sentence.text[start:end]
        bare = part.strip()
        if bare:
            first = sentence.start + start + len(part) - len(part.lstrip())
            yield Span(start=first, end=first + len(bare), text=bare)
        start = end


def end_of_part(text: str, start: int, length: int) -> int:
    """Return the last end of a line, else of a word, within this length from the start."""
    limit = start + length
    if limit >= len(text):
        return len(text)
    for sign in ("\n", " "):
        end = text.rfind(sign, start + 1, limit)
        if end > 0:
            return end + 1
    return limit


def words_in(text: str, language: str = ENGLISH) -> list[str]:
    """Return the words of a text in order, with repetitions."""
    plain = read_characters(text).text
    if plain.isascii():
        plain = plain.lower()
    else:
        decomposed = unicodedata.normalize("NFKD", plain.casefold())
        letters = "".join(sign for sign in decomposed if not unicodedata.combining(sign))
        plain = unicodedata.normalize("NFC", letters)  # without accents
    words: list[str] = []
    for match in _WORD.finditer(plain):
        words += _forms(match.group(), language)
    return words


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the frequent words with little meaning, as spaCy lists them.

    Empty for a language that spaCy has no list for, or does not know.
    """
    import_spacy()
    from spacy.util import get_lang_class

    try:
        listed = get_lang_class(language).Defaults.stop_words
    except ImportError:
        return frozenset()
    forms: set[str] = set()
    for word in listed:
        forms.update(words_in(word, language))
    return frozenset(forms)


@lru_cache(maxsize=_FORMS_KEPT)
def _forms(word: str, language: str) -> tuple[str, ...]:
    if word[0].isdigit():
        return (word.replace(",", ""),)
    if _WITHOUT_SPACES.search(word):
        into_pairs: list[str] = []
        if len(word) == 1:
            into_pairs.append(word)
        for start in range(len(word) - 1):
            into_pairs.append(word[start : start + 2])
        return tuple(into_pairs)
    if language == ENGLISH:
        return (_without_ending(word),)
    return (word[:_LETTERS_COMPARED],)


def _without_ending(word: str) -> str:
    if len(word) < _MIN_WITH_ENDING:
        return word
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= _MIN_STEM:
            return _without_final_e(stem)
    return _without_final_e(word)


def _without_final_e(word: str) -> str:
    if len(word) >= _MIN_WITH_ENDING:
        return word.removesuffix("e")
    return word
