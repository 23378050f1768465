"""Intervals of a mean that is computed repeatedly, while samples are judged.

A confidence sequence covers the truth at all sample sizes simultaneously with probability 95 %. For
draws with sums S_i of values in [0, 1] and sizes M_i of at most L, the largest size in all of
the data, where the share w_k of the wealth bets a fraction f_k on each draw:

    up(m)   = sum_k w_k prod_i (1 - f_k M_i / L + f_k S_i / (L m))
    down(m) = sum_k w_k prod_i (1 - f_k M_i / L + f_k (M_i - S_i) / (L (1 - m)))

The low limit is where `up` falls to 40, the high limit where `down` rises to 40. If the mean is m,
this wealth ever reaches 40 with probability at most 2.5 % (J. Ville, 1939). Row order and cluster
names do not change any number. Sources: I. Waudby-Smith and A. Ramdas (2024), JRSS B 86, 1-27,
arXiv:2010.09686; docs/statistics.md.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from localjudge.stats.distributions import CONFIDENCE
from localjudge.stats.interval import (
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
