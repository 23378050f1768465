import numpy as np
import pytest
from scipy import stats

from localjudge.stats.agreement import balanced_accuracy, roc_auc
from localjudge.stats.interval import SEED, canonical_groups, gamma_weights, quantile, statistic_interval

LABELS = np.random.default_rng(1).integers(0, 2, 400)
SCORES = np.round(np.random.default_rng(2).normal(LABELS, 1.5), 2)


def test_agrees_with_the_bootstrap_of_scipy() -> None:
    expected = stats.bootstrap(
        (LABELS, SCORES),
        roc_auc,
        paired=True,
        vectorized=False,
        n_resamples=2_000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    interval = statistic_interval(roc_auc, LABELS, SCORES)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=0.006)
    assert interval.mean == pytest.approx(roc_auc(LABELS, SCORES))


def test_compares_columns_on_the_same_resamples() -> None:
    """A judge and itself differ by nothing in every resample; one column of two is as it is alone."""
    both = np.column_stack([SCORES, SCORES])
    gained = statistic_interval(
        lambda labels, scores, weights: roc_auc(labels, scores[:, 1], weights) - roc_auc(labels, scores[:, 0], weights),
        LABELS,
        both,
        resamples=100,
    )
    assert (gained.low, gained.mean, gained.high) == (0, 0, 0)
    first = statistic_interval(
        lambda truth, both, weights: roc_auc(truth, both[:, 0], weights), LABELS, both, resamples=100
    )
    assert first == statistic_interval(roc_auc, LABELS, SCORES, resamples=100)


def test_resamples_whole_clusters() -> None:
    """Copies of each row in its own cluster add nothing."""
    once = statistic_interval(roc_auc, LABELS, SCORES, resamples=200)
    copied = statistic_interval(
        roc_auc,
        np.tile(LABELS, 3),
        np.tile(SCORES, 3),
        clusters=np.tile(np.arange(400), 3),
        resamples=200,
    )
    assert (copied.low, copied.high) == pytest.approx((once.low, once.high), abs=1e-12)
    assert (copied.n, copied.clusters, copied.method) == (1200, 400, "clustered bootstrap")


def test_from_one_cluster_nothing_can_be_told() -> None:
    """Every weighing of one cluster gives the same number: a width of zero would be a certainty that nobody has."""
    found = statistic_interval(roc_auc, [0, 1, 1], [0.1, 0.4, 0.3], clusters=["a", "a", "a"])
    assert (found.mean, found.low, found.high, found.method) == (1.0, -np.inf, np.inf, "one cluster")
    assert found.limits is None


def test_order_of_rows_and_names_of_clusters_move_nothing() -> None:
    clusters = np.arange(400) // 3
    order = np.random.default_rng(4).permutation(400)
    shuffled = statistic_interval(roc_auc, LABELS[order], SCORES[order], clusters=-clusters[order], resamples=50)
    assert shuffled == statistic_interval(roc_auc, LABELS, SCORES, clusters=clusters, resamples=50)


@pytest.mark.parametrize("size", [400, 3_000])
def test_the_limits_are_those_of_resamples_made_one_by_one(size: int) -> None:
    """Whole clusters of equal weight, in the order of their content; 3,000 rows take several blocks."""
    labels, scores = np.resize(LABELS, size), np.resize(SCORES, size)
    clusters = np.arange(size) // 7
    groups = canonical_groups([labels.astype(float), scores], clusters)
    [drawn] = gamma_weights(np.ones(len(groups)), 1_000, SEED)
    order, sizes = np.concatenate(groups), [len(rows) for rows in groups]
    one_by_one = np.array([roc_auc(labels[order], scores[order], np.repeat(row, sizes)) for row in drawn])
    interval = statistic_interval(roc_auc, labels, scores, clusters=clusters, resamples=1_000)
    expected = (quantile(one_by_one, 0.025), quantile(one_by_one, 0.975))
    assert (interval.low, interval.high) == pytest.approx(expected, rel=1e-12)


def test_a_statistic_that_gives_one_number_for_many_weighings_is_refused() -> None:
    with pytest.raises(ValueError, match=r"gave shape \(\) for weights"):
        statistic_interval(lambda labels, scores, weights: weights.mean(), LABELS, SCORES)


def test_one_row_of_a_kind_never_drops_out() -> None:
    interval = statistic_interval(balanced_accuracy, [1, 0, 0, 0], [1, 0, 1, 0], resamples=500)
    assert interval.mean == pytest.approx((1 + 2 / 3) / 2)
    assert 0.5 < interval.low < interval.mean < interval.high < 1


def test_no_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="shapes"):
        statistic_interval(roc_auc, [], [])
