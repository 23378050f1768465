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
def test_the_corrected_difference_covers_the_truth(samples: int, labels: int, after: float, same: bool) -> None:
    """A lenient judge before, a strict one after: their verdicts differ by more than .2, the truth does not.

    70 % of the statements are 1 before. Both runs have equally hard samples; the `same` statements share one label.
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


def test_labels_needed_excludes_sampling_error() -> None:
    """50 labels, arms .1 and .04: a / c = .1 / 2.118 = .0472, s / 1.96 = .0204; 50 (.0472^2 - .0204^2) = .0905.

    For a threshold .09 away, c'^2 (.0204^2 + .0905 / n') is .0087 at 100 labels (c' = 2.570) and .0076 at 150 (2.722),
    which is below .09^2 = .0081.
    """
    corrected, judge = interval(0.6, 0.5, 0.8), interval(0.7, 0.66, 0.9)
    assert labels_needed(corrected, judge, 0.51, 50, 1_000) == 150
    assert labels_needed(corrected, judge, 0.56, 50, 1_000) is None  # .04 away, no farther than s


def test_labels_needed_uses_the_arm_towards_the_threshold() -> None:
    """The upper arm is .2, the judge's .05: at 100 labels 2.570 sqrt(.0255^2 + .4133 / 100) = .178 is below .19."""
    assert labels_needed(interval(0.6, 0.5, 0.8), interval(0.7, 0.2, 0.75), 0.79, 50, 1_000) == 100


def test_labels_needed_is_at_most_the_number_of_statements() -> None:
    """Of 1,000 statements, 500 labels suffice. Of 107, all do: only sampling error remains, .03 2.407 / 1.96 = .037."""
    corrected, judge = interval(0.6, 0.52, 0.68), interval(0.6, 0.57, 0.63)
    assert labels_needed(corrected, judge, 0.54, 50, 1_000) == 500
    assert labels_needed(corrected, judge, 0.54, 50, 107) == 107
    assert labels_needed(corrected, judge, 0.54, 107, 107) is None
