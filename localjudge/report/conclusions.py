"""What follows from a run, or from two: a claim about each difference, and the next command.

B is better in faithfulness: +0.130 (+0.040 to +0.220), by 100 labels of 2 people
Not decided in faithfulness: +0.050 (-0.040 to +0.140), by 50 labels of 1 person; about 60 more
labels would decide it: `localjudge label cmp --sample 110`
Judge only in faithfulness: +0.269 (+0.172 to +0.370); a judge may reverse the order of two
systems, so label statements of both: `localjudge label cmp`

The next command: label, while labels are missing; then report, verify, certify.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from localjudge.analysis.comparison import (
    MetricChange,
    Outcome,
    RunComparison,
    can_be_corrected,
    count_missing_labels,
    decide_difference,
)
from localjudge.judging.verify import REPORT
from localjudge.labels.corrected_mean import NO_SHARE
from localjudge.labels.label_source import PREFERRED
from localjudge.labels.run_labels import RunLabels
from localjudge.run_directory.files import last_verification
from localjudge.run_directory.run_record import RunRecord
from localjudge.stats.interval import NoMean
from localjudge.stats.paired import samples_to_decide
from localjudge.words import call, numbered, signed, signed_difference

_FIRST_DRAWING = 50
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
        labels = change.headline.in_words
        annotators = change.headline.annotators
        if annotators == 1:
            return f", by {labels} of 1 person"
        if annotators:
            return f", by {labels} of {annotators:,} people"
        return f", by {labels}"
    if outcome in ("better", "worse"):
        return f", on {numbered(change.compared, 'sample')}"
    return ""


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


def next_step(run: RunRecord, labels: RunLabels | None) -> str:
    """Return the next command as the reader can type it, or what to do with an unfinished run."""
    if run.so_far is not None:
        return "run the same command again to finish"
    return _label(run, labels) or _after_labels(str(run.directory), [run.directory])


def _label(run: RunRecord, labels: RunLabels | None) -> str | None:
    """Return the command to label, or to settle disputes, None if nothing is missing."""
    directory = str(run.directory)
    if labels is None:
        if run.summary.verdicts.count == 0 or run.sampling.optional_stopping:
            return None
        return call("label", directory)
    means = labels.corrected.values()
    missing = [mean.needed for mean in means if mean.own_labels and mean.needed]
    answered = labels.statements + labels.unsure
    is_begun = answered < _FIRST_DRAWING and any(mean.until_next_look for mean in means)
    is_enough = not is_begun and (not missing or any(mean.ci95 for mean in means))
    more: dict[str, Any] = {}
    labelled_for = [name for name, mean in labels.corrected.items() if mean.own_labels]
    has_others = any(not mean.own_labels and mean.remark != NO_SHARE for mean in means)
    if labelled_for and has_others:
        more["metrics"] = labelled_for
    if any(mean.unsettled for mean in means) or (is_enough and labels.open_disputes):
        return call("label", directory, disputed=True, **more)
    if is_enough:
        return None
    if answered >= _FIRST_DRAWING:
        more["sample"] = answered + max(missing)
    return call("label", directory, **more)


def next_step_of_comparison(comparison: RunComparison) -> str:
    """Return the next command: label, while labels are missing, then report, verify, certify."""
    outcomes = {name: decide_difference(comparison, name) for name in comparison.metrics}
    decided = [name for name in outcomes if outcomes[name] in ("better", "worse")]
    if not any(comparison.metrics[name].headline for name in decided):
        names = list(comparison.metrics)
        # The labelled metrics first, then the one that is labelled by default.
        names.sort(key=lambda name: (comparison.metrics[name].corrected is None, name != PREFERRED))
        for name in names:
            if outcomes[name] in ("undecided", "judge only"):
                command = label_command(comparison, name)
                if command:
                    return command.replace("`", "")
    directory = comparison.directory
    if directory is None:
        return call("report", comparison.run, baseline=comparison.baseline)
    runs = [Path(comparison.baseline), Path(comparison.run)]
    return _after_labels(directory, runs, opened="RunPair")


def _after_labels(directory: str, runs: Sequence[Path], opened: str = "Run") -> str:
    """Return the command to report, verify or certify, whichever is the next.

    `runs` are the run, or the baseline and the run with the report of both.
    """
    if not (runs[-1] / REPORT).exists():
        return call("report", directory, opened=opened)
    for run in runs:
        verification = last_verification(run)
        if verification is None or not verification.is_about(run):
            return call("verify", directory, opened=opened)
    return call("report", directory, certificate="certificate.html", opened=opened)
