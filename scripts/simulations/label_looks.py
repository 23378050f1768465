"""Compute the error levels in `localjudge.stats.repeated_looks` from the error spent at each look.

    density of Z at a look, inside all c so far -> c with the permitted mass outside -> next look

A deviation at the next look is rho Z + sqrt(1 - rho^2) e, with rho = sqrt(n / n_next) and e normal.
"""

import math
from collections.abc import Iterator, Mapping
from statistics import NormalDist

import numpy as np

from localjudge.stats.interval import CONFIDENCE, Floats
from localjudge.stats.repeated_looks import MAX_ERROR

SPENT = {
    20: 0.0005,
    30: 0.003,
    50: 0.035,
    100: 0.0405,
    150: 0.0435,
    200: 0.0457,
    300: 0.0473,
    500: 0.0484,
    1_000: 0.0491,
    2_000: 0.0495,
    5_000: 0.0498,
    10_000: 0.05,
}
"""Cumulative error spent up to each look without a plan."""
SPENT_FROM_PLAN = {
    1: 0.05,
    2: 0.057,
    4: 0.0585,
    8: 0.0592,
    16: 0.0596,
    32: 0.0598,
    64: 0.0599,
    128: 0.05995,
    256: 0.05998,
    512: 0.06,
}
"""Cumulative error spent up to a multiple of the planned number of labels."""
_STEP = 0.005
_LARGEST = 6.0
_PLACES = 1e5
_NOISE = 0.1
"""Width of the grid's noise in units of the last place."""


def compute_looks(spent_at: Mapping[int, float]) -> Iterator[tuple[int, float, float]]:
    """Yield each number of labels with the error of its look, and its error as the last look."""
    grid = np.arange(-_LARGEST, _LARGEST + _STEP / 2, _STEP)
    density = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
    spent = 0.0
    previous = 0
    for labels, total in spent_at.items():
        if previous:
            rho = math.sqrt(previous / labels)
            variance = 1 - rho**2
            kernel = np.exp(-((grid[:, None] - rho * grid) ** 2) / (2 * variance))
            density = kernel @ density * _STEP / math.sqrt(2 * math.pi * variance)
        inside = _limit(grid, density, total - spent)
        last_error = _error(_limit(grid, density, MAX_ERROR - spent))
        yield labels, _error(inside), min(last_error, round(1 - CONFIDENCE, 5))
        density = np.where(np.abs(grid) <= inside, density, 0.0)
        spent = total
        previous = labels


def _limit(grid: Floats, density: Floats, outside: float) -> float:
    """Return the c with this mass of the density beyond -c and c."""
    beyond = np.cumsum(
        (density[::-1][1:] + density[::-1][:-1]) * _STEP
    )  # both tails, from the outermost inwards
    return float(np.interp(outside, beyond, grid[::-1][1:]))


def _error(limit: float) -> float:
    return math.floor(2 * NormalDist().cdf(-limit) * _PLACES + _NOISE) / _PLACES
