import numpy as np
import pytest
from scipy import stats

from localjudge.stats.agreement import balanced_accuracy, roc_auc
from localjudge.stats.intervals import statistic_interval

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


def test_order_of_rows_and_names_of_clusters_move_nothing() -> None:
    clusters = np.arange(400) // 3
    order = np.random.default_rng(4).permutation(400)
    shuffled = statistic_interval(roc_auc, LABELS[order], SCORES[order], clusters=-clusters[order], resamples=50)
    assert shuffled == statistic_interval(roc_auc, LABELS, SCORES, clusters=clusters, resamples=50)


def test_one_row_of_a_kind_never_drops_out() -> None:
    interval = statistic_interval(balanced_accuracy, [1, 0, 0, 0], [1, 0, 1, 0], resamples=500)
    assert interval.mean == pytest.approx((1 + 2 / 3) / 2)
    assert 0.5 < interval.low < interval.mean < interval.high < 1


def test_no_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="shapes"):
        statistic_interval(roc_auc, [], [])
