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
    windows    [1 2 3][3 4 5 6][6 7 8]          sentence 3 with its successor, 6 with its predecessor
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import NamedTuple

from localjudge.types import Attribution, CustomQuestion, Refusal, Relevance, Span, Sufficiency, Task, Usefulness

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

    def __init__(self, *, cost: Cost, capacity: int, sentences: Sentences, overlap: int = 0) -> None:
        self._cost = cost
        self._capacity = capacity
        self._sentences = sentences
        self._overlap = overlap
        self._latest_sentences: tuple[object, list[_Part], list[int]] = (None, [], [])
        """The latest contexts, with their sentences and the tokens of each."""
        self._latest: tuple[object, dict[int, _Cut]] = (None, {})
        """The latest contexts, with their windows by room."""

    def of(self, task: Task) -> tuple[Window, ...]:
        """Return the task if it fits, otherwise its windows in order."""
        if not self._is_far_too_long(task) and self._cost(task) <= self._capacity:
            return (Window(task, None),)
        if self._overlap and not isinstance(task, CustomQuestion | Refusal):
            if task.unit.kind == "chunk":
                return self._sliding_over_unit(task)
            if isinstance(task, Attribution | Sufficiency):
                return self._sliding_over_contexts(task)
        if task.unit.kind == "chunk" and not isinstance(task, CustomQuestion):
            return tuple(Window(part, number) for number, part in enumerate(self._runs_of_unit(task)))
        if isinstance(task, Attribution | Sufficiency):
            groups = self._cut_for(task).groups
            return tuple(Window(_with_contexts(task, group), number) for number, group in enumerate(groups))
        return (self._window_of_unit(task) if isinstance(task, Relevance) else Window(task, None),)

    def _sliding_over_contexts(self, task: Attribution | Sufficiency) -> tuple[Window, ...]:
        fixed = self._cost(_with_contexts(task, ()))
        parts, sizes = self._sentences_of(task, fixed)

        def shown(first: int, last: int) -> _TaskWithContexts:
            return _with_contexts(task, _joined(parts[first : last + 1], task.contexts))

        runs = sliding_runs(
            sizes, self._capacity - fixed, self._overlap, lambda first, last: self._cost(shown(first, last)) - fixed
        )
        return tuple(Window(shown(first, last), number) for number, (first, last) in enumerate(runs))

    def _sentences_of(self, task: Attribution | Sufficiency, fixed: int) -> tuple[list["_Part"], list[int]]:
        shared, parts, sizes = self._latest_sentences
        if shared != _shared(task):
            parts = []
            for number, text in enumerate(task.contexts):
                parts += [_Part(number, span.start, span.text) for span in self._sentences(text)]
            sizes = [self._cost(_with_contexts(task, (part,))) - fixed for part in parts]
            self._latest_sentences = (_shared(task), parts, sizes)
        return parts, sizes

    def _sliding_over_unit(self, task: Task) -> tuple[Window, ...]:
        text = task.unit.text
        spans = self._sentences(text)
        fixed = self._cost(_with_text(task, ""))

        def shown(first: int, last: int) -> Task:
            return _with_text(task, text[spans[first].start : spans[last].end])

        sizes = [self._cost(_with_text(task, span.text)) - fixed for span in spans]
        runs = sliding_runs(
            sizes, self._capacity - fixed, self._overlap, lambda first, last: self._cost(shown(first, last)) - fixed
        )
        return tuple(Window(shown(first, last), number) for number, (first, last) in enumerate(runs))

    def _is_far_too_long(self, task: Task) -> bool:
        if self._overlap:
            return False
        if isinstance(task, Usefulness | Refusal | CustomQuestion) or self._latest[0] != _shared(task):
            return False
        fixed = self._cost(_with_contexts(task, ()))
        cut = self._latest[1].get(self._room(fixed))
        return cut is not None and fixed + cut.tokens > self._capacity + _ROUNDING_TOKENS

    def _cut_for(self, task: _TaskWithContexts) -> "_Cut":
        shared, fixed = _shared(task), self._cost(_with_contexts(task, ()))
        if self._latest[0] != shared:
            self._latest = (shared, {})
        cuts, room = self._latest[1], self._room(fixed)
        if room not in cuts:
            cuts[room] = self._cut(task, fixed, room)
        return cuts[room]

    def _room(self, fixed: int) -> int:
        return self._capacity - -(-fixed // _ROUNDING_TOKENS) * _ROUNDING_TOKENS

    def _cut(self, task: _TaskWithContexts, fixed: int, room: int) -> "_Cut":
        @cache
        def tokens(part: _Part) -> int:
            return self._cost(_with_contexts(task, (part,))) - fixed

        def fitting(context: _Part) -> list[_Part]:
            if tokens(context) <= room:
                return [context]
            runs = _runs(context.text, lambda text: tokens(context._replace(text=text)), room, self._sentences)
            return [_Part(context.context, run.start, run.text) for run in runs]

        whole = (_Part(number, 0, text) for number, text in enumerate(task.contexts) if text.strip())
        groups: list[list[_Part]] = []
        used = total = 0
        for part in (part for context in whole for part in fitting(context)):
            if not groups or used + tokens(part) > room:
                groups.append([])
                used = 0
            groups[-1].append(part)
            used += tokens(part)
            total += tokens(part)
        return _Cut(groups, total)

    def _window_of_unit(self, task: Relevance) -> Window:
        """Return the window where the sentence begins, or the whole task for the engine to refuse."""
        unit, groups = task.unit, self._cut_for(task).groups
        context = 0 if unit.source == "response" else unit.source_index  # a response is shown without other contexts
        start = unit.span.start if task.start is None else task.start
        for number, group in enumerate(groups):
            if any(part.context == context and 0 <= start - part.start < len(part.text) for part in group):
                window = _with_contexts(task, group)
                return Window(window, number) if self._cost(window) <= self._capacity else Window(task, None)
        return Window(task, None)

    def _runs_of_unit(self, task: Task) -> list[Task]:
        text = task.unit.text
        runs = _runs(text, lambda run: self._cost(_with_text(task, run)), self._capacity, self._sentences)
        return [_with_text(task, run.text) for run in runs]


def sliding_runs(
    sizes: Sequence[int], room: int, overlap: int, exact_size: Callable[[int, int], int]
) -> list[tuple[int, int]]:
    """Return the first and last index of each run of sentences that fits the room, or of a longer single sentence.

    `sizes` are the tokens of each sentence, `exact_size(first, last)` those of a run. A run begins
    with up to `overlap` sentences of the previous one, fewer if the next sentence would not fit
    beside them.
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


def _joined(parts: Sequence["_Part"], contexts: Sequence[str]) -> list["_Part"]:
    """Join consecutive sentences of each context, with the text between them."""
    joined: list[_Part] = []
    for part in parts:
        if joined and joined[-1].context == part.context:
            start = joined[-1].start
            joined[-1] = _Part(part.context, start, contexts[part.context][start : part.start + len(part.text)])
        else:
            joined.append(part)
    return joined


def _with_text(task: Task, text: str) -> Task:
    span = task.unit.span.model_copy(update={"text": text})
    return task.model_copy(update={"unit": task.unit.model_copy(update={"span": span, "shown": None})})


class _Part(NamedTuple):
    """A context or a run of its sentences."""

    context: int
    start: int
    text: str


class _Cut(NamedTuple):
    """Windows, with the tokens of all their parts."""

    groups: list[list[_Part]]
    tokens: int


def _shared(task: _TaskWithContexts) -> object:
    return type(task), task.contexts, task.user_input


def _with_contexts(task: _TaskWithContexts, parts: Sequence[_Part]) -> _TaskWithContexts:
    return task.model_copy(update={"contexts": tuple(part.text for part in parts)})


def _runs(text: str, tokens: Callable[[str], int], room: int, sentences: Sentences) -> list[Span]:
    """Split the text into runs of sentences that fit, or single sentences that do not."""

    def run(first: int, last: int) -> Span:
        start, end = spans[first].start, spans[last].end
        return Span(start=start, end=end, text=text[start:end])

    def size_from(first: int, last: int) -> int:
        return tokens(run(first, last).text)

    spans = sentences(text)
    runs: list[Span] = []
    first = 0
    while first < len(spans):
        longer = range(first + 1, min(len(spans), first + max(room, 1)))  # a sentence is a token or more
        last = first + bisect_right(longer, room, key=partial(size_from, first))
        runs.append(run(first, last))
        first = last + 1
    return runs
