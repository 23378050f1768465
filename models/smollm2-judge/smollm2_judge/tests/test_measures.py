import numpy as np
import pytest
from smollm2_judge.measures import auc, balanced_accuracy, compare, gain_interval


def test_auc_counts_pairs_and_half_of_ties() -> None:
    labels = np.array([1, 1, 0, 0])
    scores = np.array([0.9, 0.4, 0.4, 0.1])
    assert auc(labels, scores) == pytest.approx(3.5 / 4), "of four pairs three are in order, one is a tie"


def test_auc_of_one_class_is_undefined() -> None:
    assert np.isnan(auc(np.array([1, 1]), np.array([0.1, 0.2])))


def test_the_interval_of_no_gain_is_zero() -> None:
    labels, scores = np.array([0, 1] * 20), np.linspace(0, 1, 40)
    assert gain_interval(labels, scores, scores, draws=50) == (0.0, 0.0)


def test_balanced_accuracy_is_the_mean_of_both_classes() -> None:
    assert balanced_accuracy(np.array([1, 1, 0]), np.array([1.0, -1.0, -1.0])) == pytest.approx(0.75)


def test_a_comparison_has_only_plain_names_and_numbers() -> None:
    """A checkpoint whose log contained a NumPy text as a name was written, and could not be loaded again."""
    scores = np.linspace(0, 1, 8)
    entry = compare(np.array([0, 1] * 4), ["rte", "wice"] * 4, scores, scores[::-1].copy())
    assert {type(name) for part in (entry, entry["auc"], entry["reference_auc"]) for name in part} == {str}
    numbers = [*entry["auc"].values(), *entry["gain_interval"], entry["balanced_accuracy"]]
    assert {type(number) for number in numbers} == {float}
