"""Repeated looks at a mean during labelling, with intervals at planned numbers of labels only.

The error of 5 % is spent over the planned looks, because an ordinary interval recomputed every few labels misses the
truth at some look in 12 to 17 % of runs. The last look has labels of all statements and spends the rest.

    labels   20   30   50   100   150   200   300   500  1,000  2,000  5,000  10,000
    spent   .05   .3  3.5  4.05  4.35  4.57  4.73  4.84   4.91   4.95   4.98     5.0 %

Source: K. K. G. Lan and D. L. DeMets (1983), Biometrika 70, 659-663; docs/statistics.md.
"""

from typing import NamedTuple


class PlannedLook(NamedTuple):
    """Number of labels, error of the interval, and its error at the last look."""

    labels: int
    error: float
    last_error: float


PLANNED = (
    PlannedLook(20, 0.0005, 0.05),
    PlannedLook(30, 0.00276, 0.04997),
    PlannedLook(50, 0.03412, 0.04934),
    PlannedLook(100, 0.01016, 0.02335),
    PlannedLook(150, 0.00649, 0.01607),
    PlannedLook(200, 0.00531, 0.01195),
    PlannedLook(300, 0.0034, 0.00751),
    PlannedLook(500, 0.00201, 0.00431),
    PlannedLook(1_000, 0.00106, 0.00224),
    PlannedLook(2_000, 0.00056, 0.00119),
    PlannedLook(5_000, 0.00036, 0.0006),
    PlannedLook(10_000, 0.00025, 0.00025),
)
"""Computed by `scripts/label_looks.py`, rounded down."""


class Look(NamedTuple):
    """Labels that count, labels at the next look, and confidence of the interval (None before the first look)."""

    labels: int
    next: int | None
    confidence: float | None


def look_at(labels: int, statements: int) -> Look:
    """Return the look at this number of labels. Of 63 labels, 50 count for 300 statements, and all for 63."""
    if labels >= statements:
        last = next((look for look in PLANNED if look.labels >= statements), PLANNED[-1])
        return Look(labels, None, 1 - last.last_error)
    following = min([statements, *(look.labels for look in PLANNED if look.labels > labels)])
    reached = [look for look in PLANNED if look.labels <= labels]
    return Look(reached[-1].labels, following, 1 - reached[-1].error) if reached else Look(labels, following, None)
