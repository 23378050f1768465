"""The metrics of a run by the values of a column."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from localjudge.analysis.corrected_change import CorrectedDifference
from localjudge.analysis.headline import Basis, headline_of
from localjudge.analysis.slices import Slices
from localjudge.labels.run_labels import CorrectedMean
from localjudge.report.remarks import ALWAYS_VALID, judge_lines, select_metrics
from localjudge.report.terminal import Table, interval_cells
from localjudge.run_directory.column_values import NO_VALUE
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.run_record import RunRecord
from localjudge.text.folding import look_alikes

EACH_ALONE = (
    "each interval covers one slice; of 20 intervals, one is expected to miss the true mean"
)
_MOST_REASONS = 5


def slices_view(run: RunRecord, slices: Slices, *, metric: str | None = None) -> Table:
    """Return the metrics, or one, by the values of a column, with the judge."""
    table = slices_table(run, slices, metric)
    return replace(table, notes=[*table.notes, *judge_lines(run)])


def slices_table(run: RunRecord, slices: Slices, metric: str | None = None) -> Table:
    """Return the metrics, or one, by the values of a column. Omits columns of counts that are all 0."""
    parts = [summary for part in slices.slices for summary in part.metrics.values()]
    counted = [
        name for name in ("undefined", "failed") if any(getattr(summary, name) for summary in parts)
    ]
    rows, is_labelled = list[tuple[str, ...]](), any(part.corrected for part in slices.slices)
    notes = [EACH_ALONE, *([ALWAYS_VALID] if run.sampling.optional_stopping else ())]
    for values in look_alikes(part.value for part in slices.slices if part.value)[:_MOST_REASONS]:
        shown = " and ".join(f"{slice_name(value)} ({excerpt(ascii(value))})" for value in values)
        notes.append(f"values look alike and are different slices: {shown}")
    for name in select_metrics(run, metric):
        means = [(part.value, part.corrected.get(name)) for part in slices.slices]
        notes += [f"{name}: {line}" for line in uncorrected_slices(means)]
        for part in slices.slices:
            corrected = part.corrected.get(name)
            headline = headline_of(part.metrics[name], corrected)
            by = [_slice_basis(headline.basis, corrected)] if is_labelled else []
            rows.append(
                (
                    "" if rows and part is not slices.slices[0] else name,
                    slice_name(part.value),
                    f"{part.samples:,}",
                    *interval_cells(headline.mean, headline.ci95),
                    *by,
                    *(f"{getattr(part.metrics[name], count):,}" for count in counted),
                )
            )
    based_on = ["corrected by"] if is_labelled else []
    headings = (
        "metric",
        excerpt(slices.column),
        "samples",
        "mean",
        "95 % interval",
        *based_on,
        *counted,
    )
    titles = [
        f"{name}, {slice_name(part.value)}: {corrected.contradiction}"
        for part in slices.slices
        for name, corrected in part.corrected.items()
        if corrected.contradiction and metric in (None, name)
    ]
    return Table(headings, rows, notes, names=2, titles=titles)


def _slice_basis(basis: Basis, corrected: CorrectedMean | None) -> str:
    if basis == "judge" or corrected is None:
        return "judge only"
    return corrected.in_words if basis == "labels" else corrected.shortage or "no labels"


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
        more = f" and {len(values) - _MOST_REASONS:,} more" if len(values) > _MOST_REASONS else ""
        yield f"not corrected, {reason}: {', '.join(values[:_MOST_REASONS])}{more}"


def slice_name(value: str | None) -> str:
    return NO_VALUE if value is None else excerpt(value)
