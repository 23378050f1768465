"""A run, its gates and what moved, for CI systems: as a JUnit XML file, and as Markdown for a pull request.

    pass                                   a test case
    fail, undecided that counts as failed  ... with <failure>
    undecided that counts as passed        ... with <skipped>
    the run did not finish                 ... with <error>

There is no standard of JUnit files; this is the part that Jenkins, GitLab, GitHub actions and pytest agree on.

The Markdown is of GitHub's flavour, and holds no text and no id of a sample, since it is made for places that keep it.
Names of other packages stand in code alone, where nothing is a tag, a link, a mention or a reference to an issue.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from xml.etree import ElementTree

from localjudge.analysis.check import Check, Gate, GateDecision
from localjudge.analysis.compare import RunComparison
from localjudge.record.archive import stored_ids
from localjudge.record.directory import STORE
from localjudge.record.run import Run
from localjudge.report.tables import comparison_view, gates_view, summary_view
from localjudge.report.terminal import as_markdown, markdown_block, number
from localjudge.words import numbered, printable

_NO_CHARACTERS = re.compile("[\ufffe\uffff]")
"""What XML cannot hold besides what no terminal is shown."""
_SIGN = {"pass": "✅ pass", "fail": "❌ fail", "undecided": "❔ undecided"}

UNFINISHED_MARKDOWN = "## localjudge: the run did not finish\n"
"""What to have in place while the run goes on: it must not be taken for an earlier one."""

_Problem = tuple[str, str, str] | None
"""What a test case holds unless it passed: the element, its type and its message."""


def finished(decisions: Sequence[GateDecision], properties: Mapping[str, str]) -> str:
    """The JUnit file for a finished run. `properties` say which run that is."""
    problems: dict[str, _Problem] = {
        decision.gate: ("skipped" if decision.passed else "failure", decision.outcome, decision.reason)
        if decision.outcome != "pass"
        else None
        for decision in decisions
    }
    return _junit(problems, properties)


def unfinished(gates: Sequence[Gate]) -> str:
    """The JUnit file to have in place while the run goes on: it must not be taken for an earlier one that passed."""
    return _junit({str(gate): ("error", "unfinished", "the run did not finish") for gate in gates}, {})


def _junit(cases: Mapping[str, _Problem], properties: Mapping[str, str]) -> str:
    elements = Counter(problem[0] for problem in cases.values() if problem)
    counts = {"failures": elements["failure"], "errors": elements["error"], "skipped": elements["skipped"]}
    about = {"name": "localjudge", "tests": str(len(cases)), **{name: str(count) for name, count in counts.items()}}
    suites = ElementTree.Element("testsuites", about)
    suite = ElementTree.SubElement(suites, "testsuite", about)
    holder = ElementTree.SubElement(suite, "properties") if properties else suite
    for name, value in properties.items():
        ElementTree.SubElement(holder, "property", {"name": name, "value": _legal(value)})
    for name, problem in cases.items():
        case = ElementTree.SubElement(suite, "testcase", {"classname": "localjudge.gates", "name": _legal(name)})
        if problem:
            element, kind, message = problem
            attributes = {"type": kind, "message": _legal(message)}
            ElementTree.SubElement(case, element, attributes).text = _legal(f"{name}: {message}")
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _legal(text: str) -> str:
    return _NO_CHARACTERS.sub(lambda match: f"\\u{ord(match.group()):04x}", printable(text))


def run_markdown(run: Run, checked: Check) -> str:
    """The run's gates, its comparison with the baseline, its table, and who judged."""
    failed, count = sum(not decision.passed for decision in checked.decisions), len(checked.decisions)
    passed = f"all gates passed ({count})" if count else f"{numbered(run.summary.samples, 'sample')} scored"
    headline = f"{failed} of {count} gates failed" if failed else passed
    summary = summary_view(run, labels=checked.labels, texts=False)
    parts = [f"## localjudge: {headline}", as_markdown(replace(summary, notes=()))]
    if checked.decisions:
        gates = gates_view(checked.decisions)
        rows = [(_SIGN[str(outcome)], *cells) for outcome, *cells in gates.rows]
        parts.append(as_markdown(replace(gates, rows=rows)))
    if checked.comparison:
        parts += ["### Against the baseline (A), this run (B)", *_comparison(run, checked.comparison)]
    return "\n\n".join([*parts, markdown_block(map(str, summary.notes))]) + "\n"


def _comparison(run: Run, comparison: RunComparison) -> Iterator[str]:
    unmoved = {name: change.model_copy(update={"moved": ()}) for name, change in comparison.metrics.items()}
    yield from map(as_markdown, comparison_view(comparison.model_copy(update={"metrics": unmoved, "by": None})))
    rows = {sample_id: row for row, sample_id in enumerate(stored_ids(run.directory / STORE), 1)}
    lines = [
        f"row {rows[sample.sample_id]:,}: {name} {number(sample.before)} -> {number(sample.after)}"
        for name, change in comparison.metrics.items()
        for sample in change.moved
    ]
    if lines:
        yield f"<details><summary>Samples that moved most</summary>\n\n{markdown_block(lines)}\n\n</details>"
