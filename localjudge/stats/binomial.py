"""Exact answers for counts: the binomial distribution and the interval that follows from it.

    P(X <= k) = sum of C(n, i) p^i (1-p)^(n-i) for i = 0 .. k

Summed in logarithms, so that a million trials neither overflow nor lose the far tail. NumPy alone: the package does
not depend on SciPy, which the tests compare with.
"""

import math
from collections.abc import Callable

import numpy as np

_HALVINGS = 64


def binomial_cdf(successes: int, trials: int, probability: float) -> float:
    """P(X <= successes) for X ~ Binomial(trials, probability), with 0 < probability < 1."""
    return _cdf(successes, trials)(probability)


def _cdf(successes: int, trials: int) -> Callable[[float], float]:
    """`binomial_cdf` as a function of the probability: what does not depend on it is computed once."""
    if successes >= trials:
        return lambda _: 1.0
    counts = np.arange(successes + 1)
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, trials + 1)))))
    log_choose = log_factorial[trials] - log_factorial[counts] - log_factorial[trials - counts]

    def cdf(probability: float) -> float:
        log_terms = log_choose + counts * math.log(probability) + (trials - counts) * math.log1p(-probability)
        return min(1.0, float(np.exp(log_terms).sum()))

    return cdf


def clopper_pearson(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    """Limits of a proportion that hold the true one with at least `confidence`, for every n and every true value.

    Each limit is the proportion at which a count this far out has probability (1 - confidence) / 2.
    Source: C. J. Clopper and E. S. Pearson (1934), Biometrika 26, 404-413.
    """
    tail = (1 - confidence) / 2
    low, high = 0.0, 1.0
    if successes > 0:
        # P(X >= k | p) is P(Y <= n - k | 1 - p): the small tail is summed itself, never taken from 1.
        at_least = _cdf(trials - successes, trials)
        low = _root(lambda p: at_least(1 - p) - tail)
    if successes < trials:
        at_most = _cdf(successes, trials)
        high = _root(lambda p: tail - at_most(p))
    return low, high


def _root(rising: Callable[[float], float]) -> float:
    """Where a rising function on (0, 1) crosses zero, by halving."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2
