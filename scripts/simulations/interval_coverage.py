"""Measure the coverage of an interval by drawing samples from populations with a known mean.

    for each repeat:  draw n samples -> interval -> does it contain the population's mean?
    coverage = share of repeats that do

The populations resemble scores: yes or no, a share of a few statements, any number, nearly always
1, and documents shared by several samples. Their means are known by construction.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localjudge.stats.interval import Floats, Mean

_STATEMENTS = 5
_CONCENTRATION = 2.0
_SHARE_OF_ONES = 0.9


class Drawn(NamedTuple):
    """Samples of a population: values (n,) and, for shared documents, the document of each (n,)."""

    values: Floats
    clusters: npt.NDArray[np.intp] | None = None


class Coverage(NamedTuple):
    """Share of intervals that contain the true mean, and their mean width."""

    held: float
    width: float


Draw = Callable[[np.random.Generator, int, float], Drawn]
Estimate = Callable[[Drawn, int], Mean]


def coverage(
    estimate: Estimate, draw: Draw, size: int, mean: float, *, repeats: int, seed: int
) -> Coverage:
    """Measure how often `estimate(drawn, seed)` contains `mean`, for `draw(generator, size, mean)`.

    `draw` makes one data set.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    intervals = [estimate(draw(generator, size, mean), repeat) for repeat in range(repeats)]
    return Coverage(
        held=sum(interval.low <= mean <= interval.high for interval in intervals) / repeats,
        width=sum(interval.high - interval.low for interval in intervals) / repeats,
    )


def yes_or_no(generator: np.random.Generator, size: int, mean: float) -> Drawn:
    """0 or 1."""
    return Drawn((generator.random(size) < mean).astype(np.float64))


def share_of_statements(generator: np.random.Generator, size: int, mean: float) -> Drawn:
    """Draw shares of five statements; samples differ in difficulty."""
    return Drawn(generator.binomial(_STATEMENTS, _ease(generator, size, mean)) / _STATEMENTS)


def any_number(generator: np.random.Generator, size: int, mean: float) -> Drawn:
    """Draw from a beta distribution: U-shaped at mean 0.5, concentrated at a limit elsewhere."""
    return Drawn(_ease(generator, size, mean))


def nearly_always_one(generator: np.random.Generator, size: int, mean: float) -> Drawn:
    """Draw exactly 1 for nine of ten samples.

    The tenth is uniform around the value that gives `mean` (above 0.9).
    """
    rest = 1 - (1 - mean) / (1 - _SHARE_OF_ONES)
    half_range = min(rest, 1 - rest)
    others = generator.uniform(rest - half_range, rest + half_range, size)
    return Drawn(np.where(generator.random(size) < _SHARE_OF_ONES, 1.0, others))


def shared_documents(generator: np.random.Generator, size: int, mean: float) -> Drawn:
    """Draw 0 or 1, with about four samples per document (geometric), some documents harder.

    `size` counts documents, so the number of samples varies.
    """
    samples = generator.geometric(0.25, size)
    document = np.repeat(np.arange(size), samples)
    values = generator.random(len(document)) < _ease(generator, size, mean)[document]
    return Drawn(values.astype(np.float64), document)


POPULATIONS: tuple[Draw, ...] = (
    yes_or_no,
    share_of_statements,
    any_number,
    nearly_always_one,
    shared_documents,
)


def _ease(generator: np.random.Generator, size: int, mean: float) -> Floats:
    return generator.beta(mean * _CONCENTRATION, (1 - mean) * _CONCENTRATION, size)
