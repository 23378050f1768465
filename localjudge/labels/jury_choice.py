"""Weights of a jury from human labels, and the smallest jury not shown to be worse than all judges.

Juries and single judges are compared by the log loss of their held-out probabilities, each
calibrated on the same folds, by a paired interval over clusters.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from localjudge.stats import stacking
from localjudge.stats.interval import Floats, LabelledScores

_MAX_COMBINED_JUDGES = 4
"""Maximum number of judges for trying all combinations. Of more, all and each single one are."""


class FittedJury(NamedTuple):
    """Weights by name, the bias, the held-out probabilities (n,), and remarks on other judges."""

    weights: Mapping[str, float]
    bias: float
    held_out: Floats
    remarks: tuple[str, ...]


def fit_juries(names: Sequence[str], log_odds: Floats, rows: LabelledScores) -> list[FittedJury]:
    """Fit the jury of all judges from log odds (n, judges), and the recommended smaller one.

    The remarks recommend the smallest jury, or judge, that is not shown to be worse than all
    together. Raises DataError if weights cannot be fitted or tested.
    """
    everyone = tuple(range(len(names)))
    candidates = list(_candidates(len(names)))
    held_out = {jury: stacking.held_out(log_odds[:, list(jury)], rows) for jury in candidates}
    recommended = _smallest(candidates, held_out, rows)
    remarks = []
    for judge in everyone:
        difference = stacking.loss_difference(rows, held_out[everyone], held_out[judge,])
        interval = f"{difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]"
        remarks.append(f"log loss of the jury minus that of {names[judge]}, calibrated: {interval}")
    smallest = " + ".join(names[judge] for judge in recommended)
    remarks.append(f"smallest that is not shown to be worse: {smallest}")
    fitted = []
    for jury in dict.fromkeys([everyone, recommended]):
        if len(jury) > 1:
            members = [names[judge] for judge in jury]
            fitted.append(
                _fit_jury(members, log_odds[:, list(jury)], rows, held_out[jury], remarks)
            )
    return fitted


def _fit_jury(
    names: Sequence[str],
    log_odds: Floats,
    rows: LabelledScores,
    held_out: Floats,
    remarks: Sequence[str],
) -> FittedJury:
    labels, _, label_weights = rows.arrays()
    judge_weights, bias = stacking.fit(log_odds, labels, label_weights)
    weights = dict(zip(names, map(float, judge_weights), strict=True))
    shown = ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items())
    remark = f"weights: {shown}; bias {bias:+.2f}"
    return FittedJury(weights, bias, held_out, (remark, *remarks))


def _candidates(count: int) -> Iterator[tuple[int, ...]]:
    """Yield combinations of judges, the smallest first."""
    sizes: Iterable[int] = range(1, count + 1)
    if count > _MAX_COMBINED_JUDGES:
        sizes = (1, count)
    for size in sizes:
        yield from combinations(range(count), size)


def _smallest(
    candidates: Sequence[tuple[int, ...]],
    held_out: Mapping[tuple[int, ...], Floats],
    rows: LabelledScores,
) -> tuple[int, ...]:
    """Return the smallest jury not shown to be worse than all judges, the best one of its size."""
    everyone = candidates[-1]
    for size in range(1, len(everyone)):
        losses: dict[tuple[int, ...], float] = {}
        for jury in candidates:
            if len(jury) == size:
                difference = stacking.loss_difference(rows, held_out[jury], held_out[everyone])
                if difference.low <= 0:
                    losses[jury] = difference.mean
        if losses:
            return min(losses, key=losses.__getitem__)
    return everyone
