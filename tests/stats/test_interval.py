import math
import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from localjudge.stats import interval as module
from localjudge.stats.agreement import LabelledScores, Statistic, roc_auc, statistic_intervals
from localjudge.stats.interval import (
    Mean,
    clopper_pearson,
    gamma_weights,
    mean_interval,
    ratio_interval,
    two_sided_quantile,
)

stats: Any = pytest.importorskip(
    "scipy.stats", reason="NOT CHECKED: the package SciPy is not installed"
)

SCORES = st.lists(
    st.sampled_from([0.0, 0.2, 1 / 3, 0.5, 0.9, 1.0]) | st.floats(0, 1),
    min_size=1,
    max_size=40,
)


def draw(size: int, seed: int = 3) -> NDArray[np.float64]:
    return np.random.default_rng(seed).beta(2, 1, size)


def test_resampling_agrees_with_the_exact_interval_where_both_apply() -> None:
    """Slightly inside 0 and 1 the limits are resampled, and equal the exact beta quantiles."""
    exact = stats.binomtest(8, 10).proportion_ci(0.95, method="exact")
    interval = mean_interval([1 - 1e-12] * 8 + [1e-12] * 2, resamples=100_000)
    assert interval.method == "bootstrap"
    assert (interval.low, interval.high) == pytest.approx((exact.low, exact.high), abs=0.004)


def test_one_value_gives_a_valid_and_very_wide_interval() -> None:
    # One value and one unseen: low = 0.6 U and high = 0.6 U + (1 - U), with U uniform:
    # 0.6 * 0.025 and 1 - 0.4 * 0.025.
    interval = mean_interval([0.6], resamples=100_000)
    assert (interval.low, interval.high) == pytest.approx((0.015, 0.99), abs=0.002)


@pytest.mark.parametrize("values", [[1.0] * 30, [0.0, 1.0, 0.5], [0.25, 0.25]])
def test_one_cluster_of_several_samples_gives_the_full_interval(values: list[float]) -> None:
    """Nine clusters in ten have 2 samples that score 1, and one in ten 10,000 that score 0.

    The mean is 1.8 / 1001.8 = 0.0018, and nine single clusters in ten score 1. A lower limit from
    one value (0.025) would be wrong nine times in ten.
    """
    interval = mean_interval(values, clusters=["a"] * len(values))
    assert (interval.low, interval.high, interval.method, interval.clusters) == (
        0.0,
        1.0,
        "one cluster",
        1,
    )
    assert interval.one_cluster


def test_many_samples_give_the_bootstrap_of_scipy() -> None:
    values = draw(2_000)
    how = {"n_resamples": 4_000, "method": "percentile", "rng": np.random.default_rng(1)}
    expected = stats.bootstrap((values,), np.mean, **how).confidence_interval
    interval = mean_interval(values)
    # The standard error is 0.0053, so limits known to 0.0008 are known to a seventh of it.
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=0.0008)


def test_many_clusters_give_the_cluster_robust_standard_error() -> None:
    """Limits are 1.96 standard errors away, by the ratio estimator of Cochran (1977), chapter 6."""
    generator = np.random.default_rng(5)
    sizes = generator.integers(1, 8, 1_500)
    clusters = np.repeat(np.arange(1_500), sizes)
    values = generator.beta(2, 1, 1_500)[clusters] * generator.random(len(clusters))
    sums = np.bincount(clusters, weights=values)
    mean = values.mean()
    error = np.sqrt(((sums - mean * sizes) ** 2).sum()) / sizes.sum()
    interval = mean_interval(values, clusters=clusters)
    # The unseen cluster adds 1 / 1501 to the width.
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * error + 1 / 1_501, rel=0.03)
    assert interval.clusters == 1_500
    assert interval.n == len(values)


def test_copies_within_a_cluster_do_not_narrow_the_interval() -> None:
    values = draw(25)
    once = mean_interval(values)
    copied = mean_interval(np.repeat(values, 4), clusters=np.repeat(np.arange(25), 4))
    assert (copied.low, copied.high) == pytest.approx((once.low, once.high), abs=1e-12)
    assert copied.method == "clustered bootstrap"


@settings(max_examples=60)
@given(values=SCORES)
def test_limits_are_in_range_and_around_the_mean(values: list[float]) -> None:
    interval = mean_interval(values, resamples=500)
    assert 0 <= interval.low <= interval.mean + 1e-12
    assert interval.mean - 1e-12 <= interval.high <= 1


def test_very_many_distinct_values_take_little_memory() -> None:
    """Without bins and blocks, 10,000 weights of each of 200,000 values would take 16 GB."""
    values = np.random.default_rng(2).random(200_000)
    tracemalloc.start()
    assert mean_interval(values).high < 0.51
    assert tracemalloc.get_traced_memory()[1] < 64e6
    tracemalloc.stop()


@pytest.mark.parametrize("values", [[], [0.5, 1.1], [-0.1], [float("nan"), 0.5], [[0.5]]])
def test_values_without_a_mean_in_range_and_clusters_of_other_rows_are_refused(
    values: list[float],
) -> None:
    with pytest.raises(ValueError, match=r"mean needs|must lie"):
        mean_interval(values)
    with pytest.raises(ValueError, match=r"shape \(2,\), expected \(3,\)"):
        mean_interval([0.1, 0.2, 0.3], clusters=["a", "b"])


@pytest.mark.parametrize("distinct", [4, module.DISTINCT], ids=["binned", "counted"])
@settings(max_examples=60)
@given(values=SCORES, clustered=st.booleans(), data=st.data())
def test_row_order_and_cluster_names_do_not_change_the_interval(
    distinct: int, values: list[float], clustered: bool, data: st.DataObject
) -> None:
    clusters = data.draw(st.lists(st.integers(0, 6), min_size=len(values), max_size=len(values)))
    order = data.draw(st.permutations(range(len(values))))
    renamed = [f"document {9 - clusters[row]}" for row in order]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "DISTINCT", distinct)
        patch.setattr(module, "_STEP_BITS", 3)
        shuffled_values = [values[row] for row in order]
        if clustered:
            whole = mean_interval(values, clusters=clusters, resamples=50)
            shuffled = mean_interval(shuffled_values, clusters=renamed, resamples=50)
        else:
            whole = mean_interval(values, resamples=50)
            shuffled = mean_interval(shuffled_values, resamples=50)
    assert shuffled == whole
    assert whole.mean == float(sum(map(Fraction, values), Fraction(0))) / len(values)


def test_intervals_are_those_of_version_0_1() -> None:
    generator = np.random.default_rng(11)
    values = generator.beta(2, 1, 300)
    clusters = generator.integers(0, 40, 300)
    names = [f"d{number}" for number in clusters]
    intervals = mean_interval(values), mean_interval(np.round(values * 6) / 6, clusters=names)
    assert [(interval.mean, interval.low, interval.high) for interval in intervals] == [
        (0.6624949161254141, 0.6330159085533156, 0.6900478615474718),
        (0.6638888888888889, 0.5968514837891286, 0.7054749095217886),
    ]


@pytest.mark.parametrize("clustered", [False, True])
def test_binned_limits_are_close_to_the_exact_method(
    monkeypatch: pytest.MonkeyPatch, clustered: bool
) -> None:
    """Limits of 10,000 draws have an error of 0.027 standard errors, their difference 0.038.

    4 times that is chance.

    That figure is sqrt(0.025 * 0.975 / 10,000) / 0.058, the density of the normal distribution at
    its 2.5 % quantile.
    """
    generator = np.random.default_rng(4)
    clusters = np.repeat(np.arange(6_000), generator.integers(1, 3, 6_000)) if clustered else None
    size = 6_000 if clusters is None else len(clusters)
    values = generator.beta(2, 1, size)
    binned = mean_interval(values, clusters=clusters)
    monkeypatch.setattr(module, "DISTINCT", size)
    exact = mean_interval(values, clusters=clusters, seed=1)
    error = values.std() / math.sqrt(size)
    assert (binned.low, binned.high) == pytest.approx(
        (exact.low, exact.high), abs=4 * 0.038 * error
    )
    assert binned.mean == exact.mean


def test_a_ratio_has_a_t_interval() -> None:
    """12 / 50 = 0.24. Deviations -0.4, -0.8, 1.2: sqrt(2.24 x 3/2) / 50 = 0.03666; t is 4.3027."""
    ratio, arm = ratio_interval([2, 4, 6], [10, 20, 20])
    assert ratio == pytest.approx(0.24)
    assert arm == pytest.approx(0.03666 * 4.3027, rel=1e-3)
    assert ratio_interval([1, 2], [2, 4]) == (0.5, 0.0)
    assert ratio_interval([3], [4]) == (0.75, None)


def test_far_tail_of_a_million_trials_is_not_lost() -> None:
    """A relative error of 1e-6 in the tail moves its limit by 1e-6 / 20,000 = 5e-11."""
    tail = stats.binom.cdf(495_000, 1_000_000, 0.5)
    assert tail == pytest.approx(7.7e-24, rel=0.1)
    _, high = clopper_pearson(495_000, 1_000_000, tail)
    assert high == pytest.approx(0.5, abs=5e-11)


@pytest.mark.parametrize(
    ("successes", "trials"),
    [(0, 1), (1, 1), (0, 10), (3, 10), (10, 10), (997, 1000), (20, 5000)],
)
def test_zeros_and_ones_get_the_exact_binomial_interval_of_scipy(
    successes: int, trials: int
) -> None:
    expected = stats.binomtest(successes, trials).proportion_ci(0.95, method="exact")
    assert clopper_pearson(successes, trials) == pytest.approx(
        (expected.low, expected.high), abs=1e-9
    )
    interval = mean_interval([1] * successes + [0] * (trials - successes))
    assert interval[:2] == (successes / trials, clopper_pearson(successes, trials))
    assert (interval.method, interval.n) == ("exact binomial", trials)


def test_weights_do_not_depend_on_block_size() -> None:
    shapes = np.linspace(0.5, 3, 2**18)  # 2^20 numbers a block
    blocks = list(gamma_weights(shapes, 10, seed=7))
    assert [len(block) for block in blocks] == [4, 4, 2]
    assert [len(block) for block in gamma_weights(np.ones(3), 10, seed=7, spread=2**18)] == [
        4,
        4,
        2,
    ]
    at_once = np.random.Generator(np.random.PCG64(7)).standard_gamma(shapes, size=(10, len(shapes)))
    assert np.array_equal(np.concatenate(blocks), at_once)


@given(st.integers(1, 3_000), st.floats(0.5, 0.999))
def test_quantiles_are_those_of_scipy(dof: int, confidence: float) -> None:
    expected = stats.t.ppf((1 + confidence) / 2, dof)
    assert two_sided_quantile(confidence, dof) == pytest.approx(expected, rel=1e-9)


TRUTH = np.random.default_rng(1).integers(0, 2, 400)
RANKED = np.round(np.random.default_rng(2).normal(TRUTH, 1.5), 2)


def statistic_interval(
    statistic: Statistic,
    labels: ArrayLike,
    scores: ArrayLike,
    clusters: ArrayLike | None = None,
) -> Mean:
    rows = LabelledScores(labels, scores, clusters=clusters)
    return statistic_intervals({"": statistic}, rows)[""]


def test_a_statistic_agrees_with_the_bootstrap_of_scipy() -> None:
    how = {"paired": True, "vectorized": False, "n_resamples": 2_000, "method": "percentile"}
    drawn = stats.bootstrap((TRUTH, RANKED), roc_auc, **how, rng=np.random.default_rng(1))
    expected = drawn.confidence_interval
    interval = statistic_interval(roc_auc, TRUTH, RANKED)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=0.006)
    assert interval.mean == pytest.approx(roc_auc(TRUTH, RANKED))


def test_columns_are_compared_on_the_same_resamples() -> None:
    both = np.column_stack([RANKED, RANKED])
    gained = statistic_interval(
        lambda labels, scores, weights: (
            roc_auc(labels, scores[:, 1], weights) - roc_auc(labels, scores[:, 0], weights)
        ),
        TRUTH,
        both,
    )
    assert (gained.low, gained.mean, gained.high) == (0, 0, 0)


def test_a_statistic_of_one_cluster_has_no_interval() -> None:
    """Every weight of one cluster gives the same number: a width of zero would be wrong."""
    interval = statistic_interval(roc_auc, [0, 1, 1], [0.1, 0.4, 0.3], clusters=["a", "a", "a"])
    assert (interval.mean, interval.low, interval.high, interval.method) == (
        1.0,
        -np.inf,
        np.inf,
        "one cluster",
    )
    assert interval.ci95 is None


def test_order_and_names_do_not_change_statistic_limits() -> None:
    clusters = np.arange(400) // 3
    order = np.random.default_rng(4).permutation(400)
    shuffled = statistic_interval(roc_auc, TRUTH[order], RANKED[order], clusters=-clusters[order])
    assert shuffled == statistic_interval(roc_auc, TRUTH, RANKED, clusters=clusters)
