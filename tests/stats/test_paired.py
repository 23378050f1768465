import numpy as np
import pytest
from scipy import stats

from localjudge.stats.intervals import Interval, mean_interval
from localjudge.stats.paired import mcnemar, paired_difference, smallest_detectable_difference


def test_counts_by_hand() -> None:
    # Differences: 0, +0.5, +0.5, -1.
    change = paired_difference([1, 0.5, 0, 1], [1, 1, 0.5, 0])
    assert (change.improved, change.worsened, change.tied, change.difference.mean) == (2, 1, 1, 0)


def test_a_last_bit_is_a_tie() -> None:
    change = paired_difference([0.1 + 0.2, 0.5], [0.3, 0.5])
    assert (change.improved, change.worsened, change.tied) == (0, 0, 2)


def test_many_pairs_give_the_paired_bootstrap_of_scipy() -> None:
    generator = np.random.default_rng(8)
    before = generator.random(1_500)
    after = np.clip(before + generator.normal(0.02, 0.1, 1_500), 0, 1)
    expected = stats.bootstrap(
        (after - before,), np.mean, n_resamples=4_000, method="percentile", rng=generator
    ).confidence_interval
    change = paired_difference(before, after).difference
    # The unseen pair may have any difference from -1 to 1: 1 / 1500 on each side, for the sake of coverage.
    assert change.low == pytest.approx(expected.low - 1 / 1500, abs=0.0008)
    assert change.high == pytest.approx(expected.high + 1 / 1500, abs=0.0008)


def test_pairing_takes_difficulty_out() -> None:
    """The same gain on samples of very different difficulty is seen, although each mean is known only poorly."""
    before = np.linspace(0, 0.9, 40)
    after = before + 0.1
    assert paired_difference(before, after).difference.low > 0
    assert mean_interval(after).low < mean_interval(before).high


def test_equal_runs_leave_room_for_what_was_not_seen() -> None:
    # 100 ties: an unseen change of one kind is at most 1 - 0.025 ** (1 / 100) = 0.0362 frequent.
    change = paired_difference([0.5] * 100, [0.5] * 100, resamples=100_000)
    assert (change.difference.low, change.difference.high) == pytest.approx((-0.0362, 0.0362), abs=0.001)
    assert change.tied == 100


def test_clusters_stay_with_their_pairs() -> None:
    generator = np.random.default_rng(2)
    before, after, clusters = generator.random(60), generator.random(60), generator.integers(0, 9, 60)
    order = generator.permutation(60)
    shuffled = paired_difference(before[order], after[order], clusters=clusters[order])
    assert shuffled == paired_difference(before, after, clusters=clusters)
    assert shuffled.difference.method == "clustered bootstrap"


@pytest.mark.parametrize(("before", "after"), [([], []), ([0.5], [0.5, 1]), ([0.5], [1.5]), ([float("nan")], [0.5])])
def test_scores_that_do_not_pair_up_are_refused(before: list[float], after: list[float]) -> None:
    with pytest.raises(ValueError, match=r"mean needs|pair up|must lie"):
        paired_difference(before, after)


def test_smallest_detectable_difference_by_hand() -> None:
    # Arm 0.0196 = 1.96 standard errors of 0.01; (1.95996 + 0.84162) * 0.01 = 0.0280, as in Cohen's tables.
    interval = Interval(0.0, -0.0196, 0.0196, "bootstrap", 100, 100, 0.95)
    assert smallest_detectable_difference(interval) == pytest.approx(0.0280, abs=0.0001)


def test_a_true_difference_of_that_size_is_shown_four_times_of_five() -> None:
    """Verdicts of 400 samples, one in ten of which flips: first as often up as down, then with the gain reported."""
    generator = np.random.default_rng(6)
    smallest = []
    for seed in range(40):
        flips = generator.choice([1.0, 0.0, -1.0], size=400, p=[0.05, 0.9, 0.05])
        smallest.append(paired_difference(flips < 0, flips > 0, resamples=400, seed=seed).smallest_detectable)
    gain = float(np.mean(smallest))
    up = 0.05 + gain / 2
    shown = 0
    for seed in range(400):
        flips = generator.choice([1.0, 0.0, -1.0], size=400, p=[up, 0.9, 0.1 - up])
        shown += paired_difference(flips < 0, flips > 0, resamples=400, seed=seed).difference.low > 0
    # The standard error of the share is 0.02.
    assert shown / 400 == pytest.approx(0.8, abs=0.06)


def test_two_runs_that_do_not_differ_are_seldom_told_apart() -> None:
    """Verdicts of 60 samples, 10 % flip up and 10 % down: at most 5 % of 400 intervals leave out 0, and chance."""
    generator = np.random.default_rng(9)
    wrong = 0
    for seed in range(400):
        flips = generator.choice([1.0, 0.0, -1.0], size=60, p=[0.1, 0.8, 0.1])
        interval = paired_difference(flips < 0, flips > 0, resamples=400, seed=seed).difference
        wrong += not interval.low <= 0 <= interval.high
    # The standard error of the share is 0.011.
    assert wrong / 400 <= 0.05 + 3.3 * 0.011


def test_mcnemar_by_hand() -> None:
    # 8 flips, 1 down: 2 * (1 + 8) / 2^8.
    assert mcnemar(7, 1) == pytest.approx(18 / 256)


@pytest.mark.parametrize(
    ("improved", "worsened"), [(0, 1), (3, 3), (0, 12), (40, 61), (5_200, 4_900), (300_000, 301_900)]
)
def test_mcnemar_equals_the_binomial_test_of_scipy(improved: int, worsened: int) -> None:
    assert mcnemar(improved, worsened) == pytest.approx(stats.binomtest(improved, improved + worsened).pvalue, rel=1e-6)


def test_no_flips_are_no_evidence() -> None:
    assert mcnemar(0, 0) == 1
