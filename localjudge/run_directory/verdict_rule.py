"""From answers to a verdict: the label of a probability, and one probability of several judges.

    answers of a judge about the windows of a unit ──> its verdict ──┐
    ...                                                              ├──combination──> the jury's
    answers of another judge                       ──> its verdict ──┘

The verdict of a single judge is the verdict. The probability of several judges is

    p = sigmoid(b + sum of w_j x logit(p_j)), with each p_j clipped at 1e-4

Weights come from a calibration, an earlier run or a registered jury. Without them, w_j is
1 / (n x scale_j): the mean of the log odds of n judges, each divided by the judge's scale. The
scale is the standard deviation of a judge's log odds on the bundled labelled items, so that no
judge counts more because its probabilities are more extreme. This mean is moderate: its
probabilities are nearer to one half than the labels are.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from localjudge.types import (
    ONE_HALF,
    Answer,
    Combination,
    Label,
    NoAnswer,
    ScaleKind,
    Verdict,
    VerdictRule,
    sigmoid,
)

CLIPPED_AT = 1e-4
"""Smallest distance of a probability from 0 and 1."""
SMALLEST_SCALE = 0.1
"""Of a judge that gives almost the same probability to every item."""
NOT_YET = NoAnswer(error="a judge has not answered yet")
"""Verdict of a unit with a missing answer."""
KINDS: tuple[ScaleKind, ...] = get_args(ScaleKind)


def log_odds(probability: float) -> float:
    """Return the log odds of a probability, clipped at 1e-4."""
    clipped = min(max(probability, CLIPPED_AT), 1 - CLIPPED_AT)
    return math.log(clipped) - math.log1p(-clipped)


def combine(probabilities: Mapping[str, float], combination: Combination) -> float:
    """Return the probability of the jury from the probabilities of its judges, by name.

    Adds in the order of the names.
    """
    total = combination.bias
    for name in sorted(probabilities):
        total += combination.weights[name] * log_odds(probabilities[name])
    return sigmoid(total)


def combine_by_scales(scales: Mapping[str, float]) -> Combination:
    """Return the combination that gives each judge the same influence. `scales` are by judge."""
    return Combination({name: 1 / (len(scales) * scales[name]) for name in sorted(scales)})


def compute_scale(probabilities: Sequence[float]) -> float:
    """Return the standard deviation of the log odds, with three significant digits."""
    values = [log_odds(probability) for probability in probabilities]
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / len(values)
    return max(SMALLEST_SCALE, float(f"{math.sqrt(variance):.3g}"))


def is_divided(probabilities: Mapping[str, float]) -> bool:
    """Return whether some judges say 1 and others 0, each at one half."""
    return len({probability >= ONE_HALF for probability in probabilities.values()}) > 1


def decide_verdict(
    answers: Sequence[tuple[Answer | NoAnswer, int | None]], rule: VerdictRule
) -> Verdict | NoAnswer:
    """Return the verdict from the answers about a unit's windows.

    The unit is supported if any window supports it. A reading beside fewer letters, after the one
    of the whole task, is no window.
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
    if any(number is None for _, number in valid):
        window = None
    return Verdict(
        label=decide_label(best.p_yes, rule),
        p_yes=best.p_yes,
        valid_mass=best.valid_mass,
        reason=best.reason,
        window=window,
    )


def decide_label(p_yes: float, rule: VerdictRule) -> Label:
    if p_yes >= rule.threshold:
        return 1
    return 0


def jury_verdict(
    parts: Mapping[str, Verdict | NoAnswer], rule: VerdictRule, metric: str
) -> Verdict | NoAnswer:
    """Return the jury's verdict from its judges' verdicts by name.

    There is no answer if one of them has none.
    """
    verdicts: dict[str, Verdict] = {}
    probabilities: dict[str, float] = {}
    for name in sorted(parts):
        part = parts[name]
        if part is NOT_YET:
            return NOT_YET
        if isinstance(part, NoAnswer):
            return NoAnswer(error=f"{name}: {part.error}", valid_mass=part.valid_mass)
        if part.p_yes is None:
            return part
        verdicts[name] = part
        probabilities[name] = part.p_yes
    masses: list[float] = []
    reasons: list[str] = []
    for name, verdict in verdicts.items():
        if verdict.valid_mass is not None:
            masses.append(verdict.valid_mass)
        if verdict.reason:
            reasons.append(f"{name}: {verdict.reason}")
    p_yes = combine(probabilities, rule.combinations[metric])
    return Verdict(
        label=decide_label(p_yes, rule.for_metric(metric)),
        p_yes=p_yes,
        valid_mass=min(masses),
        reason="; ".join(reasons) or None,
        window=_common_window(verdicts.values()),
        judges=probabilities,
    )


def _common_window(verdicts: Iterable[Verdict]) -> int | None:
    """Return the window that decided for all judges with windows, or None if they differ."""
    windows = {verdict.window for verdict in verdicts if verdict.window is not None}
    if len(windows) != 1:
        return None
    return windows.pop()
