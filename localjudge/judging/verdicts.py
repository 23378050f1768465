"""Decide verdicts from answers, by the rule of a run."""

from collections.abc import Mapping, Sequence

from localjudge import types
from localjudge.judging.questions import TaskRef, WordedTask
from localjudge.types import Answer, NoAnswer, Verdict, VerdictRule


def decide_verdict(
    answers: Sequence[tuple[Answer | NoAnswer, int | None]], rule: VerdictRule
) -> Verdict | NoAnswer:
    """Return the verdict from the answers about a unit's windows.

    The unit is supported if any window supports it.
    """
    valid: list[tuple[Answer, int | None]] = []
    for answer, window in answers:
        if isinstance(answer, NoAnswer):
            return answer
        if answer.valid_mass < rule.min_valid_mass:
            mass = f"{answer.valid_mass:.2g} of its probability"
            limit = f"less than {rule.min_valid_mass:g} (min_valid_mass)"
            error = f"the model did not answer: it gave valid answers {mass}, {limit}"
            return NoAnswer(error=error, valid_mass=answer.valid_mass)
        valid.append((answer, window))
    best, window = max(valid, key=lambda pair: pair[0].p_yes)
    return Verdict(
        label=decide_label(best.p_yes, rule),
        p_yes=best.p_yes,
        valid_mass=best.valid_mass,
        reason=best.reason,
        window=window,
    )


def decide_label(p_yes: float, rule: VerdictRule) -> types.Label:
    if p_yes >= rule.threshold:
        return 1
    return 0


def decide_verdicts(
    tasks: Sequence[TaskRef],
    worded: Sequence[WordedTask],
    answers: Mapping[str, Answer | NoAnswer],
    rule: VerdictRule,
) -> list[Verdict | NoAnswer]:
    """Return the verdict of each task from the answers by key."""
    verdicts: list[Verdict | NoAnswer] = []
    for task, questions in zip(tasks, worded, strict=True):
        if isinstance(questions, tuple):
            parts = [(answers[keyed.key], window) for keyed, window in questions]
            verdicts.append(decide_verdict(parts, rule.for_metric(task.metric)))
        else:
            verdicts.append(questions)
    return verdicts
