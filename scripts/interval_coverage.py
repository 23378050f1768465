"""How often an interval holds the true mean: measured, by drawing samples from populations whose mean is known.

    for each repeat:  draw n samples -> interval -> does it hold the population's mean?
    coverage = share of repeats that did

The populations look like scores: yes or no, a share of a few statements, any number, nearly always 1, and documents
that several samples share. Each has its mean by construction, not by estimate.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localjudge.stats.interval import Floats, Interval

_STATEMENTS = 5
_CONCENTRATION = 2.0
_SHARE_OF_ONES = 0.9


class Drawn(NamedTuple):
    """Samples of a population: values (n,) and, where samples share documents, the document of each (n,)."""

    values: Floats
    clusters: npt.NDArray[np.intp] | None = None


class Coverage(NamedTuple):
    """Share of repeats whose interval held the true mean, and the mean width of the intervals."""

    held: float
    width: float


Draw = Callable[[np.random.Generator, int, float], Drawn]
Estimate = Callable[[Drawn, int], Interval]


def coverage(estimate: Estimate, draw: Draw, size: int, mean: float, *, repeats: int, seed: int) -> Coverage:
    """Measure how often `estimate(drawn, seed)` holds `mean` for `draw(generator, size, mean)`."""
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
    """Share of five statements that hold, where samples differ in how hard they are."""
    return Drawn(generator.binomial(_STATEMENTS, _ease(generator, size, mean)) / _STATEMENTS)


def any_number(generator: np.random.Generator, size: int, mean: float) -> Drawn:
    """A number from a beta distribution: U-shaped at mean 0.5, piled up at a limit elsewhere."""
    return Drawn(_ease(generator, size, mean))


def nearly_always_one(generator: np.random.Generator, size: int, mean: float) -> Drawn:
    """Exactly 1 for nine samples of ten; the tenth lies evenly around what gives `mean` (above 0.9)."""
    rest = 1 - (1 - mean) / (1 - _SHARE_OF_ONES)
    half_range = min(rest, 1 - rest)
    others = generator.uniform(rest - half_range, rest + half_range, size)
    return Drawn(np.where(generator.random(size) < _SHARE_OF_ONES, 1.0, others))


def shared_documents(generator: np.random.Generator, size: int, mean: float) -> Drawn:
    """0 or 1, about four samples per document (1, 2, ... geometric), documents differing in how hard they are.

    `size` counts documents, so the number of samples varies.
    """
    samples = generator.geometric(0.25, size)
    document = np.repeat(np.arange(size), samples)
    values = generator.random(len(document)) < _ease(generator, size, mean)[document]
    return Drawn(values.astype(np.float64), document)


POPULATIONS: tuple[Draw, ...] = (yes_or_no, share_of_statements, any_number, nearly_always_one, shared_documents)


def _ease(generator: np.random.Generator, size: int, mean: float) -> Floats:
    return generator.beta(mean * _CONCENTRATION, (1 - mean) * _CONCENTRATION, size)
