"""Corrected means: golden arithmetic, and what must hold of any judge and any labels."""

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.errors import DataError
from localjudge.stats.corrected import (
    FEWEST_CLUSTERS,
    JudgedUnits,
    draw,
    even_shares,
    prediction_powered,
    strata_by_score,
)


def units_of(
    judged: Sequence[float],
    human: Sequence[float | None],
    *,
    probabilities: Sequence[float] = (1,),
    strata: Sequence[int] = (0,),
    samples: Sequence[int] = (),
) -> JudgedUnits:
    """Units of samples that each weigh the same; every unit a sample of its own unless it is said otherwise."""
    of = np.array(samples or range(len(judged)))
    weights = 1 / (np.bincount(of)[of] * (of.max() + 1))
    labelled = np.array([label is not None for label in human])
    return JudgedUnits(
        judged=np.array(judged, dtype=float),
        weights=weights,
        human=np.array([label or 0 for label in human], dtype=float),
        drawn=np.where(labelled, weights / np.array(probabilities), 0.0),
        strata=np.resize(np.array(strata, dtype=np.intp), len(judged)),
        clusters=of,
        certain=np.zeros(len(judged), dtype=bool),
    )


def test_the_prediction_powered_mean_by_hand() -> None:
    """Judged 1 1 0 0 1 1 0 0 (p = .5); the first four are labelled 1 0 0 0, each standing for 1/4.

    lambda = sum (H - .25)(L - .5) / sum (L - .5)^2 = (.375 - .125 + .125 + .125) / 1 = .5
    theta  = .5 * .5 + ((1 - .5) + (0 - .5) + 0 + 0) / 4 = .25
    """
    powered = prediction_powered(units_of([1, 1, 0, 0, 1, 1, 0, 0], [1, 0, 0, 0, None, None, None, None]))
    assert [powered.power, powered.mean] == pytest.approx([0.5, 0.25])
    assert powered.limits is None


@pytest.mark.parametrize(
    ("judged", "human", "how", "mean"),
    [
        # Sample 0 has one unit, sample 1 four: weights 1/2 and 1/8. All are judged 1 and labelled; one is 0.
        # If it is the unit of sample 0 the mean is 0 + 1/2, if it is one of sample 1 it is 1/2 + 3/8.
        ([1] * 5, [0, 1, 1, 1, 1], {"samples": [0, 1, 1, 1, 1]}, 0.5),
        ([1] * 5, [1, 0, 1, 1, 1], {"samples": [0, 1, 1, 1, 1]}, 0.875),
        # No slope, lambda 1. Labels 1 and 0, drawn with 1/4 and 3/4, stand for 4 and 4/3 of 16/3: 1 + 1/4 (0 - 1).
        ([1] * 4, [1, 0, None, None], {"probabilities": [0.25, 0.75, 1, 1]}, 0.75),
        # Stratum 0: 5 of 20 units, all labelled 0; stratum 1: 15, five labelled 1, so 5/20 * 0 + 15/20 * 1.
        ([1] * 20, [0] * 5 + [1] * 5 + [None] * 10, {"strata": [0] * 5 + [1] * 15}, 0.75),
        # Four labels in either stratum are too few: together eight, of which half are 1.
        ([1] * 40, [0] * 4 + [None] * 6 + [1] * 4 + [None] * 26, {"strata": [0] * 10 + [1] * 30}, 0.5),
    ],
    ids=["an error in sample 0", "an error in sample 1", "rarely drawn", "strata are weighed", "with its neighbour"],
)
def test_what_a_label_stands_for_by_hand(judged: list[float], human: list[Any], how: Any, mean: float) -> None:
    assert prediction_powered(units_of(judged, human, **how)).mean == pytest.approx(mean)


@given(st.randoms(use_true_random=False), st.integers(2, 60))
def test_of_any_judge_and_any_labels(random: Random, size: int) -> None:
    """Labels that agree with the judge leave its mean; labels of all give that of people; limits hold the mean."""
    judged, human, labelled = ([float(random.random() < 0.5) for _ in range(size)] for _ in range(3))
    labelled[random.randrange(size)] = 1
    _, samples = np.unique(sorted(random.choices(range(13), k=size)), return_inverse=True)
    how: dict[str, Any] = {"samples": samples.tolist(), "strata": random.choices(range(4), k=size)}
    seen = [[label if known else None for label, known in zip(of, labelled, strict=True)] for of in (judged, human)]
    agreeing, units = (units_of(judged, labels, probabilities=[0.5], **how) for labels in seen)
    assert prediction_powered(agreeing).mean == pytest.approx(float((units.weights * judged).sum()), abs=1e-9)
    assert prediction_powered(agreeing).power == pytest.approx(1)
    everything = units_of(judged, human, **how)
    assert prediction_powered(everything).mean == pytest.approx(float((units.weights * human).sum()), abs=1e-9)
    corrected = prediction_powered(units)
    assert (corrected.limits is None) == (corrected.clusters < FEWEST_CLUSTERS)
    low, high = corrected.limits or (0, 1)
    assert 0 <= low <= corrected.mean + 1e-9
    assert corrected.mean - 1e-9 <= high <= 1
    order = random.sample(range(size), size)
    turned = JudgedUnits(*(column[order] for column in units))  # type: ignore[arg-type]
    assert prediction_powered(turned).mean == pytest.approx(corrected.mean, abs=1e-12)


def test_where_no_error_was_seen_the_interval_still_has_a_width() -> None:
    """Fifty labels that all agree do not say that the judge never errs: 1/50 more than the judge's own interval."""
    judged = [1] * 300 + [0] * 100
    human: list[int | None] = [1] * 30 + [None] * 270 + [0] * 20 + [None] * 80
    powered = prediction_powered(units_of(judged, human))
    assert powered.limits is not None
    assert powered.limits[1] - powered.limits[0] > 2 * 1.96 / 50
    # Ten labels of one sample are one draw.
    units = units_of([1] * 20, [1] * 10 + [None] * 10, samples=[0] * 10 + list(range(1, 11)))
    assert prediction_powered(units).limits is None


def test_what_needs_no_judge_is_neither_corrected_nor_counted_as_labelled() -> None:
    """Ten units without any text are 0 for sure; of the ten others, judged 1, four are labelled and one of them is 0.

    theta = 10/20 * 0 + 10/20 * 3/4 = .375; labelled are four.
    """
    certain = np.arange(20) < 10
    human: list[int | None] = [0] * 10 + [1, 1, 1, 0] + [None] * 6
    units = units_of([0] * 10 + [1] * 10, human, strata=[0] * 10 + [1] * 10)._replace(certain=certain)
    powered = prediction_powered(units)
    assert powered.mean == pytest.approx(0.375)
    assert (powered.limits, powered.clusters) == (None, 4)


def test_a_correction_without_any_label_is_refused() -> None:
    with pytest.raises(DataError, match="no unit is labelled"):
        prediction_powered(units_of([1, 0], [None, None]))


sizes_and_strata = st.lists(st.tuples(st.floats(0.01, 1), st.integers(0, 3)), min_size=1, max_size=60)


@given(sizes_and_strata, st.integers(1, 80), st.integers(0, 5))
def test_as_many_are_drawn_as_were_wanted(rows: list[tuple[float, int]], count: int, seed: int) -> None:
    """No unit twice, and the probabilities are as many in all."""
    sizes = np.array([size for size, _ in rows])
    strata = np.unique([number for _, number in rows], return_inverse=True)[1]
    drawing = draw(sizes, strata, count, seed)
    assert len(drawing.taken) == len(set(drawing.taken.tolist())) == min(count, len(rows))
    assert drawing.probabilities.sum() == pytest.approx(min(count, len(rows)))
    assert (drawing.probabilities[drawing.taken] > 0).all()
    assert (drawing.probabilities <= 1 + 1e-12).all()


def test_each_unit_is_drawn_as_often_as_is_stated() -> None:
    """Of 4,000 draws of 4 of 12 units; the largest is drawn always."""
    sizes, strata = np.array([1.0, 2, 3, 10, 1, 1, 2, 2, 5, 5, 1, 1]), np.repeat([0, 1], [4, 8])
    times = np.zeros(12)
    for seed in range(4_000):
        times[draw(sizes, strata, 4, seed).taken] += 1
    stated = draw(sizes, strata, 4, 0).probabilities
    assert stated[3] == 1
    assert times / 4_000 == pytest.approx(stated, abs=4 * 0.5 / np.sqrt(4_000))


def test_the_same_seed_draws_the_same_and_another_others() -> None:
    sizes, strata = np.ones(100), np.repeat(np.arange(5), 20)
    first, same, other = (draw(sizes, strata, 20, seed).taken.tolist() for seed in (1, 1, 2))
    assert first == same
    assert first != other


def test_what_comes_first_is_no_stratum_before_another() -> None:
    """Labels of the first half alone are labels of a random half."""
    drawing = draw(np.ones(1_000), np.repeat(np.arange(5), 200), 200, 0)
    assert len(set((drawing.taken[:20] // 200).tolist())) > 2


@pytest.mark.parametrize(
    ("sizes", "count", "expected"),
    [([10, 10], 5, [3, 2]), ([1, 10, 10], 9, [1, 4, 4]), ([2, 2], 9, [2, 2]), ([0, 4], 2, [0, 2]), ([3], 0, [0])],
)
def test_shares_are_even_where_there_is_something_to_share(sizes: list[int], count: int, expected: list[int]) -> None:
    assert even_shares(sizes, count) == expected


def test_strata_are_of_equal_size_and_equal_scores_are_together() -> None:
    assert strata_by_score(np.linspace(0, 1, 10)).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert strata_by_score(np.array([0.9, 0.9, 0.9, 0.1])).tolist() == [1, 1, 1, 0]
    assert strata_by_score(np.array([0.5, 0.5])).tolist() == [0, 0]
