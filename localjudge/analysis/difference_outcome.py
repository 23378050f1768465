"""Decide what may be said about the difference of two runs, and what is missing to say more.

better, worse    the whole interval is on one side of 0, corrected by labels where a judge is
                 involved
undecided        it contains 0, or labels are too few or have gaps
judge only       no labels correct the judge, which may reverse the order of two systems
not comparable   the judges, questions or references differ
no scores        no sample has a score in both runs
"""

from typing import Literal

from localjudge.analysis.comparison import MetricChange, RunComparison
from localjudge.analysis.gate_decisions import count_labels_to_decide
from localjudge.labels.corrected_mean import NO_SHARE
from localjudge.metrics import catalog

Outcome = Literal[
    "better", "worse", "undecided", "judge only", "not comparable", "no scores", "equal"
]


def decide_difference(comparison: RunComparison, name: str) -> Outcome:
    """Return the outcome for a metric."""
    change = comparison.metrics[name]
    obstacles = comparison.obstacles(name)
    samples = comparison.samples
    interval = change.interval
    outcome: Outcome = "undecided"
    if change.scores is None:
        outcome = "no scores"
    elif obstacles:
        outcome = "not comparable"
    elif samples.same_content == samples.paired and change.scores.tied == change.compared:
        outcome = "equal"
    elif interval is None:
        return outcome
    elif change.quoted.basis == "judge" and catalog.is_judged(name):
        outcome = "judge only"
    elif (
        interval.ci95
        and (interval.excludes_zero)
        and not (change.headline is not None and change.headline.has_gaps)
    ):
        outcome = "worse"
        if (interval.low > 0) != catalog.lower_is_better(name):
            outcome = "better"
    return outcome


def can_be_corrected(name: str, change: MetricChange) -> bool:
    """Return whether labels can correct the difference."""
    if change.scores is None or not catalog.is_judged(name):
        return False
    return change.corrected is None or change.corrected.remark != NO_SHARE


def count_missing_labels(change: MetricChange) -> int | None:
    """Return how many more labels would decide the difference, None if it is or none would."""
    interval = change.interval
    judge = change.judge_interval
    labels = change.headline
    if interval is None or judge is None or labels is None:
        return None
    if interval.excludes_zero:
        return None
    needed = count_labels_to_decide(0, interval, judge, labels)
    if needed is None:
        return None
    return max(1, needed - labels.labels)
