"""Two runs compared: means, counts, slices, remarks, changed samples, and gates."""

from collections.abc import Iterator, Sequence
from itertools import chain

from rich.text import Text

from localjudge.analysis.comparison import (
    CorrectedDifference,
    MetricChange,
    RunComparison,
    SampleChange,
    ScoreChanges,
    SliceChange,
    SlicedChanges,
    count_missing_labels,
)
from localjudge.analysis.gates import GateDecision
from localjudge.analysis.pairing import SharedSamples
from localjudge.metrics import catalog
from localjudge.report.conclusions import claims
from localjudge.report.remarks import ALWAYS_VALID
from localjudge.report.summary_views import EACH_ALONE, shown_slice, uncorrected_slices
from localjudge.report.terminal import Table, number, safe_text
from localjudge.run_directory.directory import excerpt
from localjudge.stats.interval import Mean, NoMean
from localjudge.stats.paired import samples_to_decide, smallest_detectable_difference
from localjudge.stats.repeated_looks import METHOD
from localjudge.types import Label
from localjudge.words import numbered, signed, signed_difference

_STYLE = {"pass": "green", "fail": "red", "undecided": "yellow"}
ONE_LOOK = (
    "both runs use the labels of one look and the samples that they share, so a slice's means may "
    "differ from those of `localjudge show RUN --by`, which uses all labels that count for one run"
)
_COUNTED = "better, worse and same are those of counted scores"
EXPECTED = (
    "means are those of expected scores: probabilities in place of the verdicts 0 and 1; "
    f"{_COUNTED}"
)
_EXPECTED_BELOW = (
    "means by the judge only are those of expected scores: probabilities in place of the verdicts"
    f" 0 and 1; {_COUNTED}"
)
SCORE_HEADINGS = ("A", "B", "B - A", "95 % interval")
_COUNT_HEADINGS = ("better", "worse", "same", "missing", "became 1", "became 0")
BY_JUDGE = "by the judge"
_LETTERS = ("A", "B")
_DIGITS = 3
_UNITS_SHOWN = 10


def comparison_view(comparison: RunComparison) -> list[Table]:
    """Return the claims, means, counts, slices and remarks, and the samples that changed most."""
    scores: list[tuple[str, ...]] = []
    moved: list[Table] = []
    for name, change in comparison.metrics.items():
        scores.append((name, *quoted_cells(change)))
        other = other_scores(change)
        if other:
            basis, cells = other
            scores.append((f"  {basis}", *cells))
        for sample in change.moved:
            moved.append(_moved_sample(name, sample))
    said = Table(notes=list(claims(comparison)))
    tables = [said, Table(("metric", *SCORE_HEADINGS), scores), _count_table(comparison)]
    if comparison.by:
        if comparison.by.slices:
            for metric in comparison.by.slices[0].metrics:
                tables.append(_slice_table(comparison.by, metric))
        notes = [f"slices are from the data of B; {EACH_ALONE}"]
        changes = chain.from_iterable(part.metrics.values() for part in comparison.by.slices)
        if any(map(_has_labels, changes)):
            notes.append(ONE_LOOK)
        tables.append(Table(notes=notes))
    tables.append(Table(notes=list(comparison_lines(comparison))))
    return [*tables, *moved]


def _count_table(comparison: RunComparison) -> Table:
    """Return the numbers of better and worse samples, with what they are counted by."""
    is_judged = are_judged(comparison)
    first = "metric"
    if is_judged:
        first = BY_JUDGE
    rows: list[tuple[str, ...]] = []
    for name, change in comparison.metrics.items():
        counted_name = name
        if catalog.is_judged(name) and not is_judged:
            counted_name = f"{name}, {BY_JUDGE}"
        rows.append((counted_name, *count_cells(name, change)))
    return Table((first, *_COUNT_HEADINGS), rows)


def other_scores(change: SliceChange) -> tuple[str, tuple[str, ...]] | None:
    """Return the basis and cells to show below the quoted difference, None if there is no other."""
    if change.quoted.basis != "judge":
        return "judge only", score_cells(change.judged)
    if _differs_from_counted(change):
        return "counted", _hide_interval(change, score_cells(change.scores))
    return None


def _differs_from_counted(change: SliceChange) -> bool:
    """Return whether the quoted difference is of expected scores, and the counted is another."""
    return change.quoted.basis == "judge" and _has_expected(change)


def _has_expected(change: SliceChange) -> bool:
    return score_cells(change.scores) != score_cells(change.judged)


def _has_labels(change: SliceChange) -> bool:
    return change.corrected is not None or change.is_withheld


def _slice_table(changes: SlicedChanges, metric: str) -> Table:
    column = excerpt(changes.column)
    is_labelled = any(_has_labels(part.metrics[metric]) for part in changes.slices)
    headings = [column, "compared", *SCORE_HEADINGS]
    if is_labelled:
        headings.append("corrected by")
    rows: list[list[str]] = []
    for part in changes.slices:
        change = part.metrics[metric]
        cells = [shown_slice(part.value), f"{change.compared:,}/{part.samples:,}"]
        cells += quoted_cells(change)
        if is_labelled:
            cells.append(change.quoted.based_on)
        rows.append(cells)
    corrected = [(part.value, part.metrics[metric].corrected) for part in changes.slices]
    notes = list(uncorrected_slices(corrected))
    return Table(headings, rows, notes, titles=[f"{metric} by {column}"])


def quoted_cells(change: SliceChange) -> tuple[str, ...]:
    """Return the cells of the difference to quote: by labels, by the judges, or without number."""
    if change.is_withheld:
        return score_cells(None)
    return _hide_interval(change, score_cells(change.headline or change.judged))


def _hide_interval(change: SliceChange, cells: tuple[str, ...]) -> tuple[str, ...]:
    """Return the cells without the interval if the texts are equal: it is about other samples."""
    if change.is_equal:
        return (*cells[:-1], "-")
    return cells


def are_judged(comparison: RunComparison) -> bool:
    """Return whether each metric asks the judge, which then counts better and worse samples."""
    return all(map(catalog.is_judged, comparison.metrics))


def score_cells(scores: ScoreChanges | CorrectedDifference | None) -> tuple[str, ...]:
    """Return both means, their difference and its interval."""
    if scores is None or scores.difference is None:
        return ("-",) * len(SCORE_HEADINGS)
    means = (number(scores.before), number(scores.after))
    if scores.ci95 is None:
        return (*means, signed(scores.difference), "-")
    difference, low, high = signed_difference(scores.difference, scores.ci95)
    return (*means, difference, f"{low} to {high}")


def count_cells(name: str, change: MetricChange) -> tuple[str, ...]:
    """Return the numbers of better, worse, equal and missing samples, and of changed verdicts."""
    better = 0
    worse = 0
    tied = 0
    if change.scores:
        better = change.scores.improved
        worse = change.scores.worsened
        tied = change.scores.tied
    if catalog.lower_is_better(name):
        better, worse = worse, better
    missing = change.unpaired + change.unscored
    cells = (f"{better:,}", f"{worse:,}", f"{tied:,}", f"{missing:,}")
    if change.verdicts is None:
        return (*cells, "-", "-")
    return (*cells, f"{change.verdicts.up:,}", f"{change.verdicts.down:,}")


def comparison_lines(comparison: RunComparison) -> Iterator[str]:
    """Yield the remarks on each metric and on the runs, and the judges."""
    for name in comparison.metrics:
        for remark in change_remarks(comparison, name):
            yield f"{name}: {remark}"
    verdicts = [change.verdicts for change in comparison.metrics.values() if change.verdicts]
    if any(each.unpaired for each in verdicts):
        yield "became 1 and became 0 count only sentences that are in both answers"
    yield from comparison_notes(comparison)
    before = comparison.baseline_judge.in_brief
    after = comparison.judge.in_brief
    if comparison.is_corrected:
        before = comparison.baseline_judge.name  # its caution advises labels, which are here
        after = comparison.judge.name
    if before == after:
        yield f"judge {after}"
        return
    yield f"A: judge {before}"
    yield f"B: judge {after}"


def comparison_notes(comparison: RunComparison, runs: tuple[str, str] = _LETTERS) -> Iterator[str]:
    """Yield the kind of means, the paired samples, and warnings.

    `runs` name the baseline and the new run.
    """
    changes = comparison.metrics.values()
    if any(map(_differs_from_counted, changes)):
        yield EXPECTED
    elif any(map(_has_expected, changes)):
        yield _EXPECTED_BELOW
    yield _describe_pairs(comparison.samples, runs)
    for change in comparison.metrics.values():
        if change.scores and change.scores.method == METHOD:
            yield ALWAYS_VALID
            break
    for warning in comparison.warnings:
        yield f"warning: {warning}"


def _describe_pairs(samples: SharedSamples, runs: tuple[str, str]) -> str:
    counts = {"id": samples.by_id, "content": samples.by_content, "question": samples.by_question}
    paired_by: list[str] = []
    for ground, count in counts.items():
        if count:
            paired_by.append(f"{count:,} by {ground}")
    line = f"samples: {samples.paired:,} paired ({', '.join(paired_by)})"
    same = "none"
    if samples.same_content:
        same = f"{samples.same_content:,}"
    line += f", {same} with the same texts in both"
    if samples.only_baseline or samples.only_new:
        line += f"; {samples.only_baseline:,} only in {runs[0]}"
        line += f", {samples.only_new:,} only in {runs[1]}"
    return line


def change_remarks(
    comparison: RunComparison, name: str, runs: tuple[str, str] = _LETTERS
) -> Iterator[str]:
    """Yield how labels correct the difference of a metric, and whether it is significant.

    `runs` name the baseline and the new run.
    """
    change = comparison.metrics[name]
    obstacles = comparison.obstacles(name)
    quoted = change.quoted
    if change.scores is None:
        yield change.withheld or "no sample has a score in both runs"
        return
    yield from _correction_remarks(change, runs)
    if isinstance(quoted, NoMean):
        return
    if quoted.ci95 is None:
        yield "significance unknown: all samples are in one group"
    elif not quoted.excludes_zero:
        yield _describe_no_difference(change, quoted)
    elif obstacles:
        cause = "the questions or references differ"
        if "judges" in obstacles:
            cause = "the judges differ"
        claim = "may cause the difference, so neither run is called better"
        yield f"significant, but {cause} and {claim}"
    else:
        word = "worse"
        if (quoted.low > 0) != catalog.lower_is_better(name):
            word = "better"
        basis = ""
        if quoted.basis == "judge" and catalog.is_judged(name):
            basis = ", by the judge only"
        yield f"{runs[1]} is {word} than {runs[0]} on samples like these{basis}"
    if change.unscored:
        yield f"{numbered(change.unscored, 'shared sample')} without a score in both runs"


def _correction_remarks(change: MetricChange, runs: tuple[str, str]) -> Iterator[str]:
    """Yield by how many labels the difference is corrected, or why not."""
    corrected = change.corrected
    if change.headline and change.headline.is_joint:
        statements = numbered(change.headline.statements, "statement")
        line = f"corrected by {change.headline.in_words} of the {statements} that can change it"
        if change.headline.uncounted:
            others = f"the other {change.headline.uncounted:,} count the same in both"
            line = f"{line}; {others} and are never asked"
        yield line
        yield _describe_means(change.headline, runs)
    elif change.headline:
        before = numbered(change.headline.labels_before, "label")
        after = numbered(change.headline.labels_after, "label")
        yield f"corrected by {before} for {runs[0]} and {after} for {runs[1]}"
    elif corrected:
        yield f"not corrected by labels: {corrected.remark}"
    if change.headline and change.headline.waiting:
        yield change.headline.waiting
    if corrected and corrected.contradiction:
        yield f"warning: {corrected.contradiction}"


def _describe_means(corrected: CorrectedDifference, runs: tuple[str, str]) -> str:
    """Return what the means of two runs are whose statements were drawn together."""
    both = f"{runs[0]} and {runs[1]}"
    if corrected.before is not None:
        why = "these were drawn for the difference, so only it has an interval"
        return f"the means of {both} are by the same labels; {why}"
    why = "all labels are of one of them"
    if corrected.uncounted:
        why = "the statements that are never asked would count in them"
    return f"{both} have no means by labels (-): {why}; judge only: the means by the judge"


def _describe_no_difference(change: MetricChange, quoted: Mean) -> str:
    """Return which differences could be detected, and the number of samples that would show one."""
    compared = numbered(change.compared, "sample")
    if change.is_equal:
        return f"no difference: the texts of {compared} are equal"
    if change.headline:
        compared += f" and {numbered(change.headline.labels, 'label')}"
    smallest = smallest_detectable_difference(quoted)
    if round(smallest, _DIGITS) == 0:
        return f"no difference, with {compared}"
    detectable = f"differences of {number(smallest)} or more"
    if smallest > 1:
        detectable = "no difference"
    line = f"not significant; with {compared}, {detectable} can be detected"
    missing = count_missing_labels(change)
    if missing is not None:
        more = numbered(missing, "more label")
        return f"{line}; about {more} would show a difference of this size"
    needed = samples_to_decide(quoted, 0)
    if not needed or not round(quoted.mean, _DIGITS):
        return line
    samples = f"about {needed:,} samples"
    if change.headline:
        samples += " with proportionally more labels"
    return f"{line}; {samples} would show a difference of this size"


def _moved_sample(metric: str, sample: SampleChange) -> Table:
    """Return the changed units of a sample below its scores."""
    name = sample.sample_id
    if sample.sample_id != sample.baseline_id:
        name += f" (in A: {sample.baseline_id})"
    heading = f"{name}: {metric} {number(sample.after)}, was {number(sample.before)}"
    style = "bold red"
    if (sample.after > sample.before) != catalog.lower_is_better(metric):
        style = "bold green"
    rows: list[tuple[str | Text, ...]] = []
    for unit in sample.units[:_UNITS_SHOWN]:
        if unit.after is None:
            verdict = (
                f"only in A: {_label_cell(unit.before)}",
                Text(number(unit.p_before), style="dim"),
            )
        else:
            label = _label_cell(unit.after)
            if unit.before is None:
                verdict = f"only in B: {label}", Text(number(unit.p_after), style="dim")
            else:
                probabilities = f"{number(unit.p_after)}, was {number(unit.p_before)}"
                verdict = (
                    f"{label}, was {_label_cell(unit.before)}",
                    Text(probabilities, style="dim"),
                )
        rows.append((*verdict, unit.text))
    if len(sample.units) > _UNITS_SHOWN:
        rows.append(("", Text(), f"and {len(sample.units) - _UNITS_SHOWN:,} more"))
    return Table(rows=rows, titles=[safe_text(heading, style=style)], indent=2)


def _label_cell(label: Label | None) -> str:
    if label is None:
        return "-"
    return str(label)


def gates_view(decisions: Sequence[GateDecision]) -> Table:
    """Return a row for each gate: outcome, gate, and reason."""
    rows: list[tuple[Text, str, str]] = []
    for decision in decisions:
        outcome = Text(decision.outcome, style=_STYLE[decision.outcome])
        rows.append((outcome, decision.gate, explain_decision(decision)))
    return Table(("outcome", "gate", "why"), rows, names=3)


def explain_decision(decision: GateDecision) -> str:
    """Return the reason, and for an undecided gate whether it counts as passed."""
    if decision.outcome != "undecided":
        return decision.reason
    if decision.passed:
        return f"{decision.reason} (counts as passed)"
    return f"{decision.reason} (counts as failed)"
