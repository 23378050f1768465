"""Gates as a JUnit XML file, which CI systems show as tests.

    pass                                   a test case
    fail, undecided that counts as missed  ... with <failure>
    undecided that counts as kept          ... with <skipped>
    the run did not finish                 ... with <error>

There is no standard; this is the part that Jenkins, GitLab, GitHub actions and pytest agree on. Characters that XML
cannot hold are written as visible escapes.

A run, its gates and what moved, as Markdown for a pull request or the summary of a CI job.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from xml.etree import ElementTree

from localjudge.analysis.check import Check, Gate, GateDecision
from localjudge.analysis.compare import RunComparison, SampleChange
from localjudge.record.archive import stored_ids
from localjudge.record.directory import STORE
from localjudge.record.run import Run
from localjudge.report.tables import (
    COUNT_HEADINGS,
    SCORE_HEADINGS,
    comparison_lines,
    count_cells,
    reason_of,
    score_cells,
    summary_view,
)
from localjudge.report.terminal import Table, as_markdown, markdown_block, number
from localjudge.words import printable

_HEADER = '<?xml version="1.0" encoding="UTF-8"?>\n'
_SUITE = "localjudge"
_NO_CHARACTERS = re.compile("[\ufffe\uffff]")


_Problem = tuple[str, str, str] | None
"""What a test case holds unless it passed: the element, its type and its message."""


def finished(decisions: Sequence[GateDecision], properties: Mapping[str, str]) -> str:
    """The file for a finished run. `properties` say which run that is."""
    return _document({decision.gate: _problem(decision) for decision in decisions}, properties)


def unfinished(gates: Sequence[Gate]) -> str:
    """The file to have in place while the run goes on: it must not be taken for an earlier one that passed."""
    problem = ("error", "unfinished", "the run did not finish")
    return _document({str(gate): problem for gate in gates}, {})


def _problem(decision: GateDecision) -> _Problem:
    if decision.outcome == "pass":
        return None
    return "skipped" if decision.kept else "failure", decision.outcome, decision.reason


def _document(cases: Mapping[str, _Problem], properties: Mapping[str, str]) -> str:
    elements = [problem[0] for problem in cases.values() if problem]
    counts = {
        "tests": str(len(cases)),
        "failures": str(elements.count("failure")),
        "errors": str(elements.count("error")),
        "skipped": str(elements.count("skipped")),
    }
    suites = ElementTree.Element("testsuites", {"name": _SUITE, **counts})
    suite = ElementTree.SubElement(suites, "testsuite", {"name": _SUITE, **counts})
    if properties:
        holder = ElementTree.SubElement(suite, "properties")
        for name, value in properties.items():
            ElementTree.SubElement(holder, "property", {"name": name, "value": _legal(value)})
    for name, problem in cases.items():
        case = ElementTree.SubElement(suite, "testcase", {"classname": f"{_SUITE}.gates", "name": _legal(name)})
        if problem:
            element, kind, message = problem
            attributes = {"type": kind, "message": _legal(message)}
            ElementTree.SubElement(case, element, attributes).text = _legal(f"{name}: {message}")
    ElementTree.indent(suites)
    return f"{_HEADER}{ElementTree.tostring(suites, encoding='unicode')}\n"


def _legal(text: str) -> str:
    return _NO_CHARACTERS.sub(lambda match: f"\\u{ord(match.group()):04x}", printable(text))


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
