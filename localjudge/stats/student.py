"""Quantiles of Student's t for whole degrees of freedom, from finite sums; the package does not depend on SciPy.

    P(|T| <= t) with x = atan(t / sqrt(dof)) is, for dof

    1      2 x / pi
    odd    2 / pi (x + sin x (cos x + 2/3 cos^3 x + ... + (2 4 ... (dof - 3)) / (3 5 ... (dof - 2)) cos^(dof - 2) x))
    even   sin x (1 + 1/2 cos^2 x + ... + (1 3 ... (dof - 3)) / (2 4 ... (dof - 2)) cos^(dof - 2) x)

Source: M. Abramowitz and I. A. Stegun (1964), Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
"""

import math
from functools import cache
from statistics import NormalDist

import numpy as np

_NEARLY_NORMAL = 10_000
_LARGEST = 1e6
_HALVINGS = 100


@cache
def two_sided_quantile(confidence: float, dof: int) -> float:
    """The t with P(|T| <= t) = confidence, in (0, 1), for `dof` of at least 1.

    Raises ValueError for fewer degrees of freedom. From ten thousand on it is that of the normal distribution, which is
    smaller by (z^2 + 1) / (4 dof) of itself (R. A. Fisher and E. A. Cornish, 1960): 1.2e-4 for 95 %.
    """
    if dof < 1:
        raise ValueError(f"Student's t has at least 1 degree of freedom, got {dof}")
    if dof >= _NEARLY_NORMAL:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    low, high = 0.0, _LARGEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, dof) < confidence else (low, middle)
    return (low + high) / 2


def within(t: float, dof: int) -> float:
    """P(|T| <= t) for t of at least 0."""
    x = math.atan(t / math.sqrt(dof))
    if dof == 1:
        return 2 * x / math.pi
    odd = dof % 2
    steps = np.arange(2 + odd, dof - 1, 2)
    # Each term is the one before it times (k - 1) / k cos^2 x: 2/3, 4/5, ... or 1/2, 3/4, ...
    terms = np.cumprod(np.concatenate([[1.0], (steps - 1) / steps * math.cos(x) ** 2]))
    if odd:
        return 2 / math.pi * (x + math.sin(x) * math.cos(x) * float(terms.sum()))
    return math.sin(x) * float(terms.sum())
