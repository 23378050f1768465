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
from typing import NamedTuple

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

_TaskWithContexts = Attribution | Relevance | Sufficiency
Cost = Callable[[Task], int]
"""Returns the maximum number of tokens of a task."""
Sentences = Callable[[str], Sequence[Span]]

_ROUNDING_TOKENS = 128


class Window(NamedTuple):
    """A task and the number of its window, or None for the whole input."""

    task: Task
    number: int | None


class Windows:
    """Split tasks to fit a capacity in tokens."""

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
        self._latest_sentences: tuple[object, list[_Part], list[int]] = (None, [], [])
        """The latest contexts, with their sentences and the tokens of each."""
        self._latest: tuple[object, dict[int, _Cut]] = (None, {})
        """The latest contexts, with their windows by room, and the tokens of these."""

    def split(self, task: Task) -> tuple[Window, ...]:
        """Return the task if it fits, otherwise its windows in order."""
        if not self._is_far_too_long(task) and self._cost(task) <= self._capacity:
            return (Window(task, None),)
        if self._overlap:
            return self._slide(task)
        if task.unit.kind == "chunk" and not isinstance(task, CustomQuestion):
            return _number(self._split_unit(task))
        if isinstance(task, Attribution | Sufficiency):
            groups, _ = self._cut_for(task)
            return _number([_with_contexts(task, group) for group in groups])
        if isinstance(task, Relevance):
            return (self._window_with_unit(task),)
        return (Window(task, None),)

    def _slide(self, task: Task) -> tuple[Window, ...]:
        """Return windows that overlap, or the whole task for the engine to refuse."""
        if isinstance(task, CustomQuestion | Refusal):
            return (Window(task, None),)
        if task.unit.kind == "chunk":
            return self._slide_over_unit(task)
        if isinstance(task, Attribution | Sufficiency):
            return self._slide_over_contexts(task)
        if isinstance(task, Relevance):
            return (self._window_with_unit(task),)
        return (Window(task, None),)

    def _slide_over_contexts(self, task: Attribution | Sufficiency) -> tuple[Window, ...]:
        """Return windows of consecutive sentences of the contexts."""
        fixed = self._cost(_with_contexts(task, ()))
        parts, sizes = self._cut_sentences(task, fixed)

        def show(first: int, last: int) -> Task:
            return _with_contexts(task, _join(parts[first : last + 1], task.contexts))

        return self._slide_over(sizes, fixed, show)

    def _cut_sentences(
        self,
        task: Attribution | Sufficiency,
        fixed: int,
    ) -> tuple[list["_Part"], list[int]]:
        """Return the sentences of all contexts, and the tokens of each."""
        shared, parts, sizes = self._latest_sentences
        if shared == _shared(task):
            return parts, sizes
        parts = []
        for number, text in enumerate(task.contexts):
            for span in self._sentences(text):
                parts.append(_Part(number, span.start, span.text))
        sizes = [self._cost(_with_contexts(task, (part,))) - fixed for part in parts]
        self._latest_sentences = (_shared(task), parts, sizes)
        return parts, sizes

    def _slide_over_unit(self, task: Task) -> tuple[Window, ...]:
        """Return windows of consecutive sentences of the judged text."""
        text = task.unit.text
        spans = self._sentences(text)
        fixed = self._cost(_with_text(task, ""))

        def show(first: int, last: int) -> Task:
            return _with_text(task, text[spans[first].start : spans[last].end])

        sizes = [self._cost(_with_text(task, span.text)) - fixed for span in spans]
        return self._slide_over(sizes, fixed, show)

    def _slide_over(
        self,
        sizes: Sequence[int],
        fixed: int,
        show: Callable[[int, int], Task],
    ) -> tuple[Window, ...]:
        """Return windows of runs of sentences with these sizes.

        `show` returns the task with the sentences from one to another, `fixed` are its tokens
        without any sentence.
        """

        def exact_size(first: int, last: int) -> int:
            return self._cost(show(first, last)) - fixed

        runs = sliding_runs(sizes, self._capacity - fixed, self._overlap, exact_size)
        return _number([show(first, last) for first, last in runs])

    def _is_far_too_long(self, task: Task) -> bool:
        if self._overlap:
            return False
        if isinstance(task, Usefulness | Refusal | CustomQuestion):
            return False
        if self._latest[0] != _shared(task):
            return False
        fixed = self._cost(_with_contexts(task, ()))
        cut = self._latest[1].get(self._room(fixed))
        if cut is None:
            return False
        _, tokens = cut
        return fixed + tokens > self._capacity + _ROUNDING_TOKENS

    def _cut_for(self, task: _TaskWithContexts) -> "_Cut":
        """Return the windows of a task's contexts, cut once for tasks with equal room."""
        shared = _shared(task)
        if self._latest[0] != shared:
            self._latest = (shared, {})
        fixed = self._cost(_with_contexts(task, ()))
        cuts = self._latest[1]
        room = self._room(fixed)
        if room not in cuts:
            cuts[room] = self._cut(task, fixed, room)
        return cuts[room]

    def _room(self, fixed: int) -> int:
        """Return the tokens that are left for contexts, with `fixed` tokens rounded up."""
        steps = math.ceil(fixed / _ROUNDING_TOKENS)
        return self._capacity - steps * _ROUNDING_TOKENS

    def _cut(self, task: _TaskWithContexts, fixed: int, room: int) -> "_Cut":
        @cache
        def tokens(part: _Part) -> int:
            return self._cost(_with_contexts(task, (part,))) - fixed

        def split_to_fit(context: _Part) -> list[_Part]:
            if tokens(context) <= room:
                return [context]

            def run_tokens(text: str) -> int:
                return tokens(context._replace(text=text))

            runs = _split_runs(context.text, run_tokens, room, self._sentences)
            return [_Part(context.context, run.start, run.text) for run in runs]

        parts: list[_Part] = []
        for number, text in enumerate(task.contexts):
            if text.strip():
                parts += split_to_fit(_Part(number, 0, text))
        groups: list[list[_Part]] = []
        used = 0
        for part in parts:
            if not groups or used + tokens(part) > room:
                groups.append([])
                used = 0
            groups[-1].append(part)
            used += tokens(part)
        return groups, sum(map(tokens, parts))

    def _window_with_unit(self, task: Relevance) -> Window:
        """Return the window where the sentence begins, or the whole task, which is refused."""
        unit = task.unit
        context = unit.source_index
        if unit.source == "response":  # it is shown without other contexts
            context = 0
        start = task.start
        if start is None:
            start = unit.span.start
        groups, _ = self._cut_for(task)
        for number, group in enumerate(groups):
            if not any(part.contains(context, start) for part in group):
                continue
            window = _with_contexts(task, group)
            if self._cost(window) > self._capacity:
                break
            return Window(window, number)
        return Window(task, None)

    def _split_unit(self, task: Task) -> list[Task]:
        def run_tokens(text: str) -> int:
            return self._cost(_with_text(task, text))

        runs = _split_runs(task.unit.text, run_tokens, self._capacity, self._sentences)
        return [_with_text(task, run.text) for run in runs]


def _number(tasks: Sequence[Task]) -> tuple[Window, ...]:
    return tuple(Window(task, number) for number, task in enumerate(tasks))


def sliding_runs(
    sizes: Sequence[int], room: int, overlap: int, exact_size: Callable[[int, int], int]
) -> list[tuple[int, int]]:
    """Return the first and last index of each run of sentences that fits the room.

    A longer sentence is a separate run.

    `sizes` are the tokens of each sentence, `exact_size(first, last)` the tokens of a run. A run
    begins with up to `overlap` sentences of the previous one, fewer if the next sentence would not
    fit beside them.
    """
    ends = [0, *accumulate(sizes)]

    def fits(first: int, last: int) -> bool:
        return ends[last + 1] - ends[first] <= room and exact_size(first, last) <= room

    runs: list[tuple[int, int]] = []
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


def _join(parts: Sequence["_Part"], contexts: Sequence[str]) -> list["_Part"]:
    """Join consecutive sentences of each context, with the text between them."""
    joined: list[_Part] = []
    for part in parts:
        if joined and joined[-1].context == part.context:
            start = joined[-1].start
            end = part.start + len(part.text)
            joined[-1] = _Part(part.context, start, contexts[part.context][start:end])
        else:
            joined.append(part)
    return joined


def _with_text(task: Task, text: str) -> Task:
    span = task.unit.span.model_copy(update={"text": text})
    unit = task.unit.model_copy(update={"span": span, "shown": None})
    return task.model_copy(update={"unit": unit})


class _Part(NamedTuple):
    """A context or a run of its sentences."""

    context: int
    start: int
    text: str

    def contains(self, context: int | None, offset: int) -> bool:
        return self.context == context and 0 <= offset - self.start < len(self.text)


_Cut = tuple[list[list[_Part]], int]
"""The parts of each window, and the tokens of all parts."""


def _shared(task: _TaskWithContexts) -> object:
    """Return what tasks with equal contexts have in common."""
    return type(task), task.contexts, task.user_input


def _with_contexts(task: _TaskWithContexts, parts: Sequence[_Part]) -> _TaskWithContexts:
    return task.model_copy(update={"contexts": tuple(part.text for part in parts)})


def _split_runs(
    text: str,
    tokens: Callable[[str], int],
    room: int,
    sentences: Sentences,
) -> list[Span]:
    """Split the text into runs of sentences that fit, or single sentences that do not."""

    def run(first: int, last: int) -> Span:
        start = spans[first].start
        end = spans[last].end
        return Span(start=start, end=end, text=text[start:end])

    def size_from(first: int, last: int) -> int:
        return tokens(run(first, last).text)

    spans = sentences(text)
    runs: list[Span] = []
    first = 0
    while first < len(spans):
        # A sentence is a token or more.
        longer = range(first + 1, min(len(spans), first + max(room, 1)))
        last = first + bisect_right(longer, room, key=partial(size_from, first))
        runs.append(run(first, last))
        first = last + 1
    return runs
