"""Measure the coverage of corrected means and the labels that they save, where the truth is known.

    for each repeat:  make a run of judged units -> draw n -> label them -> correct
                      -> covered? how wide?

A run has samples of 1 to 6 units, with the sizes of CLAPnq's reference answers. The share of units
with label 1 varies between samples (a beta distribution around the truth); in the clustered case,
groups of four share it. Units come from
a pool: of a simulated judge, or of real verdicts on labelled statements.

    labels only     uniform random draw: the mean without a judge
    PPI++           uniform random draw: the judge's mean and the mean of its errors, weighted by
                    lambda
    corrected       localjudge's drawing and correction

These are intervals of a single look. `looked_at` simulates repeated looks, at planned numbers of
labels (`localjudge.stats.repeated_looks`) or with an ordinary interval after every five labels.
`in_slices` corrects the slices of a run by one drawing, and `pooled` the share of all units, where
samples with more units have a smaller share of 1. `measure_predictions` takes the judge's
probabilities, or the values halfway between them and its labels, in place of its labels.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from localjudge.dataset.sources import Source
from localjudge.labels.calibration_labels import read_labelled_texts
from localjudge.stats.corrected import (
    JudgedUnits,
    draw,
    drawing_sizes,
    inclusion_probabilities,
    labels_alone,
    prediction_powered,
    strata_by_score,
)
from localjudge.stats.interval import CONFIDENCE, Floats, Indices, mean_interval
from localjudge.stats.repeated_looks import LOOKS_WITHOUT_PLAN, look_at

UNITS_OF_A_SAMPLE = (0.30, 0.35, 0.20, 0.08, 0.04, 0.03)
_GROUP = 4
_LONG = 3
_CONCENTRATION = 2.0
_MADE_UP_UNITS = 4_000
_STRATA = 10
_THRESHOLD = 0.5
_MORE_LABELS = (1.0, 1.25, 1.5, 2.0, 3.0)
WAYS = ("labels only", "PPI++", "corrected")
PREDICTIONS = ("verdict", "probability", "halfway")
LABELS_AT = 50
"""Number of labels for the comparison of widths."""
_MOST_LABELS = 150
ORDINARY = dict.fromkeys(range(15, _MOST_LABELS + 1, 5), CONFIDENCE)
"""Numbers of labels for looks at an ordinary interval."""
AS_PLANNED = {
    labels: 1 - error for labels, error, _ in LOOKS_WITHOUT_PLAN if labels <= _MOST_LABELS
}

Drawing = tuple[Indices, Indices]
"""Indices of units in drawing order, and the number of points until each was hit."""


class Pool(NamedTuple):
    """Units for runs: the judge's probabilities and the human labels, both (units,)."""

    p_yes: Floats
    human: Floats


class Setting(NamedTuple):
    """Properties of a run and its labels."""

    samples: int
    truth: float
    clustered: bool
    labels: int
    longer: float = 1.0
    """Factor of the share of 1 in samples of three units or more."""

    @property
    def pooled_truth(self) -> float:
        """Share of 1 among all units of the population."""
        sizes = np.arange(1, len(UNITS_OF_A_SAMPLE) + 1)
        units = sizes * np.array(UNITS_OF_A_SAMPLE)
        return float(
            (units * np.where(sizes < _LONG, 1.0, self.longer)).sum() / units.sum() * self.truth,
        )


class Held(NamedTuple):
    """Share of intervals that contain the truth, and their mean width."""

    share: float
    width: float


JUDGES: Mapping[str, tuple[float, float]] = {
    "lenient": (0.95, 0.6),
    "strict": (0.6, 0.95),
    "noisy": (0.75, 0.75),
    "good": (0.95, 0.95),
}
"""Sensitivity and specificity of simulated judges."""


def made_up_pool(sensitivity: float, specificity: float, seed: int = 0) -> Pool:
    """Simulate a judge with a p_yes that says little about its errors, as in real judges."""
    generator = np.random.Generator(np.random.PCG64(seed))
    human = (np.arange(_MADE_UP_UNITS) % 2).astype(np.float64)
    right = generator.random(_MADE_UP_UNITS) < np.where(human == 1, sensitivity, specificity)
    judged = np.where(right, human, 1 - human)
    confidence = np.where(
        right, generator.beta(3, 1.5, len(human)), generator.beta(1.5, 2, len(human))
    )
    return Pool(np.where(judged == 1, 0.5 + confidence / 2, 0.5 - confidence / 2), human)


def recorded_pool(labels: Path, run: Path) -> Pool:
    """Return the verdicts of a run of `localjudge calibrate LABELS --judge ...`, with labels."""
    with Source(str(labels)) as source:
        texts, _ = read_labelled_texts(source)
    human = {str(text.columns["id"]): text.labels[0] for text in texts}
    with (run / "verdicts.jsonl").open(encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["p_yes"] is not None]
    return Pool(
        np.array([row["p_yes"] for row in rows]),
        np.array([float(human[row["sample_id"]] or 0) for row in rows]),
    )


def measure(setting: Setting, pool: Pool, *, repeats: int, seed: int) -> dict[str, Held]:
    """Measure each of the `WAYS`."""
    generator = np.random.Generator(np.random.PCG64(seed))
    limits = np.array([_intervals(setting, pool, generator) for _ in range(repeats)])
    return _held_by(WAYS, limits, setting.truth)


def measure_predictions(
    setting: Setting, pool: Pool, *, repeats: int, seed: int
) -> dict[str, Held]:
    """Measure corrected means by each of the `PREDICTIONS`, of the same runs and drawings."""
    generator = np.random.Generator(np.random.PCG64(seed))
    limits = np.array([_predicted(setting, pool, generator) for _ in range(repeats)])
    return _held_by(PREDICTIONS, limits, setting.truth)


def _held_by(ways: Sequence[str], limits: Floats, truth: float) -> dict[str, Held]:
    """Return the shares and widths of limits (repeats, ways, 2)."""
    held = (limits[:, :, 0] <= truth) & (truth <= limits[:, :, 1])
    width = limits[:, :, 1] - limits[:, :, 0]
    measured: dict[str, Held] = {}
    for at, way in enumerate(ways):
        measured[way] = Held(float(held[:, at].mean()), float(width[:, at].mean()))
    return measured


def labels_for(
    width: float, way: str, setting: Setting, pool: Pool, *, repeats: int, seed: int
) -> float:
    """Return the number of labels for intervals of this mean width, interpolated."""
    counts = [round(setting.labels * factor) for factor in _MORE_LABELS]
    widths = [
        measure(setting._replace(labels=count), pool, repeats=repeats, seed=seed)[way].width
        for count in counts
    ]
    return float(np.exp(np.interp(-np.log(width), -np.log(widths), np.log(counts))))


class Misses(NamedTuple):
    """Share of runs with a miss at some look, and the mean interval width at 50 labels."""

    share: float
    width: float


def looked_at(
    setting: Setting, pool: Pool, looks: Mapping[int, float], *, repeats: int, seed: int
) -> Misses:
    """Simulate looks at these numbers of labels with these confidences."""
    generator = np.random.Generator(np.random.PCG64(seed))
    limits = np.array(
        [_limits_at(looks, _made_run(setting, pool, generator), generator) for _ in range(repeats)],
    )
    missed = (limits[:, :, 0] > setting.truth) | (setting.truth > limits[:, :, 1])
    return Misses(
        float(missed.any(axis=1).mean()),
        float(np.ptp(limits[:, list(looks).index(LABELS_AT)], axis=1).mean()),
    )


class PlanMisses(NamedTuple):
    """Shares of runs that miss at the planned number and at any look, and their width.

    `until_all` are runs with a miss at any look or by the labels of all statements. `width` is the
    mean width at `LABELS_AT` labels, `ratio` its ratio to an ordinary interval of the same labels.
    """

    at_plan: float
    at_any: float
    until_all: float
    width: float
    ratio: float


def planned_labels(
    setting: Setting, pool: Pool, planned: int | None, *, repeats: int, seed: int
) -> PlanMisses:
    """Simulate looks from a planned number of labels, or without a plan, until all have labels.

    The width is the one at `LABELS_AT` labels, and the ordinary one is of the same labels.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    rows = [_looks_until_all(setting, pool, planned, generator) for _ in range(repeats)]
    missed_at_plan, missed_at_any, missed_all, widths, ordinary = np.array(rows).T
    until_all = np.maximum(missed_at_any, missed_all).mean()
    return PlanMisses(
        float(missed_at_plan.mean()),
        float(missed_at_any.mean()),
        float(until_all),
        float(widths.mean()),
        float(widths.mean() / ordinary.mean()),
    )


def _looks_until_all(
    setting: Setting, pool: Pool, planned: int | None, generator: np.random.Generator
) -> tuple[float, float, float, float, float]:
    run = _made_run(setting, pool, generator)
    statements = len(run.weights)
    drawing = run.draw(statements, generator)
    misses = []
    width = ordinary = 1.0
    at_plan = 0.0
    first_look, _, _ = LOOKS_WITHOUT_PLAN[0]
    labels = planned or first_look
    while labels < statements:
        look = look_at(labels, statements, planned)
        units = run.units(drawing, labels)
        limits = prediction_powered(units, look.confidence).ci95 or (0.0, 1.0)
        misses.append(not limits[0] <= setting.truth <= limits[1])
        if labels == LABELS_AT:
            width = limits[1] - limits[0]
            low, high = prediction_powered(units).ci95 or (0.0, 1.0)
            ordinary = high - low
        if labels == planned:
            at_plan = float(misses[-1])
        labels = look.next or statements
    last = look_at(statements, statements, planned)
    low, high = _limits_of_all(run, setting.samples, last.confidence or CONFIDENCE, generator)
    missed = not low <= setting.truth <= high
    return at_plan, float(any(misses)), float(missed), width, ordinary


def _limits_of_all(
    run: "SimulatedRun", samples: int, confidence: float, generator: np.random.Generator
) -> tuple[float, float]:
    """Return the limits of the mean of the labels of all statements."""
    sizes = np.rint(1 / (run.weights * samples)).astype(np.intp)
    starts = [0]
    while starts[-1] + sizes[starts[-1]] < len(sizes):
        starts.append(int(starts[-1] + sizes[starts[-1]]))
    shares = np.add.reduceat(run.human, starts) / sizes[starts]
    seed = int(generator.integers(2**31))
    interval = mean_interval(
        shares,
        clusters=run.clusters[starts],
        resamples=1_000,
        seed=seed,
        confidence=confidence,
    )
    return interval.low, interval.high


def _limits_at(
    looks: Mapping[int, float], run: "SimulatedRun", generator: np.random.Generator
) -> list[tuple[float, float]]:
    drawing = run.draw(max(looks), generator)
    units = ((run.units(drawing, labels), confidence) for labels, confidence in looks.items())
    return [prediction_powered(*powered).ci95 or (0.0, 1.0) for powered in units]


class SimulatedRun(NamedTuple):
    """Units of a simulated run: verdicts, labels, weights and clusters."""

    p_yes: Floats
    human: Floats
    weights: Floats
    clusters: Indices

    @property
    def shares(self) -> Floats:
        return drawing_sizes(self.weights, self.p_yes)

    def draw(self, labels: int, generator: np.random.Generator) -> Drawing:
        return draw(
            self.shares,
            strata_by_score(self.p_yes, _STRATA),
            labels,
            int(generator.integers(2**31)),
        )

    def units(self, drawing: Drawing, labels: int, shares: Floats | None = None) -> JudgedUnits:
        """Return the units with the first labels of a drawing with these shares."""
        all_taken, turns = drawing
        taken = all_taken[:labels]
        drawn = np.zeros_like(self.weights)
        shares = self.shares / self.shares.sum() if shares is None else shares
        chances = inclusion_probabilities(shares[taken], int(turns[:labels].max()))
        drawn[taken] = self.weights[taken] / chances
        return self.labelled(drawn, strata_by_score(self.p_yes))

    def labelled(self, drawn: Floats, strata: Indices) -> JudgedUnits:
        judged = (self.p_yes >= _THRESHOLD).astype(np.float64)
        certain = np.zeros(len(drawn), dtype=np.bool_)
        return JudgedUnits(judged, self.weights, self.human, drawn, strata, self.clusters, certain)


SLICES = ((180, 0.5), (72, 0.7), (48, 0.9))
"""Samples and truth of each slice. A last row is for the whole run."""


class HeldInSlice(NamedTuple):
    """A slice, or the whole run: single looks at 50 labels, and runs that miss a planned look."""

    held: Held
    misses: float


def in_slices(
    pool: Pool, *, clustered: bool, by: bool, repeats: int, seed: int
) -> list[HeldInSlice]:
    """Measure the `SLICES` and the whole run, drawn `by` slice or not, until all have 50 labels."""
    generator = np.random.Generator(np.random.PCG64(seed))
    looks = {
        **{number: level for number, level in AS_PLANNED.items() if number <= LABELS_AT},
        -LABELS_AT: CONFIDENCE,
    }
    limits = np.array(
        [_limits_in_slices(pool, clustered, by, looks, generator) for _ in range(repeats)]
    )
    samples = sum(count for count, _ in SLICES)
    truths = np.array(
        [*(truth for _, truth in SLICES), sum(count * truth for count, truth in SLICES) / samples],
    )
    missed = (limits[..., 0] > truths[:, None]) | (truths[:, None] > limits[..., 1])
    widths = np.ptp(limits[:, :, -1], axis=-1).mean(axis=0)
    held = 1 - missed[:, :, -1].mean(axis=0)
    misses = missed[:, :, :-1].any(axis=2).mean(axis=0)
    return [
        HeldInSlice(Held(*each), miss) for *each, miss in zip(held, widths, misses, strict=True)
    ]


def _limits_in_slices(
    pool: Pool,
    clustered: bool,
    by: bool,
    looks: Mapping[int, float],
    generator: np.random.Generator,
) -> list[list[tuple[float, float]]]:
    parts = [
        _made_run(Setting(count, truth, clustered, 0), pool, generator) for count, truth in SLICES
    ]
    slices = np.repeat(np.arange(len(parts)), [len(part.weights) for part in parts])
    samples = sum(count for count, _ in SLICES)
    weights = np.concatenate(
        [part.weights * count / samples for part, (count, _) in zip(parts, SLICES, strict=True)],
    )
    offsets = np.cumsum([0, *(part.clusters.max() + 1 for part in parts)])
    clusters = np.concatenate(
        [part.clusters + offset for part, offset in zip(parts, offsets, strict=False)]
    )
    p_yes, human = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("p_yes", "human")
    )
    sizes = drawing_sizes(weights, p_yes)
    strata = strata_by_score(p_yes, _STRATA)
    if by:
        sizes = sizes / np.bincount(slices, sizes)[slices]
        strata = strata + _STRATA * slices
    taken, turns = draw(sizes, strata, len(sizes), int(generator.integers(2**31)))
    shares = sizes / sizes.sum()
    results = list[list[tuple[float, float]]]()
    for number in range(len(parts) + 1):
        mine = slices == number if number < len(parts) else np.ones(len(slices), dtype=np.bool_)
        part = SimulatedRun(
            p_yes[mine],
            human[mine],
            weights[mine] / weights[mine].sum(),
            _from_zero(clusters[mine]),
        )
        within = mine[taken]
        of_part = ((np.cumsum(mine) - 1)[taken[within]], turns[within])
        units = (
            (part.units(of_part, abs(count), shares[mine]), level) for count, level in looks.items()
        )
        results.append([prediction_powered(*powered).ci95 or (0.0, 1.0) for powered in units])
    return results


def _from_zero(clusters: Indices) -> Indices:
    return np.unique(clusters, return_inverse=True)[1]


def pooled(setting: Setting, pool: Pool, *, repeats: int, seed: int) -> tuple[Held, Held]:
    """Measure the share of all units, by the human labels of all of them, and corrected by some."""
    generator = np.random.Generator(np.random.PCG64(seed))
    limits = np.array([_pooled_limits(setting, pool, generator) for _ in range(repeats)])
    held = (limits[..., 0] <= setting.pooled_truth) & (setting.pooled_truth <= limits[..., 1])
    judge, corrected = zip(held.mean(axis=0), np.ptp(limits, axis=-1).mean(axis=0), strict=True)
    return Held(*judge), Held(*corrected)


def _pooled_limits(
    setting: Setting, pool: Pool, generator: np.random.Generator
) -> list[tuple[float, float]]:
    run = _made_run(setting, pool, generator)
    shares = run.shares / run.shares.sum()
    drawing = run.draw(setting.labels, generator)
    units = run._replace(weights=np.full_like(shares, 1 / len(shares)))
    interval = mean_interval(
        run.human, clusters=run.clusters, resamples=500, seed=int(generator.integers(2**31))
    )
    corrected = prediction_powered(units.units(drawing, setting.labels, shares))
    return [(interval.low, interval.high), corrected.ci95 or (0.0, 1.0)]


def _made_run(setting: Setting, pool: Pool, generator: np.random.Generator) -> SimulatedRun:
    sizes = generator.choice(
        np.arange(1, len(UNITS_OF_A_SAMPLE) + 1), setting.samples, p=UNITS_OF_A_SAMPLE
    )
    sample = np.repeat(np.arange(setting.samples), sizes)
    clusters = sample // _GROUP if setting.clustered else sample
    rates = generator.beta(
        setting.truth * _CONCENTRATION, (1 - setting.truth) * _CONCENTRATION, setting.samples
    )
    share = rates[clusters] * np.where(sizes[sample] < _LONG, 1.0, setting.longer)
    is_one = generator.random(len(sample)) < share
    size = len(sample)
    ones = np.flatnonzero(pool.human == 1)
    zeros = np.flatnonzero(pool.human == 0)
    chosen = np.where(is_one, generator.choice(ones, size), generator.choice(zeros, size))
    return SimulatedRun(
        pool.p_yes[chosen], pool.human[chosen], 1 / (sizes[sample] * setting.samples), clusters
    )


def _intervals(
    setting: Setting, pool: Pool, generator: np.random.Generator
) -> list[tuple[float, float]]:
    run = _made_run(setting, pool, generator)
    size = len(run.weights)
    at_random = np.zeros_like(run.weights)
    taken = generator.permutation(size)[: setting.labels]
    at_random[taken] = run.weights[taken] * size / len(taken)
    random_units = run.labelled(at_random, np.zeros(size, dtype=np.intp))
    units = run.units(run.draw(setting.labels, generator), setting.labels)
    means = labels_alone(random_units), prediction_powered(random_units), prediction_powered(units)
    return [mean.ci95 or (0.0, 1.0) for mean in means]


def _predicted(
    setting: Setting, pool: Pool, generator: np.random.Generator
) -> list[tuple[float, float]]:
    """Return the limits by each prediction.

    Probabilities are counted twice: lambda is at most 1, and they spread less than labels.
    """
    run = _made_run(setting, pool, generator)
    units = run.units(run.draw(setting.labels, generator), setting.labels)
    limits: list[tuple[float, float]] = []
    for prediction in (units.judged, 2 * run.p_yes, units.judged + run.p_yes):
        mean = prediction_powered(units._replace(judged=prediction))
        limits.append(mean.ci95 or (0.0, 1.0))
    return limits
