"""Intervals contain the truth as often as they promise, in few repetitions of each cell."""

import math
from itertools import product

import pytest
from corrected_coverage import (
    JUDGES,
    PREDICTIONS,
    Setting,
    in_slices,
    labels_for,
    made_up_pool,
    measure_predictions,
    pooled,
)
from corrected_coverage import measure as measure_corrected
from difference_coverage import PairSetting, measure_difference
from interval_coverage import (
    POPULATIONS,
    Draw,
    Drawn,
    any_number,
    coverage,
    nearly_always_one,
    share_of_statements,
)
from joint_drawing import RATES, Rates, measure_plans
from paired_coverage import SHAPES, measure

from localjudge.stats.interval import Mean, mean_interval

pytestmark = pytest.mark.engine

REPEATS = 300
# 3.3 standard errors: one false alarm in two thousand cells of a method that holds exactly 95 %.
TOLERANCE = 3.3 * math.sqrt(0.95 * 0.05 / REPEATS)
CORRECTED_REPEATS = 150
# Four standard errors more than the band: one false alarm in some hundred runs of all cells.
CORRECTED_TOLERANCE = 4 * math.sqrt(0.95 * 0.05 / CORRECTED_REPEATS)


def estimate(drawn: Drawn, seed: int) -> Mean:
    return mean_interval(drawn.values, clusters=drawn.clusters, resamples=200, seed=seed)


@pytest.mark.parametrize("size", [10, 30, 100, 1_000])
@pytest.mark.parametrize(
    ("population", "mean"),
    [
        (population, mean)
        for population in POPULATIONS
        for mean in (
            (0.92, 0.95, 0.99) if population is nearly_always_one else (0.5, 0.8, 0.95, 0.99)
        )
    ],
)
def test_the_interval_contains_the_true_mean(population: Draw, mean: float, size: int) -> None:
    assert (
        coverage(estimate, population, size, mean, repeats=REPEATS, seed=size).held
        >= 0.95 - TOLERANCE
    )


@pytest.mark.parametrize("mean", [0.5, 0.8])
@pytest.mark.parametrize("population", [share_of_statements, any_number])
def test_interval_of_many_samples_is_not_too_wide(population: Draw, mean: float) -> None:
    measured = coverage(estimate, population, 1_000, mean, repeats=REPEATS, seed=2)
    assert measured.held <= 0.95 + TOLERANCE


def test_the_simulation_detects_an_overconfident_method() -> None:
    def normal(drawn: Drawn, seed: int) -> Mean:
        mean = drawn.values.mean()
        error = drawn.values.std(ddof=1) / math.sqrt(len(drawn.values))
        limits = (mean - 1.96 * error, mean + 1.96 * error)
        return Mean(mean, limits, "normal", len(drawn.values), 0)

    assert coverage(normal, any_number, 10, 0.95, repeats=REPEATS, seed=1).held < 0.8


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("50 % down by 0.35", 25),
        ("10 % up, 30 % down by 0.35", 50),
        ("30 % up, 30 % down of statements", 10),
        ("10 % up, 2 % down of statements", 100),
        ("normal, mean 0.05, sd 0.1", 25),
        ("documents: half move, 50 % of them down", 100),
    ],
)
def test_paired_interval_matches_t_where_t_covers(name: str, size: int) -> None:
    cell = measure(SHAPES[name], size, repeats=REPEATS, seed=1)
    assert cell.held >= 0.95 - TOLERANCE
    assert cell.width <= 1.15 * cell.t_width
    if SHAPES[name].differs:
        assert cell.power >= max(cell.t_power, cell.flip_power) - 0.05


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("3 % down by 1", 25),
        ("10 % down by 1/3", 10),
        ("5 % up, uniform", 50),
        ("90 % down by 0.2", 10),
    ],
)
def test_paired_interval_covers_few_moved_pairs_where_t_fails(name: str, size: int) -> None:
    cell = measure(SHAPES[name], size, repeats=REPEATS, seed=1)
    assert cell.held >= 0.95 - TOLERANCE
    assert cell.t_held < 0.9
    assert cell.narrowest > 0


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize(
    "setting", [Setting(120, 0.8, *how) for how in product((False, True), (50, 150))]
)
def test_intervals_cover_the_truth(setting: Setting, judge: str) -> None:
    ways = measure_corrected(
        setting, made_up_pool(*JUDGES[judge]), repeats=CORRECTED_REPEATS, seed=1
    )
    assert all(held.share >= 0.93 - CORRECTED_TOLERANCE for held in ways.values())


@pytest.mark.parametrize("judge", ["lenient", "good"])
@pytest.mark.parametrize("clustered", [False, True])
def test_intervals_of_slices_cover_their_truth(judge: str, clustered: bool) -> None:
    pool = made_up_pool(*JUDGES[judge])
    slices = in_slices(pool, clustered=clustered, by=True, repeats=CORRECTED_REPEATS, seed=1)
    assert all(each.held.share >= 0.93 - CORRECTED_TOLERANCE for each in slices)


@pytest.mark.parametrize(
    "setting", [Setting(120, 0.8, clustered, 50, longer=0.7) for clustered in (False, True)]
)
def test_intervals_of_pooled_shares_cover_the_truth(setting: Setting) -> None:
    everything, corrected = pooled(
        setting, made_up_pool(*JUDGES["lenient"]), repeats=CORRECTED_REPEATS, seed=1
    )
    assert everything.share >= 0.95 - CORRECTED_TOLERANCE
    assert corrected.share >= 0.93 - CORRECTED_TOLERANCE


def test_probabilities_predict_the_labels_of_a_judge_without_errors_worse_than_verdicts() -> None:
    setting = Setting(300, 0.9, False, 50)
    measured = measure_predictions(setting, made_up_pool(1.0, 1.0), repeats=60, seed=3)
    widths = [measured[prediction].width for prediction in PREDICTIONS]
    assert 1.005 < widths[2] / widths[0] < widths[1] / widths[0]


def test_a_good_judge_saves_labels_and_a_guessing_one_none() -> None:
    setting = Setting(300, 0.7, False, 50)
    good = made_up_pool(*JUDGES["good"])
    guessing = made_up_pool(0.5, 0.5)
    ways = measure_corrected(setting, good, repeats=40, seed=1)
    assert ways["corrected"].width < ways["PPI++"].width < 0.8 * ways["labels only"].width
    assert (
        labels_for(ways["corrected"].width, "labels only", setting, good, repeats=20, seed=1) > 100
    )
    ways = measure_corrected(setting, guessing, repeats=40, seed=1)
    assert ways["PPI++"].width == pytest.approx(ways["labels only"].width, rel=0.05)


@pytest.mark.parametrize(("before", "after"), [(0.95, 0.9), (0.99, 0.99), (1.0, 0.95)])
@pytest.mark.parametrize("labels", [20, 50])
def test_corrected_differences_near_1_contain_the_truth(
    before: float, after: float, labels: int
) -> None:
    """Two runs with labels of 1 only had a difference of width 0."""
    setting = PairSetting(120, before, after, 0.0, labels)
    pool = made_up_pool(*JUDGES["lenient"])
    held = measure_difference(setting, pool, repeats=CORRECTED_REPEATS, seed=3)
    assert held.share >= 0.95 - CORRECTED_TOLERANCE
    assert held.points == 0


@pytest.mark.parametrize("judge", ["lenient", "good"])
@pytest.mark.parametrize("changes", ["few", "some", "many"])
def test_labels_of_both_runs_together_cover_the_difference_with_fewer_labels(
    judge: str, changes: str
) -> None:
    """Of 60 labels drawn together, the interval is at most .7 as wide: half of the labels."""
    setting = Rates(120, 0.8, *RATES[changes], labels=60)
    pool = made_up_pool(*JUDGES[judge])
    together, apart = measure_plans(setting, pool, repeats=CORRECTED_REPEATS, seed=5)
    assert together.share >= 0.95 - CORRECTED_TOLERANCE
    assert together.width < 0.7 * apart.width
