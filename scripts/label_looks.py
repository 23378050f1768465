"""Compute the error levels in `localjudge.stats.looks` from the error spent at each look.

    density of Z at a look, inside all c so far -> c with the permitted mass outside -> next look

A deviation at the next look is rho Z + sqrt(1 - rho^2) e, with rho = sqrt(n / n_next) and e normal.
"""

import math
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np

from localjudge.stats.interval import CONFIDENCE, Floats
from localjudge.stats.looks import PlannedLook

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
"""Cumulative error spent up to each look."""
_STEP = 0.005
_LARGEST = 6.0
_PLACES = 1e5
_NOISE = 0.1
"""Width of the grid's noise in units of the last place."""


def planned_looks() -> Iterator[PlannedLook]:
    """Yield each look with its errors, rounded down."""
    grid = np.arange(-_LARGEST, _LARGEST + _STEP / 2, _STEP)
    density, spent, previous = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi), 0.0, 0
    for labels, total in SPENT.items():
        if previous:
            rho = math.sqrt(previous / labels)
            kernel = np.exp(-((grid[:, None] - rho * grid) ** 2) / (2 * (1 - rho**2)))
            density = kernel @ density * _STEP / math.sqrt(2 * math.pi * (1 - rho**2))
        inside = _limit(grid, density, total - spent)
        yield PlannedLook(labels, _error(inside), _error(_limit(grid, density, 1 - CONFIDENCE - spent)))
        density, spent, previous = np.where(np.abs(grid) <= inside, density, 0.0), total, labels


def _limit(grid: Floats, density: Floats, outside: float) -> float:
    """Return the c with this mass of the density beyond -c and c."""
    beyond = np.cumsum((density[::-1][1:] + density[::-1][:-1]) * _STEP)  # both tails, from the outermost inwards
    return float(np.interp(outside, beyond, grid[::-1][1:]))


def _error(limit: float) -> float:
    return math.floor(2 * NormalDist().cdf(-limit) * _PLACES + _NOISE) / _PLACES
