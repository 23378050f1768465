r"""The text that a judge reads for a statement: the nearest sentences of all texts, in order.

    texts        "Ulm\nIt lies on the Danube. It is old. ..."   "It is long. The Danube rises ..."
    statement    "The Danube passes Ulm."
    read         "Ulm\nIt lies on the Danube. It is old. ... The Danube rises ..."

Sentences are taken one after the other while they fit into a number of letters:

1. the nearest by the finder's score, then the one that is nearest by the words not read yet, and
   so on: a word counts half after each sentence that has it. So a statement about two passages
   reads both;
2. after the first three of them, the sentences before and after each of these;
3. the others with a common word;
4. what is left of the text with the nearest sentence.

Consecutive sentences keep the text between them, a mark stands between the others. Without a common
word, the first text is read from its beginning. With `closer` in its profile, a judge reads a
statement a second time, beside fewer letters that are chosen alike, and the higher probability
counts: what is near in few sentences is noticed alone, and what is spread over several together.
All numbers were chosen by measurement (`models/reader/README.md`).

    task                                nearest to       in
    a statement and contexts            the statement    the contexts
    a question and contexts             the question     the contexts
    a sentence beside its contexts      the sentence     the contexts
    a chunk and a question              the question     the chunk
    a chunk and a reference             the reference    the chunk

Some texts, such as Thai or base64, have a token for almost every letter. Where the prompt does not
fit, fewer letters are read. A text is cut once for the questions and the evidence.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from localjudge.judge.profile import Nearest, PromptProfile
from localjudge.text.finder import ENGLISH, Cut, Finder, Part, add_weights, end_of_part
from localjudge.text.finder import VERSION as FINDER_VERSION
from localjudge.text.segmenter import judged_sentences
from localjudge.types import (
    Attribution,
    CustomQuestion,
    Refusal,
    Relevance,
    Span,
    Sufficiency,
    Task,
    Usefulness,
)

VERSION = 1
"""Raised when other sentences could be read."""
LETTERS = 600
"""Read by default."""
MARK = " ... "
_WITH_NEIGHBOURS = 3
_SEEN = 0.5
_RANKED = 40
"""Sentences that are ranked by the words not read yet. The others follow by their score."""


_LETTERS_KEPT = 2_000_000
_READ_KEPT = 4096
_FEWER = 0.75
_FEWEST_LETTERS = 20


class NearestText(NamedTuple):
    """What is read for one statement. The parts are in the order of the texts."""

    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        return MARK.join(part.span.text for part in self.parts)


def identity(nearest: Nearest, language: str) -> dict[str, Any]:
    """Return everything that affects what is read, besides the sentences and their texts."""
    values: dict[str, Any] = {
        "letters": nearest.letters,
        "version": VERSION,
        "finder_version": FINDER_VERSION,
        "language": language,
    }
    if nearest.closer is not None:
        values["closer"] = nearest.closer
    if nearest.units:
        values["units"] = list(nearest.units)
    return values


def read_nearest(
    texts: Sequence[str], statement: str, cut: Cut, letters: int = LETTERS, language: str = ENGLISH
) -> NearestText:
    """Return what is read for a statement: at most this many letters, without marks.

    For several statements about the same texts, make one `Finder` and call `select_nearest`.
    """
    return select_nearest(Finder(texts, cut, language), texts, statement, letters)


def select_nearest(
    finder: Finder,
    texts: Sequence[str],
    statement: str,
    letters: int,
) -> NearestText:
    """Return what is read for a statement, out of the texts of the finder."""
    sentences = finder.sentences
    chosen: list[int] = []
    room = letters
    for number in _in_order_of_reading(finder, statement):
        length = len(sentences[number].span.text)
        if number in chosen or (chosen and length > room):
            continue
        chosen.append(number)
        room -= length + 1
        if room <= 0:
            break
    parts: list[Part] = []
    last = -1
    for number in sorted(chosen):
        text = sentences[number].text
        span = sentences[number].span
        start = span.start
        end = start + end_of_part(span.text, 0, letters)
        if parts and parts[-1].text == text and last == number - 1:
            start = parts.pop().span.start
        parts.append(Part(text, Span(start=start, end=end, text=texts[text][start:end])))
        last = number
    return NearestText(tuple(parts))


def _in_order_of_reading(finder: Finder, statement: str) -> Iterator[int]:
    """Yield the numbers of sentences, the most important first, some of them repeatedly."""
    weights = finder.weights(statement)
    scores = finder.scores(weights)
    if not scores:
        return
    ranked = _rank(finder, scores, weights)
    first = list(islice(ranked, _WITH_NEIGHBOURS))
    yield from first
    for number in first:
        for neighbour in (number - 1, number + 1):
            if finder.is_same_text(number, neighbour):
                yield neighbour
    yield from ranked
    nearest = first[0]
    for number in sorted(scores, key=lambda number: abs(number - nearest)):
        if finder.is_same_text(number, nearest):
            yield number


def _rank(
    finder: Finder, scores: Mapping[int, float], weights: Mapping[str, float]
) -> Iterator[int]:
    """Yield the sentences with a common word, the nearest first; without any, the first one."""
    by_score = sorted(scores, key=lambda number: (-scores[number], number))
    if not scores[by_score[0]]:
        yield by_score[0]
        return
    by_score = [number for number in by_score if scores[number]]
    left = dict(weights)
    waiting = {number: finder.covered_words(number, left) for number in by_score[:_RANKED]}
    while waiting:
        total = add_weights(left)
        left_scores = {n: finder.score_of(n, waiting[n], left, total) for n in waiting}
        nearest = min(waiting, key=lambda number: (-left_scores[number], number))
        yield nearest
        del waiting[nearest]
        for word in finder.sentences[nearest].words & left.keys():
            left[word] *= _SEEN
    yield from by_score[_RANKED:]


class Finders:
    """Make a finder for each tuple of texts once, and keep the last ones."""

    def __init__(self, sentences: Cut, language: str) -> None:
        self._cut = judged_sentences(sentences)
        self._language = language
        self._finders: OrderedDict[tuple[str, ...], Finder] = OrderedDict()
        self._letters = 0

        def select(texts: tuple[str, ...], statement: str, letters: int) -> NearestText:
            return select_nearest(self.of(texts), texts, statement, letters)

        self._select = lru_cache(maxsize=_READ_KEPT)(select)

    def of(self, texts: tuple[str, ...]) -> Finder:
        if texts not in self._finders:
            self._finders[texts] = Finder(texts, self._cut, self._language)
            self._letters += sum(map(len, texts))
        self._finders.move_to_end(texts)
        while self._letters > _LETTERS_KEPT and len(self._finders) > 1:
            oldest, _ = self._finders.popitem(last=False)
            self._letters -= sum(map(len, oldest))
        return self._finders[texts]

    def read(self, texts: tuple[str, ...], statement: str, letters: int) -> NearestText:
        """Return what is read for a statement about these texts: to ask, and then as evidence."""
        return self._select(texts, statement, letters)


@lru_cache(maxsize=2)
def shared_finders(sentences: Cut, language: str) -> Finders:
    """Return the finders of a run, for its questions and its evidence."""
    return Finders(sentences, language)


def readings(
    task: Task, profile: PromptProfile, finders: Finders, fits: Callable[[Task], bool]
) -> list[Task]:
    """Return the task as a judge with this profile reads it: whole, or what is near.

    A second task shows fewer letters, where the profile has `closer` and this makes a difference.
    They can have a sentence that was not in the first, where a longer one took its room.
    """
    letters = profile.letters(task)
    if letters is None:
        return [task]
    read = [show_nearest(task, finders, letters, fits)]
    closer = profile.closer_letters(task)
    if closer is not None:
        shown = show_nearest(task, finders, closer, fits)
        if shown != read[0]:
            read.append(shown)
    return read


def show_nearest(task: Task, finders: Finders, letters: int, fits: Callable[[Task], bool]) -> Task:
    """Return the task with the nearest sentences only, so many letters and so that it fits.

    A question of the user's own is returned as it is.
    """
    while True:
        shown = _show(task, finders, letters)
        letters = int(_FEWER * letters)
        if letters < _FEWEST_LETTERS or fits(shown):
            return shown


def _show(task: Task, finders: Finders, letters: int) -> Task:
    if isinstance(task, CustomQuestion | Refusal):
        return task
    asked = task.unit.text
    if task.unit.kind == "chunk" and isinstance(task, Relevance | Usefulness):
        asked = task.user_input or ""
        if isinstance(task, Usefulness):
            asked = task.reference
        text = finders.read((task.unit.text,), asked, letters).text
        return task.model_copy(update={"unit": task.unit.model_copy(update={"shown": text})})
    if isinstance(task, Attribution | Relevance | Sufficiency) and task.contexts:
        text = finders.read(task.contexts, asked, letters).text
        return task.model_copy(update={"contexts": (text,)})
    return task
