"""How far a mean may be from the truth, for whoever looks after each sample and stops when the answer is clear.

An interval for a fixed number of samples, looked at again and again until it decides a gate, leaves the truth out far
too often. A confidence sequence holds it at all sizes at once, in 95 % of cases. Somebody bets on each draw, with a
fraction f of all money, that the mean is above m. If it is m, no such bet gains, whenever one stops (J. Ville, 1939):
who has 40 times the first money has seen what happens in 2.5 % of cases. The money is divided among fractions f_k with
shares w_k, since nobody knows the best. For draws with sums S_i of values in [0, 1] and sizes M_i of at most L:

    up(m)   = sum_k w_k prod_i (1 - f_k M_i / L + f_k S_i / (L m))                  low    where up crosses 40
    down(m) = sum_k w_k prod_i (1 - f_k M_i / L + f_k (M_i - S_i) / (L (1 - m)))    high   where down crosses 40

    one sample that scores 1, one fraction 1/2:   1/2 + 1/2 / m = 40   low = 1/79;   down(m) = 1/2   high = 1

L is the largest size in all of the data, so that nobody can lose more than there is; without clusters all are 1. At the
mean of the draws each product is at most 1 (concavity of the logarithm), so the mean is always inside. Values are
counted as `interval.draws_of` counts them: more than 4,096 distinct ones are spread to a grid that keeps their mean,
which, by the same concavity, only makes the interval wider.

The invariant: the multiset of draws alone moves the numbers, no order and no names.

Sources: I. Waudby-Smith and A. Ramdas (2024), Estimating means of bounded random variables by betting, Journal of the
Royal Statistical Society B 86, 1-27, arXiv:2010.09686; T. M. Cover (1991), Universal portfolios, Mathematical Finance
1, 1-29; F. Orabona and K.-S. Jun (2021), Tight concentrations and confidence sequences from the regret of universal
portfolio, arXiv:2110.14099.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from localjudge.stats.interval import CONFIDENCE, Draws, Floats, Interval, checked_values, draws_of, exact_mean

METHOD = "confidence sequence"
FRACTIONS: Floats = np.geomspace(0.02, 0.99, 24)
SHARES: Floats = np.full(len(FRACTIONS), 1 / len(FRACTIONS))

_LOG_TARGET = math.log(2 / (1 - CONFIDENCE))
_STEPS = 200
_LONGEST_STEP = 2.0
_PRECISION = 1e-11
_DECIMALS = 1e9  # limits are rounded outwards, so that no last bit of a logarithm moves one


def sequence_interval(
    values: ArrayLike, *, clusters: ArrayLike | None = None, largest: int = 1, lowest: float = 0.0
) -> Interval:
    """Interval of the mean of `values` (n,), all in [lowest, 1], valid at whatever n one stops; formula above.

    `clusters` (n,) names what each value belongs to, in any comparable type; `largest` is the most values that a
    cluster of the data may have. Raises ValueError for no values, values out of range or not finite, unequal lengths,
    or a cluster that is larger.
    """
    numbers = np.asarray(values, dtype=np.float64)
    checked_values((numbers - lowest) / (1.0 - lowest))
    draws = draws_of(numbers, clusters, lowest)
    if (draws.sizes > largest).any():
        raise ValueError(f"a cluster has {draws.sizes.max():.0f} values, more than largest = {largest}")
    low = lowest + (1.0 - lowest) * _low(draws, largest)
    high = 1.0 - (1.0 - lowest) * _low(draws._replace(sums=draws.sizes - draws.sums), largest)
    low, high = math.floor(low * _DECIMALS) / _DECIMALS, math.ceil(high * _DECIMALS) / _DECIMALS
    return Interval(exact_mean(numbers), low, high, METHOD, len(numbers), draws.clusters)


def _low(draws: Draws, largest: int) -> float:
    """Where `up` crosses its target, by Newton's method.

    `up` is a polynomial in 1 / m without negative coefficients, so its logarithm is a convex rising function of
    log(1 / m): after the first step all are to the left.
    """
    mean = float((draws.counts * draws.sums).sum() / (draws.counts * draws.sizes).sum())
    if not mean:
        return 0.0
    kept = 1.0 - np.outer(FRACTIONS, draws.sizes / largest)
    staked = np.outer(FRACTIONS, draws.sums / (largest * mean))
    log_ratio = 0.0  # of the mean to m
    for _ in range(_STEPS):
        returned = staked * math.exp(log_ratio)
        factors = kept + returned
        logs = np.log(SHARES) + (draws.counts * np.log(factors)).sum(axis=1)
        money = np.exp(logs - logs.max())
        slopes = (draws.counts * (returned / factors)).sum(axis=1)
        gap = _LOG_TARGET - float(logs.max()) - math.log(float(money.sum()))
        step = gap * float(money.sum()) / float((money * slopes).sum())
        log_ratio += min(step, _LONGEST_STEP)
        if abs(step) < _PRECISION:
            return mean * math.exp(-log_ratio)
    return 0.0
