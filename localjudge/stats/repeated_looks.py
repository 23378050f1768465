"""Intervals of a mean that is looked at repeatedly, while samples are judged or labelled.

A confidence sequence covers the truth at all sample sizes simultaneously with probability 95 %. For
draws with sums S_i of values in [0, 1] and sizes M_i of at most L, the largest size in all of
the data, where the share w_k of the wealth bets a fraction f_k on each draw:

    up(m)   = sum_k w_k prod_i (1 - f_k M_i / L + f_k S_i / (L m))
    down(m) = sum_k w_k prod_i (1 - f_k M_i / L + f_k (M_i - S_i) / (L (1 - m)))

The low limit is where `up` falls to 40, the high limit where `down` rises to 40. If the mean is m,
this wealth ever reaches 40 with probability at most 2.5 % (J. Ville, 1939). Row order and cluster
names do not change any number. Sources: I. Waudby-Smith and A. Ramdas (2024), JRSS B 86, 1-27,
arXiv:2010.09686; docs/statistics.md.

Labelling looks at a mean only at certain numbers of labels. An ordinary 95 % interval, recomputed
every few labels, misses the truth at some look in 12 to 17 % of runs. So the error is spent over
the looks (K. K. G. Lan and D. L. DeMets (1983), Biometrika 70, 659-663), and labels between two
looks do not count. docs/statistics.md explains the budget of 6 %.

Without a plan, the looks are at these numbers of labels, and labels of all statements spend the
rest:

    labels   20   30   50   100   150   200   300   500  1,000  2,000  5,000  10,000   all
    spent   .05   .3  3.5  4.05  4.35  4.57  4.73  4.84   4.91   4.95   4.98     5.0   6.0 %

If the number of labels was planned, the first look is there, with an ordinary interval. Further
looks are at twice as many labels, four times as many, and so on:

    labels   planned    x 2    x 4    x 8   x 16   x 32   x 64   x 128  ...   all
    spent        5.0    5.7   5.85   5.92   5.96   5.98   5.99   5.995        6.0 %
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from localjudge.stats.interval import (
    CONFIDENCE,
    Draws,
    Floats,
    Mean,
    checked_values,
    exact_mean,
    group_draws,
)

METHOD = "confidence sequence"
FRACTIONS: Floats = np.geomspace(0.002, 0.99, 12)
SHARES: Floats = np.sqrt(FRACTIONS) / np.sqrt(FRACTIONS).sum()
LOG_TARGET = math.log(2 / (1 - CONFIDENCE))

_STEPS = 200
_LONGEST_STEP = 2.0
_PRECISION = 1e-11
_PARTS = 1e9  # limits are rounded outwards, so that the last bits of a logarithm do not matter
MAX_ERROR = 0.06
"""Probability that an interval of any look misses the truth."""
MIN_PLANNED_LABELS = 20
"""A plan of fewer labels gives no interval, because Student's t would not be valid."""
LOOKS_WITHOUT_PLAN = (
    (20, 0.0005, 0.05),
    (30, 0.00276, 0.05),
    (50, 0.03412, 0.05),
    (100, 0.01016, 0.03601),
    (150, 0.00649, 0.02903),
    (200, 0.00531, 0.02511),
    (300, 0.0034, 0.02056),
    (500, 0.00201, 0.01686),
    (1_000, 0.00106, 0.01408),
    (2_000, 0.00056, 0.0126),
    (5_000, 0.00036, 0.01158),
    (10_000, 0.00025, 0.01114),
)
"""Looks without a plan: labels, error, and error if all statements have a label.

Computed by `scripts/simulations/label_looks.py`, rounded down.
"""
LOOKS_WITH_PLAN = (
    (1, 0.05, 0.05),
    (2, 0.01407, 0.01874),
    (4, 0.00314, 0.00561),
    (8, 0.00121, 0.00238),
    (16, 0.0006, 0.00114),
    (32, 0.00028, 0.00054),
    (64, 0.00013, 0.00025),
    (128, 0.00006, 0.00012),
    (256, 0.00003, 0.00006),
    (512, 0.00002, 0.00002),
)
"""Looks with a plan. Their numbers of labels are multiples of the planned number.

Computed by `scripts/simulations/label_looks.py`, rounded down.
"""


def sequence_interval(
    values: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    largest: int = 1,
    lowest: float = 0.0,
) -> Mean:
    """Return the interval of the mean of `values` (n,) in [lowest, 1], valid for any stopping rule.

    `largest` is the size of the largest of the `clusters` (n,) in all of the data, or 1 without
    clusters. Raises ValueError for empty or invalid values, or unequal lengths.
    """
    numbers = checked_values(values, lowest)
    draws = group_draws(numbers, clusters, lowest)
    mirrored = draws._replace(sums=draws.sizes - draws.sums)
    largest = max(largest, int(draws.sizes.max()))
    low = lowest + (1.0 - lowest) * _low(draws, largest)
    high = 1.0 - (1.0 - lowest) * _low(mirrored, largest)
    low = math.floor(low * _PARTS) / _PARTS
    high = math.ceil(high * _PARTS) / _PARTS
    mean = Mean(exact_mean(numbers), (low, high), METHOD, len(numbers), draws.clusters)
    if mean.one_cluster:
        return mean._replace(ci95=None, range=(low, high))
    return mean


def _low(draws: Draws, largest: int) -> float:
    """Return the m where `up` falls to its target, or 0 if that underflows.

    log(up) is convex and increasing in log(1 / m), so Newton's method overshoots the root at most
    once.
    """
    mean = float((draws.counts * draws.sums).sum() / (draws.counts * draws.sizes).sum())
    if not mean:
        return 0.0
    unstaked = 1.0 - np.outer(FRACTIONS, draws.sizes / largest)
    staked = np.outer(FRACTIONS, draws.sums / (largest * mean))
    log_ratio = 0.0  # of the mean to m
    for _ in range(_STEPS):
        returned = staked * math.exp(log_ratio)
        factors = unstaked + returned
        logs = np.log(SHARES) + (draws.counts * np.log(factors)).sum(axis=1)
        highest = float(logs.max())
        wealth = np.exp(logs - highest)
        slopes = (draws.counts * (returned / factors)).sum(axis=1)
        slope = float((wealth * slopes).sum() / wealth.sum())
        step = (LOG_TARGET - highest - math.log(float(wealth.sum()))) / slope
        log_ratio += min(step, _LONGEST_STEP)
        if abs(step) < _PRECISION:
            return mean * math.exp(-log_ratio)
    return 0.0


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
    looks: Sequence[tuple[int, float, float]] = LOOKS_WITHOUT_PLAN
    if planned is not None and planned < MIN_PLANNED_LABELS:
        raise ValueError(f"a plan needs {MIN_PLANNED_LABELS} labels, got {planned}")
    if planned is not None:
        looks = [(factor * planned, error, last) for factor, error, last in LOOKS_WITH_PLAN]
    if labels >= statements:
        last_errors = [last_error for count, _, last_error in looks if count >= statements]
        last_errors.append(looks[-1][2])
        return Look(labels, None, 1 - last_errors[0])
    reached = labels
    confidence: float | None = None
    for labels_at_look, error, _ in looks:
        if labels_at_look > labels:
            return Look(reached, min(statements, labels_at_look), confidence)
        reached = labels_at_look
        confidence = 1 - error
    return Look(reached, statements, confidence)
