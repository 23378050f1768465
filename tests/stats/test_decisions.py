"""Figures of a judge's decisions, and its calibration error, by hand."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from localjudge.errors import DataError
from localjudge.stats.agreement import (
    accuracy,
    bias,
    debiased_calibration_error,
    equal_mass_bins,
    f1_score,
    matthews_correlation,
    precision,
    recall,
)
from localjudge.stats.interval import Floats, LabelledScores, statistic_interval, statistic_intervals

#          TP TP TP FN FP FP TN TN TN TN
LABELS = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]
DECIDED = [1, 1, 1, 0, 1, 1, 0, 0, 0, 0]


def test_decisions_by_hand() -> None:
    """TP 3, FN 1, FP 2, TN 4: MCC = (3*4 - 2*1) / sqrt(5 * 4 * 6 * 5)."""
    assert accuracy(LABELS, DECIDED) == pytest.approx(7 / 10)
    assert precision(LABELS, DECIDED) == pytest.approx(3 / 5)
    assert recall(LABELS, DECIDED) == pytest.approx(3 / 4)
    assert f1_score(LABELS, DECIDED) == pytest.approx(6 / 9)
    assert bias(LABELS, DECIDED) == pytest.approx(5 / 10 - 4 / 10)
    assert matthews_correlation(LABELS, DECIDED) == pytest.approx(10 / np.sqrt(5 * 4 * 6 * 5))


def test_the_matthews_correlation_is_pearson_s() -> None:
    assert matthews_correlation(LABELS, DECIDED) == pytest.approx(np.corrcoef(LABELS, DECIDED)[0, 1])


@pytest.mark.parametrize("statistic", [accuracy, precision, recall, f1_score, matthews_correlation])
def test_a_weight_of_two_is_a_row_twice(statistic) -> None:  # type: ignore[no-untyped-def]
    twice = statistic(LABELS + LABELS[:3], DECIDED + DECIDED[:3])
    weighed = statistic(LABELS, DECIDED, [[2, 2, 2, 1, 1, 1, 1, 1, 1, 1], [1] * 10])
    assert weighed == pytest.approx([twice, statistic(LABELS, DECIDED)])


def test_what_cannot_be_said_is_an_error() -> None:
    with pytest.raises(DataError, match="no row is decided 1"):
        precision([0, 1], [0, 0])
    with pytest.raises(DataError, match="decided alike"):
        matthews_correlation([0, 1], [1, 1])
    with pytest.raises(DataError, match="every row is labelled 1"):
        recall([1, 1], [1, 0])
    assert f1_score([0, 1], [0, 0]) == 0


def test_bins_hold_equal_numbers_and_equal_scores_stay_together() -> None:
    assert np.bincount(equal_mass_bins(np.arange(100))).tolist() == [10] * 10
    assert np.bincount(equal_mass_bins(np.arange(35))).tolist() == [12, 12, 11]
    assert np.bincount(equal_mass_bins([0.5] * 50 + [0.7] * 50)).tolist() == [50, 50]
    assert np.bincount(equal_mass_bins([0.5] * 5)).tolist() == [5]


def test_the_debiased_error_by_hand() -> None:
    """Two bins of ten rows, scores .2 and .8, shares of 1 .5 and .6.

    (.2 - .5)^2 - .5 * .5 / 9 = .0622, (.8 - .6)^2 - .6 * .4 / 9 = .0133; the root of their mean is .1944.
    """
    labels = [1, 0] * 5 + [1] * 6 + [0] * 4
    scores = [0.2] * 10 + [0.8] * 10
    expected = np.sqrt(((0.09 - 0.25 / 9) + (0.04 - 0.24 / 9)) / 2)
    assert debiased_calibration_error(labels, scores) == pytest.approx(expected)
    assert debiased_calibration_error(labels, scores, [[3.0] * 20, [0.5] * 20]) == pytest.approx([expected] * 2)


def test_chance_alone_is_taken_off() -> None:
    """Of calibrated scores the squared error is 0 on average: without the correction, 1/n of it would be left."""
    generator = np.random.default_rng(5)
    squares = []
    for _ in range(200):
        scores = generator.uniform(0.05, 0.95, 200)
        labels = (generator.random(200) < scores).astype(float)
        squares.append(float(debiased_calibration_error(labels, scores)) ** 2)
    # Per bin of 20 rows chance adds about E[p (1 - p)] / 20 = .0093; what is left comes from cutting at 0.
    assert np.mean(squares) < 0.0093 / 2


def test_a_row_alone_in_its_bin_is_no_division_by_zero() -> None:
    assert debiased_calibration_error([0] * 19 + [1], [0.1] * 19 + [0.9]) == pytest.approx(0.1, abs=0.01)


ROWS = arrays.arrays(np.float64, 12, elements=st.sampled_from([0.1, 0.3, 0.5, 0.9]))


@given(ROWS, st.permutations(range(12)))
def test_the_order_of_the_rows_moves_nothing(scores: Floats, order: list[int]) -> None:
    labels = np.array([0, 1] * 6, dtype=np.float64)
    for statistic in (accuracy, f1_score, debiased_calibration_error):
        decided = scores if statistic is debiased_calibration_error else (scores >= 0.5).astype(float)
        assert statistic(labels[order], decided[order]) == pytest.approx(statistic(labels, decided))


def test_several_statistics_share_their_resamples() -> None:
    """Each is, bit for bit, what it is alone."""
    together = statistic_intervals({"a": accuracy, "r": recall}, LabelledScores(LABELS, DECIDED), resamples=200)
    for name, statistic in {"a": accuracy, "r": recall}.items():
        assert together[name] == statistic_interval(statistic, LABELS, DECIDED, resamples=200)


def test_weights_of_rows_stay_with_their_rows() -> None:
    """A row that stands for three counts three times in the figure, whatever order and clusters it has."""
    for labels, weight in product(([1, 0, 0, 1], [0, 1, 1, 0]), ([3, 1, 1, 1], [1, 1, 1, 3])):
        rows = LabelledScores(labels, [1, 1, 0, 0], weight, ["b", "a", "a", "c"])
        found = statistic_intervals({"a": accuracy}, rows, resamples=50)["a"]
        assert found.mean == pytest.approx(accuracy(labels, [1, 1, 0, 0], weight))
        assert (found.n, found.clusters) == (4, 3)
