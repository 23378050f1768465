"""How often the interval of a corrected mean holds the truth, and how many labels it saves: measured where it is known.

    for each repeat:  make a run of judged units -> draw n -> label them -> correct -> held? how wide?

A run has samples of 1 to 6 units, as many of each size as CLAPnq's reference answers have sentences. Samples differ in
how many of their units are 1 (a beta distribution around the truth); in the clustered case groups of four share that.
Units come from a pool: of a made-up judge, or of real verdicts on statements that people labelled.

    labels alone    drawn at random, units all as likely: their mean, without a judge
    PPI++           drawn at random: the judge's mean and the mean of its errors, weighted by lambda
    corrected       as localjudge draws and corrects

These are intervals of a single look. `looked_at` labels on and looks again and again, at planned numbers of labels
(`localjudge.stats.looks`) or with an ordinary interval after every five labels.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from localjudge.analysis.labelled_texts import read_labelled_texts
from localjudge.stats.corrected import (
    DrawnUnits,
    JudgedUnits,
    draw,
    inclusion_probabilities,
    labels_alone,
    prediction_powered,
    strata_by_score,
    uncertainty,
)
from localjudge.stats.interval import CONFIDENCE, Floats, Indices
from localjudge.stats.looks import PLANNED

UNITS_OF_A_SAMPLE = (0.30, 0.35, 0.20, 0.08, 0.04, 0.03)
_GROUP = 4
_CONCENTRATION = 2.0
_MADE_UP_UNITS = 4_000
_STRATA = 10
_THRESHOLD = 0.5
_MORE_LABELS = (1.0, 1.25, 1.5, 2.0, 3.0)
WAYS = ("labels alone", "PPI++", "corrected")
LABELS_AT = 50
"""The look with the width that is compared."""
_MOST_LABELS = 150
ORDINARY = dict.fromkeys(range(15, _MOST_LABELS + 1, 5), CONFIDENCE)
"""Labels after which somebody looks at an ordinary interval."""
AS_PLANNED = {look.labels: 1 - look.error for look in PLANNED if look.labels <= _MOST_LABELS}


class Pool(NamedTuple):
    """Units to make runs of: what the judge gave each, and what people say; both (units,)."""

    p_yes: Floats
    human: Floats


class Setting(NamedTuple):
    """What a run and its labels are like."""

    samples: int
    truth: float
    clustered: bool
    labels: int


class Held(NamedTuple):
    """Share of intervals that held the truth, and their mean width."""

    share: float
    width: float


JUDGES: Mapping[str, tuple[float, float]] = {
    "lenient": (0.95, 0.6),
    "strict": (0.6, 0.95),
    "noisy": (0.75, 0.75),
    "good": (0.95, 0.95),
}
"""What made-up judges get right of 1 and of 0."""


def made_up_pool(sensitivity: float, specificity: float, seed: int = 0) -> Pool:
    """A judge whose p_yes knows a little of whether its label is right, as those of real judges do."""
    generator = np.random.Generator(np.random.PCG64(seed))
    human = (np.arange(_MADE_UP_UNITS) % 2).astype(np.float64)
    right = generator.random(_MADE_UP_UNITS) < np.where(human == 1, sensitivity, specificity)
    judged = np.where(right, human, 1 - human)
    confidence = np.where(right, generator.beta(3, 1.5, len(human)), generator.beta(1.5, 2, len(human)))
    return Pool(np.where(judged == 1, 0.5 + confidence / 2, 0.5 - confidence / 2), human)


def recorded_pool(labels: Path, run: Path) -> Pool:
    """The verdicts in the directory of a run that `localjudge calibrate LABELS --judge ...` made, with the labels."""
    human = {str(text.columns["id"]): text.labels[0] for text in read_labelled_texts(labels).texts}
    with (run / "verdicts.jsonl").open(encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["p_yes"] is not None]
    return Pool(
        np.array([row["p_yes"] for row in rows]), np.array([float(human[row["sample_id"]] or 0) for row in rows])
    )


def measure(setting: Setting, pool: Pool, *, repeats: int, seed: int) -> dict[str, Held]:
    """How each of the `WAYS` does."""
    generator = np.random.Generator(np.random.PCG64(seed))
    limits = np.array([_intervals(setting, pool, generator) for _ in range(repeats)])
    held = (limits[:, :, 0] <= setting.truth) & (setting.truth <= limits[:, :, 1])
    width = limits[:, :, 1] - limits[:, :, 0]
    return {way: Held(float(held[:, at].mean()), float(width[:, at].mean())) for at, way in enumerate(WAYS)}


def labels_for(width: float, way: str, setting: Setting, pool: Pool, *, repeats: int, seed: int) -> float:
    """How many labels the way needs for intervals of this mean width, interpolated between numbers that are tried."""
    counts = [round(setting.labels * factor) for factor in _MORE_LABELS]
    widths = [measure(setting._replace(labels=count), pool, repeats=repeats, seed=seed)[way].width for count in counts]
    return float(np.exp(np.interp(-np.log(width), -np.log(widths), np.log(counts))))


class Misses(NamedTuple):
    """Share of runs in which some interval missed the truth, and the mean width of the interval at 50 labels."""

    share: float
    width: float


def looked_at(setting: Setting, pool: Pool, looks: Mapping[int, float], *, repeats: int, seed: int) -> Misses:
    """What happens with an interval after each of these numbers of labels, of this confidence."""
    generator = np.random.Generator(np.random.PCG64(seed))
    limits = np.array([_limits_at(looks, _made_run(setting, pool, generator), generator) for _ in range(repeats)])
    missed = (limits[:, :, 0] > setting.truth) | (setting.truth > limits[:, :, 1])
    return Misses(
        float(missed.any(axis=1).mean()), float(np.ptp(limits[:, list(looks).index(LABELS_AT)], axis=1).mean())
    )


def _limits_at(looks: Mapping[int, float], run: "_Run", generator: np.random.Generator) -> list[tuple[float, float]]:
    drawing = run.draw(max(looks), generator)
    units = ((run.units(drawing, labels), confidence) for labels, confidence in looks.items())
    return [prediction_powered(*powered).limits or (0.0, 1.0) for powered in units]


class _Run(NamedTuple):
    """Units of a made-up run: what the judge and people say, weights and clusters."""

    p_yes: Floats
    human: Floats
    weights: Floats
    clusters: Indices

    @property
    def _shares(self) -> Floats:
        return self.weights * uncertainty(self.p_yes)

    def draw(self, labels: int, generator: np.random.Generator) -> DrawnUnits:
        return draw(self._shares, strata_by_score(self.p_yes, _STRATA), labels, int(generator.integers(2**31)))

    def units(self, drawing: DrawnUnits, labels: int) -> JudgedUnits:
        """The units with the first labels of a drawing."""
        taken, shares, drawn = drawing.taken[:labels], self._shares, np.zeros_like(self.weights)
        chances = inclusion_probabilities(shares[taken] / shares.sum(), int(drawing.turns[:labels].max()))
        drawn[taken] = self.weights[taken] / chances
        return self.labelled(drawn, strata_by_score(self.p_yes))

    def labelled(self, drawn: Floats, strata: Indices) -> JudgedUnits:
        judged, certain = (self.p_yes >= _THRESHOLD).astype(np.float64), np.zeros(len(drawn), dtype=np.bool_)
        return JudgedUnits(judged, self.weights, self.human, drawn, strata, self.clusters, certain)


def _made_run(setting: Setting, pool: Pool, generator: np.random.Generator) -> _Run:
    sizes = generator.choice(np.arange(1, len(UNITS_OF_A_SAMPLE) + 1), setting.samples, p=UNITS_OF_A_SAMPLE)
    sample = np.repeat(np.arange(setting.samples), sizes)
    clusters = sample // _GROUP if setting.clustered else sample
    rates = generator.beta(setting.truth * _CONCENTRATION, (1 - setting.truth) * _CONCENTRATION, setting.samples)
    is_one, size = generator.random(len(sample)) < rates[clusters], len(sample)
    ones, zeros = np.flatnonzero(pool.human == 1), np.flatnonzero(pool.human == 0)
    chosen = np.where(is_one, generator.choice(ones, size), generator.choice(zeros, size))
    return _Run(pool.p_yes[chosen], pool.human[chosen], 1 / (sizes[sample] * setting.samples), clusters)


def _intervals(setting: Setting, pool: Pool, generator: np.random.Generator) -> list[tuple[float, float]]:
    run = _made_run(setting, pool, generator)
    size, at_random = len(run.weights), np.zeros_like(run.weights)
    taken = generator.permutation(size)[: setting.labels]
    at_random[taken] = run.weights[taken] * size / len(taken)
    random_units = run.labelled(at_random, np.zeros(size, dtype=np.intp))
    units = run.units(run.draw(setting.labels, generator), setting.labels)
    means = labels_alone(random_units), prediction_powered(random_units), prediction_powered(units)
    return [mean.limits or (0.0, 1.0) for mean in means]
