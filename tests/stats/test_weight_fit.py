"""Weights of several judges: what they must be, and what they may not depend on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from localjudge.errors import DataError
from localjudge.stats.agreement import fit_weights
from localjudge.stats.interval import Floats


def made_up(
    rows: int, seed: int, weights: tuple[float, ...] = (1.0, 0.5), intercept: float = -0.3
) -> tuple[Floats, Floats]:
    """Labels drawn from the very model, and the judges' log odds (rows, judges)."""
    generator = np.random.default_rng(seed)
    odds = generator.normal(0, 1.5, size=(rows, len(weights)))
    chance = 1 / (1 + np.exp(-(odds @ np.array(weights) + intercept)))
    return (generator.random(rows) < chance).astype(float), odds


def test_weights_are_those_of_greatest_likelihood() -> None:
    """By SciPy's minimiser on the same likelihood."""
    labels, odds = made_up(300, 1)
    found = fit_weights(labels, odds)
    design = np.column_stack([odds, np.ones(len(odds))])
    best = minimize(
        lambda line: np.logaddexp(0, design @ line).sum() - labels @ (design @ line), np.zeros(3), tol=1e-12
    )
    assert [*found.weights, found.intercept] == pytest.approx(best.x, abs=1e-4)


def test_weights_of_the_model_are_found_again() -> None:
    """20,000 rows: the standard error of a weight is about 0.02."""
    found = fit_weights(*made_up(20_000, 2))
    assert found.weights == pytest.approx([1.0, 0.5], abs=0.08)
    assert found.intercept == pytest.approx(-0.3, abs=0.08)


def test_a_judge_that_guesses_gets_next_to_no_weight() -> None:
    labels, odds = made_up(20_000, 3, weights=(1.0, 0.0))
    assert abs(fit_weights(labels, odds).weights[1]) < 0.08


def test_one_judge_by_hand() -> None:
    """Log odds +-1; three of four at +1 are 1, one of four at -1: logit 3/4 = log 3 = w + b, and -log 3 = -w + b."""
    odds = np.array(([[1.0]] * 4 + [[-1.0]] * 4) * 10)
    labels = np.array([1, 1, 1, 0, 1, 0, 0, 0] * 10)
    found = fit_weights(labels, odds, folds=2)
    assert found.weights == pytest.approx([np.log(3)])
    assert found.intercept == pytest.approx(0, abs=1e-12)


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


@settings(deadline=None, max_examples=20)
@given(st.randoms(use_true_random=False))
def test_order_and_names_move_no_bit(random) -> None:  # type: ignore[no-untyped-def]
    labels, odds = made_up(120, 5)
    clusters = np.repeat(np.arange(30), 4)
    order = list(range(120))
    random.shuffle(order)
    one, other = fit_weights(labels, odds, clusters), fit_weights(labels[order], odds[order], 1000 - clusters[order])
    assert np.array_equal(one.weights, other.weights)
    assert one.intercept == other.intercept
    assert np.array_equal(one.held_out[order], other.held_out)


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


@pytest.mark.parametrize(("labels", "odds"), [([0, 2], [[1], [2]]), ([0, 1], [[1]]), ([0, 1], [[1], [np.inf]])])
def test_what_is_no_data_is_refused(labels: list[int], odds: list[list[float]]) -> None:
    with pytest.raises(ValueError, match=r"expected|must be"):
        fit_weights(labels, odds, folds=2)
