"""How often the interval of a corrected mean holds the truth: measured on made-up runs whose truth is known.

    for each repeat:  make a run and its judge's errors -> draw n units -> label them -> correct -> held?

Samples have 1 to 7 units. They differ in how many of their units are 1 (a beta distribution around the truth), and in
the clustered case groups of four samples share that, and the judge's error rates, too. The judge's p_yes knows a little
of whether its label is right, as those of real judges do.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from localjudge.stats.corrected import JudgedUnits, draw, prediction_powered, strata_by_score
from localjudge.stats.interval import Floats, Indices

_MOST_UNITS = 7
_GROUP = 4
_CONCENTRATION = 2.0
_CONCENTRATION_OF_ERRORS = 3.0


class Judge(NamedTuple):
    """What it gets right of 1 and of 0."""

    sensitivity: float
    specificity: float


class Setting(NamedTuple):
    """What a run and its labels are like."""

    samples: int
    truth: float
    clustered: bool
    stratified: bool
    labels: int


class Held(NamedTuple):
    """Share of intervals that held the truth, their mean width, and the mean of the estimates."""

    share: float
    width: float
    mean: float


JUDGES: Mapping[str, Judge] = {
    "lenient": Judge(0.95, 0.6),
    "strict": Judge(0.6, 0.95),
    "noisy": Judge(0.75, 0.75),
}
METHODS = ("judge", "corrected")


def coverage(setting: Setting, judge: Judge, *, repeats: int, seed: int) -> dict[str, Held]:
    """The judge's mean and the corrected one with how often each held."""
    generator = np.random.Generator(np.random.PCG64(seed))
    found = np.array([_intervals(setting, judge, generator) for _ in range(repeats)])
    held = (found[:, :, 0] <= setting.truth) & (setting.truth <= found[:, :, 1])
    width = found[:, :, 1] - found[:, :, 0]
    return {
        name: Held(float(held[:, at].mean()), float(width[:, at].mean()), float(found[:, at, 2].mean()))
        for at, name in enumerate(METHODS)
    }


def made_up(setting: Setting, judge: Judge, generator: np.random.Generator) -> JudgedUnits:
    """A run with some of its units labelled."""
    sizes = generator.integers(1, _MOST_UNITS + 1, setting.samples)
    sample = np.repeat(np.arange(setting.samples), sizes)
    clusters = (np.arange(setting.samples) // _GROUP if setting.clustered else np.arange(setting.samples))[sample]
    human = (generator.random(len(sample)) < _rates(setting.truth, _CONCENTRATION, clusters, generator)).astype(float)
    rates = [_rates(rate, _CONCENTRATION_OF_ERRORS, clusters, generator) for rate in judge]
    if not setting.clustered:
        rates = [np.full(len(sample), rate) for rate in judge]
    right = generator.random(len(sample)) < np.where(human == 1, *rates)
    judged = np.where(right, human, 1 - human)
    confidence = np.where(right, generator.beta(3, 1.5, len(sample)), generator.beta(1.5, 2, len(sample)))
    p_yes = np.where(judged == 1, 0.5 + confidence / 2, 0.5 - confidence / 2)
    weights = 1 / (sizes[sample] * setting.samples)
    strata = strata_by_score(p_yes) if setting.stratified else np.zeros(len(sample), dtype=np.intp)
    drawing = draw(weights, strata, setting.labels, int(generator.integers(2**31)))
    drawn = np.zeros(len(sample))
    drawn[drawing.taken] = (weights / np.maximum(drawing.probabilities, 1e-300))[drawing.taken]
    return JudgedUnits(judged, weights, human, drawn, strata, clusters, np.zeros(len(sample), dtype=bool))


def _intervals(setting: Setting, judge: Judge, generator: np.random.Generator) -> list[tuple[float, float, float]]:
    units = made_up(setting, judge, generator)
    corrected = prediction_powered(units)
    low, high = corrected.limits or (0.0, 1.0)
    return [_of_the_judge(units), (low, high, corrected.mean)]


def _of_the_judge(units: JudgedUnits) -> tuple[float, float, float]:
    """1.96 standard errors around the judge's mean, over clusters."""
    sums = np.bincount(units.clusters, weights=units.weights * units.judged)
    sizes = np.bincount(units.clusters, weights=units.weights)
    mean = float(sums.sum())
    error = float(np.sqrt(((sums - mean * sizes) ** 2).sum()))
    return mean - 1.96 * error, mean + 1.96 * error, mean


def _rates(mean: float, concentration: float, clusters: Indices, generator: np.random.Generator) -> Floats:
    """A rate of each unit's cluster, around a mean."""
    drawn = generator.beta(mean * concentration, (1 - mean) * concentration, int(clusters.max()) + 1)
    rates: Floats = drawn[clusters]
    return rates
