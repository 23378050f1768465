"""Compare one drawing from the statements of two runs with a drawing from each.

    for each repeat:  make answers, and others: some statements dropped, replaced or added
                      -> label n statements drawn together, or n / 2 drawn from each run
                      -> covered? how wide?

Replaced and added statements are supported less often. Everything else is as in
`corrected_coverage.py`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from corrected_coverage import UNITS_OF_A_SAMPLE, Pool

from localjudge.stats.corrected import (
    STRATA,
    JudgedUnits,
    corrected_change,
    corrected_difference,
    draw,
    drawing_sizes,
    inclusion_probabilities,
    strata_by_score,
)
from localjudge.stats.interval import Flags, Floats, Indices, Mean
from localjudge.stats.paired import paired_difference

_STRATA_OF_DRAWING = 10
_NO_WEIGHT = 1e-12
_THRESHOLD = 0.5
RATES = {
    "few": (0.05, 0.05, 0.05),
    "some": (0.1, 0.1, 0.1),
    "many": (0.2, 0.4, 0.3),
}
"""Rates at which statements are dropped, replaced and added."""


class Rates(NamedTuple):
    """Share of 1 in the first answers, and what changes in the second ones.

    Statements are `dropped`, `replaced` and `added` at these rates; replaced and added ones have
    the share of 1 `supported`.
    """

    samples: int
    share: float
    dropped: float
    replaced: float
    added: float
    labels: int
    supported: float = 0.2


class JointHeld(NamedTuple):
    """Share of intervals that contain the truth, mean width, and share without 0 in them."""

    share: float
    width: float
    decided: float


class _Answers(NamedTuple):
    """Statements of both runs as arrays (statements,), and their weights in each mean."""

    p_yes: Floats
    human: Floats
    before: Floats
    after: Floats
    sample: Indices


def measure_plans(
    rates: Rates, pool: Pool, *, repeats: int, seed: int
) -> tuple[JointHeld, JointHeld]:
    """Measure the joint drawing, and one drawing from each run with half of the labels each."""
    generator = np.random.Generator(np.random.PCG64(seed))
    truth = _true_difference(rates, pool)
    joint: list[Mean] = []
    apart: list[Mean] = []
    for _ in range(repeats):
        answers = _make_answers(rates, pool, generator)
        joint.append(_estimate_together(answers, rates.labels, int(generator.integers(2**31))))
        apart.append(_estimate_apart(answers, rates.labels // 2, int(generator.integers(2**31))))
    return _held(joint, truth), _held(apart, truth)


def _held(estimates: Sequence[Mean], truth: float) -> JointHeld:
    limits = np.array([estimate.ci95 or (-1.0, 1.0) for estimate in estimates])
    held = (limits[:, 0] <= truth) & (truth <= limits[:, 1])
    decided = (limits[:, 0] > 0) | (limits[:, 1] < 0)
    width = limits[:, 1] - limits[:, 0]
    return JointHeld(float(held.mean()), float(width.mean()), float(decided.mean()))


def _true_difference(rates: Rates, pool: Pool) -> float:
    """Return the difference of the means over very many samples."""
    generator = np.random.Generator(np.random.PCG64(0))
    answers = _make_answers(rates._replace(samples=100_000), pool, generator)
    return float(((answers.after - answers.before) * answers.human).sum())


def _make_answers(rates: Rates, pool: Pool, generator: np.random.Generator) -> _Answers:
    sizes = generator.choice(
        np.arange(1, len(UNITS_OF_A_SAMPLE) + 1), rates.samples, p=UNITS_OF_A_SAMPLE
    )
    old = np.repeat(np.arange(rates.samples), sizes)
    fates = generator.random(len(old))
    kept = fates >= rates.dropped + rates.replaced
    # An answer keeps its first statement, so that it is never empty.
    first = np.concatenate([[True], old[1:] != old[:-1]])
    kept |= first
    replaced = ~kept & (fates >= rates.dropped)
    added = np.flatnonzero(generator.random(rates.samples) < rates.added * sizes)
    sample = np.concatenate([old, old[replaced], added])
    is_old = np.arange(len(sample)) < len(old)
    in_after = np.concatenate([kept, np.ones(len(sample) - len(old), dtype=bool)])
    share = np.where(is_old, rates.share, rates.supported)
    is_one = generator.random(len(sample)) < share
    ones = generator.choice(np.flatnonzero(pool.human == 1), len(sample))
    zeros = generator.choice(np.flatnonzero(pool.human == 0), len(sample))
    chosen = np.where(is_one, ones, zeros)
    return _Answers(
        pool.p_yes[chosen],
        pool.human[chosen],
        _weights(sample, is_old, rates.samples),
        _weights(sample, in_after, rates.samples),
        sample,
    )


def _weights(sample: Indices, present: Flags, samples: int) -> Floats:
    sizes = np.bincount(sample, weights=present, minlength=samples)
    return np.where(present, 1 / (sizes[sample] * samples), 0.0)


def _estimate_together(answers: _Answers, labels: int, seed: int) -> Mean:
    changes = answers.after - answers.before
    changes[np.abs(changes) < _NO_WEIGHT] = 0.0
    counts = np.flatnonzero(changes)
    if labels >= len(counts):
        return _difference_of_labels(answers)
    weights = np.abs(changes)
    drawn = np.zeros(len(changes))
    drawn[counts] = _draw(weights[counts], answers.p_yes[counts], labels, seed)
    strata = np.zeros(len(changes), dtype=np.intp)
    strata[counts] = strata_by_score(answers.p_yes[counts], STRATA)
    units = _units(answers, weights, drawn, strata)
    return corrected_change(units, np.where(changes < 0, -1.0, 1.0), answers.after)


def _difference_of_labels(answers: _Answers) -> Mean:
    """Return the difference if everything that differs has a label."""
    samples = int(answers.sample.max()) + 1
    means = []
    for weights in (answers.before, answers.after):
        means.append(samples * np.bincount(answers.sample, weights * answers.human, samples))
        means[-1] = np.minimum(1.0, means[-1])  # without the last bits of sums
    return paired_difference(means[0], means[1])


def _estimate_apart(answers: _Answers, labels: int, seed: int) -> Mean:
    units = []
    for weights in (answers.before, answers.after):
        present = np.flatnonzero(weights)
        drawn = np.zeros(len(weights))
        drawn[present] = _draw(weights[present], answers.p_yes[present], labels, seed)
        strata = np.zeros(len(weights), dtype=np.intp)
        strata[present] = strata_by_score(answers.p_yes[present], STRATA)
        units.append(_units(answers, weights, drawn, strata))
    unshared = float(np.abs(answers.after - answers.before).sum())
    return corrected_difference(units[0], units[1], unshared=min(1.0, unshared))


def _units(answers: _Answers, weights: Floats, drawn: Floats, strata: Indices) -> JudgedUnits:
    judged = (answers.p_yes >= _THRESHOLD).astype(float)
    certain = np.zeros(len(weights), dtype=np.bool_)
    return JudgedUnits(judged, weights, answers.human, drawn, strata, answers.sample, certain)


def _draw(weights: Floats, p_yes: Floats, labels: int, seed: int) -> Floats:
    """Return weight / probability of the drawn units, 0 for others (units,)."""
    sizes = drawing_sizes(weights, p_yes)
    strata = strata_by_score(p_yes, _STRATA_OF_DRAWING)
    units, turns = draw(sizes, strata, labels, seed)
    probabilities = inclusion_probabilities(sizes[units] / sizes.sum(), turns[-1])
    drawn = np.zeros(len(weights))
    drawn[units] = weights[units] / probabilities
    return drawn
