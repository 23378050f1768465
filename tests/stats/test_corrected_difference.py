"""The interval of a corrected difference, where the truth is known; and how many labels a gate needs."""

import numpy as np
import pytest
from corrected_coverage import made_up_pool

from localjudge.stats.corrected import (
    JudgedUnits,
    corrected_difference,
    draw,
    inclusion_probabilities,
    strata_by_score,
    uncertainty,
)
from localjudge.stats.interval import Floats, Indices, Interval
from localjudge.stats.paired import labels_needed

REPEATS = 150
_LENIENT, _STRICT = made_up_pool(0.95, 0.6), made_up_pool(0.6, 0.95, seed=1)


def judged(
    generator: np.random.Generator, human: Floats, sample: Indices, lenient: bool, labels: int, drawn: Floats | None
) -> tuple[JudgedUnits, Floats]:
    """Units that a judge decided, and what each stands for that was drawn, over its weight: now, or by another run."""
    pool, sizes = _LENIENT if lenient else _STRICT, np.bincount(sample)
    ones, zeros = np.flatnonzero(pool.human == 1), np.flatnonzero(pool.human == 0)
    chosen = np.where(human == 1, generator.choice(ones, len(human)), generator.choice(zeros, len(human)))
    p_yes, weights = pool.p_yes[chosen], 1 / (sizes[sample] * len(sizes))
    if drawn is None:
        shares = weights * uncertainty(p_yes)
        drawing = draw(shares, strata_by_score(p_yes, 10), labels, int(generator.integers(2**31)))
        drawn = np.zeros(len(human))
        turns = int(drawing.turns.max())
        drawn[drawing.taken] = 1 / inclusion_probabilities(shares[drawing.taken] / shares.sum(), turns)
    certain = np.zeros(len(human), dtype=np.bool_)
    labelled = (p_yes >= 0.5).astype(np.float64), weights, human, weights * drawn
    return JudgedUnits(*labelled, strata_by_score(p_yes), sample, certain), drawn


@pytest.mark.parametrize(
    ("samples", "labels", "after", "same"), [(100, 40, 0.8, False), (40, 20, 0.7, False), (60, 30, 0.7, True)]
)
def test_the_corrected_difference_holds_the_truth(samples: int, labels: int, after: float, same: bool) -> None:
    """A lenient judge before, a strict one after: what they say differs by more than .2 where nothing does.

    Of 1 are 70 % before. The samples are as hard for both; what is the `same` has one label, which serves both.
    """
    generator = np.random.Generator(np.random.PCG64(samples))
    held, missed_by_judges = 0, 0
    for _ in range(REPEATS):
        sample = np.repeat(np.arange(samples), generator.integers(1, 5, samples))
        hard = generator.normal(0, 0.15, samples)[sample]
        old = (generator.random(len(sample)) < 0.7 + hard).astype(np.float64)
        new = old if same else (generator.random(len(sample)) < after + hard).astype(np.float64)
        first, drawn = judged(generator, old, sample, True, labels, None)
        second, _ = judged(generator, new, sample, False, labels, drawn if same else None)
        difference = corrected_difference(first, second)
        assert difference.limits is not None
        truth = 0.0 if same else np.clip(after + hard, 0, 1).mean() - np.clip(0.7 + hard, 0, 1).mean()
        low, high = difference.limits
        held += low <= truth <= high
        judges = float((second.weights * second.judged).sum() - (first.weights * first.judged).sum())
        missed_by_judges += not low <= judges <= high
    assert 0.9 <= held / REPEATS <= 1
    assert missed_by_judges > REPEATS / 2


def interval(mean: float, low: float, high: float) -> Interval:
    return Interval(mean, low, high, "bootstrap", 100, 100)


def test_labels_needed_leave_out_what_samples_leave_open() -> None:
    """50 labels, arms .1 and .06: 50 (.01 - .0036) / (.08^2 - .0036) = 50 64 / 28 = 114.3 for a threshold .08 away."""
    corrected, judge = interval(0.6, 0.5, 0.8), interval(0.7, 0.64, 0.9)
    assert labels_needed(corrected, judge, 0.52, 50, 1_000) == 115
    assert labels_needed(corrected, judge, 0.55, 50, 1_000) is None  # .05 away, nearer than .06


def test_the_arm_that_crosses_the_threshold_counts() -> None:
    """Above it is .2 long, the judge's .1: 50 (.04 - .01) / (.15^2 - .01) = 50 300 / 125 = 120, .15 away."""
    assert labels_needed(interval(0.6, 0.5, 0.8), interval(0.7, 0.2, 0.8), 0.75, 50, 1_000) in (120, 121)


def test_no_more_labels_are_asked_for_than_there_are_statements() -> None:
    """50 (.08^2 - .03^2) / (.05^2 - .03^2) = 50 55 / 16 = 171.9, and there are 107; if all have one, none is left."""
    corrected, judge = interval(0.6, 0.52, 0.68), interval(0.6, 0.57, 0.63)
    assert labels_needed(corrected, judge, 0.55, 50, 1_000) == 172
    assert labels_needed(corrected, judge, 0.55, 50, 107) == 107
    assert labels_needed(corrected, judge, 0.55, 107, 107) is None
