"""Two runs compared: means, counts, slices, remarks, and the samples that changed most."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from rich.text import Text

from localjudge.analysis import compare
from localjudge.analysis.check import signed
from localjudge.analysis.corrected_change import CorrectedDifference
from localjudge.metrics import catalog
from localjudge.report.remarks import ALWAYS_VALID
from localjudge.report.slice_views import EACH_ALONE, slice_name, uncorrected_slices
from localjudge.report.terminal import Table, View, number, safe_text
from localjudge.run_directory.directory import excerpt
from localjudge.stats.paired import decide, smallest_detectable_difference
from localjudge.stats.sequence import METHOD
from localjudge.words import numbered

ONE_LOOK = (
    "both runs use the labels of one look and the samples that they share, so a slice's means may differ "
    "from those of `localjudge show RUN --by`, which uses all labels that count for one run"
)
SCORE_HEADINGS = ("A", "B", "B - A", "95 % interval")
_LETTERS = ("A", "B")
_DIGITS = 3
_UNITS_SHOWN = 10


def comparison_view(comparison: compare.RunComparison) -> View:
    scores = []
    for name, change in comparison.metrics.items():
        scores.append((name, *score_cells(change.headline or change.scores)))
        scores += [("  judge only", *score_cells(change.scores))] if change.headline else []
    counts = [(name, *count_cells(name, change)) for name, change in comparison.metrics.items()]
    count_headings = ("metric", "better", "worse", "same", "missing", "0 -> 1", "1 -> 0")
    return View(
        [
            Table(("metric", *SCORE_HEADINGS), scores),
            Table(count_headings, counts),
            *(_by_column(comparison.by) if comparison.by else ()),
            Table(notes=list(comparison_lines(comparison))),
            *(
                _moved_sample(name, sample)
                for name, change in comparison.metrics.items()
                for sample in change.moved
            ),
        ]
    )


def _by_column(changes: compare.SlicedChanges) -> Iterator[Table]:
    column = excerpt(changes.column)
    for metric in changes.slices[0].metrics if changes.slices else ():
        parts = [(part, part.metrics[metric]) for part in changes.slices]
        is_labelled = any(change.corrected for _, change in parts)
        rows = [
            (
                slice_name(part.value),
                f"{change.compared:,}/{part.samples:,}",
                *score_cells(change.headline or change.scores),
                *(
                    [change.headline.in_words if change.headline else "judge only"]
                    if is_labelled
                    else []
                ),
            )
            for part, change in parts
        ]
        notes = list(uncorrected_slices((part.value, change.corrected) for part, change in parts))
        headings = (column, "compared", *SCORE_HEADINGS, *(["corrected by"] if is_labelled else []))
        yield Table(headings, rows, notes, titles=[f"{metric} by {column}"])
    notes = [f"slices are from the data of B; {EACH_ALONE}"]
    corrected = [change.corrected for part in changes.slices for change in part.metrics.values()]
    if any(corrected):
        notes.append(ONE_LOOK)
    yield Table(notes=notes)


def score_cells(scores: compare.ScoreChanges | CorrectedDifference | None) -> tuple[str, ...]:
    if scores is None or scores.difference is None:
        return ("-",) * len(SCORE_HEADINGS)
    interval = " to ".join(map(signed, scores.ci95)) if scores.ci95 else "-"
    return number(scores.before), number(scores.after), signed(scores.difference), interval


def count_cells(name: str, change: compare.MetricChange) -> tuple[str, ...]:
    scores, verdicts = change.scores, change.verdicts
    better, worse, tied = (scores.improved, scores.worsened, scores.tied) if scores else (0, 0, 0)
    if catalog.lower_is_better(name):
        better, worse = worse, better
    flipped = (f"{verdicts.up:,}", f"{verdicts.down:,}") if verdicts else ("-", "-")
    return (
        *(f"{count:,}" for count in (better, worse, tied, change.unpaired + change.unscored)),
        *flipped,
    )


def comparison_lines(comparison: compare.RunComparison) -> Iterator[str]:
    for name, change in comparison.metrics.items():
        remarks = change_remarks(name, change, obstacles=comparison.obstacles(name))
        yield from (f"{name}: {remark}" for remark in remarks)
    yield from comparison_notes(comparison)
    if comparison.baseline_judge.in_brief == comparison.judge.in_brief:
        yield f"judge {comparison.judge.in_brief}"
        return
    yield f"A: judge {comparison.baseline_judge.in_brief}"
    yield f"B: judge {comparison.judge.in_brief}"


def comparison_notes(
    comparison: compare.RunComparison, runs: tuple[str, str] = _LETTERS
) -> Iterator[str]:
    samples = comparison.samples
    grounds = {"id": samples.by_id, "content": samples.by_content, "question": samples.by_question}
    by = ", ".join(f"{count:,} by {ground}" for ground, count in grounds.items() if count)
    unpaired = (
        f"; {samples.only_baseline:,} only in {runs[0]}, {samples.only_new:,} only in {runs[1]}"
    )
    yield (
        f"samples: {samples.paired:,} paired ({by}), {samples.same_content:,} with the same content"
        f"{unpaired if samples.only_baseline or samples.only_new else ''}"
    )
    if any(
        change.scores and change.scores.method == METHOD for change in comparison.metrics.values()
    ):
        yield ALWAYS_VALID
    yield from (f"warning: {warning}" for warning in comparison.warnings)


def change_remarks(
    name: str,
    change: compare.MetricChange,
    runs: tuple[str, str] = _LETTERS,
    *,
    obstacles: Mapping[compare.Obstacle, str] = MappingProxyType({}),
) -> Iterator[str]:
    interval = change.interval
    if interval is None:
        yield change.withheld or "no sample has a score in both runs"
        return
    compared = numbered(change.compared, "sample")
    if corrected := change.headline:
        compared += f" and {numbered(corrected.labels, 'label')}"
        before, after = (
            numbered(corrected.labels_before, "label"),
            numbered(corrected.labels_after, "label"),
        )
        yield f"corrected by {before} for {runs[0]} and {after} for {runs[1]}"
    elif change.corrected:
        yield f"not corrected by labels: {change.corrected.remark}"
    if change.corrected and change.corrected.contradiction:
        yield f"warning: {change.corrected.contradiction}"
    smallest = smallest_detectable_difference(interval)
    is_significant = interval.low > 0 or interval.high < 0
    if interval.limits is None:
        yield "significance unknown: all samples are in one group"
    elif is_significant and obstacles:
        which = (
            "the judges differ" if "judges" in obstacles else "the questions or references differ"
        )
        yield f"significant, but {which} and may cause the difference, so neither run is called better"
    elif is_significant:
        better = (interval.low > 0) != catalog.lower_is_better(name)
        yield f"{runs[1]} is {'better' if better else 'worse'} than {runs[0]} on samples like these"
    elif round(smallest, _DIGITS) == 0:
        yield f"no difference, with {compared}"
    else:
        detectable = (
            "no difference" if smallest > 1 else f"differences of {number(smallest)} or more"
        )
        needed = decide(interval, ">" if interval.mean > 0 else "<", 0).samples_needed
        labels = " with proportionally more labels" if corrected else ""
        more = f"; about {needed or 0:,} samples{labels} would show a difference of this size"
        more = more if needed and round(interval.mean, 3) else ""
        yield f"not significant; with {compared}, {detectable} can be detected{more}"
    if change.unscored:
        yield f"{numbered(change.unscored, 'shared sample')} without a score in both runs"


def _moved_sample(metric: str, sample: compare.SampleChange) -> Table:
    baseline_id = "" if sample.sample_id == sample.baseline_id else f" (in A: {sample.baseline_id})"
    heading = f"{sample.sample_id}{baseline_id}: {metric} {number(sample.before)} -> {number(sample.after)}"
    style = "green" if (sample.after > sample.before) != catalog.lower_is_better(metric) else "red"
    rows = [
        (
            " -> ".join(
                "-" if label is None else str(label) for label in (unit.before, unit.after)
            ),
            Text(f"{number(unit.p_before)} -> {number(unit.p_after)}", style="dim"),
            unit.text,
        )
        for unit in sample.units[:_UNITS_SHOWN]
    ]
    if len(sample.units) > _UNITS_SHOWN:
        rows.append(("", Text(), f"and {len(sample.units) - _UNITS_SHOWN:,} more"))
    return Table(rows=rows, titles=[safe_text(heading, style=f"bold {style}")], indent=2)
