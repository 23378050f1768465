"""From questions to verdicts: the one loop over an engine, and the one rule that makes answers a verdict.

    p_yes       0.93   0.12          windows of one unit: it holds if any of them supports it, so the largest decides
    threshold   0.5                  -> 1, by window 0
    legal mass  0.99   0.0001        -> no verdict: of the second window, the model has not answered

The legal mass is the probability that the model gave to legal answers before all others were ruled out. What little a
model leaves there is noise, and the grammar would scale it up to a verdict like any other.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from localjudge.engine.protocol import Engine
from localjudge.progress import Progress
from localjudge.run.wording import AskedTask, Worded
from localjudge.types import Answer, NoAnswer, Verdict, VerdictRequest, VerdictRule

Answers = Mapping[str, Answer | NoAnswer]
"""Answers by the keys of their questions."""
OnAnswer = Callable[[str, Answer | NoAnswer], object]


def ask(
    engine: Engine, requests: Mapping[str, VerdictRequest], progress: Progress, *, on_answer: OnAnswer | None = None
) -> dict[str, Answer | NoAnswer]:
    """Ask an engine for the answer to each request, known by its key; `on_answer` gets each the moment it is there.

    How many are going to be asked is told to the progress by the caller, who knows the whole work.
    """
    keys = list(requests)
    answers: dict[str, Answer | NoAnswer] = {}
    for index, answer in engine.answers(list(requests.values())):
        answers[keys[index]] = answer
        if on_answer is not None:
            on_answer(keys[index], answer)
        progress.advance()
    return answers


def answers_in_order(engine: Engine, requests: Sequence[VerdictRequest], progress: Progress) -> list[Answer | NoAnswer]:
    """One answer for each request, in their order."""
    answers = ask(engine, {str(place): request for place, request in enumerate(requests)}, progress)
    return [answers[str(place)] for place in range(len(requests))]


class WindowAnswer(NamedTuple):
    """The answer about one window of a unit; `window` is None where it was asked about whole."""

    answer: Answer | NoAnswer
    window: int | None


def verdict_of(answers: Sequence[WindowAnswer], rule: VerdictRule) -> Verdict | NoAnswer:
    """The verdict on a unit from the answers about its windows, at least one; the first reason why there is none."""
    given: list[tuple[Answer, int | None]] = []
    for answer, window in answers:
        if isinstance(answer, NoAnswer):
            return answer
        if answer.legal_mass < rule.min_legal_mass:
            return _not_answered(answer, rule)
        given.append((answer, window))
    best, window = max(given, key=lambda one: one[0].p_yes)
    return Verdict(
        label=1 if best.p_yes >= rule.threshold else 0,
        p_yes=best.p_yes,
        legal_mass=best.legal_mass,
        reason=best.reason,
        window=window,
    )


def verdicts_of(
    tasks: Sequence[AskedTask], worded: Sequence[Worded], answers: Answers, rule: VerdictRule
) -> list[Verdict | NoAnswer]:
    """One verdict for each task, in their order, as it was worded; every question has its answer."""
    return [
        verdict_of([WindowAnswer(answers[question.key], question.window) for question in one], rule.of(task.metric))
        if isinstance(one, tuple)
        else one
        for task, one in zip(tasks, worded, strict=True)
    ]


def _not_answered(answer: Answer, rule: VerdictRule) -> NoAnswer:
    return NoAnswer(
        error=f"the model did not answer: it gave legal answers {answer.legal_mass:.2g} of its probability, less than "
        f"{rule.min_legal_mass:g} (--min-legal-mass)",
        legal_mass=answer.legal_mass,
    )
