"""Measure the coverage of corrected differences of two runs with means near 1.

    for each repeat:  make two runs of the same samples -> draw and label n units of each
                      -> covered? how wide? of width 0?

Units, samples and judges are those of `corrected_coverage.py`. Equal samples of both runs have the
same number of units, and their labels depend on a common difficulty. In a share of the samples,
the second run has the same answer, with the same verdicts and labels.
"""

from typing import NamedTuple

import numpy as np
from corrected_coverage import UNITS_OF_A_SAMPLE, Pool, SimulatedRun

from localjudge.stats.corrected import corrected_difference
from localjudge.stats.interval import Flags, Floats, Indices

MEANS = (
    (0.9, 0.9),
    (0.95, 0.9),
    (0.95, 0.95),
    (0.99, 0.95),
    (0.99, 0.99),
    (1.0, 0.9),
    (1.0, 0.95),
    (1.0, 0.99),
    (1.0, 1.0),
)
"""True means of both runs, of samples with different answers."""
LABELS = (20, 50, 100)
_CONCENTRATION = 2.0


class PairSetting(NamedTuple):
    """Properties of two runs. `shared` is the share of samples with equal answers."""

    samples: int
    before: float
    after: float
    shared: float
    labels: int

    @property
    def difference(self) -> float:
        return (1 - self.shared) * (self.after - self.before)


class HeldDifference(NamedTuple):
    """Share of intervals that contain the truth, their mean width, and the share of width 0."""

    share: float
    width: float
    points: float


def measure_difference(
    setting: PairSetting, pool: Pool, *, repeats: int, seed: int
) -> HeldDifference:
    """Measure the intervals of the corrected difference."""
    generator = np.random.Generator(np.random.PCG64(seed))
    rows = [_limits(setting, pool, generator) for _ in range(repeats)]
    limits = np.array(rows)
    truth = setting.difference
    held = (limits[:, 0] <= truth) & (truth <= limits[:, 1])
    widths = limits[:, 1] - limits[:, 0]
    is_point = widths == 0
    return HeldDifference(float(held.mean()), float(widths.mean()), float(is_point.mean()))


def _limits(
    setting: PairSetting, pool: Pool, generator: np.random.Generator
) -> tuple[float, float]:
    before, after, is_shared = _make_pair(setting, pool, generator)
    units = []
    seed = int(generator.integers(2**31))
    for run in (before, after):
        drawing = run.draw(setting.labels, np.random.Generator(np.random.PCG64(seed)))
        units.append(run.units(drawing, setting.labels))
    unshared = float(before.weights[~is_shared].sum())
    change = corrected_difference(units[0], units[1], unshared=unshared)
    return change.ci95 or (-1.0, 1.0)


def _make_pair(
    setting: PairSetting, pool: Pool, generator: np.random.Generator
) -> tuple[SimulatedRun, SimulatedRun, Flags]:
    """Return both runs, and which of their units are equal."""
    sizes = generator.choice(
        np.arange(1, len(UNITS_OF_A_SAMPLE) + 1), setting.samples, p=UNITS_OF_A_SAMPLE
    )
    sample = np.repeat(np.arange(setting.samples), sizes)
    weights = 1 / (sizes[sample] * setting.samples)
    common = generator.random(len(sample))
    runs = []
    for mean in (setting.before, setting.after):
        rates = _draw_rates(mean, setting.samples, generator)
        chosen = _choose_units(pool, common < rates[sample], generator)
        runs.append(SimulatedRun(pool.p_yes[chosen], pool.human[chosen], weights, sample))
    before, after = runs
    is_shared = (generator.random(setting.samples) < setting.shared)[sample]
    p_yes = np.where(is_shared, before.p_yes, after.p_yes)
    human = np.where(is_shared, before.human, after.human)
    return before, after._replace(p_yes=p_yes, human=human), is_shared


def _draw_rates(mean: float, samples: int, generator: np.random.Generator) -> Floats:
    """Return the share of 1 in each sample."""
    if mean == 1:
        return np.ones(samples)
    return generator.beta(mean * _CONCENTRATION, (1 - mean) * _CONCENTRATION, samples)


def _choose_units(pool: Pool, is_one: Flags, generator: np.random.Generator) -> Indices:
    ones = generator.choice(np.flatnonzero(pool.human == 1), len(is_one))
    zeros = generator.choice(np.flatnonzero(pool.human == 0), len(is_one))
    return np.where(is_one, ones, zeros)
