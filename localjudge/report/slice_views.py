"""The metrics of a run by the values of a column."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import attrgetter

from localjudge.analysis.comparison import CorrectedDifference
from localjudge.analysis.slices import Slice, Slices
from localjudge.labels.corrected_mean import CorrectedMean, quote_mean
from localjudge.report.remarks import ALWAYS_VALID, judge_lines, select_metrics
from localjudge.report.terminal import Table, interval_cells
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import NO_VALUE
from localjudge.run_directory.summary import MetricSummary
from localjudge.text.folding import look_alikes

EACH_ALONE = (
    "each interval covers one slice; of 20 intervals, one is expected to miss the true mean"
)
_MAX_LISTED = 5


def slices_view(run: RunRecord, slices: Slices, *, metric: str | None = None) -> Table:
    """Return the metrics, or one, by the values of a column, with the judge."""
    table = slices_table(run, slices, metric)
    return replace(table, notes=[*table.notes, *judge_lines(run)])


def slices_table(run: RunRecord, slices: Slices, metric: str | None = None) -> Table:
    """Return the metrics, or one, by the values of a column.

    Omits columns of counts that are all 0.
    """
    names = list(select_metrics(run, metric))
    is_labelled = any(part.corrected for part in slices.slices)
    counted = list(_counted_kinds(slices))
    rows: list[tuple[str, ...]] = []
    for name in names:
        first_cell = name
        for part in slices.slices:
            cells = _slice_cells(part, name, counted, with_basis=is_labelled)
            rows.append((first_cell, *cells))
            first_cell = ""
    headings = ["metric", excerpt(slices.column), "samples", "mean", "95 % interval"]
    if is_labelled:
        headings.append("corrected by")
    headings += counted
    notes = list(_slice_notes(run, slices, names))
    titles: list[str] = []
    for part in slices.slices:
        for name, corrected in part.corrected.items():
            if corrected.contradiction and metric in (None, name):
                titles.append(f"{name}, {slice_name(part.value)}: {corrected.contradiction}")
    return Table(headings, rows, notes, names=2, titles=titles)


def _counted_kinds(slices: Slices) -> Iterator[str]:
    """Yield the kinds of samples without a score that any slice has: undefined, failed."""
    summaries: list[MetricSummary] = []
    for part in slices.slices:
        summaries += part.metrics.values()
    for kind in ("undefined", "failed"):
        if any(map(attrgetter(kind), summaries)):
            yield kind


def _slice_cells(
    part: Slice, metric: str, counted: Iterable[str], *, with_basis: bool
) -> Iterator[str]:
    """Yield the cells of a metric in a slice, except for the name of the metric."""
    summary = part.metrics[metric]
    quoted = quote_mean(summary, part.corrected.get(metric))
    yield slice_name(part.value)
    yield f"{part.samples:,}"
    yield from interval_cells(quoted)
    if with_basis:
        yield quoted.based_on
    for count in counted:
        yield f"{getattr(summary, count):,}"


def _slice_notes(run: RunRecord, slices: Slices, metrics: Iterable[str]) -> Iterator[str]:
    yield EACH_ALONE
    if run.sampling.optional_stopping:
        yield ALWAYS_VALID
    values = [part.value for part in slices.slices if part.value]
    for group in look_alikes(values)[:_MAX_LISTED]:
        shown: list[str] = []
        for value in group:
            shown.append(f"{slice_name(value)} ({excerpt(ascii(value))})")
        yield f"values look alike and are different slices: {' and '.join(shown)}"
    for name in metrics:
        means = [(part.value, part.corrected.get(name)) for part in slices.slices]
        for line in uncorrected_slices(means):
            yield f"{name}: {line}"


def uncorrected_slices(
    means: Iterable[tuple[str | None, CorrectedMean | CorrectedDifference | None]],
) -> Iterator[str]:
    """Yield why slices are not corrected, with the numbers of missing labels."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for value, mean in means:
        if isinstance(mean, CorrectedMean) and mean.needed:
            reasons["more labels needed"].append(f"{slice_name(value)} {mean.needed:,}")
        elif mean and not mean.ci95:
            reasons[mean.remark or "no labels"].append(slice_name(value))
    for reason, values in reasons.items():
        listed = ", ".join(values[:_MAX_LISTED])
        if len(values) > _MAX_LISTED:
            listed += f" and {len(values) - _MAX_LISTED:,} more"
        yield f"not corrected, {reason}: {listed}"


def slice_name(value: str | None) -> str:
    """Return the value of a column as a slice is named by it."""
    if value is None:
        return NO_VALUE
    return excerpt(value)
