"""The summary of a run as a table, with its signature under it.

     metric           mean  95 % interval  scored  undefined  failed
     context_recall  0.583  0.090 - 0.960       2          0       0

     context_recall: between 'some key information is missing' and 'contains all required information'
     judge reference (lexical, not for decisions), 10.7 MiB, sha256 4844085b4a92
     7 verdicts: 29 % within 0.1 of the threshold; median legal mass 1.000
     signature judge:3f9a1c2e|data:77b0d4aa

A mean stands there only if no more samples failed than are allowed; what failures could have made of it is said below.
"""

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from localjudge.metrics.catalog import question_of
from localjudge.option_spelling import option, option_name
from localjudge.record.archive import windowed_units
from localjudge.record.calibration import kept_calibrations
from localjudge.record.directory import STORE
from localjudge.record.kept_criteria import kept_rubrics
from localjudge.record.results import Run
from localjudge.record.summary import NEAR, MetricSummary, VerdictSummary, verdict_summary
from localjudge.report.bands import meaning
from localjudge.report.table_layout import NumberTable
from localjudge.report.terminal import number, safe_text

HEADINGS = ("mean", "95 % interval", "scored", "undefined", "failed")
_NOTHING = "-"
_HARDLY_DECIDED = 0.5
"""From this share of verdicts near the threshold on, a judge is told to be as good as one that guesses."""


def summary_view(run: Run, *, max_failed: int = 0, metric: str | None = None) -> RenderableType:
    """Table, remarks and signature of a run, or of one of its metrics.

    More than `max_failed` failed samples leave a metric without a mean.
    """
    table = NumberTable(*HEADINGS)
    for name, cells in summary_rows(run, max_failed=max_failed, metric=metric):
        table.add(name, *cells)
    lines = [*remarks(run, max_failed=max_failed, metric=metric), f"run {run.directory}"]
    return Group(table, Text(), *(Padding(safe_text(line), (0, 1), expand=False) for line in lines))


def summary_values(run: Run) -> dict[str, Any]:
    """The summary for programs, with the judge as `Run.judge` has it."""
    return {**run.summary.model_dump(mode="json"), "judge": run.judge.model_dump(mode="json")}


def summary_rows(run: Run, *, max_failed: int = 0, metric: str | None = None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each metric, or one, with its cells under the `HEADINGS`."""
    withheld = run.summary.failed_beyond(max_failed)
    for name, found in _metrics(run, metric).items():
        shown = name not in withheld
        mean = number(found.mean) if shown and found.mean is not None else _NOTHING
        interval = " - ".join(map(number, found.ci95)) if shown and found.ci95 else _NOTHING
        counts = (found.scored, found.undefined, found.failed)
        yield name, (mean, interval, *(f"{count:,}" for count in counts))


def remarks(run: Run, *, max_failed: int = 0, metric: str | None = None) -> Iterator[str]:
    """What a reader has to know beside the table, a line each: warnings, words, who judged and how decidedly."""
    withheld = run.summary.failed_beyond(max_failed)
    for name, found in _metrics(run, metric).items():
        yield from (f"{name}: {remark}" for remark in metric_remarks(name, found, withheld=name in withheld))
    if run.summary.skipped_rows:
        yield f"{run.summary.skipped_rows:,} rows of the data could not be used and were left out"
    if run.so_far:
        planned = run.manifest.data["rows"]
        yield f"not finished: the first {run.summary.samples:,} of {planned:,} samples, in the order of the data"
    if run.part:
        yield f"a part of the data: {run.part}"
    yield f"judge {run.judge}"
    yield from (f"calibration {line}" for line in calibration_lines(run, metric))
    if verdicts := _verdicts(run, metric):
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


def _verdicts(run: Run, metric: str | None) -> VerdictSummary | None:
    """Of all verdicts, or of those of one metric; None if the run does not say."""
    if metric is None or run.summary.verdicts is None:
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


def metric_remarks(name: str, metric: MetricSummary, *, withheld: bool) -> Iterator[str]:
    """What has to be said beside the numbers of a metric: one group, failures, the mean in words."""
    if metric.interval is not None and metric.interval.one_cluster:
        yield (
            "warning: all samples are in one group, and no interval can be told from one: name a column with several "
            f"with {option('cluster_by')}, or leave it out"
        )
    if metric.failed and metric.bounds:
        low, high = map(number, metric.bounds)
        no_mean = f", more than allowed ({option_name('max_failed')}): no mean" if withheld else ""
        yield f"{metric.failed:,} failed{no_mean}; it is from {low} to {high} whatever they are worth"
    if not withheld and metric.ci95 is not None and (words := meaning(name, metric.ci95)):
        yield words
