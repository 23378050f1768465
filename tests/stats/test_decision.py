import pytest

from localjudge.stats.interval import Interval, mean_interval
from localjudge.stats.paired import Comparison, decide


def interval(low: float, mean: float, high: float, n: int = 100) -> Interval:
    return Interval(mean, low, high, "bootstrap", n, n, 0.95)


@pytest.mark.parametrize(
    ("low", "high", "comparison", "outcome"),
    [
        (0.81, 0.9, ">=", "pass"),
        (0.80, 0.9, ">=", "pass"),
        (0.80, 0.9, ">", "undecided"),
        (0.70, 0.9, ">=", "undecided"),
        (0.70, 0.8, ">=", "undecided"),
        (0.70, 0.8, ">", "fail"),
        (0.70, 0.79, ">=", "fail"),
        (0.70, 0.8, "<=", "pass"),
        (0.70, 0.8, "<", "undecided"),
        (0.70, 0.79, "<", "pass"),
        (0.80, 0.9, "<=", "undecided"),
        (0.80, 0.9, "<", "fail"),
        (0.81, 0.9, "<=", "fail"),
    ],
)
def test_the_interval_decides(low: float, high: float, comparison: Comparison, outcome: str) -> None:
    assert decide(interval(low, (low + high) / 2 + 0.01, high), comparison, 0.8).outcome == outcome


def test_samples_that_would_do_by_hand() -> None:
    # Mean 0.875, lower arm 0.25, distance 0.125: twice too wide, so 2^2 times as many.
    assert decide(interval(0.625, 0.875, 0.95), ">=", 0.75) == ("undecided", 400)


def test_the_arm_towards_the_threshold_counts() -> None:
    # Mean 0.5 below 0.625: upper arm 0.375, distance 0.125: 3^2 times as many to know that it fails.
    assert decide(interval(0.375, 0.5, 0.875), ">=", 0.625) == ("undecided", 900)


def test_at_most_is_at_least_turned_round() -> None:
    # Mean 0.25 below 0.375: upper arm 0.5, distance 0.125: 4^2 times as many to know that it passes.
    assert decide(interval(0.125, 0.25, 0.75), "<=", 0.375) == ("undecided", 1600)


def test_a_delta_may_be_negative() -> None:
    assert decide(interval(-0.01, 0.0, 0.01), ">=", -0.02) == ("pass", None)


def test_no_number_of_samples_moves_a_mean_off_the_threshold() -> None:
    # 0.1 + 0.7 is 0.7999999999999999.
    assert decide(interval(0.7, 0.1 + 0.7, 0.9), ">=", 0.8) == ("undecided", None)


def test_touching_needs_one_sample_more() -> None:
    assert decide(interval(0.8, 0.9, 1.0), ">", 0.8) == ("undecided", 101)


@pytest.mark.parametrize("threshold", [0.7, 0.75, 0.85])
def test_as_many_samples_as_were_asked_for_decide(threshold: float) -> None:
    """The same scores repeated until there are that many pass the gate, and not by a wide margin."""
    scores = [1, 1, 1, 1, 0.5, 1, 1, 0.5, 1, 1]
    decision = decide(mean_interval(scores), ">=", threshold)
    assert decision.samples_needed is not None
    repeats = -(-decision.samples_needed // len(scores))
    assert decide(mean_interval(scores * repeats), ">=", threshold).outcome == "pass"
