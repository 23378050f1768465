"""Looks at a mean during labelling, with intervals at certain numbers of labels only.

An ordinary 95 % interval, recomputed every few labels, misses the truth at some look in 12 to 17 %
of runs. So the error is spent over the looks (K. K. G. Lan and D. L. DeMets (1983), Biometrika 70,
659-663), and labels between two looks do not count. docs/statistics.md explains the budget of 6 %.

Without a plan, the looks are at these numbers of labels, and labels of all statements spend the
rest:

    labels   20   30   50   100   150   200   300   500  1,000  2,000  5,000  10,000   all
    spent   .05   .3  3.5  4.05  4.35  4.57  4.73  4.84   4.91   4.95   4.98     5.0   6.0 %

If the number of labels was planned, the first look is there, with an ordinary interval. Further
looks are at twice as many labels, four times as many, and so on:

    labels   planned    x 2    x 4    x 8   x 16   x 32   x 64   x 128  ...   all
    spent        5.0    5.7   5.85   5.92   5.96   5.98   5.99   5.995        6.0 %
"""

from collections.abc import Sequence
from typing import NamedTuple

MAX_ERROR = 0.06
"""Probability that an interval of any look misses the truth."""
MIN_PLANNED_LABELS = 20
"""A plan of fewer labels gives no interval, because Student's t would not be valid."""


class LookBudget(NamedTuple):
    """Number of labels, error of the interval, and its error if all statements have a label."""

    labels: int
    error: float
    last_error: float


LOOKS_WITHOUT_PLAN = (
    LookBudget(20, 0.0005, 0.05),
    LookBudget(30, 0.00276, 0.05),
    LookBudget(50, 0.03412, 0.05),
    LookBudget(100, 0.01016, 0.03601),
    LookBudget(150, 0.00649, 0.02903),
    LookBudget(200, 0.00531, 0.02511),
    LookBudget(300, 0.0034, 0.02056),
    LookBudget(500, 0.00201, 0.01686),
    LookBudget(1_000, 0.00106, 0.01408),
    LookBudget(2_000, 0.00056, 0.0126),
    LookBudget(5_000, 0.00036, 0.01158),
    LookBudget(10_000, 0.00025, 0.01114),
)
"""Looks without a plan. Computed by `scripts/simulations/label_looks.py`, rounded down."""


LOOKS_WITH_PLAN = (
    LookBudget(1, 0.05, 0.05),
    LookBudget(2, 0.01407, 0.01874),
    LookBudget(4, 0.00314, 0.00561),
    LookBudget(8, 0.00121, 0.00238),
    LookBudget(16, 0.0006, 0.00114),
    LookBudget(32, 0.00028, 0.00054),
    LookBudget(64, 0.00013, 0.00025),
    LookBudget(128, 0.00006, 0.00012),
    LookBudget(256, 0.00003, 0.00006),
    LookBudget(512, 0.00002, 0.00002),
)
"""Looks with a plan. Their numbers of labels are multiples of the planned number.

Computed by `scripts/simulations/label_looks.py`, rounded down.
"""


class Look(NamedTuple):
    """Labels that count, labels at the next look, and confidence of the interval (None before the
    first look).
    """

    labels: int
    next: int | None
    confidence: float | None


def look_at(labels: int, statements: int, planned: int | None = None) -> Look:
    """Return the look at this number of labels.

    Of 63 labels, 50 count for 300 statements, and all for 63. If 60 labels were `planned`, these 60
    count, with an ordinary interval, and the next look is at 120.
    """
    looks = _looks(planned)
    if labels >= statements:
        last = next((look for look in looks if look.labels >= statements), looks[-1])
        return Look(labels, None, 1 - last.last_error)
    following = statements
    reached: LookBudget | None = None
    for look in looks:
        if look.labels > labels:
            following = min(statements, look.labels)
            break
        reached = look
    if reached is None:
        return Look(labels, following, None)
    return Look(reached.labels, following, 1 - reached.error)


def _looks(planned: int | None) -> Sequence[LookBudget]:
    """Return the looks in order."""
    if planned is None:
        return LOOKS_WITHOUT_PLAN
    if planned < MIN_PLANNED_LABELS:
        raise ValueError(f"a plan needs {MIN_PLANNED_LABELS} labels, got {planned}")
    return [look._replace(labels=look.labels * planned) for look in LOOKS_WITH_PLAN]
