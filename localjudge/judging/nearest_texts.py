"""Show a reader the sentences nearest to what it judges, in place of all texts.

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
from collections.abc import Callable
from functools import lru_cache

from localjudge.evidence.finder import Finder
from localjudge.evidence.nearest import NearestText, select_nearest
from localjudge.metrics import Sentences
from localjudge.text.segmenter import judged_sentences
from localjudge.types import (
    Attribution,
    CustomQuestion,
    Refusal,
    Relevance,
    Sufficiency,
    Task,
    Usefulness,
)

_LETTERS_KEPT = 2_000_000
_READ_KEPT = 4096
_FEWER = 0.75
_FEWEST_LETTERS = 20


class Finders:
    """Make a finder for each tuple of texts once, and keep the last ones."""

    def __init__(self, sentences: Sentences, language: str) -> None:
        self._cut = judged_sentences(sentences)
        self._language = language
        self._finders: OrderedDict[tuple[str, ...], Finder] = OrderedDict()
        self._letters = 0
        self._select = lru_cache(maxsize=_READ_KEPT)(self._select_nearest)

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

    def _select_nearest(self, texts: tuple[str, ...], statement: str, letters: int) -> NearestText:
        return select_nearest(self.of(texts), texts, statement, letters)


@lru_cache(maxsize=2)
def shared_finders(sentences: Sentences, language: str) -> Finders:
    """Return the finders of a run, for its questions and its evidence."""
    return Finders(sentences, language)


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
