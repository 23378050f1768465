"""The summary of a run: a table of means, its remarks, the next command, and values for JSON.

A mean is hidden if more samples failed than allowed.
"""

from collections.abc import Iterator
from typing import Any

from localjudge.analysis.row_counts import evidence_ranks, missing_scores
from localjudge.analysis.slices import pooled_shares
from localjudge.judging.verify import REPORT
from localjudge.labels.corrected_mean import CorrectedMean, quote_mean
from localjudge.labels.run_labels import RunLabels, read_run_labels
from localjudge.report.label_views import label_remarks
from localjudge.report.quoted_metrics import QuotedMetric, quote_metrics
from localjudge.report.remarks import (
    detail_lines,
    has_expected,
    judge_lines,
    reason_lines,
    remarks,
    select_metrics,
)
from localjudge.report.terminal import Table, interval_cells, number
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.files import last_verification
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import call

_LONGEST_NAME = 20
"""Letters of a metric's name beside all columns, in 80 letters."""
_LABELS_COLUMN = 3
"""Position of the number of labels, or of the expected mean, after the interval."""
_FIRST_DRAWING = 50


def summary_view(
    run: RunRecord,
    *,
    metric: str | None = None,
    labels: RunLabels | None = None,
    details: bool = False,
    advice: bool = True,
    texts: bool = True,
) -> Table:
    """Return the summary of a run or one metric, with corrected means.

    Below the table are warnings, the judge and, as `advice`, the next command. `details` adds
    labels, calibrations, origins, clear verdicts, signature and directory. Without `texts` it has
    no text or sample id.
    """
    labels = labels or read_run_labels(run)
    headings = ["metric", "mean", "95 % interval", "scored", "undefined", "failed"]
    longest = max(map(len, select_metrics(run, metric)), default=0)
    with_expected = labels is None and longest <= _LONGEST_NAME and has_expected(run, metric)
    notes: list[str] = []
    titles: list[str] = []
    if labels:
        headings.insert(_LABELS_COLUMN, "labels")
        notes += label_remarks(labels, metric)
        titles = contradictions(labels, metric)
    if with_expected:
        headings.insert(_LABELS_COLUMN, "expected")
    rows: list[tuple[str, ...]] = []
    for quote in quote_metrics(run, labels):
        if metric in (None, quote.name):
            rows += _mean_rows(quote, with_labels=labels is not None, with_expected=with_expected)
    notes += reason_lines(run, metric, texts=texts)
    notes += remarks(run, metric=metric)
    notes += judge_lines(run)
    if advice:
        notes.append(f"next: {next_step(run, labels)}")
    if details:
        notes += detail_lines(run, labels, metric)
    return Table(headings, rows, notes, titles=titles)


def _mean_rows(
    metric: QuotedMetric, *, with_labels: bool, with_expected: bool
) -> Iterator[tuple[str, ...]]:
    """Yield the mean to quote of a metric, then other means if labels correct it."""
    summary = metric.summary
    counts = (f"{summary.scored:,}", f"{summary.undefined:,}", f"{summary.failed:,}")
    more: list[str] = []
    label_cell = ""
    if metric.corrected is not None:  # labels that cannot correct a mean are not counted
        label_cell = metric.corrected.in_words.removesuffix(" labels").removesuffix(" label")
    if with_labels:
        more.append(label_cell)
    elif with_expected:
        more.append(number(summary.expected))
    yield metric.name, *interval_cells(metric.quoted), *more, *counts
    blanks = ("",) * len(counts)
    for other in metric.other_means():
        name = f"{other.by} only"
        labels = label_cell
        if other.by == "annotator":
            name = f"by {excerpt(other.annotator)}"
        elif other.by == "judge":
            labels = ""
        yield f"  {name}", *interval_cells(other.mean), labels, *blanks


def contradictions(labels: RunLabels, metric: str | None = None) -> list[str]:
    """Return a line for each metric with labels that contradict the judge."""
    lines: list[str] = []
    for name, mean in labels.corrected.items():
        if mean.contradiction and metric in (None, name):
            lines.append(f"{name}: {mean.contradiction}")
    return lines


def summary_values(run: RunRecord) -> dict[str, Any]:
    """Return the summary with its judge, shares, missing scores and labels, for JSON."""
    values = run.summary.model_dump(mode="json")
    values["judge"] = run.judge.model_dump(mode="json")
    for name, pooled in pooled_shares(run).items():
        values["metrics"][name]["pooled"] = pooled.model_dump(mode="json")
    for name, ranks in evidence_ranks(run).items():
        values["metrics"][name]["evidence_places"] = ranks.model_dump()
    values["missing_scores"] = [group.model_dump() for group in missing_scores(run)]
    if run.origins:
        values["origins"] = [str(origin) for origin in run.origins]
    labels = read_run_labels(run)
    if labels:
        label_values = labels.model_dump(mode="json")
        if labels.altered:
            label_values["altered"] = labels.altered
        for name, corrected in label_values.pop("corrected").items():
            values["metrics"][name]["corrected"] = corrected
        for name, summary in run.summary.metrics.items():
            mean = labels.corrected.get(name)
            quoted = quote_mean(summary, mean)
            headline = {"mean": quoted.mean, "ci95": quoted.ci95, "basis": quoted.basis}
            values["metrics"][name]["headline"] = headline
            values["metrics"][name]["labels_say"] = label_words(mean)
        values["labels"] = label_values
    return values


def label_words(mean: CorrectedMean | None) -> str | None:
    """Return what the labels of a metric say, as a contradiction of the judge if it is one."""
    if mean is None or mean.counts is None:
        return None
    return mean.contradiction or mean.counts.in_words


def next_step(run: RunRecord, labels: RunLabels | None) -> str:
    """Return the next command as the reader can type it, or what to do with an unfinished run."""
    directory = str(run.directory)
    if run.so_far is not None:
        return "run the same command again to finish"
    if labels is None and run.summary.verdicts.count > 0 and not run.sampling.optional_stopping:
        return call("label", directory)
    if labels is None:
        return _after_labels(run)
    means = labels.corrected.values()
    if any(mean.unsettled for mean in means):
        return call("label", directory, "disputed", True)
    missing = [mean.needed for mean in means if mean.needed]
    answered = labels.statements + labels.unsure
    is_begun = answered < _FIRST_DRAWING and any(mean.until_next_look for mean in means)
    if not is_begun and (not missing or any(mean.ci95 for mean in means)):
        return _after_labels(run)
    more: list[Any] = []
    if answered >= _FIRST_DRAWING:
        more = ["sample", answered + max(missing)]
    return call("label", directory, *more)


def _after_labels(run: RunRecord) -> str:
    """Return the command to report, verify or certify, whichever is the next."""
    directory = str(run.directory)
    if not (run.directory / REPORT).exists():
        return call("report", directory)
    verification = last_verification(run.directory)
    if verification is None or not verification.is_about(run.directory):
        return call("verify", directory)
    return call("report", directory, "certificate", "certificate.html")
