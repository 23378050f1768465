"""Split long inputs into windows that fit the judge's context. Nothing is truncated.

    chunks      A  B  C  D  E             statement s
    windows    [A  B] [C] [D  E]          s is supported if any window supports it

A window contains whole chunks, or consecutive sentences of a longer chunk. The engine refuses a
longer sentence. A judged chunk is relevant if any part is. Support spread over two windows is
missed. Custom questions are not split. The space for the unit is rounded up, so that statements of
similar length share windows.

With an `overlap`, a window is the longest run of sentences that fits, over all chunks, and repeats
that many sentences of the previous window:

    sentences   1 2 3 4 5 6 7 8                 overlap 1
    windows    [1 2 3][3 4 5 6][6 7 8]          sentence 3 is judged with 2 and with 4
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import accumulate

from localjudge.text.finder import Part
from localjudge.types import (
    Attribution,
    CustomQuestion,
    Relevance,
    Span,
    Sufficiency,
    Task,
)

_TaskWithContexts = Attribution | Relevance | Sufficiency
Cost = Callable[[Task], int]
"""Returns the maximum number of tokens of a task."""
Sentences = Callable[[str], Sequence[Span]]
RunSize = Callable[[int, int], int]
"""Returns the tokens of the sentences from one to another, both included."""
Runs = list[tuple[int, int]]
"""First and last index of the sentences in each window."""
NumberedTask = tuple[Task, int | None]
"""A task with the number of its window, or with None if it shows its whole input."""

_ROUNDING_TOKENS = 128


class Windows:
    """Split tasks to fit a capacity in tokens.

    Without an overlap, contexts are cut once for all tasks that share them.
    """

    def __init__(
        self,
        *,
        cost: Cost,
        capacity: int,
        sentences: Sentences,
        overlap: int = 0,
    ) -> None:
        self._cost = cost
        self._capacity = capacity
        self._sentences = sentences
        self._overlap = overlap
        self._cuts: dict[object, list[list[Part]]] = {}
        """The parts in each window, by contexts and room."""

    def split(self, task: Task) -> list[NumberedTask]:
        """Return the task if it fits, otherwise its windows in order.

        A task that cannot be split is returned whole, and the engine refuses it.
        """
        if self._cost(task) <= self._capacity or isinstance(task, CustomQuestion):
            return [(task, None)]
        if task.unit.kind == "chunk":
            return _number(self._split_unit(task))
        if isinstance(task, Attribution | Sufficiency):
            return _number(self._split_contexts(task))
        if isinstance(task, Relevance):
            return [self._window_with_unit(task)]
        return [(task, None)]

    def _split_contexts(self, task: Attribution | Sufficiency) -> list[Task]:
        """Return tasks about parts of the contexts."""
        if not self._overlap:
            return [_with_parts(task, parts) for parts in self._cut_contexts(task)]
        sentences: list[Part] = []
        for number, text in enumerate(task.contexts):
            for span in self._sentences(text):
                sentences.append(Part(number, span))

        def show(first: int, last: int) -> Task:
            return _with_parts(task, _join(sentences[first : last + 1], task.contexts))

        fixed = self._cost(_with_parts(task, ()))
        sizes = [self._cost(_with_parts(task, [part])) - fixed for part in sentences]
        return [show(first, last) for first, last in self._slide(sizes, fixed, show)]

    def _split_unit(self, task: Task) -> list[Task]:
        """Return tasks about consecutive sentences of the judged text."""
        text = task.unit.text
        spans = self._sentences(text)

        def show(first: int, last: int) -> Task:
            return _with_text(task, text[spans[first].start : spans[last].end])

        if self._overlap:
            fixed = self._cost(_with_text(task, ""))
            sizes = [self._cost(_with_text(task, span.text)) - fixed for span in spans]
            runs = self._slide(sizes, fixed, show)
        else:
            runs = longest_runs(
                len(spans),
                self._capacity,
                lambda first, last: self._cost(show(first, last)),
            )
        return [show(first, last) for first, last in runs]

    def _slide(self, sizes: Sequence[int], fixed: int, show: Callable[[int, int], Task]) -> Runs:
        """Return overlapping runs of sentences with these sizes.

        `show` returns the task with some of the sentences, `fixed` are its tokens without any.
        """

        def exact_size(first: int, last: int) -> int:
            return self._cost(show(first, last)) - fixed

        return sliding_runs(sizes, self._capacity - fixed, self._overlap, exact_size)

    def _window_with_unit(self, task: Relevance) -> NumberedTask:
        """Return the window where the sentence begins, or the whole task, which is refused."""
        unit = task.unit
        context = unit.source_index
        if unit.source == "response":  # it is shown without other contexts
            context = 0
        start = task.start
        if start is None:
            start = unit.span.start
        for number, parts in enumerate(self._cut_contexts(task)):
            if not any(part.contains(context, start) for part in parts):
                continue
            window = _with_parts(task, parts)
            if self._cost(window) > self._capacity:
                break
            return window, number
        return task, None

    def _cut_contexts(self, task: _TaskWithContexts) -> list[list[Part]]:
        """Return the parts of the contexts in each window.

        The tokens that are left for them are rounded, so that tasks with units of similar length
        share windows. The parts are measured beside an empty unit, which is equal for all tasks.
        """
        fixed = self._cost(_with_parts(task, ()))
        room = self._capacity - math.ceil(fixed / _ROUNDING_TOKENS) * _ROUNDING_TOKENS
        shared = (type(task), task.contexts, task.user_input, room)
        if shared in self._cuts:
            return self._cuts[shared]

        without_unit = _with_text(task, "")
        without_texts = self._cost(without_unit.model_copy(update={"contexts": ()}))

        @cache
        def tokens(text: str) -> int:
            return self._cost(without_unit.model_copy(update={"contexts": (text,)})) - without_texts

        parts: list[Part] = []
        for number, text in enumerate(task.contexts):
            for span in self._fit(text, room, tokens):
                parts.append(Part(number, span))
        self._cuts[shared] = _pack(parts, room, tokens)
        return self._cuts[shared]

    def _fit(self, text: str, room: int, tokens: Callable[[str], int]) -> list[Span]:
        """Return the whole context if it fits the room, otherwise runs of its sentences."""
        if not text.strip():
            return []
        if tokens(text) <= room:
            return [Span.whole(text)]
        spans = self._sentences(text)

        def join(first: int, last: int) -> Span:
            start = spans[first].start
            end = spans[last].end
            return Span(start=start, end=end, text=text[start:end])

        runs = longest_runs(len(spans), room, lambda first, last: tokens(join(first, last).text))
        return [join(first, last) for first, last in runs]


def _number(tasks: Sequence[Task]) -> list[NumberedTask]:
    return [(task, number) for number, task in enumerate(tasks)]


def longest_runs(count: int, room: int, size: RunSize) -> Runs:
    """Return runs of `count` sentences, each as long as the room, or a single longer sentence."""
    runs: Runs = []
    first = 0
    while first < count:
        # A sentence is a token or more.
        longer = range(first + 1, min(count, first + max(room, 1)))
        last = first + bisect_right(longer, room, key=partial(size, first))
        runs.append((first, last))
        first = last + 1
    return runs


def sliding_runs(sizes: Sequence[int], room: int, overlap: int, exact_size: RunSize) -> Runs:
    """Return runs of sentences, each as long as the room, or a single longer sentence.

    `sizes` are the tokens of each sentence. A run begins with up to `overlap` sentences of the
    previous one, fewer if the next sentence would not fit beside them.
    """
    ends = [0, *accumulate(sizes)]

    def fits(first: int, last: int) -> bool:
        return ends[last + 1] - ends[first] <= room and exact_size(first, last) <= room

    runs: Runs = []
    first = 0
    while first < len(sizes):
        last = max(first, bisect_right(ends, ends[first] + room) - 2)
        while last > first and not fits(first, last):
            last -= 1
        runs.append((first, last))
        if last == len(sizes) - 1:
            break
        first = max(first + 1, last + 1 - overlap)
        while first <= last and not fits(first, last + 1):
            first += 1
    return runs


def _pack(parts: Sequence[Part], room: int, tokens: Callable[[str], int]) -> list[list[Part]]:
    """Return the parts in windows: as many in each as fit the room, in order."""
    windows: list[list[Part]] = []
    used = 0
    for part in parts:
        if not windows or used + tokens(part.span.text) > room:
            windows.append([])
            used = 0
        windows[-1].append(part)
        used += tokens(part.span.text)
    return windows


def _join(sentences: Sequence[Part], contexts: Sequence[str]) -> list[Part]:
    """Join consecutive sentences of each context, with the text between them."""
    joined: list[Part] = []
    for part in sentences:
        if joined and joined[-1].text == part.text:
            start = joined[-1].span.start
            end = part.span.end
            span = Span(start=start, end=end, text=contexts[part.text][start:end])
            joined[-1] = Part(part.text, span)
        else:
            joined.append(part)
    return joined


def _with_text(task: Task, text: str) -> Task:
    span = task.unit.span.model_copy(update={"text": text})
    unit = task.unit.model_copy(update={"span": span, "shown": None})
    return task.model_copy(update={"unit": unit})


def _with_parts(task: _TaskWithContexts, parts: Sequence[Part]) -> _TaskWithContexts:
    return task.model_copy(update={"contexts": tuple(part.span.text for part in parts)})
