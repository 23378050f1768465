"""Arithmetic of a jury: one probability from the probabilities of several judges.

    p = sigmoid(b + sum of w_j x logit(p_j)), with each p_j clipped at 1e-4

Weights come from a calibration, an earlier run or a registered jury. Without them, w_j is
1 / (n x scale_j): the mean of the log odds of n judges, each divided by the judge's scale. The
scale is the standard deviation of a judge's log odds on the bundled labelled items, so that no
judge counts more because its probabilities are more extreme. This mean is moderate: its
probabilities are nearer to one half than the labels are.
"""

import math
from collections.abc import Mapping, Sequence
from typing import get_args

from localjudge.types import ONE_HALF, Combination, JudgeCard, ScaleKind, sigmoid

CLIPPED_AT = 1e-4
"""Smallest distance of a probability from 0 and 1."""
SMALLEST_SCALE = 0.1
"""Of a judge that gives almost the same probability to every item."""
NO_DECISIONS = "not for decisions"
"""Ends the strictest caution about a judge."""
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


def jury_card(cards: Sequence[JudgeCard], name: str | None, caution: str | None) -> JudgeCard:
    """Return the card of a jury from the cards of its judges, sorted by name.

    `name` and `caution` belong to a registered jury; by default, the names joined, and the
    strictest caution.
    """
    sizes = [card.size for card in cards if card.size is not None]
    size = None
    if len(sizes) == len(cards):
        size = sum(sizes)
    if not name:
        name = " + ".join(card.name for card in cards)
    if not caution:
        caution = strictest_caution([card.caution for card in cards])
    return JudgeCard(name=name, size=size, caution=caution)


def strictest_caution(cautions: Sequence[str | None]) -> str | None:
    """Return the first caution against decisions, otherwise all cautions."""
    distinct = list(dict.fromkeys(filter(None, cautions)))
    for caution in distinct:
        if NO_DECISIONS in caution:
            return caution
    return "; ".join(distinct) or None
