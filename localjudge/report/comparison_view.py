"""Two runs side by side: what changed, how sure that is, and the samples that moved most.

     metric              A      B   B - A     95 % interval
     context_recall  0.775  0.950  +0.175  +0.041 to +0.288

     metric          better  worse  same  missing  0 -> 1  1 -> 0
     context_recall      16      2    22        0      16       2

     context_recall: B is better than A on samples like these
     A and B: judge reference (lexical, not for decisions), 10.7 MiB, sha256 4844085b4a92

The second table counts samples, then verdicts on the same text.
"""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from localjudge.analysis.comparison import MetricChange, RunComparison, SampleChange, SharedSamples
from localjudge.analysis.gates import GateDecision, signed
from localjudge.analysis.score_changes import ScoreChanges
from localjudge.analysis.slice_changes import SlicedChanges
from localjudge.metrics import catalog
from localjudge.record.untrusted import shown
from localjudge.report.table import EACH_ALONE, value_in_words
from localjudge.report.table_layout import Table, line
from localjudge.report.terminal import number
from localjudge.types import Label

SCORE_HEADINGS = ("A", "B", "B - A", "95 % interval")
COUNT_HEADINGS = ("better", "worse", "same", "missing", "0 -> 1", "1 -> 0")
_NOTHING = "-"
_UNITS_SHOWN = 10
_STYLE = {"pass": "green", "fail": "red", "undecided": "yellow"}


def comparison_view(comparison: RunComparison) -> RenderableType:
    """Both tables, what changed by a column, remarks, warnings, judges and signatures, and what moved most."""
    scores = [(name, *score_cells(change.scores)) for name, change in comparison.metrics.items()]
    counts = [(name, *count_cells(name, change)) for name, change in comparison.metrics.items()]
    parts: list[RenderableType] = [Table(("metric", *SCORE_HEADINGS), scores), Text()]
    parts += [Table(("metric", *COUNT_HEADINGS), counts), Text()]
    parts += [*_by_column(comparison.by), Text()] if comparison.by else []
    parts += map(line, comparison_lines(comparison))
    for name, change in comparison.metrics.items():
        for sample in change.moved:
            parts += [Text(), *_moved(name, sample)]
    return Group(*parts)


def _by_column(changes: SlicedChanges) -> Iterator[RenderableType]:
    """A table for each metric, and what their intervals do not say; `compared` have a score in both runs."""
    column = shown(changes.column)
    for metric in changes.slices[0].metrics if changes.slices else ():
        rows = [
            (
                value_in_words(part.value),
                f"{part.metrics[metric].compared:,}/{part.samples:,}",
                *score_cells(part.metrics[metric].scores),
            )
            for part in changes.slices
        ]
        yield from (line(f"{metric} by {column}"), Table((column, "compared", *SCORE_HEADINGS), rows), Text())
    yield line(f"slices are those of B; {EACH_ALONE}")


def score_cells(scores: ScoreChanges | None) -> tuple[str, ...]:
    """What stands under the `SCORE_HEADINGS`; a dash for what there is not."""
    if scores is None:
        return ("-",) * len(SCORE_HEADINGS)
    interval = " to ".join(map(signed, scores.ci95)) if scores.ci95 else "-"
    return number(scores.before), number(scores.after), signed(scores.difference), interval


def gates_view(decisions: Sequence[GateDecision]) -> Table:
    """One row for each gate: outcome, gate, reason; an undecided gate with what it counts as."""
    return Table(
        (), [(Text(gate.outcome, style=_STYLE[gate.outcome]), gate.gate, reason_of(gate)) for gate in decisions]
    )


def reason_of(decision: GateDecision) -> str:
    """Why it was decided so; of an undecided gate also what it counts as."""
    counts_as = f" (counts as {'kept' if decision.kept else 'missed'})" if decision.outcome == "undecided" else ""
    return f"{decision.reason}{counts_as}"


def count_cells(name: str, change: MetricChange) -> tuple[str, ...]:
    """What stands under the `COUNT_HEADINGS`: better and worse are these where lower is better, too."""
    scores, verdicts = change.scores, change.verdicts
    better, worse = (scores.improved, scores.worsened) if scores else (0, 0)
    if catalog.lower_is_better(name):
        better, worse = worse, better
    moved = (better, worse, scores.tied if scores else 0)
    flipped = (f"{verdicts.up:,}", f"{verdicts.down:,}") if verdicts else (_NOTHING, _NOTHING)
    return (*(f"{count:,}" for count in (*moved, change.missing)), *flipped)


def comparison_lines(comparison: RunComparison) -> Iterator[str]:
    """What has to be said beside the tables, a line each; what holds for all metrics or both runs is said once."""
    metrics_of: dict[str, list[str]] = {}
    for name, change in comparison.metrics.items():
        for remark in change_remarks(name, change):
            metrics_of.setdefault(remark, []).append(name)
    for remark, names in metrics_of.items():
        for_all = len(names) == len(comparison.metrics) > 1
        yield f"{'all metrics' if for_all else ', '.join(names)}: {remark}"
    yield shared_samples(comparison.samples)
    yield from (f"warning: {warning}" for warning in comparison.warnings)
    signatures = (f"signature {comparison.baseline_signature}", f"signature {comparison.signature}")
    if comparison.baseline_judge == comparison.judge:
        yield f"A and B: judge {comparison.judge}"
        if signatures[0] == signatures[1]:
            yield f"   {signatures[0]}"
            signatures = ("", "")
        for name, signature, run in zip("AB", signatures, (comparison.baseline, comparison.run), strict=True):
            yield f"   {name}: {signature}{', ' if signature else ''}run {run}"
    else:
        yield f"A: judge {comparison.baseline_judge}"
        yield f"   {signatures[0]}, run {comparison.baseline}"
        yield f"B: judge {comparison.judge}"
        yield f"   {signatures[1]}, run {comparison.run}"


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
    if change.scores.ci95 is None:
        yield "no difference can be told: all samples are in one group"
    elif change.scores.ci95[0] > 0 or change.scores.ci95[1] < 0:
        better = (change.scores.ci95[0] > 0) != catalog.lower_is_better(name)
        yield f"B is {'better' if better else 'worse'} than A on samples like these"
    elif change.scores.smallest_detectable > 1:
        yield f"no difference can be told; {change.compared:,} samples are too few to show any"
    else:
        smallest = number(change.scores.smallest_detectable)
        yield f"no difference can be told; {change.compared:,} samples would show one of {smallest} or more"
    if change.verdicts is not None and change.verdicts.mcnemar_p is not None:
        yield f"one verdict a sample: McNemar's test gives p = {change.verdicts.mcnemar_p:.3g}"
    if change.unscored:
        yield f"{change.unscored:,} samples of both runs are undefined or failed in one of them"


def _moved(metric: str, sample: SampleChange) -> Iterator[RenderableType]:
    known_as = "" if sample.sample_id == sample.baseline_id else f" (in A: {sample.baseline_id})"
    heading = f"{sample.sample_id}{known_as}: {metric} {number(sample.before)} -> {number(sample.after)}"
    style = "green" if (sample.after > sample.before) != catalog.lower_is_better(metric) else "red"
    yield line(heading, f"bold {style}")
    rows = [
        (
            f"{_label(unit.before)} -> {_label(unit.after)}",
            Text(f"{_probability(unit.p_before)} -> {_probability(unit.p_after)}", style="dim"),
            unit.text,
        )
        for unit in sample.units[:_UNITS_SHOWN]
    ]
    yield Padding(Table((), rows), (0, 0, 0, 2))
    if len(sample.units) > _UNITS_SHOWN:
        yield line(f"  and {len(sample.units) - _UNITS_SHOWN:,} more", "dim")


def _label(label: Label | None) -> str:
    return _NOTHING if label is None else str(label)


def _probability(value: float | None) -> str:
    return _NOTHING if value is None else number(value)
