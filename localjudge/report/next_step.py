"""Choose the next command for a run: label, settle disputes, report, verify or certify."""

from localjudge.judging.verify import REPORT
from localjudge.labels.run_labels import RunLabels
from localjudge.run_directory.files import last_verification
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import call

_CERTIFICATE = "certificate.html"
_FIRST_DRAWING = 50


def next_step(run: RunRecord, labels: RunLabels | None) -> str:
    """Return the next command as the reader can type it, or what to do with an unfinished run."""
    directory = str(run.directory)
    if run.so_far is not None:
        return "run the same command again to finish"
    if labels is None:
        return _before_labels(run)
    means = labels.corrected.values()
    if any(mean.unsettled for mean in means):
        return call("label", directory, "disputed", True)
    missing = [mean.needed for mean in means if mean.needed]
    answered = labels.statements + labels.unsure
    is_begun = answered < _FIRST_DRAWING and any(mean.until_next_look for mean in means)
    if not is_begun and (not missing or any(mean.ci95 for mean in means)):
        return _after_labels(run)
    if answered < _FIRST_DRAWING:
        return call("label", directory)
    return call("label", directory, "sample", answered + max(missing))


def _before_labels(run: RunRecord) -> str:
    """Return the command to label, or the next one after labels if none can correct the run."""
    if run.summary.verdicts.count > 0 and not run.sampling.optional_stopping:
        return call("label", str(run.directory))
    return _after_labels(run)


def _after_labels(run: RunRecord) -> str:
    directory = str(run.directory)
    if not (run.directory / REPORT).exists():
        return call("report", directory)
    verification = last_verification(run.directory)
    if verification is None or not verification.is_about(run.directory):
        return call("verify", directory)
    return call("report", directory, "certificate", _CERTIFICATE)
