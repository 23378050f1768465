import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from localjudge.stats import repeated_looks
from localjudge.stats.interval import DISTINCT, Mean
from localjudge.stats.paired import samples_to_decide
from localjudge.stats.repeated_looks import FRACTIONS, SHARES, sequence_interval

METHOD = "confidence sequence"

ROUNDING = 2e-9
TARGET = 40  # 1 / 0.025
SCORES = st.lists(
    st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.75, 1.0]) | st.floats(0, 1),
    min_size=1,
    max_size=30,
)


def limits(interval: Mean) -> tuple[float, float]:
    return interval.low, interval.high


def up(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], mean: float, largest: int = 1
) -> float:
    factors = (
        1 - FRACTIONS[:, None] * sizes / largest + FRACTIONS[:, None] * sums / (largest * mean)
    )
    return float(SHARES @ np.prod(factors, axis=1))


@pytest.fixture
def half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_looks, "FRACTIONS", np.array([0.5]))
    monkeypatch.setattr(repeated_looks, "SHARES", np.array([1.0]))


@pytest.mark.usefixtures("half")
@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (
            [1.0],
            1 / 79,
            1.0,
        ),  # 1/2 + 1/2 t = 40 with t = 1 / m, so t = 79; nothing speaks for less than 1
        ([0.0], 0.0, 78 / 79),  # 1/2 + 1/2 / (1 - m) = 40
        ([1.0, 0.0], 1 / 159, 158 / 159),  # (1/2 + t/2) 1/2 = 40, so t = 159
        ([1.0, 1.0], 1 / (2 * math.sqrt(40) - 1), 1.0),  # (1/2 + t/2)^2 = 40
        ([0.5], 1 / 158, 157 / 158),  # 1/2 + 1/2 * 1/2 t = 40, so t = 158
    ],
)
def test_a_single_fraction_gives_limits_worked_by_hand(
    values: list[float], low: float, high: float
) -> None:
    assert limits(sequence_interval(values)) == pytest.approx((low, high), abs=ROUNDING)


def test_two_fractions_share_the_money(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores 1 and 1, fractions 1/4 and 3/4 with half of the money each, t = 1 / m.

    1/2 (3/4 + t/4)^2 + 1/2 (1/4 + 3/4 t)^2 = 40, so 10 t^2 + 12 t + 10 = 80 * 16, and t = -0.6 +
    sqrt(0.36 + 127).
    """
    monkeypatch.setattr(repeated_looks, "FRACTIONS", np.array([0.25, 0.75]))
    monkeypatch.setattr(repeated_looks, "SHARES", np.array([0.5, 0.5]))
    assert sequence_interval([1.0, 1.0]).low == pytest.approx(
        1 / (-0.6 + math.sqrt(127.36)), abs=ROUNDING
    )


@pytest.mark.usefixtures("half")
def test_a_cluster_bets_by_its_share_of_the_largest() -> None:
    """Two samples of at most four, scores 1 and 0: 1 - 1/2 * 2/4 + 1/2 * 1/4 t = 40: t = 314."""
    interval = sequence_interval([1.0, 0.0], clusters=["a", "a"], largest=4)
    assert limits(interval) == pytest.approx((1 / 314, 313 / 314), abs=ROUNDING)
    assert (interval.mean, interval.method, interval.n, interval.clusters) == (0.5, METHOD, 2, 1)


@given(SCORES, st.integers(1, 5))
def test_wealth_is_forty_at_the_limits(values: list[float], largest: int) -> None:
    scores = np.array(values)
    ones = np.ones(len(values))
    low, high = limits(sequence_interval(values, largest=largest))
    # Limits are rounded outwards: the money is a little more there, and less a little inside.
    for sums, limit in ((scores, low), (1 - scores, 1 - high)):
        if limit > ROUNDING:
            assert up(sums, ones, limit, largest) >= TARGET * (1 - 1e-6)
            assert up(sums, ones, limit + ROUNDING, largest) <= TARGET
        else:
            assert up(sums, ones, 2 * ROUNDING, largest) <= TARGET


@given(SCORES)
def test_limits_contain_the_mean_and_are_symmetric(values: list[float]) -> None:
    interval = sequence_interval(values)
    turned = sequence_interval([1 - value for value in values])
    assert 0 <= interval.low <= interval.mean <= interval.high <= 1
    assert limits(turned) == pytest.approx((1 - interval.high, 1 - interval.low), abs=ROUNDING)


@given(st.data(), SCORES)
def test_order_and_cluster_names_do_not_change_the_sequence(
    data: st.DataObject, values: list[float]
) -> None:
    clusters = data.draw(st.lists(st.integers(0, 4), min_size=len(values), max_size=len(values)))
    order = data.draw(st.permutations(range(len(values))))
    names = data.draw(st.permutations("abcde"))
    interval = sequence_interval(values, clusters=clusters, largest=30)
    moved = [values[at] for at in order], [names[clusters[at]] for at in order]
    assert sequence_interval(moved[0], clusters=moved[1], largest=30) == interval
    assert sequence_interval(moved[0]) == sequence_interval(values, clusters=range(len(values)))


@given(SCORES)
def test_differences_are_means_on_a_longer_scale(values: list[float]) -> None:
    interval = sequence_interval(values)
    differences = sequence_interval([2 * value - 1 for value in values], lowest=-1.0)
    expected = 2 * interval.low - 1, 2 * interval.high - 1
    assert limits(differences) == pytest.approx(expected, abs=2 * ROUNDING)
    assert differences.mean == pytest.approx(2 * interval.mean - 1)


@given(SCORES, st.data())
def test_a_better_score_lowers_no_limit(values: list[float], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(values) - 1))
    better = [*values[:place], data.draw(st.floats(values[place], 1)), *values[place + 1 :]]
    before = sequence_interval(values)
    after = sequence_interval(better)
    assert after.low >= before.low - ROUNDING
    assert after.high >= before.high - ROUNDING


def test_equal_scores_reach_a_limit_of_the_scale() -> None:
    """For 1,000 scores and a bet of all the money, the other limit is log(40) / 1000 away."""
    low, high = limits(sequence_interval([1.0] * 1_000))
    assert high == 1
    assert 0.0037 < 1 - low < 0.006
    assert limits(sequence_interval([0.0] * 1_000)) == pytest.approx((0, 1 - low), abs=ROUNDING)


def test_binning_many_distinct_values_only_widens_the_interval() -> None:
    values = np.random.default_rng(1).beta(2, 1, DISTINCT + 1)
    low, high = limits(sequence_interval(values))
    single = np.log(SHARES), np.ones(len(values))
    for sums, limit in ((values, low), (1 - values, 1 - high)):
        logs = single[0] + np.log1p(FRACTIONS[:, None] * (sums / limit - 1)).sum(axis=1)
        assert np.logaddexp.reduce(logs) >= math.log(TARGET)
        logs = single[0] + np.log1p(FRACTIONS[:, None] * (sums / (limit + 1e-4) - 1)).sum(axis=1)
        assert np.logaddexp.reduce(logs) < math.log(TARGET)


def test_planner_uses_the_shrink_rate_of_a_confidence_sequence() -> None:
    """From arm 0.2 to 0.1: 2^1.6 = 3.03 times the samples, and 2^2 = 4 times for a fixed number."""
    interval = Mean(0.8, (0.6, 0.9), METHOD, 100, 100)
    assert samples_to_decide(interval, 0.7) == 304
    assert samples_to_decide(interval._replace(method="bootstrap"), 0.7) == 400


def test_a_cluster_beyond_the_largest_counts_as_the_largest() -> None:
    values = [1.0, 0.0, 1.0, 1.0]
    clusters = ["a", "a", "a", "b"]
    one, three = (
        sequence_interval(values, clusters=clusters, largest=largest) for largest in (1, 3)
    )
    assert one == three
