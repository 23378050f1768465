import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from localjudge.stats.interval import Floats, mean_interval

SCORES = st.lists(st.sampled_from([0.0, 0.2, 1 / 3, 0.5, 0.9, 1.0]) | st.floats(0, 1), min_size=1, max_size=40)


def draw(size: int, seed: int = 3) -> Floats:
    return np.random.default_rng(seed).beta(2, 1, size)


def test_zeros_and_ones_get_the_exact_binomial_interval() -> None:
    expected = stats.binomtest(7, 9).proportion_ci(0.95, method="exact")
    interval = mean_interval([1, 0, 1, 1, 1, 0, 1, 1, 1])
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    assert interval.mean == pytest.approx(7 / 9)
    assert (interval.method, interval.n) == ("exact binomial", 9)


def test_resampling_agrees_with_the_exact_interval_where_both_apply() -> None:
    """A hair away from 0 and 1 the limits are resampled, and must come out as the beta quantiles that they estimate."""
    exact = stats.binomtest(8, 10).proportion_ci(0.95, method="exact")
    interval = mean_interval([1 - 1e-12] * 8 + [1e-12] * 2, resamples=100_000)
    assert interval.method == "bootstrap"
    assert (interval.low, interval.high) == pytest.approx((exact.low, exact.high), abs=0.004)


def test_one_value_gives_a_valid_and_very_wide_interval() -> None:
    # One value and one unseen: low = 0.6 U and high = 0.6 U + (1 - U), U uniform: 0.6 * 0.025 and 1 - 0.4 * 0.025.
    interval = mean_interval([0.6], resamples=100_000)
    assert (interval.low, interval.high) == pytest.approx((0.015, 0.99), abs=0.002)


@pytest.mark.parametrize("values", [[1.0] * 30, [0.0, 1.0, 0.5], [0.25, 0.25]])
def test_from_one_cluster_of_several_samples_nothing_can_be_told(values: list[float]) -> None:
    """Let nine clusters in ten hold 2 samples that score 1, and one in ten 10,000 that score 0.

    The mean is 1.8 / 1001.8 = 0.0018, and nine single clusters in ten score 1: a lower limit above 0.0018, which their
    one value gives (0.025), would be wrong nine times in ten.
    """
    interval = mean_interval(values, clusters=["a"] * len(values))
    assert (interval.low, interval.high, interval.method, interval.clusters) == (0.0, 1.0, "one cluster", 1)
    assert interval.one_cluster


def test_one_sample_in_a_cluster_of_its_own_is_one_value() -> None:
    """There is no size that could differ."""
    assert mean_interval([0.6], clusters=["a"]) == mean_interval([0.6])
    assert not mean_interval([0.6]).one_cluster


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_mean_at_a_limit_is_not_certain(value: float) -> None:
    interval = mean_interval([value] * 5)
    assert interval.high - interval.low == pytest.approx(1 - 0.025 ** (1 / 5))


def test_many_samples_give_the_bootstrap_of_scipy() -> None:
    values = draw(2_000)
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=4_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    interval = mean_interval(values)
    # The standard error is 0.0053, so limits known to 0.0008 are known to a seventh of it.
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=0.0008)


def test_many_clusters_give_the_cluster_robust_standard_error() -> None:
    """Limits stand 1.96 standard errors away, those of the ratio estimator of Cochran (1977), chapter 6."""
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


def test_samples_that_say_the_same_in_a_document_count_once() -> None:
    """Copies of each sample in its own cluster add nothing."""
    values = draw(25)
    once = mean_interval(values)
    copied = mean_interval(np.repeat(values, 4), clusters=np.repeat(np.arange(25), 4))
    assert (copied.low, copied.high) == pytest.approx((once.low, once.high), abs=1e-12)
    assert copied.method == "clustered bootstrap"


def test_clusters_of_one_sample_are_no_clusters() -> None:
    values = draw(25)
    assert mean_interval(values, clusters=np.arange(25)) == mean_interval(values)


def test_equal_rows_share_one_weight_without_moving_the_distribution() -> None:
    """Thirds listed as equal values, and set apart by a hair, give one interval up to the error of resampling."""
    values = np.repeat([0.0, 1 / 3, 1.0], [10, 20, 30])
    apart = np.clip(values + 1e-12 * np.arange(60), 0, 1)
    together, separate = (mean_interval(rows, resamples=50_000) for rows in (values, apart))
    assert (together.low, together.high) == pytest.approx((separate.low, separate.high), abs=0.004)


@settings(deadline=None, max_examples=60)
@given(values=SCORES, data=st.data())
def test_order_of_rows_and_names_of_clusters_move_nothing(values: list[float], data: st.DataObject) -> None:
    clusters = data.draw(st.lists(st.integers(0, 6), min_size=len(values), max_size=len(values)))
    order = data.draw(st.permutations(range(len(values))))
    renamed = [f"document {9 - clusters[row]}" for row in order]
    shuffled = mean_interval([values[row] for row in order], clusters=renamed, resamples=50)
    assert shuffled == mean_interval(values, clusters=clusters, resamples=50)


@settings(deadline=None, max_examples=60)
@given(values=SCORES)
def test_limits_stand_inside_the_range_and_around_the_mean(values: list[float]) -> None:
    interval = mean_interval(values, resamples=500)
    assert 0 <= interval.low <= interval.mean + 1e-12
    assert interval.mean - 1e-12 <= interval.high <= 1


def test_a_seed_gives_its_numbers_again_and_another_seed_others() -> None:
    values = draw(30)
    assert mean_interval(values, seed=1) == mean_interval(values, seed=1)
    assert mean_interval(values, seed=1) != mean_interval(values, seed=2)


def test_more_confidence_is_wider() -> None:
    values = draw(30)
    assert mean_interval(values, confidence=0.99).low < mean_interval(values, confidence=0.9).low


def test_memory_is_bounded_for_ten_thousand_resamples_of_ten_thousand_samples() -> None:
    values = draw(10_000)
    tracemalloc.start()
    mean_interval(values)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # All weights at once would be 800 MB.
    assert peak < 32e6


@pytest.mark.parametrize("values", [[], [0.5, 1.1], [-0.1], [float("nan"), 0.5], [[0.5]]])
def test_values_without_a_mean_in_range_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"mean needs|must lie"):
        mean_interval(values)


def test_clusters_must_name_every_row() -> None:
    with pytest.raises(ValueError, match=r"shape \(2,\), expected \(3,\)"):
        mean_interval([0.1, 0.2, 0.3], clusters=["a", "b"])


@pytest.mark.parametrize("settings", [{"confidence": 1.0}, {"resamples": 0}])
def test_settings_that_mean_nothing_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        mean_interval([0.1, 0.2], **settings)  # type: ignore[arg-type]
