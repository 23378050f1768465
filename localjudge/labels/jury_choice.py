"""The jury of all judges, and the smallest one that human labels do not show to be worse.

Juries and single judges are compared by the log loss of their held-out probabilities, each
calibrated on the same folds, by a paired interval over clusters.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from localjudge.stats import stacking
from localjudge.stats.interval import Floats, LabelledScores

Jury = tuple[int, ...]
"""Numbers of its judges, from 0."""
_MAX_COMBINED_JUDGES = 4
"""Maximum number of judges for trying all combinations. Of more, all and each single one are."""


def choose_juries(
    names: Sequence[str], log_odds: Floats, rows: LabelledScores
) -> tuple[dict[Jury, Floats], list[str]]:
    """Return the held-out probabilities (n,) of the jury of all judges and of a recommended one.

    `log_odds` are of shape (n, judges). The remarks recommend the smallest jury, or judge, that is
    not shown to be worse than all together. Raises DataError if weights cannot be fitted or tested.
    """
    everyone = tuple(range(len(names)))
    count = len(names)
    candidates: list[Jury] = []
    sizes: Iterable[int] = range(1, count + 1)
    if count > _MAX_COMBINED_JUDGES:
        sizes = (1, count)
    for size in sizes:
        candidates.extend(combinations(range(count), size))
    held_out = {jury: stacking.held_out(log_odds[:, list(jury)], rows) for jury in candidates}
    recommended = _smallest(candidates, held_out, rows)
    remarks = []
    for judge in everyone:
        difference = stacking.loss_difference(rows, held_out[everyone], held_out[judge,])
        interval = f"{difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]"
        remarks.append(f"log loss of the jury minus that of {names[judge]}, calibrated: {interval}")
    smallest = " + ".join(names[judge] for judge in recommended)
    remarks.append(f"smallest that is not shown to be worse: {smallest}")
    juries = {jury: held_out[jury] for jury in (everyone, recommended) if len(jury) > 1}
    return juries, remarks


def _smallest(
    candidates: Sequence[Jury],
    held_out: Mapping[Jury, Floats],
    rows: LabelledScores,
) -> Jury:
    """Return the smallest jury not shown to be worse than all judges, the best one of its size."""
    everyone = candidates[-1]
    for size in range(1, len(everyone)):
        losses: dict[Jury, float] = {}
        for jury in candidates:
            if len(jury) == size:
                difference = stacking.loss_difference(rows, held_out[jury], held_out[everyone])
                if difference.low <= 0:
                    losses[jury] = difference.mean
        if losses:
            return min(losses, key=losses.__getitem__)
    return everyone
