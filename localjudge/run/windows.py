"""Long inputs: what does not fit the judge's context is judged in windows, never cut silently.

    chunks      A  B  C  D  E             statement s
    windows    [A  B] [C] [D  E]          s is supported if any window supports it

Windows hold whole chunks, in order, as many as fit. A chunk that does not fit alone is cut into runs of whole
sentences. A sentence that does not fit alone is left to the engine, which answers with the reason why not. The same
holds for a chunk that is itself the unit: it is relevant if any run of its sentences is.

Windows depend on the task and the judge alone, never on other samples. The room kept for the unit is rounded up, so
that statements of about one length share their windows, and with them the evaluation of the contexts.
"""

from collections.abc import Callable, Sequence

from localjudge.types import Attribution, Span, Task

Cost = Callable[[Task], int]
"""Tokens that a task occupies at its longest."""
Sentences = Callable[[str], Sequence[Span]]

_ROUNDING_TOKENS = 128


def windows(task: Task, *, cost: Cost, capacity: int, sentences: Sentences) -> tuple[Task, ...]:
    """The task itself if it fits the capacity (in tokens), otherwise one task for each window, in order."""
    if cost(task) <= capacity:
        return (task,)
    if isinstance(task, Attribution):
        return _windows_of_contexts(task, cost, capacity, sentences)
    if task.unit.kind == "chunk":
        return _windows_of_unit(task, cost, capacity, sentences)
    return (task,)


def _windows_of_contexts(task: Attribution, cost: Cost, capacity: int, sentences: Sentences) -> tuple[Task, ...]:
    def with_contexts(*contexts: str) -> Attribution:
        return task.model_copy(update={"contexts": contexts})

    alone = cost(with_contexts())
    room = capacity - _rounded_up(alone)

    def tokens(context: str) -> int:
        return cost(with_contexts(context)) - alone

    parts = [
        part
        for context in task.contexts
        if context.strip()
        for part in ([context] if tokens(context) <= room else _runs(context, tokens, room, sentences))
    ]
    return tuple(with_contexts(*group) for group in _packed(parts, tokens, room))


def _windows_of_unit(task: Task, cost: Cost, capacity: int, sentences: Sentences) -> tuple[Task, ...]:
    def with_text(text: str) -> Task:
        span = task.unit.span.model_copy(update={"text": text})
        return task.model_copy(update={"unit": task.unit.model_copy(update={"span": span})})

    def tokens(text: str) -> int:
        return cost(with_text(text))

    return tuple(with_text(run) for run in _runs(task.unit.span.text, tokens, capacity, sentences))


def _runs(text: str, tokens: Callable[[str], int], room: int, sentences: Sentences) -> list[str]:
    """Verbatim runs of whole sentences of the text, each as long as fits."""
    runs: list[Span] = []
    for span in sentences(text):
        if runs:
            longer = text[runs[-1].start : span.end]
            if tokens(longer) <= room:
                runs[-1] = Span(start=runs[-1].start, end=span.end, text=longer)
                continue
        runs.append(span)
    return [run.text for run in runs]


def _packed(parts: Sequence[str], tokens: Callable[[str], int], room: int) -> list[list[str]]:
    """Neighbouring parts together, as many as fit."""
    groups: list[list[str]] = []
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
