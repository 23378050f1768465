"""How a head looks at chosen distances: sums of cosines, made of rotary positions.

    logit(distance n) = sum over k of  cosine[k] * cos(frequency[k] * n) + sine[k] * sin(frequency[k] * n)

A rotary pair of dimensions turns with the position, so that the product of a constant query and a constant key depends
on their distance alone. Twelve pairs, whose frequencies have no common measure, are enough for a logit that stands
20 higher at one distance than at any other up to the longest text. The coefficients solve a linear program and are
committed; the build only places them.

llama.cpp divides the angle of every pair by a factor from the model file. Factors of 1e30 stop all other pairs, whose
dimensions then know no position at all.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

HEAD_WIDTH = 128
PAIRS = 12
FREQUENCY_BASE = 10000.0
STILL = 1e30
LONGEST = 8192


class Bump(NamedTuple):
    """One shape of a logit over distances."""

    cosine: tuple[float, ...]
    sine: tuple[float, ...]

    def logits(self, frequencies: Sequence[float], distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """The logit at each distance, up to a constant."""
        angles = np.multiply.outer(distances, np.array(frequencies))
        return np.asarray(np.cos(angles) @ np.array(self.cosine) + np.sin(angles) @ np.array(self.sine))


def frequency_factors(frequencies: Sequence[float]) -> NDArray[np.float32]:
    """What llama.cpp divides each pair's own frequency by, shape (HEAD_WIDTH / 2,)."""
    pairs = np.arange(HEAD_WIDTH // 2)
    factors = np.full(len(pairs), STILL)
    factors[:PAIRS] = FREQUENCY_BASE ** (-2.0 * pairs[:PAIRS] / HEAD_WIDTH) / np.array(frequencies)
    return factors.astype(np.float32)


def solve(frequencies: Sequence[float], distance: int, size: float) -> Bump:
    """The bump that stands highest at one distance over all others.

    `size` bounds the sum of all coefficients, and with it the rounding error of half precision.
    """
    from scipy.optimize import linprog

    angles = np.multiply.outer(np.arange(LONGEST), np.array(frequencies))
    basis = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    others = np.delete(basis, distance, axis=0) - basis[distance]
    count = basis.shape[1]
    # Unknowns: positive and negative parts of the coefficients, and the margin, which is to be largest.
    rows = np.vstack([np.hstack([others, -others, np.ones((len(others), 1))]), [*[1.0] * (2 * count), 0.0]])
    limits = np.append(np.zeros(len(others)), size)
    goal = np.append(np.zeros(2 * count), -1.0)
    solution = linprog(goal, A_ub=rows, b_ub=limits, bounds=(0.0, None), method="highs").x
    coefficients = np.round(solution[:count] - solution[count : 2 * count], 3)
    half = count // 2
    return Bump(tuple(map(float, coefficients[:half])), tuple(map(float, coefficients[half:])))
