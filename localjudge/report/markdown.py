"""A run, its gates and what moved, as Markdown for a pull request or the summary of a CI job.

Without `with_texts` it holds no text and no id of a sample, since it is made for places that keep it: samples are
called by their row in the data, as `localjudge show RUN ROW` takes them.

Written for GitHub's flavour. Texts of users, models and other packages stand in code alone: there no pipe ends a cell,
nothing is a tag, a link, a mention or a reference to an issue. Long ones are cut: a comment has 65,536 characters.

    ## localjudge: 1 of 2 gates missed
    | metric | mean | ...
    | gate | outcome | why |
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from localjudge.analysis.check import Check
from localjudge.analysis.comparison import RunComparison, SampleChange
from localjudge.record.archive import stored_ids
from localjudge.record.directory import STORE
from localjudge.record.results import Run
from localjudge.report.comparison_view import (
    COUNT_HEADINGS,
    SCORE_HEADINGS,
    comparison_lines,
    count_cells,
    reason_of,
    score_cells,
)
from localjudge.report.table import summary_view
from localjudge.report.table_layout import Table, as_markdown, markdown_block
from localjudge.report.terminal import number

_MOST_UNITS = 5
_MOST_LINES = 60
_SIGN = {"pass": "✅ pass", "fail": "❌ fail", "undecided": "❔ undecided"}


def run_markdown(run: Run, checked: Check, *, with_texts: bool = False) -> str:
    """The run's gates, its comparison with the baseline, its table, and who judged."""
    summary = summary_view(run, max_failed=run.max_failed)
    parts = [f"## localjudge: {_headline(run, checked)}", as_markdown(replace(summary, notes=()))]
    if checked.decisions:
        rows = [(_SIGN[gate.outcome], gate.gate, reason_of(gate)) for gate in checked.decisions]
        parts.append(as_markdown(Table(("outcome", "gate", "why"), rows, names=3)))
    if checked.comparison:
        parts += ["### Against the baseline (A), this run (B)", *_comparison(run, checked.comparison, with_texts)]
    return "\n\n".join([*parts, markdown_block(summary.notes)]) + "\n"


def unfinished_markdown() -> str:
    """What to have in place while the run goes on: it must not be taken for an earlier one."""
    return "## localjudge: the run did not finish\n"


def _headline(run: Run, checked: Check) -> str:
    missed = sum(not decision.kept for decision in checked.decisions)
    if missed:
        return f"{missed} of {len(checked.decisions)} gates missed"
    if checked.decisions:
        return f"all gates kept ({len(checked.decisions)})"
    return f"samples scored: {run.summary.samples:,}"


def _comparison(run: Run, comparison: RunComparison, with_texts: bool) -> Iterator[str]:
    rows = [
        (name, *score_cells(change.scores), *count_cells(name, change)) for name, change in comparison.metrics.items()
    ]
    yield as_markdown(Table(("metric", *SCORE_HEADINGS, *COUNT_HEADINGS), rows, list(comparison_lines(comparison))))
    moved = [(name, sample) for name, change in comparison.metrics.items() for sample in change.moved]
    lines = list(_moved_texts(moved) if with_texts else _moved_rows(run, moved))
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"and {len(lines) - _MOST_LINES:,} more lines"]
    if lines:
        yield f"<details><summary>Samples that moved most</summary>\n\n{markdown_block(lines)}\n\n</details>"


def _moved_rows(run: Run, moved: Sequence[tuple[str, SampleChange]]) -> Iterator[str]:
    rows = {sample_id: row for row, sample_id in enumerate(stored_ids(run.directory / STORE), 1)}
    for metric, sample in moved:
        flips = Counter(f"{_label(unit.before)} -> {_label(unit.after)}" for unit in sample.units)
        verdicts = ", ".join(f"{count:,} x {flip}" for flip, count in sorted(flips.items()))
        scores = f"{metric} {number(sample.before)} -> {number(sample.after)}"
        yield f"row {rows[sample.sample_id]:,}: {scores}{verdicts and f' (verdicts: {verdicts})'}"


def _moved_texts(moved: Sequence[tuple[str, SampleChange]]) -> Iterator[str]:
    for metric, sample in moved:
        yield f"{sample.sample_id}: {metric} {number(sample.before)} -> {number(sample.after)}"
        for unit in sample.units[:_MOST_UNITS]:
            yield f"  {_label(unit.before)} -> {_label(unit.after)}  {unit.text}"
        if len(sample.units) > _MOST_UNITS:
            yield f"  and {len(sample.units) - _MOST_UNITS:,} more"


def _label(label: int | None) -> str:
    return "-" if label is None else str(label)
