"""The binomial distribution and Student's t, without SciPy, and limits of a share or a ratio."""

import math
from collections.abc import Callable
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

CONFIDENCE = 0.95
_NEARLY_NORMAL = 10_000  # degrees of freedom
_LARGEST_T = 1e6
_TAIL = (1 - CONFIDENCE) / 2


def clopper_pearson(successes: int, trials: int, tail: float = _TAIL) -> tuple[float, float]:
    """Return the exact limits of a proportion.

        P(X >= successes | low) = P(X <= successes | high) = tail

    Source: C. J. Clopper and E. S. Pearson (1934), Biometrika 26, 404-413.
    """
    low = 0.0
    high = 1.0
    if successes > 0:
        # P(X >= k | p) = P(Y <= n - k | 1 - p): the small tail is summed, not subtracted from 1.
        at_least = binomial_cdf(trials - successes, trials)
        low = _root(lambda p: at_least(1 - p) - tail)
    if successes < trials:
        at_most = binomial_cdf(successes, trials)
        high = _root(lambda p: tail - at_most(p))
    return low, high


def ratio_interval(numerators: ArrayLike, denominators: ArrayLike) -> tuple[float, float | None]:
    """Return the ratio of the sums of (n,) pairs, and half the width of its t interval (None for
    one pair).

    Source: W. G. Cochran (1977), Sampling Techniques, 3rd edition, section 6.4.
    """
    parts = np.asarray(numerators, dtype=np.float64)
    sizes = np.asarray(denominators, dtype=np.float64)
    pairs = len(parts)
    total = max(1.0, float(sizes.sum()))
    ratio = float(parts.sum()) / total
    if pairs == 1:
        return ratio, None
    deviations = parts - ratio * sizes
    error = math.sqrt(float(deviations @ deviations) * pairs / (pairs - 1)) / total
    return ratio, two_sided_quantile(CONFIDENCE, pairs - 1) * error


def tail_probability(confidence: float) -> float:
    """Return the probability beyond each limit of an interval of this confidence."""
    return (1 - confidence) / 2


def binomial_cdf(successes: int, trials: int) -> Callable[[float], float]:
    """Return P(X <= successes) for X ~ Binomial(trials, p) as a function of p in (0, 1), exact in
    the far tail.
    """
    if successes >= trials:
        return lambda _: 1.0
    counts = np.arange(successes + 1)
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, trials + 1)))))
    log_choose = log_factorial[trials] - log_factorial[counts] - log_factorial[trials - counts]

    def cdf(probability: float) -> float:
        log_success = math.log(probability)
        log_failure = math.log1p(-probability)
        log_terms = log_choose + counts * log_success + (trials - counts) * log_failure
        return min(1.0, float(np.exp(log_terms).sum()))

    return cdf


@cache
def two_sided_quantile(confidence: float, dof: int) -> float:
    """Return t with P(|T| <= t) = confidence, by the normal distribution if `dof` is 10,000 or
    more.
    """
    if dof >= _NEARLY_NORMAL:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    return _root(lambda t: within(t, dof) - confidence, _LARGEST_T, halvings=100)


def within(t: float, dof: int) -> float:
    """Return P(|T| <= t) for Student's t.

    Source: M. Abramowitz and I. A. Stegun (1964), Handbook of Mathematical Functions, 26.7.3 and
    26.7.4.
    """
    x = math.atan(t / math.sqrt(dof))
    if dof == 1:
        return 2 * x / math.pi
    odd = dof % 2
    steps = np.arange(2 + odd, dof - 1, 2)
    # Ratios of consecutive terms: (k - 1) / k cos^2 x, with k = 3, 5, ... or 2, 4, ...
    terms = np.cumprod(np.concatenate([[1.0], (steps - 1) / steps * math.cos(x) ** 2]))
    if odd:
        return 2 / math.pi * (x + math.sin(x) * math.cos(x) * float(terms.sum()))
    return math.sin(x) * float(terms.sum())


def _root(rising: Callable[[float], float], high: float = 1.0, halvings: int = 64) -> float:
    """Return the zero of an increasing function on (0, high) by bisection."""
    low = 0.0
    for _ in range(halvings):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2
