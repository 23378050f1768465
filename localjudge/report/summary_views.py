"""The summary of a run: a table of means, its remarks, and the same values for JSON.

A mean is hidden if more samples failed than allowed.
"""

from collections.abc import Iterator
from typing import Any

from localjudge.analysis.headline import headline_of
from localjudge.analysis.missing_scores import missing_scores
from localjudge.analysis.pooled import pooled_shares
from localjudge.labels.run_labels import CorrectedMean, RunLabels, labels_of
from localjudge.report.label_views import label_remarks
from localjudge.report.next_step import next_step
from localjudge.report.remarks import (
    detail_lines,
    judge_lines,
    reason_lines,
    remarks,
    select_metrics,
)
from localjudge.report.terminal import Table, interval_cells
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.run_record import RunRecord


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
    labels = labels or labels_of(run)
    rows = [row for name in select_metrics(run, metric) for row in _mean_rows(run, name, labels)]
    label_heading = ("labels",) if labels else ()
    headings = ("metric", "mean", "95 % interval", *label_heading, "scored", "undefined", "failed")
    notes = label_remarks(labels, metric) if labels else []
    notes += reason_lines(run, metric, texts=texts)
    notes += remarks(run, metric=metric)
    notes += judge_lines(run)
    if advice:
        notes.append(f"next: {next_step(run, labels)}")
    if details:
        notes += detail_lines(run, labels, metric)
    titles = contradictions(labels, metric) if labels else []
    return Table(headings, rows, notes, titles=titles)


def _mean_rows(run: RunRecord, name: str, labels: RunLabels | None) -> Iterator[tuple[str, ...]]:
    summary = run.summary.metrics[name]
    judge = interval_cells(summary.mean, summary.ci95)
    counts = tuple(f"{count:,}" for count in (summary.scored, summary.undefined, summary.failed))
    corrected, blanks = labels.corrected.get(name) if labels else None, ("",) * len(counts)
    used = (_labels_cell(corrected),) if labels else ()
    headline = headline_of(summary, corrected)
    yield name, *interval_cells(headline.mean, headline.ci95), *used, *counts
    if corrected is None or headline.basis == "judge":
        return
    for annotator, mean in (corrected.by_annotator or {}).items():
        yield f"  by {excerpt(annotator)}", *interval_cells(mean.mean, mean.ci95), *used, *blanks
    yield "  judge only", *judge, "", *blanks
    if labels_only := corrected.labels_alone:
        yield "  labels only", *interval_cells(labels_only.mean, labels_only.ci95), *used, *blanks


def _labels_cell(corrected: CorrectedMean | None) -> str:
    """Return `50`, or `50 of 63` between two looks. Labels that cannot correct a mean are not counted."""
    if corrected is None:
        return ""
    return corrected.in_words.removesuffix(" labels").removesuffix(" label")


def contradictions(labels: RunLabels, metric: str | None = None) -> list[str]:
    """Return a line for each metric with labels that contradict the judge."""
    return [
        f"{name}: {mean.contradiction}"
        for name, mean in labels.corrected.items()
        if mean.contradiction and metric in (None, name)
    ]


def summary_values(run: RunRecord) -> dict[str, Any]:
    values, labels = run.summary.model_dump(mode="json"), labels_of(run)
    values["judge"] = run.judge.model_dump(mode="json")
    for name, pooled in pooled_shares(run).items():
        values["metrics"][name]["pooled"] = pooled.model_dump(mode="json")
    values["missing_scores"] = [group.model_dump() for group in missing_scores(run)]
    if run.origins:
        values["origins"] = [str(origin) for origin in run.origins]
    if labels:
        label_values = labels.model_dump(mode="json")
        for name, corrected in label_values.pop("corrected").items():
            values["metrics"][name]["corrected"] = corrected
        for name, summary in run.summary.metrics.items():
            mean = labels.corrected.get(name)
            values["metrics"][name]["headline"] = headline_of(summary, mean)._asdict()
            values["metrics"][name]["labels_say"] = label_words(mean)
        values["labels"] = label_values
    return values


def label_words(mean: CorrectedMean | None) -> str | None:
    """Return what the labels of a metric say, as a contradiction of the judge if it is one."""
    if mean is None or mean.counts is None:
        return None
    return mean.contradiction or mean.counts.in_words
