"""How far a mean may be from the truth, for those who look after each sample and stop when the answer is clear.

An interval for a fixed number of samples leaves the truth out far too often if it is looked at again and again until it
decides. A confidence sequence holds it at all numbers at once, in 95 % of cases. Somebody bets on each draw, with a
fraction f of all the money, that the mean is above m. If it is m, the bets are fair, and the money ever grows 40 times
in 2.5 % of cases at most (J. Ville, 1939, Étude critique de la notion de collectif). Since the best fraction is not
known, the money is divided: w_k for f_k. For draws with sums S_i of values in [0, 1] and sizes M_i of at most L:

    up(m)   = sum_k w_k prod_i (1 - f_k M_i / L + f_k S_i / (L m))                  low:   where up falls to 40
    down(m) = sum_k w_k prod_i (1 - f_k M_i / L + f_k (M_i - S_i) / (L (1 - m)))    high:  where down rises to 40

    one sample that scores 1, one fraction 1/2:   1/2 + 1/2 / m = 40,  low = 1/79;   down(m) = 1/2,  high = 1

L is the largest size in all of the data, so that no bet loses more than there is; without clusters it is 1. Half of the
fractions are for many samples and small distances; the shares, sqrt(f_k), favour decisions that take few, and were
chosen by simulation (`scripts/coverage-table --until`). At the mean of the draws each product is at most 1, because the
logarithm is concave: the mean is always inside. For the same reason the values' grid of `interval.draws_of`, which
keeps their mean, only makes the interval wider.

The invariant: neither the order of the rows nor the names of the clusters move any number.

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
FRACTIONS: Floats = np.geomspace(0.002, 0.99, 12)
SHARES: Floats = np.sqrt(FRACTIONS) / np.sqrt(FRACTIONS).sum()
LOG_TARGET = math.log(2 / (1 - CONFIDENCE))

_STEPS = 200
_LONGEST_STEP = 2.0
_PRECISION = 1e-11
_PARTS = 1e9  # limits are rounded outwards, so that the last bits of a logarithm move none


def sequence_interval(
    values: ArrayLike, *, clusters: ArrayLike | None = None, largest: int = 1, lowest: float = 0.0
) -> Interval:
    """Interval of the mean of `values` (n,), all in [lowest, 1], valid whenever one stops; formula above.

    `clusters` (n,) names what each value belongs to, in any comparable type; `largest` is how many values a cluster may
    have, in all of the data; if one of these has more, so many. Raises ValueError for no values, values out of range or
    not finite, or unequal lengths.
    """
    numbers = checked_values(values, lowest)
    draws = draws_of(numbers, clusters, lowest)
    largest = max(largest, int(draws.sizes.max()))
    low = lowest + (1.0 - lowest) * _low(draws, largest)
    high = 1.0 - (1.0 - lowest) * _low(draws._replace(sums=draws.sizes - draws.sums), largest)
    low, high = math.floor(low * _PARTS) / _PARTS, math.ceil(high * _PARTS) / _PARTS
    return Interval(exact_mean(numbers), low, high, METHOD, len(numbers), draws.clusters)


def _low(draws: Draws, largest: int) -> float:
    """The m at which `up` falls to its target; 0 if that is too small for a number.

    `up` is a polynomial in 1 / m without negative coefficients, so log(up) is convex and rising in log(1 / m). Newton's
    method goes beyond the root at most once, and from there it comes back without passing it.
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
        slope = float((money * (draws.counts * (returned / factors)).sum(axis=1)).sum() / money.sum())
        step = (LOG_TARGET - float(logs.max()) - math.log(float(money.sum()))) / slope
        log_ratio += min(step, _LONGEST_STEP)
        if abs(step) < _PRECISION:
            return mean * math.exp(-log_ratio)
    return 0.0
