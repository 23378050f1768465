"""The simulation of drawings with more disagreements, with few repeats. Seeds fix every number."""

import math

import pytest
from drawing_disagreements import JURIES, PLAIN, Setting, error_rates, measure, simulated_pool

from localjudge.stats.drawing import DISAGREEMENT_FACTOR

REPEATS = 200
FACTORS = (PLAIN, DISAGREEMENT_FACTOR)
# Three standard errors: one false alarm in several hundred cells of a method that holds 95 %.
TOLERANCE = 3 * math.sqrt(0.95 * 0.05 / REPEATS)


@pytest.mark.engine
@pytest.mark.parametrize("labels", [50, 200])
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("jury", ["two good", "two noisy, correlated", "two strict"])
def test_intervals_contain_the_truth(jury: str, clustered: bool, labels: int) -> None:
    setting = Setting(0.8, clustered, labels)
    measured = measure(setting, simulated_pool(JURIES[jury]), FACTORS, repeats=REPEATS, seed=1)
    for factor in FACTORS:
        assert measured[factor].coverage >= 0.95 - TOLERANCE


def test_intervals_are_narrower_only_if_disagreements_show_the_errors() -> None:
    setting = Setting(0.8, False, 50)
    ratios = {}
    for name in ("two good", "two strict"):
        pool = simulated_pool(JURIES[name])
        measured = measure(setting, pool, FACTORS, repeats=60, seed=2)
        ratios[name] = measured[DISAGREEMENT_FACTOR].width / measured[PLAIN].width
    assert ratios["two good"] < 1 < ratios["two strict"]


def test_simulated_judges_err_where_they_disagree() -> None:
    """Two judges of signal 2.5 and one threshold at 0 err with probability 1 - Phi(1.25) = .1056.

    Independent judges disagree with probability 2 x .1056 x .8944 = .189.
    """
    divided, wrong_there, wrong_elsewhere = error_rates(simulated_pool(JURIES["two good"]))
    assert divided == pytest.approx(0.189, abs=0.01)
    assert wrong_there > 5 * wrong_elsewhere
