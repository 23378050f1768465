"""Long inputs: what does not fit the judge's context is judged in windows, never cut silently.

    chunks      A  B  C  D  E             statement s
    windows    [A  B] [C] [D  E]          s is supported if any window supports it

Windows hold whole chunks, in order, as many as fit. A chunk that does not fit alone is cut into runs of whole
sentences. A sentence that does not fit alone is left to the engine, which answers with the reason why not. The same
holds for a chunk that is itself the unit: it is relevant if any run of its sentences is. A sentence of the contexts
that is judged beside them is shown the one window that it stands in.

Windows depend on the task and the judge alone, never on other samples. The room kept for the unit is rounded up, so
that statements of about one length share their windows, and with them the evaluation of the contexts.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from localjudge.types import Attribution, Relevance, Span, Task, Unit

Cost = Callable[[Task], int]
"""Tokens that a task occupies at its longest."""
Sentences = Callable[[str], Sequence[Span]]

_ROUNDING_TOKENS = 128


def windows(task: Task, *, cost: Cost, capacity: int, sentences: Sentences) -> tuple[Task, ...]:
    """The task itself if it fits the capacity (in tokens), otherwise one task for each window, in order."""
    if cost(task) <= capacity:
        return (task,)
    if task.unit.kind == "chunk":
        return _windows_of_unit(task, cost, capacity, sentences)
    match task:
        case Attribution():
            return tuple(_beside(task, group) for group in _groups(task, cost, capacity, sentences))
        case Relevance():
            return (_beside_its_window(task, cost, capacity, sentences),)
        case _:
            return (task,)


class _Part(NamedTuple):
    """A context, or a run of its sentences: which context, where in it, the text."""

    context: int
    start: int
    text: str

    def holds(self, unit: Unit) -> bool:
        place = unit.span.start - self.start
        return unit.source_index == self.context and 0 <= place < len(self.text)


def _beside(task: Attribution | Relevance, parts: Sequence[_Part]) -> Attribution | Relevance:
    return task.model_copy(update={"contexts": tuple(part.text for part in parts)})


def _groups(task: Attribution | Relevance, cost: Cost, capacity: int, sentences: Sentences) -> list[list[_Part]]:
    """The contexts in windows: in each as many neighbouring parts as fit."""
    alone = cost(_beside(task, ()))
    room = capacity - _rounded_up(alone)

    def tokens(part: _Part) -> int:
        return cost(_beside(task, (part,))) - alone

    def fitting(context: _Part) -> list[_Part]:
        if tokens(context) <= room:
            return [context]
        runs = _runs(context.text, lambda text: tokens(context._replace(text=text)), room, sentences)
        return [_Part(context.context, run.start, run.text) for run in runs]

    whole = (_Part(number, 0, text) for number, text in enumerate(task.contexts) if text.strip())
    return _packed([part for context in whole for part in fitting(context)], tokens, room)


def _beside_its_window(task: Relevance, cost: Cost, capacity: int, sentences: Sentences) -> Task:
    """The task beside the window that its sentence stands in, or beside nothing if that does not fit either."""
    for group in _groups(task, cost, capacity, sentences):
        shown = _beside(task, group)
        if any(part.holds(task.unit) for part in group) and cost(shown) <= capacity:
            return shown
    return _beside(task, ())


def _windows_of_unit(task: Task, cost: Cost, capacity: int, sentences: Sentences) -> tuple[Task, ...]:
    def with_text(text: str) -> Task:
        span = task.unit.span.model_copy(update={"text": text})
        return task.model_copy(update={"unit": task.unit.model_copy(update={"span": span})})

    runs = _runs(task.unit.span.text, lambda text: cost(with_text(text)), capacity, sentences)
    return tuple(with_text(run.text) for run in runs)


def _runs(text: str, tokens: Callable[[str], int], room: int, sentences: Sentences) -> list[Span]:
    """Verbatim runs of whole sentences of the text, each as long as fits."""
    runs: list[Span] = []
    for span in sentences(text):
        if runs:
            longer = text[runs[-1].start : span.end]
            if tokens(longer) <= room:
                runs[-1] = Span(start=runs[-1].start, end=span.end, text=longer)
                continue
        runs.append(span)
    return runs


def _packed(parts: Sequence[_Part], tokens: Callable[[_Part], int], room: int) -> list[list[_Part]]:
    """Neighbouring parts together, as many as fit."""
    groups: list[list[_Part]] = []
    used = 0
    for part in parts:
        needed = tokens(part)
        if not groups or used + needed > room:
            groups.append([])
            used = 0
        groups[-1].append(part)
        used += needed
    return groups


def _rounded_up(tokens: int) -> int:
    return -(-tokens // _ROUNDING_TOKENS) * _ROUNDING_TOKENS
