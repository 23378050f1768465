"""Intervals of corrected means hold the truth in 93 to 97 % of repeats, give or take the error of the simulation."""

import math
from itertools import product

import numpy as np
import pytest
from corrected_coverage import JUDGES, Setting, coverage, made_up

REPEATS = 150
# Four standard errors beside the band: one false alarm in some hundred runs of all cells.
TOLERANCE = 4 * math.sqrt(0.95 * 0.05 / REPEATS)


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize(
    "setting",
    [
        Setting(120, 0.8, clustered, stratified, labels)
        for clustered, stratified, labels in product((False, True), (False, True), (50, 200))
    ],
)
def test_the_intervals_hold_the_truth(setting: Setting, judge: str) -> None:
    found = coverage(setting, JUDGES[judge], repeats=REPEATS, seed=1)
    assert found["corrected"].share >= 0.93 - TOLERANCE
    assert found["corrected"].mean == pytest.approx(0.8, abs=0.02)


def test_the_simulation_sees_that_a_judge_is_biased() -> None:
    """The judge's own interval, which knows nothing of its errors, hardly ever holds the truth."""
    found = coverage(Setting(120, 0.8, False, False, 50), JUDGES["strict"], repeats=REPEATS, seed=1)
    assert found["judge"].share < 0.1
    assert found["judge"].mean == pytest.approx(0.8 * 0.6 + 0.2 * 0.05, abs=0.02)


@pytest.mark.parametrize("clustered", [False, True])
def test_a_run_has_the_truth_and_the_judge_that_it_is_said_to_have(clustered: bool) -> None:
    setting = Setting(20_000, 0.8, clustered, False, 50)
    units = made_up(setting, JUDGES["lenient"], np.random.default_rng(1))
    ones = units.human == 1
    assert (units.weights * units.human).sum() == pytest.approx(0.8, abs=0.01)
    assert units.judged[ones].mean() == pytest.approx(0.95, abs=0.01)
    assert 1 - units.judged[~ones].mean() == pytest.approx(0.6, abs=0.02)
