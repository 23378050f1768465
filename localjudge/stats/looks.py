"""Repeated looks at a mean during labelling, with intervals at planned numbers of labels only.

An ordinary 95 % interval, recomputed every few labels, misses the truth at some look in 12 to 17 % of runs. So the
error is spent over planned looks, most of it at 50 labels. Between two looks only the labels of the last look count.
The last look has labels of all statements and spends the remaining error.

    labels   20   30   50   100   150   200   300   500  1,000  2,000  5,000  10,000
    spent   .05   .3  3.5  4.05  4.35  4.57  4.73  4.84   4.91   4.95   4.98     5.0 %

For a mean of n independent labels the deviations at two looks are normal with correlation sqrt(n_1 / n_2). Labels drawn
without replacement from a sample correlate more. The error of a look is P(|Z| > c), with c chosen so that the
probability of a first deviation beyond c at this look equals the error that it may spend. Student's t then uses the
same error. `scripts/coverage-table --corrected` computes the errors and the rate at which a run misses the truth.

Sources: P. Armitage, C. K. McPherson and B. C. Rowe (1969), Repeated significance tests on accumulating data, JRSS A
132, 235-244; S. J. Pocock (1977), Group sequential methods in the design and analysis of clinical trials, Biometrika
64, 191-199 (t by the error of a look); K. K. G. Lan and D. L. DeMets (1983), Discrete sequential boundaries for
clinical trials, Biometrika 70, 659-663 (spent error).
"""

from typing import NamedTuple


class PlannedLook(NamedTuple):
    """Number of labels, error of an interval there, and error if no labels can follow."""

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
    """Number of labels that count, number at the next look (None after the last), and confidence of an interval.

    Before the first look all labels count, but there is no interval.
    """

    labels: int
    next: int | None
    confidence: float | None


def look_at(labels: int, statements: int) -> Look:
    """Return the look at this number of labels for this number of statements.

    63 of 300     50 count, the next look is at 100
    63 of 63      all count, with the remaining error before a look at 100
    """
    if labels >= statements:
        last = next((look for look in PLANNED if look.labels >= statements), PLANNED[-1])
        return Look(labels, None, 1 - last.last_error)
    following = next((look.labels for look in PLANNED if look.labels > labels), statements)
    reached = [look for look in PLANNED if look.labels <= labels]
    if not reached:
        return Look(labels, min(following, statements), None)
    return Look(reached[-1].labels, min(following, statements), 1 - reached[-1].error)
