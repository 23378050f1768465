"""A 95 % interval holds the true mean in at least 95 % of repeats, give or take the error of the simulation."""

import math

import numpy as np
import pytest
from interval_coverage import POPULATIONS, Draw, Drawn, any_number, coverage, nearly_always_one, share_of_statements

from localjudge.stats.interval import Interval, mean_interval

REPEATS = 300
STANDARD_ERROR = math.sqrt(0.95 * 0.05 / REPEATS)
# 3.3 standard errors: one false alarm in two thousand cells of a method that holds exactly 95 %.
TOLERANCE = 3.3 * STANDARD_ERROR


def estimate(drawn: Drawn, seed: int) -> Interval:
    return mean_interval(drawn.values, clusters=drawn.clusters, resamples=200, seed=seed)


@pytest.mark.parametrize("size", [10, 30, 100, 1_000])
@pytest.mark.parametrize(
    ("population", "mean"),
    [
        (population, mean)
        for population in POPULATIONS
        for mean in ((0.92, 0.95, 0.99) if population is nearly_always_one else (0.5, 0.8, 0.95, 0.99))
    ],
)
def test_interval_holds_the_true_mean(population: Draw, mean: float, size: int) -> None:
    assert coverage(estimate, population, size, mean, repeats=REPEATS, seed=size).held >= 0.95 - TOLERANCE


@pytest.mark.parametrize("mean", [0.5, 0.8])
@pytest.mark.parametrize("population", [share_of_statements, any_number])
def test_interval_of_many_samples_is_not_wider_than_it_need_be(population: Draw, mean: float) -> None:
    measured = coverage(estimate, population, 1_000, mean, repeats=REPEATS, seed=2)
    assert measured.held <= 0.95 + TOLERANCE


def test_a_method_that_promises_too_much_is_found_out() -> None:
    """The simulation sees what it is for: 1.96 standard errors around the mean fail near 1."""

    def normal(drawn: Drawn, seed: int) -> Interval:
        mean, error = drawn.values.mean(), drawn.values.std(ddof=1) / math.sqrt(len(drawn.values))
        return Interval(mean, mean - 1.96 * error, mean + 1.96 * error, "normal", len(drawn.values), 0, 0.95)

    assert coverage(normal, any_number, 10, 0.95, repeats=REPEATS, seed=1).held < 0.8


@pytest.mark.parametrize("population", POPULATIONS)
def test_population_has_the_mean_that_it_is_said_to_have(population: Draw) -> None:
    values = population(np.random.default_rng(1), 100_000, 0.95).values
    assert values.mean() == pytest.approx(0.95, abs=0.005)
