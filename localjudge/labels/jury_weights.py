"""Weights of a jury from human labels, and the smallest jury that is not worse than all judges together.

Juries and single judges are compared by the log loss of their held-out probabilities, each
calibrated on the same folds, by a paired interval over clusters.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from localjudge.stats import stacking
from localjudge.stats.interval import Floats, LabelledScores

_MOST_JUDGES = 4
"""Judges of which all combinations are tried; of more, all together and each alone."""


class FittedJury(NamedTuple):
    """Weights by name, the bias, the held-out probabilities (n,), and how it compares with other judges."""

    weights: Mapping[str, float]
    bias: float
    held_out: Floats
    remarks: tuple[str, ...]


def fit_juries(names: Sequence[str], log_odds: Floats, rows: LabelledScores) -> list[FittedJury]:
    """Fit the jury of all judges from log odds (n, judges), and the recommended one if it is a smaller jury.

    The remarks of the first one recommend the smallest jury, or judge, that is not shown to be
    worse than all together. Raises DataError if weights cannot be fitted or tested.
    """
    everyone = tuple(range(len(names)))
    labels, _, weights = rows.arrays()
    candidates = list(_candidates(len(names)))
    held_out = {jury: stacking.held_out(log_odds[:, list(jury)], rows) for jury in candidates}
    remarks: list[str] = []
    for place in everyone:
        difference = stacking.loss_difference(rows, held_out[everyone], held_out[place,])
        interval = f"{difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]"
        remarks.append(f"log loss of the jury minus that of {names[place]}, calibrated: {interval}")
    recommended = _smallest(candidates, held_out, rows)
    remarks.append(
        f"smallest that is not shown to be worse: {' + '.join(names[place] for place in recommended)}",
    )
    fitted = []
    for jury in dict.fromkeys([everyone, recommended]):
        if len(jury) > 1:
            solution = stacking.fit(log_odds[:, list(jury)], labels, weights)
            found = {
                names[place]: float(weight)
                for place, weight in zip(jury, solution.weights, strict=True)
            }
            shown = ", ".join(f"{name} {weight:.2f}" for name, weight in found.items())
            notes = (f"weights: {shown}; bias {solution.bias:+.2f}", *remarks)
            fitted.append(FittedJury(found, solution.bias, held_out[jury], notes))
    return fitted


def _candidates(count: int) -> Iterator[tuple[int, ...]]:
    """Yield combinations of judges, the smallest first."""
    sizes = range(1, count + 1) if count <= _MOST_JUDGES else (1, count)
    for size in sizes:
        yield from combinations(range(count), size)


def _smallest(
    candidates: Sequence[tuple[int, ...]],
    held_out: Mapping[tuple[int, ...], Floats],
    rows: LabelledScores,
) -> tuple[int, ...]:
    """Return the smallest jury that is not shown to be worse than all judges, the best one of its size."""
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
