"""Thresholds are the best there are, and measured on rows that had no part in them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge.errors import DataError
from localjudge.stats.agreement import balanced_accuracy, best_threshold, held_out_decisions
from localjudge.stats.interval import LabelledScores


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
def test_neither_order_nor_names_move_a_decision(random) -> None:  # type: ignore[no-untyped-def]
    generator = np.random.default_rng(5)
    scores, clusters = generator.random(120), np.repeat(np.arange(30), 4)
    labels = (generator.random(120) < scores).astype(float)
    order = random.sample(range(120), 120)
    names = [f"name {999 - name}" for name in clusters[order]]
    whole = held_out_decisions(LabelledScores(labels, scores, clusters=clusters))
    moved = held_out_decisions(LabelledScores(labels[order], scores[order], clusters=names))
    assert (moved[1], moved[0].tolist()) == (whole[1], whole[0][order].tolist())


def test_a_cluster_has_no_part_in_the_threshold_that_decides_it() -> None:
    """Two clusters, two folds: each is decided by the other's best threshold, .2 and .7, and not by its own."""
    labels, scores = [0, 1, 0, 1], [0.1, 0.3, 0.6, 0.8]
    decisions, thresholds = held_out_decisions(LabelledScores(labels, scores, clusters=["a", "a", "b", "b"]))
    assert sorted(thresholds) == pytest.approx([0.2, 0.7])
    assert decisions.tolist() == [0, 0, 1, 1]
    with pytest.raises(DataError, match="of one cluster"):
        held_out_decisions(LabelledScores([0, 1], [0.1, 0.9], clusters=["a", "a"]))
