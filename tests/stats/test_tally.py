"""Values gathered block by block give the interval of all at once, and many of them cost little and move little."""

import math
import time
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interval_coverage import Draw, Drawn, any_number, coverage, shared_documents

from localjudge.stats import Interval, Tally, mean_interval, tally_interval
from localjudge.stats import interval as tally
from localjudge.stats.interval import Floats

VALUES = st.lists(st.sampled_from([0.0, 0.1, 1 / 3, 1.0]) | st.floats(0, 1), min_size=1, max_size=40)


def tally_of(blocks: list[list[float]], clusters: list[list[int]] | None = None) -> Tally:
    gathered = Tally()
    for position, block in enumerate(blocks):
        gathered.add(block, None if clusters is None else clusters[position])
    return gathered


def cut(rows: list[int], ends: list[int]) -> list[list[int]]:
    bounds = [0, *sorted(end % (len(rows) + 1) for end in ends), len(rows)]
    return [rows[start:end] for start, end in pairwise(bounds)]


@pytest.mark.parametrize("distinct", [4, tally.DISTINCT], ids=["binned", "counted"])
@pytest.mark.parametrize("clustered", [False, True])
def test_blocks_in_any_order_give_the_interval_of_all_at_once_bit_for_bit(
    monkeypatch: pytest.MonkeyPatch, distinct: int, clustered: bool
) -> None:
    """Also where the count of distinct values passes the limit in the middle of a block, and clusters are torn."""
    monkeypatch.setattr(tally, "DISTINCT", distinct)
    monkeypatch.setattr(tally, "_STEP_BITS", 3)

    @settings(deadline=None, max_examples=40)
    @given(values=VALUES, ends=st.lists(st.integers(0, 40), max_size=5), data=st.data())
    def check(values: list[float], ends: list[int], data: st.DataObject) -> None:
        groups = data.draw(st.lists(st.integers(-3, 3), min_size=len(values), max_size=len(values)))
        order = data.draw(st.permutations(range(len(values))))
        blocks = cut(order, ends)
        gathered = tally_of(
            [[values[row] for row in block] for block in blocks],
            [[groups[row] for row in block] for block in blocks] if clustered else None,
        )
        whole = mean_interval(values, clusters=groups if clustered else None, resamples=20)
        assert tally_interval(gathered, resamples=20) == whole
        assert whole.mean == math.fsum(values) / len(values)

    check()


@given(st.lists(st.lists(st.floats(-1, 1), max_size=20), max_size=6))
def test_a_sum_is_exact_and_rounded_once(blocks: list[list[float]]) -> None:
    """As with fractions; the smallest float beside 1 is not lost before the end."""
    gathered = Tally(lowest=-1.0)
    for block in [*blocks, [1.0, 5e-324], [-1.0]]:
        gathered.add(block)
    exact = sum((Fraction(value) for block in blocks for value in block), Fraction(5e-324))
    assert gathered.total == float(exact)


def test_intervals_of_data_of_every_kind_are_those_of_version_0_1() -> None:
    """Means: numbers that were computed before values were tallied."""
    generator = np.random.default_rng(11)
    values, clusters = generator.beta(2, 1, 300), generator.integers(0, 40, 300)
    sixths = np.round(values * 6) / 6
    found = [
        mean_interval(values),
        mean_interval(sixths, clusters=[f"d{number}" for number in clusters]),
    ]
    assert [(interval.mean, interval.low, interval.high) for interval in found] == [
        (0.6624949161254141, 0.6330159085533156, 0.6900478615474718),
        (0.6638888888888889, 0.5968514837891286, 0.7054749095217886),
    ]


def moments(points: Floats, counts: Floats) -> tuple[float, float]:
    mean = np.average(points, weights=counts)
    return float(mean), float(np.average((points - mean) ** 2, weights=counts))


@given(values=VALUES, steps=st.sampled_from([1, 3, 10]), place=st.floats(0, 1))
def test_binned_values_have_their_mean_and_are_spread_by_less_than_a_step(
    values: list[float], steps: int, place: float
) -> None:
    """A step h is 2^-steps. Same count and mean, variance more by 0 to h^2 / 4, distances from a place no smaller."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally, "DISTINCT", 0)
        patch.setattr(tally, "_STEP_BITS", steps)
        draws, _ = tally_of([values]).draws()
    array, h = np.array(values), 2.0**-steps
    assert draws.counts.sum() == len(values)
    assert len(draws.sums) <= 2**steps + 1
    mean, variance = moments(draws.sums, draws.counts)
    assert mean == pytest.approx(array.mean(), abs=1e-9)
    assert -1e-9 <= variance - array.var() <= h**2 / 4 + 1e-9
    spread = np.average(np.abs(draws.sums - place), weights=draws.counts)
    assert -1e-9 <= spread - np.abs(array - place).mean() <= h


@pytest.mark.parametrize("clustered", [False, True])
def test_many_distinct_values_have_nearly_the_limits_of_the_exact_method(
    monkeypatch: pytest.MonkeyPatch, clustered: bool
) -> None:
    """Limits of 10,000 draws are known to 0.027 of a standard error, their difference to 0.038; 4 times that is chance.

    That figure is sqrt(0.025 * 0.975 / 10,000) / 0.058, the density of the normal distribution at its 2.5 % quantile.
    """
    generator = np.random.default_rng(4)
    clusters = np.repeat(np.arange(6_000), generator.integers(1, 3, 6_000)) if clustered else None
    size = 6_000 if clusters is None else len(clusters)
    values = generator.beta(2, 1, size)
    binned = mean_interval(values, clusters=clusters)
    monkeypatch.setattr(tally, "DISTINCT", size)
    exact = mean_interval(values, clusters=clusters, seed=1)
    error = values.std() / math.sqrt(size)
    assert (binned.low, binned.high) == pytest.approx((exact.low, exact.high), abs=4 * 0.038 * error)
    assert binned.mean == exact.mean


@pytest.mark.parametrize("population", [any_number, shared_documents])
@pytest.mark.parametrize("mean", [0.5, 0.95])
def test_even_coarse_bins_hold_the_true_mean(monkeypatch: pytest.MonkeyPatch, population: Draw, mean: float) -> None:
    """Two steps in place of 1,024: coverage is 95 % and more; 3.3 standard errors of 300 repeats are 0.042."""
    monkeypatch.setattr(tally, "DISTINCT", 2)
    monkeypatch.setattr(tally, "_STEP_BITS", 1)

    def estimate(drawn: Drawn, seed: int) -> Interval:
        return mean_interval(drawn.values, clusters=drawn.clusters, resamples=200, seed=seed)

    assert coverage(estimate, population, 100, mean, repeats=300, seed=3).held >= 0.95 - 0.042


def test_distinct_values_without_end_cost_seconds() -> None:
    """200,000 of them; before they were binned their weights were 2,000,000,000 draws."""
    generator = np.random.default_rng(2)
    gathered = Tally()
    started = time.process_time()
    for _ in range(200):
        gathered.add(generator.random(1_000))
    assert tally_interval(gathered).high < 0.51
    assert time.process_time() - started < 20


def test_what_cannot_be_tallied_is_refused() -> None:
    gathered = Tally()
    with pytest.raises(ValueError, match="at least one value"):
        tally_interval(gathered)
    gathered.add([0.5])
    for values, clusters in (([1.5], None), ([math.nan], None), ([[0.5]], None), ([0.5], [1]), ([0.5, 1.0], [1])):
        with pytest.raises(ValueError, match=r"must lie|flat array|some have none|one entry per row"):
            gathered.add(values, clusters)
