"""Means, counts, bounds and intervals of a run."""

import pytest

from localjudge.record.summary import MetricSummary, Summary, summarize
from localjudge.run.evaluate import Evaluation
from localjudge.stats import mean_interval
from localjudge.types import Failed, Outcome, Scored, Undefined

NO = Undefined(reason="none")
FAIL = Failed(reason="broken")


def metric(*outcomes: Outcome | float, clusters: str = "") -> MetricSummary:
    """Summary of one metric; `clusters` names each sample's group by a letter."""
    evaluations = [
        Evaluation(str(number), "m", Scored(value=outcome) if isinstance(outcome, float) else outcome)
        for number, outcome in enumerate(outcomes)
    ]
    cluster_of = {str(number): name for number, name in enumerate(clusters)} if clusters else None
    return summarize(evaluations, ["m"], cluster_of)["m"]


def test_the_mean_is_over_what_was_scored() -> None:
    """(1 + 0.5) / 2; one undefined and one failed sample are counted beside it."""
    found = metric(1.0, 0.5, NO, FAIL)
    assert (found.mean, found.scored, found.undefined, found.failed) == (0.75, 2, 1, 1)


def test_bounds_take_failed_samples_as_0_and_as_1() -> None:
    """Low (1 + 0.5 + 0) / 3 = 0.5; high (1 + 0.5 + 1) / 3 = 5/6. The undefined one is in neither."""
    assert metric(1.0, 0.5, NO, FAIL).bounds == pytest.approx((0.5, 5 / 6))


def test_the_interval_is_that_of_the_scores() -> None:
    interval = mean_interval([1.0, 0.5, 0.25])
    assert metric(1.0, NO, 0.5, 0.25).ci95 == (interval.low, interval.high)


def test_clusters_belong_to_the_scored_samples() -> None:
    """The undefined sample's cluster drops out with it: groups x, x, y remain."""
    interval = mean_interval([1.0, 0.5, 0.25], clusters=["x", "x", "y"])
    found = metric(1.0, 0.5, NO, 0.25, clusters="xxzy")
    assert (found.ci95, found.clusters, found.method) == (
        (interval.low, interval.high),
        2,
        "clustered bootstrap",
    )


def test_nothing_scored_has_no_mean() -> None:
    found = metric(NO, NO)
    assert (found.mean, found.ci95, found.bounds, found.undefined) == (None, None, None, 2)


def test_everything_failed_is_bounded_by_0_and_1() -> None:
    found = metric(FAIL)
    assert (found.mean, found.ci95, found.bounds) == (None, None, (0.0, 1.0))


def test_a_metric_without_samples_is_listed() -> None:
    assert summarize([], ["m"])["m"].scored == 0


def test_more_failures_than_allowed_are_named() -> None:
    summary = Summary(signature="", threshold=0.5, samples=3, metrics={"m": metric(1.0, FAIL, FAIL)})
    assert (summary.failed_beyond(1), summary.failed_beyond(2)) == (("m",), ())
