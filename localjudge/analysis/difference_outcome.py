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
from localjudge.stats.interval import NoMean

Outcome = Literal[
    "better", "worse", "undecided", "judge only", "not comparable", "no scores", "equal"
]


def decide_difference(comparison: RunComparison, name: str) -> Outcome:
    """Return the outcome for a metric."""
    change = comparison.metrics[name]
    obstacles = comparison.obstacles(name)
    quoted = change.quoted
    outcome: Outcome = "undecided"
    if change.scores is None:
        outcome = "no scores"
    elif obstacles:
        outcome = "not comparable"
    elif change.is_equal:
        outcome = "equal"
    elif isinstance(quoted, NoMean):
        return outcome
    elif quoted.basis == "judge" and catalog.is_judged(name):
        outcome = "judge only"
    elif quoted.excludes_zero and not (change.headline and change.headline.has_gaps):
        outcome = "worse"
        if (quoted.low > 0) != catalog.lower_is_better(name):
            outcome = "better"
    return outcome


def can_be_corrected(name: str, change: MetricChange) -> bool:
    """Return whether labels can correct the difference."""
    if change.scores is None or not catalog.is_judged(name):
        return False
    return change.corrected is None or change.corrected.remark != NO_SHARE


def count_missing_labels(change: MetricChange) -> int | None:
    """Return how many more labels would decide the difference, None if it is or none would."""
    quoted = change.quoted
    judge = change.by_judge
    labels = change.headline
    if isinstance(quoted, NoMean) or judge is None or labels is None or quoted.excludes_zero:
        return None
    needed = count_labels_to_decide(0, quoted, judge, labels)
    if needed is None:
        return None
    return max(1, needed - labels.labelled)
