from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge.stats.interval import Mean, mean_interval
from localjudge.stats.paired import (
    Comparison,
    count_changes,
    decide,
    paired_difference,
    samples_to_decide,
    smallest_detectable_difference,
)

stats: Any = pytest.importorskip(
    "scipy.stats", reason="NOT CHECKED: the package SciPy is not installed"
)


def test_paired_counts_by_hand() -> None:
    # Differences: 0, +0.5, +0.5, -1.
    assert count_changes([1, 0.5, 0, 1], [1, 1, 0.5, 0]) == (2, 1, 1)
    assert paired_difference([1, 0.5, 0, 1], [1, 1, 0.5, 0]).mean == 0
    # 0.1 + 0.2 is 0.30000000000000004.
    assert count_changes([0.1 + 0.2, 0.5], [0.3, 0.5]) == (0, 0, 2)


SHARES = st.sampled_from([0.0, 1 / 6, 0.2, 1 / 3, 0.5, 2 / 3, 0.8, 1.0]) | st.floats(0, 1)
PAIRS = st.lists(st.tuples(SHARES, SHARES, st.integers(0, 5)), min_size=1, max_size=30)


def interval(pairs: list[tuple[float, float, int]], *, clustered: bool = False) -> Mean:
    before, after, clusters = zip(*pairs, strict=True)
    if clustered:
        return paired_difference(before, after, clusters=clusters)
    return paired_difference(before, after)


def test_interval_with_twelve_of_25_pairs_worse_by_hand() -> None:
    """12 of -0.35 and 13 of 0: d = -4.2 / 25 = -0.168.

    Squares: 12 * 0.182^2 + 13 * 0.168^2 = 0.7644, s^2 = 0.7644 / 24 = 0.03185, t(24) = 2.0639, so
    the arms are 2.0639 * sqrt(0.03185 / 25) = 0.0737. Cubes: -12 * 0.182^3 + 13 * 0.168^3 =
    -0.010702, u = -0.010702 * 25 / (24 * 23) = -0.000485, k = (1 + 2 * 2.0639^2) * -0.000485 / (6 *
    25 * 0.03185) = -0.00097. g is below 1e-13.
    """
    change = paired_difference([0.35] * 12 + [0.5] * 13, [0] * 12 + [0.5] * 13)
    assert (change.mean, change.low, change.high) == pytest.approx(
        (-0.168, -0.24263, -0.09433), abs=1e-5
    )
    assert change.method == "skewness-adjusted t"


def test_interval_with_one_moved_pair_of_four_by_hand() -> None:
    """0, 0, 0, -1/3: d = -1/12, s^2 = 1/36, t(3) = 3.1824, arms of 3.1824 / 12 = 0.2652.

    u = (-(1/4)^3 + 3 (1/12)^3) * 4 / (3 * 2) = -0.009259, k = (1 + 2 * 3.1824^2) * -0.009259 / (6 *
    4 / 36) = -0.2952.
    One of four differs from the others: g = (1 - 0.025^(1/4)) / 4^(1 * 4 / 3) = 0.60236 / 6.3496 =
        0.09487.
    """
    change = paired_difference([0.5, 0.5, 0.5, 1 / 3], [0.5, 0.5, 0.5, 0])
    low = -1 / 12 - 0.2652 - 0.2952 - 0.09487 * 11 / 12
    high = -1 / 12 + 0.2652 + 0.09487 * 13 / 12
    assert (change.low, change.high) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize("clustered", [False, True])
@settings(max_examples=100)
@given(pairs=PAIRS, data=st.data())
def test_interval_properties(
    clustered: bool, pairs: list[tuple[float, float, int]], data: st.DataObject
) -> None:
    change = interval(pairs, clustered=clustered)
    shuffled = [
        (before, after, 9 - cluster) for before, after, cluster in data.draw(st.permutations(pairs))
    ]
    assert interval(shuffled, clustered=clustered) == change
    assert -1 <= change.low <= change.mean <= change.high <= 1
    assert change.low < change.high
    back = interval(
        [(after, before, cluster) for before, after, cluster in pairs], clustered=clustered
    )
    assert (-back.mean, -back.high, -back.low) == pytest.approx(
        (change.mean, change.low, change.high), abs=1e-7
    )


def test_many_clusters_give_the_cluster_robust_standard_error() -> None:
    """By the ratio estimator of Cochran (1977), chapter 6."""
    generator = np.random.default_rng(5)
    sizes = generator.integers(1, 8, 500)
    clusters = np.repeat(np.arange(500), sizes)
    before, after = (
        generator.beta(2, 1, 500)[clusters] * generator.random(len(clusters)) for _ in "ab"
    )
    sums = np.bincount(clusters, weights=after - before)
    mean = sums.sum() / sizes.sum()
    error = np.sqrt(((sums - mean * sizes) ** 2).sum() * 500 / 499) / sizes.sum()
    change = paired_difference(before, after, clusters=clusters)
    half = stats.t.ppf(0.975, 499) * error
    assert (change.low, change.high) == pytest.approx((mean - half, mean + half), rel=0.01)


def test_an_equal_gain_on_every_sample_is_detected() -> None:
    """Sample difficulty does not matter; with many pairs the interval is Student's t."""
    generator = np.random.default_rng(8)
    before = np.linspace(0, 0.9, 40)
    assert paired_difference(before, before + 0.1).low > 0
    before = generator.random(1_500)
    after = np.clip(before + generator.normal(0.02, 0.1, 1_500), 0, 1)
    expected = stats.ttest_rel(after, before).confidence_interval()
    change = paired_difference(before, after)
    assert (change.low, change.high) == pytest.approx((expected.low, expected.high), abs=0.0001)


def test_equal_changes_leave_room_for_unseen_changes() -> None:
    """100 ties: an unseen change has a frequency of at most 1 - 0.025 ** (1 / 100) = 0.0362.

    0.7 - 0.5 and 0.9 - 0.7 are 0.2 except for the last bits: ten pairs are alike, g = 1 -
    0.025^(1/10) = 0.3085.
    """
    ties = paired_difference([0.5] * 100, [0.5] * 100)
    assert (ties.low, ties.high) == pytest.approx((-0.0362, 0.0362), abs=0.0001)
    change = paired_difference([0.5, 0.7] * 5, [0.7, 0.9] * 5)
    assert (change.low, change.high) == pytest.approx(
        (0.2 - 0.3085 * 1.2, 0.2 + 0.3085 * 0.8), abs=1e-4
    )


def test_smallest_detectable_difference_by_hand() -> None:
    # 0.0196 = 1.96 standard errors of 0.01; (1.95996 + 0.84162) * 0.01 = 0.0280 (Cohen's tables).
    change = Mean(0.0, (-0.0196, 0.0196), "skewness-adjusted t", 100, 100)
    assert smallest_detectable_difference(change) == pytest.approx(0.0280, abs=0.0001)


def test_the_smallest_detectable_difference_has_80_percent_power() -> None:
    """Verdicts of 400 samples, one in ten flips: half of them up, then with the reported gain."""
    generator = np.random.default_rng(6)
    smallest = []
    for _ in range(40):
        flips = generator.choice([1.0, 0.0, -1.0], size=400, p=[0.05, 0.9, 0.05])
        smallest.append(smallest_detectable_difference(paired_difference(flips < 0, flips > 0)))
    gain = float(np.mean(smallest))
    up = 0.05 + gain / 2
    shown = 0
    for _ in range(400):
        flips = generator.choice([1.0, 0.0, -1.0], size=400, p=[up, 0.9, 0.1 - up])
        shown += paired_difference(flips < 0, flips > 0).low > 0
    # The standard error of the share is 0.02.
    assert shown / 400 == pytest.approx(0.8, abs=0.06)


def decided_on(low: float, mean: float, high: float, n: int = 100) -> Mean:
    return Mean(mean, (low, high), "bootstrap", n, n)


@pytest.mark.parametrize(
    ("low", "high", "comparison", "outcome"),
    [
        (0.80, 0.9, ">=", "pass"),
        (0.80, 0.9, ">", "undecided"),
        (0.70, 0.9, ">=", "undecided"),
        (0.70, 0.8, ">=", "undecided"),
        (0.70, 0.8, ">", "fail"),
        (0.70, 0.8, "<=", "pass"),
        (0.70, 0.8, "<", "undecided"),
        (0.80, 0.9, "<=", "undecided"),
        (0.80, 0.9, "<", "fail"),
    ],
)
def test_a_gate_is_decided_by_the_interval(
    low: float, high: float, comparison: Comparison, outcome: str
) -> None:
    interval = decided_on(low, (low + high) / 2 + 0.01, high)
    assert decide(interval, comparison, 0.8) == outcome


@pytest.mark.parametrize(
    ("limits", "gate", "outcome", "samples"),
    [
        # Mean 0.875, lower arm 0.25, distance 0.125: twice too wide, so 2^2 times as many.
        ((0.625, 0.875, 0.95), (">=", 0.75), "undecided", 400),
        # Mean 0.5 below 0.625: upper arm 0.375, distance 0.125: 3^2 times as many to fail.
        ((0.375, 0.5, 0.875), (">=", 0.625), "undecided", 900),
        # Mean 0.25 below 0.375: upper arm 0.5, distance 0.125: 4^2 times as many to pass.
        ((0.125, 0.25, 0.75), ("<=", 0.375), "undecided", 1600),
        ((-0.01, 0.0, 0.01), (">=", -0.02), "pass", None),
        # 0.1 + 0.7 is 0.7999999999999999: no number of samples moves a mean off the threshold.
        ((0.7, 0.1 + 0.7, 0.9), (">=", 0.8), "undecided", None),
        ((0.8, 0.9, 1.0), (">", 0.8), "undecided", 101),
    ],
)
def test_recommended_sample_size_by_hand(
    limits: tuple[float, float, float],
    gate: tuple[Comparison, float],
    outcome: str,
    samples: int | None,
) -> None:
    interval = decided_on(*limits)
    assert decide(interval, *gate) == outcome
    if outcome == "undecided":
        assert samples_to_decide(interval, gate[1]) == samples


@pytest.mark.parametrize("threshold", [0.7, 0.75, 0.85])
def test_the_recommended_sample_size_decides_the_gate(threshold: float) -> None:
    scores = [1, 1, 1, 1, 0.5, 1, 1, 0.5, 1, 1]
    interval = mean_interval(scores)
    assert decide(interval, ">=", threshold) == "undecided"
    needed = samples_to_decide(interval, threshold)
    assert needed is not None
    repeats = -(-needed // len(scores))
    assert decide(mean_interval(scores * repeats), ">=", threshold) == "pass"
