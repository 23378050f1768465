"""A run, its gates and what moved, as Markdown for a pull request or the summary of a CI job.

Without `with_texts` it holds no text and no id of a sample, since it is made for places that keep it: samples are
called by their row in the data, as `localjudge show RUN ROW` takes them.

Written for GitHub's flavour. Texts of users, models and other packages stand in code alone: there no pipe ends a cell,
nothing is a tag, a link, a mention or a reference to an issue. Long ones are cut: a comment has 65,536 characters.

    ## localjudge: 1 of 2 gates missed
    | metric | mean | ...
    | gate | outcome | why |
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from localjudge.analysis.check import Check
from localjudge.analysis.comparison import RunComparison, SampleChange
from localjudge.analysis.gates import GateDecision
from localjudge.printable import printable
from localjudge.record.archive import stored_ids
from localjudge.record.directory import STORE
from localjudge.record.results import Run
from localjudge.report.comparison_view import COUNT_HEADINGS, comparison_lines, count_cells
from localjudge.report.score_cells import SCORE_HEADINGS, score_cells
from localjudge.report.table import HEADINGS, remarks, summary_rows
from localjudge.report.terminal import number

_MOST_CHARACTERS = 300
_MOST_UNITS = 5
_MOST_METRICS = 40
_MOST_LINES = 60
_BACKTICKS = re.compile("`+")
_SIGN = {"pass": "✅ pass", "fail": "❌ fail", "undecided": "❔ undecided"}


def run_markdown(run: Run, found: Check, *, with_texts: bool = False) -> str:
    """The run's table, its gates, its comparison with the baseline, and who judged."""
    parts = [f"## localjudge: {_headline(run, found)}", _summary(run)]
    if found.decisions:
        parts.append(_gates(found.decisions))
    if found.comparison:
        parts += ["### Against the baseline (A), this run (B)", *_comparison(run, found.comparison, with_texts)]
    parts.append(_block([*remarks(run, max_failed=run.max_failed), f"run {run.directory}"]))
    return "\n\n".join(parts) + "\n"


def unfinished_markdown() -> str:
    """What to have in place while the run goes on: it must not be taken for an earlier one."""
    return "## localjudge: the run did not finish\n"


def _headline(run: Run, found: Check) -> str:
    missed = sum(not decision.kept for decision in found.decisions)
    if missed:
        return f"{missed} of {len(found.decisions)} gates missed"
    if found.decisions:
        return f"all gates kept ({len(found.decisions)})"
    return f"samples scored: {run.summary.samples:,}"


def _summary(run: Run) -> str:
    rows = [(_code(name), *cells) for name, cells in summary_rows(run, max_failed=run.max_failed)]
    return _table(("metric", *HEADINGS), rows)


def _gates(decisions: Sequence[GateDecision]) -> str:
    rows = [(_outcome(decision), _code(decision.gate), _code(decision.reason)) for decision in decisions]
    return _table(("outcome", "gate", "why"), rows, right=False)


def _outcome(decision: GateDecision) -> str:
    counts_as = f" (counts as {'kept' if decision.kept else 'missed'})" if decision.outcome == "undecided" else ""
    return f"{_SIGN[decision.outcome]}{counts_as}"


def _comparison(run: Run, comparison: RunComparison, with_texts: bool) -> Iterator[str]:
    rows = [
        (_code(name), *score_cells(change.scores), *count_cells(name, change))
        for name, change in comparison.metrics.items()
    ]
    yield _table(("metric", *SCORE_HEADINGS, *COUNT_HEADINGS), rows)
    yield _block(comparison_lines(comparison))
    moved = [(name, sample) for name, change in comparison.metrics.items() for sample in change.moved]
    lines = list(_moved_texts(moved) if with_texts else _moved_rows(run, moved))
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"and {len(lines) - _MOST_LINES:,} more lines"]
    if lines:
        yield f"<details><summary>Samples that moved most</summary>\n\n{_block(lines)}\n\n</details>"


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


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = True) -> str:
    """The cells are Markdown already. Numbers, which is all but the first column, stand on the right."""
    rule = ["---", *["--:" if right else "---"] * (len(headings) - 1)]
    shown = [headings, rule, *rows[:_MOST_METRICS]]
    left_out = len(rows) - _MOST_METRICS
    more = [f"\n\nand {left_out:,} more"] if left_out > 0 else []
    return "\n".join(f"| {' | '.join(cells)} |" for cells in shown) + "".join(more)


def _code(text: str) -> str:
    """The text in a cell of a table: as code, between more backticks than it has, and pipes written as escapes."""
    shown = _cut(text).replace("|", "\\x7c") or " "
    fence = "`" * (_longest_run(shown) + 1)
    # Next to a fence a backtick would be part of it; of a blank on both sides one is taken away.
    blank = " " if "`" in (shown[0], shown[-1]) or (shown[0] == shown[-1] == " " and shown.strip(" ")) else ""
    return f"{fence}{blank}{shown}{blank}{fence}"


def _block(lines: Iterable[str]) -> str:
    """The lines as a block of code, between longer fences than there are in it."""
    shown = [_cut(line) for line in lines]
    fence = "`" * max(3, max(map(_longest_run, shown), default=0) + 1)
    return "\n".join([f"{fence}text", *shown, fence])


def _longest_run(text: str) -> int:
    """How many backticks stand in a row at most."""
    return max(map(len, _BACKTICKS.findall(text)), default=0)


def _cut(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _MOST_CHARACTERS else f"{shown[: _MOST_CHARACTERS - 1]}…"
