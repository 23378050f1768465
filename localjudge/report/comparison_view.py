"""Two runs side by side: what changed, how sure that is, and the samples that moved most.

     metric              A      B   B - A     95 % interval
     context_recall  0.775  0.950  +0.175  +0.041 to +0.288

     metric          better  worse  same  missing  0 -> 1  1 -> 0
     context_recall      16      2    22        0      16       2

     context_recall: B is better than A on samples like these

The second table counts samples, then verdicts on the same text.
"""

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from localjudge.analysis.comparison import MetricChange, RunComparison, SampleChange, SharedSamples
from localjudge.analysis.unit_changes import UnitChange
from localjudge.metrics import catalog
from localjudge.report.terminal import number, safe_text
from localjudge.types import Label

_NOTHING = "-"
_UNITS_SHOWN = 10


def comparison_view(comparison: RunComparison) -> RenderableType:
    """Both tables, remarks, warnings and signatures."""
    scores = _table("A", "B", "B - A", "95 % interval")
    counts = _table("better", "worse", "same", "missing", "0 -> 1", "1 -> 0")
    for name, change in comparison.metrics.items():
        scores.add_row(*map(_text, (name, *score_cells(change))))
        counts.add_row(*map(_text, (name, *count_cells(name, change))))
    return Group(scores, counts, *(Padding(_text(line), (0, 1), expand=False) for line in _lines(comparison)))


def moved_view(comparison: RunComparison) -> RenderableType:
    """The samples that moved most, with the units whose verdict did."""
    return Group(*(_moved(name, sample) for name, change in comparison.metrics.items() for sample in change.moved))


def signed(value: float) -> str:
    """A difference with its sign and three digits; what rounds to nothing has no sign."""
    shown = f"{value:+.3f}"
    return shown if float(shown) else number(0.0)


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("metric")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def score_cells(change: MetricChange) -> tuple[str, ...]:
    """A, B, B - A and the interval of it."""
    scores = change.scores
    if scores is None:
        return (_NOTHING,) * 4
    interval = " to ".join(map(signed, scores.ci95))
    return number(scores.before), number(scores.after), signed(scores.difference), interval


def count_cells(name: str, change: MetricChange) -> tuple[str, ...]:
    """Samples that are better, worse, the same and missing; verdicts that went from 0 to 1 and from 1 to 0."""
    scores, verdicts = change.scores, change.verdicts
    better, worse = (scores.improved, scores.worsened) if scores else (0, 0)
    if catalog.lower_is_better(name):
        better, worse = worse, better
    moved = (better, worse, scores.tied if scores else 0)
    flipped = (f"{verdicts.up:,}", f"{verdicts.down:,}") if verdicts else (_NOTHING, _NOTHING)
    return (*(f"{count:,}" for count in (*moved, change.missing)), *flipped)


def _lines(comparison: RunComparison) -> Iterator[str]:
    for name, change in comparison.metrics.items():
        yield from (f"{name}: {remark}" for remark in change_remarks(name, change))
    yield shared_samples(comparison.samples)
    yield from (f"warning: {warning}" for warning in comparison.warnings)
    yield f"A: judge {comparison.baseline_judge}"
    yield f"   signature {comparison.baseline_signature}, run {comparison.baseline}"
    yield f"B: judge {comparison.judge}"
    yield f"   signature {comparison.signature}, run {comparison.run}"


def shared_samples(samples: SharedSamples) -> str:
    """How many samples were paired, and by what."""
    grounds = {"id": samples.by_id, "content": samples.by_content, "question": samples.by_question}
    paired = sum(grounds.values())
    by = ", ".join(f"{count:,} by {ground}" for ground, count in grounds.items() if count)
    alone = f"; {samples.only_baseline:,} only in A, {samples.only_new:,} only in B"
    return (
        f"samples: {paired:,} paired ({by}), {samples.same_content:,} of them with the same content"
        f"{alone if samples.only_baseline or samples.only_new else ''}"
    )


def change_remarks(name: str, change: MetricChange) -> Iterator[str]:
    """What the differences of a metric allow to say."""
    if change.scores is None:
        yield "no sample has a score in both runs"
        return
    low, high = change.scores.ci95
    if low > 0 or high < 0:
        better = (low > 0) != catalog.lower_is_better(name)
        yield f"B is {'better' if better else 'worse'} than A on samples like these"
    elif change.scores.clusters == 1 < change.compared:
        yield "no difference can be told: all samples are in one group"
    elif change.scores.smallest_detectable > 1:
        yield f"no difference can be told; {change.compared:,} samples are too few to show any"
    else:
        shown = number(change.scores.smallest_detectable)
        yield f"no difference can be told; {change.compared:,} samples would show one of {shown} or more"
    if change.verdicts is not None and change.verdicts.mcnemar_p is not None:
        yield f"one verdict a sample: McNemar's test gives p = {change.verdicts.mcnemar_p:.3g}"
    if change.unscored:
        yield f"{change.unscored:,} samples of both runs are undefined or failed in one of them"


def _moved(metric: str, sample: SampleChange) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    for _ in range(2):
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for unit in sample.units[:_UNITS_SHOWN]:
        grid.add_row(*_unit(unit))
    if len(sample.units) > _UNITS_SHOWN:
        grid.add_row("", "", Text(f"and {len(sample.units) - _UNITS_SHOWN:,} more", style="dim"))
    known_as = "" if sample.sample_id == sample.baseline_id else f" (in A: {sample.baseline_id})"
    heading = f"{sample.sample_id}{known_as}: {metric} {number(sample.before)} -> {number(sample.after)}"
    style = "green" if (sample.after > sample.before) != catalog.lower_is_better(metric) else "red"
    return Group(
        Padding(safe_text(heading, style=f"bold {style}"), (0, 1), expand=False),
        Padding(grid, (0, 1, 1, 3), expand=False),
    )


def _unit(unit: UnitChange) -> tuple[Text, Text, Text]:
    labels = f"{_label(unit.before)} -> {_label(unit.after)}"
    probabilities = f"{_probability(unit.p_before)} -> {_probability(unit.p_after)}"
    return Text(labels), Text(probabilities, style="dim"), safe_text(unit.text)


def _label(label: Label | None) -> str:
    return _NOTHING if label is None else str(label)


def _probability(value: float | None) -> str:
    return _NOTHING if value is None else number(value)


def _text(line: str) -> Text:
    return safe_text(line)
