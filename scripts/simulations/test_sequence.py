"""Simulated early stops agree with `localjudge.stats.repeated_looks`, and cover the truth."""

import math

import numpy as np
import pytest
from interval_coverage import yes_or_no
from sequence_coverage import POPULATIONS, at, decided, first_exits, fixed_size

from localjudge.stats.interval import Mean
from localjudge.stats.repeated_looks import sequence_interval


def limits(interval: Mean) -> tuple[float, float]:
    return interval.low, interval.high


@pytest.mark.parametrize("name", POPULATIONS)
def test_simulated_stops_match_the_intervals(name: str) -> None:
    population = POPULATIONS[name]
    draws = 40
    drawn = population.draw(np.random.default_rng(3), draws)
    groups = np.arange(draws) if drawn.clusters is None else drawn.clusters
    fixed = population._replace(draw=lambda *_: drawn)
    values = (
        (0.02, 0.1, 0.4, 0.6, 0.9, 0.98) if not population.lowest else (-0.6, -0.2, 0.0, 0.2, 0.6)
    )
    largest = population.largest
    lowest = population.lowest
    parts = [groups < size for size in range(1, draws + 1)]
    intervals = [
        sequence_interval(drawn.values[part], clusters=groups[part], largest=largest, lowest=lowest)
        for part in parts
    ]
    for value in values:
        exits, _ = first_exits(fixed, value, repeats=1, limit=draws, seed=0, block=draws)
        outside = [not low <= value <= high for low, high in map(limits, intervals)]
        assert exits[0] == (outside.index(True) + 1 if any(outside) else draws + 1)


@pytest.mark.parametrize("name", POPULATIONS)
def test_the_truth_is_covered_at_all_times(name: str) -> None:
    population = POPULATIONS[name]
    repeats = 300
    exits, _ = first_exits(population, population.mean, repeats=repeats, limit=300, seed=1)
    assert (exits <= 300).mean() <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / repeats)


def test_early_stopping_needs_about_the_fixed_sample_size() -> None:
    population = at(yes_or_no, 0.9)
    cell = decided(population, 0.8, repeats=100, limit=2_000, seed=1)
    # 80 of 100: for 109 samples and 0.9 the exact interval leaves 0.8 out in 80 % of cases.
    assert fixed_size(population, 0.8, seed=1) == pytest.approx(109, rel=0.1)
    assert cell.median < cell.mean < 1.5 * 109
    assert 0.5 < cell.planned < 2
