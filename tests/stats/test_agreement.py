from itertools import permutations, product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from localjudge import DataError
from localjudge.stats.agreement import (
    LabelledScores,
    Statistic,
    balanced_accuracy,
    bias,
    calibration_error,
    calibration_slope,
    cohen_kappa,
    krippendorff_alpha,
    roc_auc,
    statistic_intervals,
)
from localjudge.stats.stacking import best_threshold, held_out_decisions

_WHY = "NOT CHECKED: the package SciPy is not installed"
optimize: Any = pytest.importorskip("scipy.optimize", reason=_WHY)
special: Any = pytest.importorskip("scipy.special", reason=_WHY)
stats: Any = pytest.importorskip("scipy.stats", reason=_WHY)

LABELS = [0, 0, 1, 1]
SCORES = [0.1, 0.6, 0.4, 0.9]


def simulated(size: int = 500) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    generator = np.random.default_rng(4)
    logits = generator.normal(0, 1.5, size)
    labels = generator.random(size) < special.expit(0.3 + 0.7 * logits)
    return labels.astype(np.float64), np.round(special.expit(logits), 3)


STATISTICS: list[Statistic] = [
    roc_auc,
    lambda labels, scores, weights: balanced_accuracy(labels, scores > 0.5, weights),
    lambda labels, scores, weights: cohen_kappa(labels, scores > 0.5, weights),
    calibration_slope,
]


#          TP TP TP FN FP FP TN TN TN TN
TABLE = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]
DECIDED = [1, 1, 1, 0, 1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # Pairs of a 1 and a 0: .4>.1, .4<.6, .9>.1, .9>.6: three of four.
        (roc_auc(LABELS, SCORES), 0.75),
        # 1s: two of three; 0s: one of one.
        (balanced_accuracy([1, 1, 1, 0], [1, 1, 0, 0]), (2 / 3 + 1) / 2),
        # Cohen: 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no:
        # observed .7, expected .5 * .6 + .5 * .4 = .5.
        (
            cohen_kappa([1] * 25 + [0] * 25, [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15),
            (0.7 - 0.5) / (1 - 0.5),
        ),
        # TP 3, FN 1, FP 2, TN 4.
        (bias(TABLE, DECIDED), 5 / 10 - 4 / 10),
    ],
)
def test_agreement_figures_by_hand(value: float, expected: float) -> None:
    assert value == pytest.approx(expected)


def test_auc_is_the_mann_whitney_statistic_of_scipy() -> None:
    labels, scores = simulated()
    ones = scores[labels == 1]
    zeros = scores[labels == 0]
    expected = stats.mannwhitneyu(ones, zeros).statistic / (len(ones) * len(zeros))
    assert roc_auc(labels, scores) == pytest.approx(expected)


def test_calibration_slope_by_hand() -> None:
    # Scores .25 and .75 (logits -+ln 3); 1 of 3 and 2 of 3 are 1, so the fitted logits are -+ln 2:
    # slope ln 2 / ln 3.
    slope = calibration_slope([1, 0, 0, 1, 1, 0], [0.25] * 3 + [0.75] * 3)
    assert slope == pytest.approx(np.log(2) / np.log(3), abs=1e-9)


def test_calibration_slope_is_of_the_greatest_likelihood_that_scipy_finds() -> None:
    labels, scores = simulated()
    logits = special.logit(scores)

    def loss(line: NDArray[np.float64]) -> float:
        linear = line[0] * logits + line[1]
        return float(-(labels * linear - np.logaddexp(0, linear)).sum())

    expected = optimize.minimize(loss, [0.0, 0.0], tol=1e-10).x
    assert calibration_slope(labels, scores) == pytest.approx(expected[0], abs=1e-4)


@pytest.mark.parametrize(
    "scores", [[0.1, 0.2, 0.8, 0.9], [0.9, 0.8, 0.2, 0.1], [0.5] * 4, [0.1, 0.5, 0.5, 0.9]]
)
def test_perfectly_separating_scores_have_no_calibration_line(scores: list[float]) -> None:
    with pytest.raises(DataError, match="no calibration line"):
        calibration_slope(LABELS, scores)


@pytest.mark.parametrize("statistic", [*STATISTICS, calibration_error])
def test_batched_weights_equal_separate_computations(statistic: Statistic) -> None:
    labels, scores = simulated(200)
    weights = np.random.default_rng(5).standard_gamma(1, (50, 200))
    assert statistic(labels, scores, weights).tolist() == [
        statistic(labels, scores, row) for row in weights
    ]


@settings(max_examples=40)
@given(st.lists(st.integers(0, 3), min_size=60, max_size=60))
@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_weight_is_a_number_of_copies(statistic: Statistic, copies: list[int]) -> None:
    labels, scores = (column[:60] for column in simulated())
    weights = np.array(copies, dtype=np.float64)
    # Both labels on both sides of a half, so that every statistic has a value.
    labels[:4] = (0, 0, 1, 1)
    scores[:4] = (0.2, 0.7, 0.3, 0.8)
    weights[:4] = 1
    repeated = np.repeat(np.arange(60), weights.astype(int))
    counted = weights > 0
    assert statistic(labels[counted], scores[counted], weights[counted]) == pytest.approx(
        statistic(labels[repeated], scores[repeated], np.ones(len(repeated))), abs=1e-7
    )


@pytest.mark.parametrize("statistic", [roc_auc, balanced_accuracy, calibration_slope])
def test_auc_needs_both_labels(statistic: Statistic) -> None:
    with pytest.raises(DataError, match="label 1"):
        statistic(np.ones(3), np.array([0.0, 1.0, 1.0]), np.ones(3))


def test_krippendorff_alpha_by_hand() -> None:
    """The example of Krippendorff (2011), section A: 1 - 19 4 / (14 6).

    Three annotators: 0 0 1 has two differing pairs of three, 2 / (3 - 1) = 1; a single label does
    not count. Three of five labels are 1: 1 - 4 1 / (2 3).
    """
    pairs = zip([0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0], strict=True)
    assert krippendorff_alpha(pairs) == pytest.approx(1 - 76 / 84)
    assert krippendorff_alpha([[0, 0, 1], [1, 1], [0]]) == pytest.approx(1 / 3)
    assert krippendorff_alpha([[0, 0], [1, 1, 1]]) == 1
    for units in ([], [[1]], [[1, 1], [0]]):
        with pytest.raises(DataError, match="all labels are equal"):
            krippendorff_alpha(units)


def test_krippendorff_alpha_does_not_depend_on_the_order_of_units() -> None:
    """They add 4/3, 8/5, 1 and 2, and the rounded sum of the first ones depends on their order."""
    units = [[0, 0, 1, 1], [0, 0, 1, 1, 1, 1], [0, 1], [0, 0, 0, 1, 1, 1, 1]]
    results = {krippendorff_alpha(order) for order in permutations(units)}
    assert len(results) == 1


def test_the_debiased_error_by_hand() -> None:
    """Two bins of ten rows with scores .2 and .8 and shares of 1 of .5 and .6.

    (.2 - .5)^2 - .5 * .5 / 9 = .0622, (.8 - .6)^2 - .6 * .4 / 9 = .0133; the root of their mean is
    .1944.
    """
    labels = [1, 0] * 5 + [1] * 6 + [0] * 4
    scores = [0.2] * 10 + [0.8] * 10
    expected = np.sqrt(((0.09 - 0.25 / 9) + (0.04 - 0.24 / 9)) / 2)
    assert calibration_error(labels, scores) == pytest.approx(expected)
    assert calibration_error(labels, scores, [[3.0] * 20, [0.5] * 20]) == pytest.approx(
        [expected] * 2
    )
    # A row alone in its bin has no variance, which is not a division by zero.
    assert calibration_error([0] * 19 + [1], [0.1] * 19 + [0.9]) == pytest.approx(0.1, abs=0.01)


def test_several_statistics_share_their_resamples() -> None:
    statistics = {"a": balanced_accuracy, "b": bias}
    rows = LabelledScores(TABLE, DECIDED)
    together = statistic_intervals(statistics, rows)
    for name, statistic in statistics.items():
        assert {name: together[name]} == statistic_intervals({name: statistic}, rows)


def test_weights_follow_their_rows_when_reordered() -> None:
    for labels, weight in product(([1, 0, 0, 1], [0, 1, 1, 0]), ([3, 1, 1, 1], [1, 1, 1, 3])):
        rows = LabelledScores(labels, [1, 1, 0, 0], weight, ["b", "a", "a", "c"])
        interval = statistic_intervals({"a": bias}, rows)["a"]
        assert interval.mean == pytest.approx(bias(labels, [1, 1, 0, 0], weight))
        assert (interval.n, interval.clusters) == (4, 3)


def test_the_threshold_by_hand() -> None:
    """Between .2 | .4: both 1s and one of two 0s, .75; .6 | .9: 1 of 2 and 2 of 2, .75; else .5.

    Of .3 and .75, .3 is nearer to .5.
    """
    assert best_threshold(LabelledScores([0, 1, 0, 1], [0.2, 0.4, 0.6, 0.9])) == pytest.approx(0.3)


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.9, 1.0])),
        min_size=4,
        max_size=30,
    )
)
def test_no_threshold_is_better_than_the_best_threshold(rows: list[tuple[bool, float]]) -> None:
    labels = np.array([float(label) for label, _ in rows])
    scores = np.array([score for _, score in rows])
    if len(set(labels)) == 1 or len(set(scores)) == 1:
        with pytest.raises(DataError, match="no threshold"):
            best_threshold(LabelledScores(labels, scores))
        return
    reached = balanced_accuracy(labels, scores >= best_threshold(LabelledScores(labels, scores)))
    inner = np.unique(scores)[1:]
    assert reached == pytest.approx(
        max(float(balanced_accuracy(labels, scores >= other)) for other in inner)
    )


@settings(max_examples=20)
@given(st.randoms(use_true_random=False))
def test_order_and_cluster_names_do_not_change_decisions(random: Random) -> None:
    generator = np.random.default_rng(5)
    scores = generator.random(120)
    clusters = np.repeat(np.arange(30), 4)
    labels = (generator.random(120) < scores).astype(float)
    order = random.sample(range(120), 120)
    names = [f"name {999 - name}" for name in clusters[order]]
    whole = held_out_decisions(LabelledScores(labels, scores, clusters=clusters))
    moved = held_out_decisions(LabelledScores(labels[order], scores[order], clusters=names))
    assert (moved[1], moved[0].tolist()) == (whole[1], whole[0][order].tolist())


def test_a_cluster_is_decided_by_thresholds_of_other_clusters() -> None:
    labels = [0, 1, 0, 1]
    scores = [0.1, 0.3, 0.6, 0.8]
    decisions, thresholds = held_out_decisions(
        LabelledScores(labels, scores, clusters=["a", "a", "b", "b"])
    )
    assert sorted(thresholds) == pytest.approx([0.2, 0.7])
    assert decisions.tolist() == [0, 0, 1, 1]
    with pytest.raises(DataError, match="in one cluster"):
        held_out_decisions(LabelledScores([0, 1], [0.1, 0.9], clusters=["a", "a"]))
