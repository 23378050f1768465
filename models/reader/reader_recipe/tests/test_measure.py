import numpy as np
import pytest
from reader_recipe.measure import (
    auc,
    balanced_accuracy,
    calibration_error,
    fit_calibration,
    windows,
)
from reader_recipe.tokens import Ids


def ids(*numbers: int) -> Ids:
    return np.array(numbers, dtype=np.int32)


def test_a_text_that_fits_is_one_window() -> None:
    result = windows([ids(1, 2), ids(3)], room=3)
    assert [window.tolist() for window in result] == [[1, 2, 3]]


def test_windows_hold_whole_sentences_and_share_one() -> None:
    sentences = [ids(1, 1), ids(2, 2), ids(3, 3), ids(4, 4)]
    result = windows(sentences, room=4)
    assert [window.tolist() for window in result] == [[1, 1, 2, 2], [2, 2, 3, 3], [3, 3, 4, 4]]


def test_a_sentence_longer_than_a_window_is_cut_and_nothing_is_lost() -> None:
    result = windows([ids(*range(10))], room=4)
    assert sorted({token for window in result for token in window.tolist()}) == list(range(10))
    assert max(map(len, result)) == 4


def test_no_sentences_give_no_window() -> None:
    assert windows([], room=4) == []


def test_auc_counts_pairs_and_ties_half() -> None:
    labels = np.array([1, 1, 0, 0])
    scores = np.array([3.0, 1.0, 1.0, 0.0])
    # Pairs: 3>1, 3>0, 1=1 (half), 1>0: 3.5 of 4
    assert auc(labels, scores) == pytest.approx(3.5 / 4)


def test_auc_of_one_label_is_no_number() -> None:
    assert np.isnan(auc(np.array([1, 1]), np.array([0.0, 1.0])))


def test_balanced_accuracy_weighs_both_labels_alike() -> None:
    labels = np.array([1, 0, 0, 0, 0])
    # 1 of 1 positive, 3 of 4 negative: (1 + .75) / 2
    is_yes = np.array([True, True, False, False, False])
    assert balanced_accuracy(labels, is_yes) == pytest.approx(0.875)


def test_calibration_puts_one_half_at_the_best_threshold_and_finds_the_slope() -> None:
    rng = np.random.default_rng(1)
    logits = rng.normal(3, 4, 20000)
    labels = (rng.random(20000) < 1 / (1 + np.exp(-(0.5 * logits - 1)))).astype(np.int64)
    calibration = fit_calibration(labels, logits)
    # Labels follow sigmoid(.5 z - 1); classes weighed alike move the constant, not the slope
    assert calibration.scale == pytest.approx(0.5, abs=0.03)
    is_yes = calibration.probabilities(logits) >= 0.5
    best = max(balanced_accuracy(labels, logits >= c) for c in np.linspace(-3, 8, 111))
    assert balanced_accuracy(labels, is_yes) == pytest.approx(best, abs=0.006)


def test_calibration_error_of_right_and_wrong_probabilities() -> None:
    labels = np.array([0, 1] * 50)
    assert calibration_error(labels, np.full(100, 0.5)) == pytest.approx(0.0)
    assert calibration_error(labels, np.full(100, 0.8)) == pytest.approx(0.3)
