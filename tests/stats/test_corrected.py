"""Corrected means: golden arithmetic, and what must hold of any judge and any labels."""

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
from localjudge.stats.interval import Floats


def units_of(
    judged: list[int],
    human: list[int | None],
    *,
    probabilities: list[float] | None = None,
    strata: list[int] | None = None,
    samples: list[int] | None = None,
) -> JudgedUnits:
    """Units of samples that each weigh the same; every unit a sample of its own unless it is said otherwise."""
    of = np.arange(len(judged)) if samples is None else np.array(samples)
    weights = 1 / (np.bincount(of)[of] * (of.max() + 1))
    inclusion = np.ones(len(judged)) if probabilities is None else np.array(probabilities)
    labelled = np.array([label is not None for label in human])
    return JudgedUnits(
        judged=np.array(judged, dtype=float),
        weights=weights,
        human=np.array([label or 0 for label in human], dtype=float),
        drawn=np.where(labelled, weights / inclusion, 0.0),
        strata=np.zeros(len(judged), dtype=np.intp) if strata is None else np.array(strata),
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


def test_an_error_weighs_what_its_unit_weighs_in_the_mean_of_its_metric() -> None:
    """Sample 0 has one unit, sample 1 four: weights 1/2 and 1/8. All are judged 1 and labelled; one is 0.

    If it is the unit of sample 0 the mean is 0 + 1/2, if it is one of sample 1 it is 1/2 + 3/8.
    """
    samples = [0, 1, 1, 1, 1]
    assert prediction_powered(units_of([1] * 5, [0, 1, 1, 1, 1], samples=samples)).mean == pytest.approx(0.5)
    assert prediction_powered(units_of([1] * 5, [1, 0, 1, 1, 1], samples=samples)).mean == pytest.approx(0.875)


def test_a_label_that_was_drawn_rarely_stands_for_more() -> None:
    """Judged 1 all: no slope, lambda 1. Labels 1 and 0, drawn with 1/4 and 3/4: they stand for 4 and 4/3 of 16/3.

    theta = 1 + 3/4 (1 - 1) + 1/4 (0 - 1) = .75
    """
    powered = prediction_powered(units_of([1] * 4, [1, 0, None, None], probabilities=[0.25, 0.75, 1, 1]))
    assert powered.mean == pytest.approx(0.75)


def test_strata_are_weighed_by_what_they_are_known_to_be() -> None:
    """Stratum 0: 5 of 20 units, all labelled 0; stratum 1: 15, of which five are labelled 1. Nothing was judged 0.

    theta = 5/20 * 0 + 15/20 * 1 = .75, though half of the labels are 1.
    """
    human: list[int | None] = [0] * 5 + [1] * 5 + [None] * 10
    assert prediction_powered(units_of([1] * 20, human, strata=[0] * 5 + [1] * 15)).mean == pytest.approx(0.75)


def test_a_stratum_with_too_few_labels_is_taken_with_its_neighbour() -> None:
    """Four labels in either stratum: together eight, of which half are 1."""
    human: list[int | None] = [0] * 4 + [None] * 6 + [1] * 4 + [None] * 26
    assert prediction_powered(units_of([1] * 40, human, strata=[0] * 10 + [1] * 30)).mean == pytest.approx(0.5)


@st.composite
def runs(draw: st.DrawFn) -> tuple[Floats, Floats, np.ndarray, np.ndarray, np.ndarray]:
    """Judged and human labels, samples, strata and which units are labelled, one at least."""
    size = draw(st.integers(2, 60))
    column = st.lists(st.booleans(), min_size=size, max_size=size)
    judged, human, labelled = (np.array(draw(column), dtype=float) for _ in range(3))
    labelled[draw(st.integers(0, size - 1))] = 1
    samples = np.sort(np.array(draw(st.lists(st.integers(0, 12), min_size=size, max_size=size))))
    strata = np.array(draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)))
    return judged, human, np.unique(samples, return_inverse=True)[1], strata, labelled


def made(judged: Floats, human: Floats, samples: np.ndarray, strata: np.ndarray, labelled: np.ndarray) -> JudgedUnits:
    weights = 1 / (np.bincount(samples)[samples] * (samples.max() + 1))
    drawn = np.where(labelled > 0, weights / 0.5, 0.0)
    return JudgedUnits(judged, weights, human, drawn, strata, samples, np.zeros(len(judged), dtype=bool))


@given(runs())
def test_labels_that_agree_with_the_judge_leave_the_mean_as_it_is(run: tuple[Floats, ...]) -> None:
    judged, _, samples, strata, labelled = run
    units = made(judged, judged, samples, strata, labelled)
    mean = float((units.weights * judged).sum())
    assert prediction_powered(units).mean == pytest.approx(mean, abs=1e-9)


@given(runs())
def test_if_all_units_are_labelled_the_mean_is_that_of_people(run: tuple[Floats, ...]) -> None:
    """Whatever the judge said: every label stands for itself."""
    judged, human, samples, strata, _ = run
    units = made(judged, human, samples, strata, np.ones(len(judged)))
    truth = float((units.weights * human).sum())
    assert prediction_powered(units).mean == pytest.approx(truth, abs=1e-9)


@given(runs())
def test_limits_hold_the_mean_and_lie_in_0_to_1(run: tuple[Floats, ...]) -> None:
    units = made(*run)
    corrected = prediction_powered(units)
    assert 0 <= corrected.mean <= 1
    assert (corrected.limits is None) == (corrected.clusters < FEWEST_CLUSTERS)
    if corrected.limits is not None:
        low, high = corrected.limits
        assert 0 <= low <= corrected.mean + 1e-9
        assert corrected.mean - 1e-9 <= high <= 1


@given(runs(), st.randoms(use_true_random=False))
def test_the_order_of_the_units_moves_nothing(run: tuple[Floats, ...], random: object) -> None:
    units = made(*run)
    order = np.arange(len(units.judged))
    random.shuffle(order)  # type: ignore[attr-defined]
    turned = JudgedUnits(*(column[order] for column in units))  # type: ignore[arg-type]
    assert prediction_powered(turned).mean == pytest.approx(prediction_powered(units).mean, abs=1e-12)


def test_where_no_error_was_seen_the_interval_still_has_a_width() -> None:
    """Fifty labels that all agree do not say that the judge never errs: 1/50 more than the judge's own interval."""
    judged = [1] * 300 + [0] * 100
    human: list[int | None] = [1] * 30 + [None] * 270 + [0] * 20 + [None] * 80
    powered = prediction_powered(units_of(judged, human))
    assert powered.limits is not None
    assert powered.limits[1] - powered.limits[0] > 2 * 1.96 / 50


def test_ten_labels_of_one_sample_give_no_interval() -> None:
    """They are one draw."""
    human: list[int | None] = [1] * 10 + [None] * 10
    assert prediction_powered(units_of([1] * 20, human, samples=[0] * 10 + list(range(1, 11)))).limits is None


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
    """Whoever labels only the first half has labelled a random half."""
    drawing = draw(np.ones(1_000), np.repeat(np.arange(5), 200), 200, 0)
    assert len(set((drawing.taken[:20] // 200).tolist())) > 2


@pytest.mark.parametrize(
    ("sizes", "count", "expected"),
    [
        ([10, 10], 5, [3, 2]),
        ([1, 10, 10], 9, [1, 4, 4]),
        ([2, 2], 9, [2, 2]),
        ([0, 4], 2, [0, 2]),
        ([3], 0, [0]),
    ],
)
def test_shares_are_even_as_far_as_there_is_something_to_share(
    sizes: list[int], count: int, expected: list[int]
) -> None:
    assert even_shares(sizes, count) == expected


def test_strata_are_of_equal_size_and_equal_scores_are_together() -> None:
    assert strata_by_score(np.linspace(0, 1, 10)).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert strata_by_score(np.array([0.9, 0.9, 0.9, 0.1])).tolist() == [1, 1, 1, 0]
    assert strata_by_score(np.array([0.5, 0.5])).tolist() == [0, 0]
