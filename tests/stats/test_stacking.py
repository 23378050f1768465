"""Weights of several judges by logistic regression."""

import math

import numpy as np
import pytest

from localjudge import DataError
from localjudge.stats import stacking
from localjudge.stats.agreement import LabelledScores


def drawn(
    count: int, signals: tuple[float, float], generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return log odds (n, 2) and labels: normal noise, shifted by the signal for a label of 1."""
    labels = (generator.random(count) < 0.5).astype(np.float64)
    odds = generator.standard_normal((count, 2)) + np.outer(2 * labels - 1, signals) / 2
    return odds, labels


def test_weights_minimise_the_penalised_log_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradient 0: sum of (p - y) x + ridge x sd^2 w = 0 for each judge, sum of (p - y) = 0."""
    odds, labels = drawn(80, (1.0, 0.8), np.random.default_rng(3))
    monkeypatch.setattr(stacking, "RIDGE", 2.0)
    weights, bias = stacking.fit(odds, labels, np.ones(80))
    errors = stacking.combine(odds, weights, bias) - labels
    assert errors.sum() == pytest.approx(0, abs=1e-6)
    assert odds.T @ errors + 2.0 * odds.var(axis=0) * weights == pytest.approx(
        np.zeros(2), abs=1e-6
    )


def test_equal_labels_of_equal_odds_give_the_share() -> None:
    """Odds without spread: only the bias is fitted, log(3 / 1)."""
    _, bias = stacking.fit(np.zeros((4, 1)), [1, 1, 1, 0], np.ones(4))
    assert bias == pytest.approx(math.log(3), abs=1e-6)


def test_a_judge_that_contradicts_the_labels_gets_no_weight() -> None:
    odds, labels = drawn(100, (2.0, -2.0), np.random.default_rng(1))
    weights, _ = stacking.fit(odds, labels, np.ones(100))
    assert weights[1] == 0
    assert weights[0] > 0


def test_row_weights_count_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    odds, labels = drawn(50, (1.0, 1.0), np.random.default_rng(2))
    counts = np.arange(50) % 3 + 1
    repeated = np.repeat(np.arange(50), counts)
    weighted, _ = stacking.fit(odds, labels, counts)
    # The mean weight is 1, so the penalty of 100 rows is spread over 50.
    monkeypatch.setattr(stacking, "RIDGE", stacking.RIDGE * counts.mean())
    unweighted, _ = stacking.fit(odds[repeated], labels[repeated], np.ones(len(repeated)))
    spread = odds.std(axis=0) / odds[repeated].std(axis=0)
    assert weighted == pytest.approx(unweighted, rel=0.02)
    assert spread == pytest.approx(np.ones(2), rel=0.2)


def test_held_out_probabilities_do_not_depend_on_the_order_of_rows() -> None:
    odds, labels = drawn(40, (1.0, 1.0), np.random.default_rng(4))
    clusters = np.arange(40) // 2
    held_out = stacking.held_out(odds, LabelledScores(labels, labels, None, clusters))
    order = np.random.default_rng(5).permutation(40)
    shuffled = stacking.held_out(
        odds[order], LabelledScores(labels[order], labels[order], None, clusters[order])
    )
    assert shuffled == pytest.approx(held_out[order], abs=1e-12)


def test_labels_of_one_kind_and_one_cluster_are_refused() -> None:
    odds = np.ones((4, 1))
    with pytest.raises(DataError):
        stacking.fit(odds, [1, 1, 1, 1], np.ones(4))
    with pytest.raises(DataError):
        stacking.held_out(odds, LabelledScores([1, 0, 1, 0], [1, 0, 1, 0], None, [0, 0, 0, 0]))


def test_log_loss_by_hand() -> None:
    """-(log .8 + 3 log .75) / 4."""
    losses = stacking.log_loss(np.array([1.0, 0.0]), np.array([0.8, 0.25]), np.array([[1.0, 3.0]]))
    assert losses == pytest.approx([-(math.log(0.8) + 3 * math.log(0.75)) / 4])
