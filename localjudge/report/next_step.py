"""The next command for a run, or for two that are compared.

Label, while labels are missing; then report, verify, certify.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from localjudge.analysis.comparison import RunComparison, decide_difference
from localjudge.judging.verify import REPORT
from localjudge.labels.corrected_mean import NO_SHARE
from localjudge.labels.label_source import PREFERRED
from localjudge.labels.run_labels import RunLabels
from localjudge.report.difference_claims import label_command
from localjudge.run_directory.files import last_verification
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import call

_FIRST_DRAWING = 50


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
