"""The summary of a run as a table, with its signature under it.

     metric           mean  95 % interval  scored  undefined  failed
     context_recall  0.583  0.090 - 0.960       2          0       0

     judge reference (lexical, not for decisions), 10.7 MiB, sha256 4844085b4a92
     7 verdicts: 29 % within 0.1 of the threshold; median legal mass 1.000
     signature judge:3f9a1c2e|data:77b0d4aa

A mean stands there only if no more samples failed than are allowed; what failures could have made of it is said below.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from localjudge.analysis.slices import Slices
from localjudge.metrics.catalog import question_of
from localjudge.option_spelling import option, option_name
from localjudge.record.archive import windowed_units
from localjudge.record.calibration import kept_calibrations
from localjudge.record.directory import STORE
from localjudge.record.kept_criteria import kept_rubrics
from localjudge.record.results import Run
from localjudge.record.summary import NEAR, MetricSummary, VerdictSummary, verdict_summary
from localjudge.record.untrusted import shown
from localjudge.report.table_layout import Table, as_html, escaped
from localjudge.report.terminal import number

EACH_ALONE = "each interval is that of its slice alone: of 20 slices, one is expected to miss"
_PAGE = "report.html"
_HARDLY_DECIDED = 0.5
"""From this share of verdicts near the threshold on, a judge is told to be as good as one that guesses."""


class _Estimated(Protocol):
    """What has a mean and its interval."""

    @property
    def mean(self) -> float | None: ...

    @property
    def ci95(self) -> tuple[float, float] | None: ...


def summary_view(run: Run, *, max_failed: int = 0, metric: str | None = None) -> Table:
    """Table, remarks and signature of a run, or of one of its metrics.

    More than `max_failed` failed samples leave a metric without a mean.
    """
    rows = [
        (
            name,
            *interval_cells(summary, shown=summary.failed <= max_failed),
            *(f"{count:,}" for count in (summary.scored, summary.undefined, summary.failed)),
        )
        for name, summary in _metrics(run, metric).items()
    ]
    notes = [*remarks(run, max_failed=max_failed, metric=metric), f"run {run.directory}"]
    return Table(("metric", "mean", "95 % interval", "scored", "undefined", "failed"), rows, notes)


def run_html(run: Run) -> str:
    """The same as a notebook shows it, with a link to the run's page if there is one."""
    view = as_html(summary_view(run, max_failed=run.max_failed))
    page = run.directory / _PAGE
    if not page.is_file():
        return view
    address = Path(os.path.relpath(page)).as_posix()
    for character in "%?#":
        address = address.replace(character, f"%{ord(character):02X}")
    # The first part is a dot, so that no name is taken for a scheme.
    return f'{view}\n<p><a href="./{escaped(address)}">report</a></p>'


def slices_view(run: Run, slices: Slices, *, metric: str | None = None, max_failed: int = 0) -> Table:
    """Each metric, or one, by the values of a column; one with too many failed samples in a slice has no mean there."""
    rows = [
        (
            "" if place else name,
            value_in_words(part.value),
            f"{part.samples:,}",
            *interval_cells(part.metrics[name], shown=part.metrics[name].failed <= max_failed),
            f"{part.metrics[name].undefined:,}",
            f"{part.metrics[name].failed:,}",
        )
        for name in _metrics(run, metric)
        for place, part in enumerate(slices.slices)
    ]
    notes = [EACH_ALONE] if len(slices.slices) > 1 else []
    notes += [f"judge {run.judge}", f"signature {run.summary.signature}", f"run {run.directory}"]
    headings = ("metric", shown(slices.column), "samples", "mean", "95 % interval", "undefined", "failed")
    return Table(headings, rows, notes, names=2)


def value_in_words(value: str | None) -> str:
    """The value of a slice; `(none)` for that of the samples that have none."""
    return "(none)" if value is None else shown(value)


def interval_cells(value: _Estimated, *, shown: bool = True) -> tuple[str, str]:
    """Mean and interval, and a dash for what there is not or what is not to be shown."""
    mean = number(value.mean) if shown and value.mean is not None else "-"
    return mean, " - ".join(map(number, value.ci95)) if shown and value.ci95 else "-"


def summary_values(run: Run) -> dict[str, Any]:
    """The summary for programs, with the judge as `Run.judge` has it."""
    return {**run.summary.model_dump(mode="json"), "judge": run.judge.model_dump(mode="json")}


def remarks(run: Run, *, max_failed: int = 0, metric: str | None = None) -> Iterator[str]:
    """What a reader has to know beside the table, a line each: warnings, words, who judged and how decidedly."""
    withheld = run.summary.failed_beyond(max_failed)
    for name, found in _metrics(run, metric).items():
        yield from (f"{name}: {remark}" for remark in metric_remarks(found, withheld=name in withheld))
    if run.summary.skipped_rows:
        yield f"{run.summary.skipped_rows:,} rows of the data could not be used and were left out"
    if run.so_far:
        planned = run.manifest.data["rows"]
        yield f"not finished: the first {run.summary.samples:,} of {planned:,} samples, in the order of the data"
    if run.part:
        yield f"a part of the data: {run.part}"
    yield f"judge {run.judge}"
    yield from (f"calibration {line}" for line in calibration_lines(run, metric))
    verdicts = _verdicts(run, metric)
    yield decidedness_line(verdicts)
    yield from _warnings(run, verdicts, metric)
    yield f"signature {run.summary.signature}"


def calibration_lines(run: Run, metric: str | None = None) -> Iterator[str]:
    """Of each calibration that decides the metrics, or one: which, how good the judge was then, and on how many."""
    names = run.summary.thresholds if metric is None else {metric} & run.summary.thresholds.keys()
    for calibration in kept_calibrations(run.manifest):
        if decided := [name for name in names if question_of(name) == calibration.question]:
            line = f"{calibration.name}: threshold {number(calibration.threshold)} for {', '.join(decided)}"
            if accuracy := calibration.held_out.get("balanced_accuracy"):
                low, high = map(number, accuracy.ci95)
                line += f"; balanced accuracy {number(accuracy.value)} [{low}, {high}], held out"
            guesses = "; not shown to be better than guessing" if calibration.guesses else ""
            yield f"{line}, on {calibration.labels.verdicts:,} labelled verdicts{guesses}"


def decidedness_line(verdicts: VerdictSummary) -> str:
    """How decided the judge was, on one line."""
    count = "1 verdict" if verdicts.count == 1 else f"{verdicts.count:,} verdicts"
    near = "no verdict has a probability of 1"
    if verdicts.near_threshold is not None:
        near = f"{count}: {100 * verdicts.near_threshold:.0f} % within {NEAR:g} of the threshold"
    mass = "" if verdicts.median_legal_mass is None else f"; median legal mass {number(verdicts.median_legal_mass)}"
    return near + mass


def _metrics(run: Run, metric: str | None) -> dict[str, MetricSummary]:
    return run.summary.metrics if metric is None else {metric: run.summary.metrics[metric]}


def _verdicts(run: Run, metric: str | None) -> VerdictSummary:
    """Of all verdicts, or of those of one metric."""
    if metric is None:
        return run.summary.verdicts
    rows = (row for row in run.iter_verdicts() if row.metric == metric)
    return verdict_summary(rows, None if metric in kept_rubrics(run.manifest) else run.summary.threshold_of(metric))


def _warnings(run: Run, verdicts: VerdictSummary, metric: str | None) -> Iterator[str]:
    if verdicts.near_threshold is not None and verdicts.near_threshold >= _HARDLY_DECIDED:
        yield (
            "warning: this judge hardly decides, and may be at chance level: `localjudge doctor` tries it on obvious "
            "cases"
        )
    if verdicts.windowed:
        asked = windowed_units(run.directory / STORE, metric)
        units = max(verdicts.windowed, asked.units)
        questions = asked.questions + units - asked.units
        yield (
            f"warning: {units:,} units do not fit the judge's context with all that they are held against: they were "
            f"judged in windows, {questions:,} questions for {units:,} units; a larger {option_name('n_ctx')} spares "
            "that. The largest probability decides, so more windows give more false verdicts of 1: in a trial of the "
            "reference judge 2.8 % with one window, 6.2 % with 8"
        )


def metric_remarks(metric: MetricSummary, *, withheld: bool) -> Iterator[str]:
    """What has to be said beside the numbers of a metric: one group, failures."""
    if metric.interval is not None and metric.interval.one_cluster:
        yield (
            "warning: all samples are in one group, and no interval can be told from one: name a column with several "
            f"with {option('cluster_by')}, or leave it out"
        )
    if metric.failed and metric.bounds:
        low, high = map(number, metric.bounds)
        no_mean = f", more than allowed ({option_name('max_failed')}): no mean" if withheld else ""
        yield f"{metric.failed:,} failed{no_mean}; it is from {low} to {high} whatever they are worth"
