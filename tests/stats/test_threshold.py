"""The threshold is the best there is, is measured on rows that had no part in it, and no order of rows moves it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge.errors import DataError
from localjudge.stats.agreement import balanced_accuracy, best_threshold, held_out_decisions, reliability
from localjudge.stats.interval import LabelledScores

ANY_SCORES = st.lists(
    st.tuples(st.booleans(), st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.9, 1.0])), min_size=4, max_size=30
)


def test_the_threshold_by_hand() -> None:
    """Between .2 | .4: both 1s found, one of two 0s refused, .75; between .6 | .9: 1 of 2 and 2 of 2, .75; .4 | .6: .5.

    .3 and .75: .3 is nearer to .5.
    """
    assert best_threshold(LabelledScores([0, 1, 0, 1], [0.2, 0.4, 0.6, 0.9])) == pytest.approx(0.3)


def test_of_two_equally_near_the_lower_is_taken() -> None:
    """.375 and .625 are equally good and near, in numbers that are exact in binary."""
    assert best_threshold(LabelledScores([0, 1, 0, 1], [0.25, 0.5, 0.5, 0.75])) == 0.375


def test_neighbouring_floats_are_parted() -> None:
    low = 0.5
    high = float(np.nextafter(low, 1))
    assert best_threshold(LabelledScores([0, 1], [low, high])) == high


@given(ANY_SCORES)
def test_no_threshold_is_better(rows: list[tuple[bool, float]]) -> None:
    labels, scores = np.array([float(one) for one, _ in rows]), np.array([score for _, score in rows])
    if len(set(labels)) == 1 or len(set(scores)) == 1:
        with pytest.raises(DataError, match="no threshold can be chosen"):
            best_threshold(LabelledScores(labels, scores))
        return
    found = balanced_accuracy(labels, scores >= best_threshold(LabelledScores(labels, scores)))
    inner = np.unique(scores)[1:]
    assert found == pytest.approx(max(float(balanced_accuracy(labels, scores >= other)) for other in inner))


def simulated(n: int = 200, seed: int = 1) -> LabelledScores:
    generator = np.random.default_rng(seed)
    clusters = generator.integers(0, n // 4, n)
    scores = generator.random(n)
    return LabelledScores((generator.random(n) < scores).astype(float), scores, np.ones(n), clusters)


@settings(max_examples=20)
@given(st.randoms(use_true_random=False))
def test_neither_order_nor_names_move_a_decision(random) -> None:  # type: ignore[no-untyped-def]
    rows = simulated(60)
    order = random.sample(range(60), 60)
    whole = held_out_decisions(rows)
    moved = held_out_decisions(
        LabelledScores(
            np.asarray(rows.labels)[order],
            np.asarray(rows.scores)[order],
            clusters=[f"name {999 - name}" for name in np.asarray(rows.clusters)[order]],
        )
    )
    assert moved.thresholds == whole.thresholds
    assert moved.decisions.tolist() == whole.decisions[order].tolist()


def test_a_cluster_has_no_part_in_the_threshold_that_decides_it() -> None:
    """Two clusters, two folds: each is decided by the other's best threshold, .2 and .7, and not by its own."""
    labels, scores = [0, 1, 0, 1], [0.1, 0.3, 0.6, 0.8]
    found = held_out_decisions(LabelledScores(labels, scores, clusters=["a", "a", "b", "b"]))
    assert sorted(found.thresholds) == pytest.approx([0.2, 0.7])
    assert found.decisions.tolist() == [0, 0, 1, 1]


def test_chance_stays_chance_on_rows_that_are_held_out() -> None:
    """Scores that say nothing: measured on the same 40 rows they look better than .5, held out they do not."""
    generator = np.random.default_rng(3)
    same, held_out = [], []
    for _ in range(200):
        labels, scores = np.tile([0.0, 1.0], 20), generator.random(40)
        rows = LabelledScores(labels, scores)
        same.append(balanced_accuracy(labels, scores >= best_threshold(rows)))
        held_out.append(balanced_accuracy(labels, held_out_decisions(rows).decisions))
    assert np.mean(same) > 0.57
    assert np.mean(held_out) == pytest.approx(0.5, abs=0.04)


def test_one_cluster_is_not_enough() -> None:
    with pytest.raises(DataError, match="of one cluster"):
        held_out_decisions(LabelledScores([0, 1], [0.1, 0.9], clusters=["a", "a"]))


def test_reliability_by_hand() -> None:
    """Twenty rows in two bins: mean .2 and .8, shares .1 and .9."""
    labels = [1] + [0] * 9 + [1] * 9 + [0]
    first, second = reliability(LabelledScores(labels, [0.2] * 10 + [0.8] * 10))
    assert (first.low, first.high, first.share.mean) == (0.2, 0.2, 0.1)
    assert first.mean_score == pytest.approx(0.2)
    assert (second.share.mean, second.share.n, second.share.method) == (0.9, 10, "exact binomial")
