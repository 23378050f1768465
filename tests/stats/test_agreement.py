"""How well a judge agrees with people: every figure by hand, against SciPy, and what it may not depend on."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import optimize, special, stats
from scipy.optimize import minimize

from localjudge.errors import DataError
from localjudge.stats.agreement import (
    accuracy,
    balanced_accuracy,
    best_threshold,
    bias,
    brier_score,
    calibration_line,
    cohen_kappa,
    debiased_calibration_error,
    equal_mass_bins,
    expected_calibration_error,
    f1_score,
    fit_weights,
    held_out_decisions,
    matthews_correlation,
    precision,
    recall,
    reliability,
    roc_auc,
)
from localjudge.stats.interval import Floats, LabelledScores, Statistic, statistic_interval, statistic_intervals

LABELS = [0, 0, 1, 1]


SCORES = [0.1, 0.6, 0.4, 0.9]


def simulated(size: int = 500) -> tuple[Floats, Floats]:
    generator = np.random.default_rng(4)
    logits = generator.normal(0, 1.5, size)
    labels = generator.random(size) < special.expit(0.3 + 0.7 * logits)
    return labels.astype(np.float64), np.round(special.expit(logits), 3)


def line_of_labels(labels: Floats, scores: Floats, weights: Floats) -> Floats:
    return calibration_line(labels, scores, weights).slope


STATISTICS: list[Statistic] = [
    roc_auc,
    lambda labels, scores, weights: balanced_accuracy(labels, scores > 0.5, weights),
    lambda labels, scores, weights: cohen_kappa(labels, scores > 0.5, weights),
    brier_score,
    expected_calibration_error,
    line_of_labels,
]


def test_auc_by_hand() -> None:
    # Pairs of a 1 and a 0: .4>.1, .4<.6, .9>.1, .9>.6: three of four.
    assert roc_auc(LABELS, SCORES) == 0.75


def test_auc_is_the_mann_whitney_statistic_of_scipy() -> None:
    labels, scores = simulated()
    ones, zeros = scores[labels == 1], scores[labels == 0]
    expected = stats.mannwhitneyu(ones, zeros).statistic / (len(ones) * len(zeros))
    assert roc_auc(labels, scores) == pytest.approx(expected)


def test_balanced_accuracy_by_hand() -> None:
    # 1s: two of three; 0s: one of one.
    assert balanced_accuracy([1, 1, 1, 0], [1, 1, 0, 0]) == pytest.approx((2 / 3 + 1) / 2)


def test_kappa_by_hand() -> None:
    # Cohen's arithmetic for 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no: observed .7, expected .5 * .6 + .5 * .4 = .5.
    labels = [1] * 25 + [0] * 25
    decisions = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    assert cohen_kappa(labels, decisions) == pytest.approx((0.7 - 0.5) / (1 - 0.5))


def test_brier_score_by_hand() -> None:
    # (.1^2 + .6^2 + .6^2 + .1^2) / 4
    assert brier_score(LABELS, SCORES) == pytest.approx((0.01 + 0.36 + 0.36 + 0.01) / 4)


def test_calibration_error_by_hand() -> None:
    # Two steps. Below .5: scores .1, .4 (mean .25), labels 0, 1 (mean .5). Above: .6, .9 (.75), labels 0, 1 (.5).
    assert expected_calibration_error(LABELS, SCORES, bins=2) == pytest.approx((2 * 0.25 + 2 * 0.25) / 4)


def test_edges_belong_to_the_step_above_and_one_to_the_last() -> None:
    # Steps [0, .5) and [.5, 1]: .5 and 1 stand together, mean .75, labels 0 and 1: .25; 0 is right.
    assert expected_calibration_error([0, 0, 1], [0, 0.5, 1], bins=2) == pytest.approx(2 * 0.25 / 3)


def test_calibration_line_by_hand() -> None:
    # Scores .25 and .75 (logits -+ln 3); 1 of 3 and 2 of 3 hold, so the fitted logits are -+ln 2: slope ln 2 / ln 3.
    line = calibration_line([1, 0, 0, 1, 1, 0], [0.25] * 3 + [0.75] * 3)
    assert line == pytest.approx((np.log(2) / np.log(3), 0), abs=1e-9)


def test_calibration_line_is_the_greatest_likelihood_that_scipy_finds() -> None:
    labels, scores = simulated()
    logits = special.logit(scores)

    def loss(line: Floats) -> float:
        linear = line[0] * logits + line[1]
        return float(-(labels * linear - np.logaddexp(0, linear)).sum())

    expected = optimize.minimize(loss, [0.0, 0.0], tol=1e-10).x
    assert calibration_line(labels, scores) == pytest.approx(tuple(expected), abs=1e-4)


@pytest.mark.parametrize("scores", [[0.1, 0.2, 0.8, 0.9], [0.9, 0.8, 0.2, 0.1], [0.5] * 4, [0.1, 0.5, 0.5, 0.9]])
def test_scores_that_split_the_labels_have_no_line(scores: list[float]) -> None:
    with pytest.raises(DataError, match="no calibration line"):
        calibration_line(LABELS, scores)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_many_weighings_at_once_are_each_as_alone(statistic: Statistic) -> None:
    """To the last bit, so that no number depends on how many there are."""
    labels, scores = simulated(200)
    weights = np.random.default_rng(5).standard_gamma(1, (50, 200))
    assert statistic(labels, scores, weights).tolist() == [statistic(labels, scores, row) for row in weights]


def test_weighted_auc_counts_pairs() -> None:
    """A pair of a 1 and a 0 counts by both weights: the sum over all pairs, one by one."""
    labels, scores = simulated(60)
    scores = np.round(scores, 1)
    weights = np.random.default_rng(6).standard_gamma(1, 60)
    ones, zeros = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    pairs = [
        (weights[i] * weights[j], (scores[i] > scores[j]) + (scores[i] == scores[j]) / 2) for i in ones for j in zeros
    ]
    expected = sum(weight * won for weight, won in pairs) / sum(weight for weight, _ in pairs)
    assert roc_auc(labels, scores, weights) == pytest.approx(expected)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 3), min_size=60, max_size=60))
@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_weight_is_a_number_of_copies(statistic: Statistic, copies: list[int]) -> None:
    labels, scores = (column[:60] for column in simulated())
    weights = np.array(copies, dtype=np.float64)
    # Both labels on both sides of a half, so that every statistic has a value.
    labels[:4], scores[:4], weights[:4] = (0, 0, 1, 1), (0.2, 0.7, 0.3, 0.8), 1
    repeated = np.repeat(np.arange(60), weights.astype(int))
    kept = weights > 0
    assert statistic(labels[kept], scores[kept], weights[kept]) == pytest.approx(
        statistic(labels[repeated], scores[repeated], np.ones(len(repeated))), abs=1e-7
    )


@pytest.mark.parametrize("statistic", [roc_auc, balanced_accuracy, calibration_line])
def test_one_kind_of_label_cannot_measure_telling_them_apart(statistic: Statistic) -> None:
    with pytest.raises(DataError, match="every row is labelled 1"):
        statistic(np.ones(3), np.array([0.0, 1.0, 1.0]), np.ones(3))


def test_kappa_has_no_value_where_nothing_varies() -> None:
    with pytest.raises(DataError, match="same one label"):
        cohen_kappa([1, 1], [1, 1])


@pytest.mark.parametrize(("labels", "scores"), [([], []), ([0, 1], [0.5]), ([0, 2], [0.1, 0.2]), ([[0]], [[0.5]])])
def test_arrays_that_do_not_fit_are_refused(labels: list[float], scores: list[float]) -> None:
    with pytest.raises(ValueError, match=r"flat arrays|labels must be"):
        brier_score(labels, scores)


#          TP TP TP FN FP FP TN TN TN TN
TABLE = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]


DECIDED = [1, 1, 1, 0, 1, 1, 0, 0, 0, 0]


def test_decisions_by_hand() -> None:
    """TP 3, FN 1, FP 2, TN 4: MCC = (3*4 - 2*1) / sqrt(5 * 4 * 6 * 5)."""
    assert accuracy(TABLE, DECIDED) == pytest.approx(7 / 10)
    assert precision(TABLE, DECIDED) == pytest.approx(3 / 5)
    assert recall(TABLE, DECIDED) == pytest.approx(3 / 4)
    assert f1_score(TABLE, DECIDED) == pytest.approx(6 / 9)
    assert bias(TABLE, DECIDED) == pytest.approx(5 / 10 - 4 / 10)
    assert matthews_correlation(TABLE, DECIDED) == pytest.approx(10 / np.sqrt(5 * 4 * 6 * 5))


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


TWELVE = arrays.arrays(np.float64, 12, elements=st.sampled_from([0.1, 0.3, 0.5, 0.9]))


@given(TWELVE, st.permutations(range(12)))
def test_the_order_of_the_rows_moves_no_figure(scores: Floats, order: list[int]) -> None:
    labels = np.array([0, 1] * 6, dtype=np.float64)
    for statistic in (accuracy, f1_score, debiased_calibration_error):
        decided = scores if statistic is debiased_calibration_error else (scores >= 0.5).astype(float)
        assert statistic(labels[order], decided[order]) == pytest.approx(statistic(labels, decided))


def test_several_statistics_share_their_resamples() -> None:
    """Each is, bit for bit, what it is alone."""
    together = statistic_intervals({"a": accuracy, "r": recall}, LabelledScores(TABLE, DECIDED), resamples=200)
    for name, statistic in {"a": accuracy, "r": recall}.items():
        assert together[name] == statistic_interval(statistic, TABLE, DECIDED, resamples=200)


def test_weights_of_rows_stay_with_their_rows() -> None:
    """A row that stands for three counts three times in the figure, whatever order and clusters it has."""
    for labels, weight in product(([1, 0, 0, 1], [0, 1, 1, 0]), ([3, 1, 1, 1], [1, 1, 1, 3])):
        rows = LabelledScores(labels, [1, 1, 0, 0], weight, ["b", "a", "a", "c"])
        found = statistic_intervals({"a": accuracy}, rows, resamples=50)["a"]
        assert found.mean == pytest.approx(accuracy(labels, [1, 1, 0, 0], weight))
        assert (found.n, found.clusters) == (4, 3)


ANY_SCORES = st.lists(
    st.tuples(st.booleans(), st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.9, 1.0])), min_size=4, max_size=30
)


def test_the_threshold_by_hand() -> None:
    """Between .2 | .4: both 1s found, one of two 0s refused, .75; between .6 | .9: 1 of 2 and 2 of 2, .75; .4 | .6: .5.

    .3 and .75: .3 is nearer to .5.
    """
    assert best_threshold(LabelledScores([0, 1, 0, 1], [0.2, 0.4, 0.6, 0.9])) == pytest.approx(0.3)


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


def clustered(n: int = 200, seed: int = 1) -> LabelledScores:
    generator = np.random.default_rng(seed)
    clusters = generator.integers(0, n // 4, n)
    scores = generator.random(n)
    return LabelledScores((generator.random(n) < scores).astype(float), scores, np.ones(n), clusters)


@settings(max_examples=20)
@given(st.randoms(use_true_random=False))
def test_neither_order_nor_names_move_a_decision(random) -> None:  # type: ignore[no-untyped-def]
    rows = clustered(60)
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
def test_order_and_names_move_no_bit_of_the_weights(random) -> None:  # type: ignore[no-untyped-def]
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
