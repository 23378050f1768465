"""What may be said about the difference of two runs, in one sentence for each metric.

B is better in faithfulness: +0.130 (+0.040 to +0.220), by 100 labels of 2 people
Not decided in faithfulness: +0.050 (-0.040 to +0.140), by 50 labels of 1 person; about 60 more
labels would decide it: `localjudge label cmp --sample 110`
Judge only in faithfulness: +0.269 (+0.172 to +0.370); a judge may reverse the order of two
systems, so label statements of both: `localjudge label cmp`
"""

from collections.abc import Iterator
from typing import Any

from localjudge.analysis.comparison import (
    CorrectedDifference,
    MetricChange,
    Outcome,
    RunComparison,
    can_be_corrected,
    count_missing_labels,
    decide_difference,
)
from localjudge.stats.interval import NoMean
from localjudge.stats.paired import samples_to_decide
from localjudge.words import call, numbered, signed, signed_difference

_BEGINNINGS: dict[Outcome, str] = {
    "better": "{run} is better in",
    "worse": "{run} is worse in",
    "undecided": "Not decided in",
    "judge only": "Judge only in",
    "not comparable": "Not comparable in",
    "no scores": "No difference in",
    "equal": "No difference in",
}


def claims(
    comparison: RunComparison, run: str = "B", *, with_command: bool = True
) -> Iterator[str]:
    """Yield the sentence of each metric. `run` names the new run.

    A command names the directory, so that a page, which may be moved, has none.
    """
    for name, change in comparison.metrics.items():
        outcome = decide_difference(comparison, name)
        beginning = _BEGINNINGS[outcome].format(run=run)
        details = [f"{_state(change)}{_describe_basis(change, outcome)}"]
        command = None
        if outcome == "not comparable":
            details += comparison.obstacles(name).values()
        elif outcome == "judge only":
            warning = "a judge may reverse the order of two systems"
            if can_be_corrected(name, change):
                warning = f"{warning}, so label statements of both"
            else:
                warning = f"{warning}, and labels cannot correct this metric"
            details.append(warning)
            command = label_command(comparison, name)
        elif outcome == "undecided":
            details.append(_describe_shortage(change))
            command = label_command(comparison, name)
        elif outcome == "equal":
            details = [f"the texts of all {change.compared:,} pairs are equal"]
        sentence = f"{beginning} {name}: {'; '.join(filter(None, details))}"
        if command and with_command:
            sentence += f": {command}"
        yield sentence


def label_command(comparison: RunComparison, name: str) -> str | None:
    """Return the command for labels that may decide the difference of a metric, or None."""
    change = comparison.metrics[name]
    missing = count_missing_labels(change)
    is_missing = change.headline is None or change.headline.has_gaps or missing is not None
    if not is_missing or not can_be_corrected(name, change):
        return None
    directory = comparison.directory
    options: dict[str, Any] = {}
    if change.corrected and change.corrected.unsettled:
        options["disputed"] = True
    elif len(comparison.metrics) > 1 and directory is not None:
        options["metrics"] = name
    if directory is None:
        paths = (comparison.baseline, comparison.run)
        commands = [call("label", path, **options) for path in paths]
        return " and ".join(f"`{command}`" for command in commands)
    if missing is None or change.headline is None or len(comparison.metrics) > 1:
        return f"`{call('label', directory, opened='RunPair', **options)}`"
    total = change.headline.labelled + missing
    return f"`{call('label', directory, sample=total, opened='RunPair')}`"


def _state(change: MetricChange) -> str:
    """Return the difference with its interval: `+0.130 (+0.040 to +0.220)`."""
    quoted = change.quoted
    if change.scores is None:
        return change.withheld or "no sample has a score in both runs"
    if isinstance(quoted, NoMean):
        contradiction = change.corrected and change.corrected.contradiction
        if contradiction:
            return f"{contradiction} ({quoted.based_on})"
        return quoted.based_on
    if quoted.ci95 is None:
        return f"{signed(quoted.mean)}, without an interval: all samples are in one group"
    difference, low, high = signed_difference(quoted.mean, quoted.ci95)
    return f"{difference} ({low} to {high})"


def _describe_basis(change: MetricChange, outcome: Outcome) -> str:
    """Return the labels and annotators, or the samples of a metric without a judge."""
    if change.headline:
        return f", by {describe_labels(change.headline)}"
    if outcome in ("better", "worse"):
        return f", on {numbered(change.compared, 'sample')}"
    return ""


def describe_labels(corrected: CorrectedDifference) -> str:
    """Return `100 labels of 2 people`."""
    if not corrected.annotators:
        return corrected.in_words
    people = "1 person"
    if corrected.annotators > 1:
        people = f"{corrected.annotators:,} people"
    return f"{corrected.in_words} of {people}"


def _describe_shortage(change: MetricChange) -> str:
    """Return what is missing to decide a difference of this size."""
    quoted = change.quoted
    if isinstance(quoted, NoMean) or quoted.ci95 is None:
        return ""
    if quoted.excludes_zero:  # the drawing has gaps
        assert change.headline is not None
        count = numbered(change.headline.passed_over, "drawn statement")
        return f"{count} without a label are too many to decide"
    missing = count_missing_labels(change)
    samples = samples_to_decide(quoted, 0)
    if missing is not None:
        return f"about {numbered(missing, 'more label')} would decide it"
    if samples is None:
        return ""
    line = f"about {samples:,} samples would decide it"
    if change.headline:
        line = f"more labels alone would not decide it, {line}, with labels in proportion"
    return line
