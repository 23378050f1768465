"""Thresholds and weights are the best there are, and measured on rows that had no part in them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from localjudge.errors import DataError
from localjudge.stats.agreement import balanced_accuracy, best_threshold, fit_weights, held_out_decisions
from localjudge.stats.interval import Floats, LabelledScores


def test_the_threshold_by_hand() -> None:
    """Between .2 | .4: both 1s found, one of two 0s refused, .75; between .6 | .9: 1 of 2 and 2 of 2, .75; .4 | .6: .5.

    .3 and .75: .3 is nearer to .5.
    """
    assert best_threshold(LabelledScores([0, 1, 0, 1], [0.2, 0.4, 0.6, 0.9])) == pytest.approx(0.3)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.9, 1.0])), min_size=4, max_size=30))
def test_no_threshold_is_better(rows: list[tuple[bool, float]]) -> None:
    labels, scores = np.array([float(label) for label, _ in rows]), np.array([score for _, score in rows])
    if len(set(labels)) == 1 or len(set(scores)) == 1:
        with pytest.raises(DataError, match="no threshold can be chosen"):
            best_threshold(LabelledScores(labels, scores))
        return
    reached = balanced_accuracy(labels, scores >= best_threshold(LabelledScores(labels, scores)))
    inner = np.unique(scores)[1:]
    assert reached == pytest.approx(max(float(balanced_accuracy(labels, scores >= other)) for other in inner))


@settings(deadline=None, max_examples=20)
@given(st.randoms(use_true_random=False))
def test_neither_order_nor_names_move_a_decision_or_a_bit_of_the_weights(random) -> None:  # type: ignore[no-untyped-def]
    labels, odds = made_up(120, 5)
    scores, clusters = 1 / (1 + np.exp(-odds[:, 0])), np.repeat(np.arange(30), 4)
    order = random.sample(range(120), 120)
    names = [f"name {999 - name}" for name in clusters[order]]
    whole = held_out_decisions(LabelledScores(labels, scores, clusters=clusters))
    moved = held_out_decisions(LabelledScores(labels[order], scores[order], clusters=names))
    assert (moved[1], moved[0].tolist()) == (whole[1], whole[0][order].tolist())
    plain, other = fit_weights(labels, odds, clusters), fit_weights(labels[order], odds[order], names)
    assert np.array_equal(plain.weights, other.weights)
    assert plain.intercept == other.intercept
    assert np.array_equal(plain.held_out[order], other.held_out)


def test_a_cluster_has_no_part_in_the_threshold_that_decides_it() -> None:
    """Two clusters, two folds: each is decided by the other's best threshold, .2 and .7, and not by its own."""
    labels, scores = [0, 1, 0, 1], [0.1, 0.3, 0.6, 0.8]
    decisions, thresholds = held_out_decisions(LabelledScores(labels, scores, clusters=["a", "a", "b", "b"]))
    assert sorted(thresholds) == pytest.approx([0.2, 0.7])
    assert decisions.tolist() == [0, 0, 1, 1]
    with pytest.raises(DataError, match="of one cluster"):
        held_out_decisions(LabelledScores([0, 1], [0.1, 0.9], clusters=["a", "a"]))


def made_up(rows: int, seed: int) -> tuple[Floats, Floats]:
    """Labels drawn from the very model, and the judges' log odds (rows, judges)."""
    generator = np.random.default_rng(seed)
    odds = generator.normal(0, 1.5, size=(rows, 2))
    chance = 1 / (1 + np.exp(-(odds @ np.array([1.0, 0.5]) - 0.3)))
    return (generator.random(rows) < chance).astype(float), odds


def test_weights_are_those_of_greatest_likelihood() -> None:
    """By SciPy's minimiser on the same likelihood."""
    labels, odds = made_up(300, 1)
    fit = fit_weights(labels, odds)
    design = np.column_stack([odds, np.ones(len(odds))])
    best = minimize(
        lambda line: np.logaddexp(0, design @ line).sum() - labels @ (design @ line), np.zeros(3), tol=1e-12
    )
    assert [*fit.weights, fit.intercept] == pytest.approx(best.x, abs=1e-4)


def test_one_judge_by_hand() -> None:
    """Log odds +-1; three of four at +1 are 1, one of four at -1: logit 3/4 = log 3 = w + b, and -log 3 = -w + b."""
    odds = np.array(([[1.0]] * 4 + [[-1.0]] * 4) * 10)
    labels = np.array([1, 1, 1, 0, 1, 0, 0, 0] * 10)
    fit = fit_weights(labels, odds, folds=2)
    assert fit.weights == pytest.approx([np.log(3)])
    assert fit.intercept == pytest.approx(0, abs=1e-12)


def test_a_row_gets_nothing_from_rows_of_its_cluster() -> None:
    """All rows of a cluster labelled the other way: what its rows get is the same, what others get is not."""
    labels, odds = made_up(200, 4)
    clusters = np.repeat(np.arange(20), 10)
    # Ranks of clusters depend on content, and so would the folds: each cluster is its own fold.
    before = fit_weights(labels, odds, clusters, folds=20)
    flipped = np.where(clusters == 7, 1 - labels, labels)
    after = fit_weights(flipped, odds, clusters, folds=20)
    own = clusters == 7
    assert before.held_out[own] == pytest.approx(after.held_out[own], abs=1e-9)
    assert not np.allclose(before.held_out[~own], after.held_out[~own], atol=1e-4)


@pytest.mark.parametrize(
    ("labels", "odds"),
    [
        ([0, 0, 0, 0, 0, 1, 1, 1, 1, 1], [[x] for x in range(10)]),
        ([0, 1, 0, 1, 1, 0, 1, 0, 1, 1], [[x % 4, x % 4] for x in range(10)]),
        ([1] * 10, [[x] for x in range(10)]),
        ([0, 1, 1], [[1], [2], [1]]),
    ],
    ids=["split without error", "two that say the same", "one label", "too few groups"],
)
def test_where_no_weights_are_best_it_says_so(labels: list[int], odds: list[list[float]]) -> None:
    with pytest.raises(DataError):
        fit_weights(labels, odds)
