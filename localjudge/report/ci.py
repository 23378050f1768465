"""Format a run, its gates and changes for CI: a JUnit XML file, and Markdown for a pull request.

    pass                                   a test case
    fail, undecided counted as failed      ... with <failure>
    undecided counted as passed            ... with <skipped>
    the run did not finish                 ... with <error>

JUnit files have no standard; this is the common subset of Jenkins, GitLab, GitHub actions and
pytest. The Markdown (GitHub's) has no text or id of a sample, because CI systems store it. Foreign
names appear only as code, where tags, links, mentions and issue references have no effect.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from xml.etree import ElementTree

from localjudge.analysis.check import Check, Gate, GateDecision
from localjudge.analysis.compare import RunComparison
from localjudge.report.comparison_views import comparison_view
from localjudge.report.gate_views import gates_view
from localjudge.report.summary_views import summary_view
from localjudge.report.terminal import as_markdown, markdown_block, number
from localjudge.run_directory.archive import stored_ids
from localjudge.run_directory.directory import STORE
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import numbered, printable

_NO_CHARACTERS = re.compile("[\ufffe\uffff]")
"""Characters that XML forbids besides control characters."""
_SIGN = {"pass": "✅ pass", "fail": "❌ fail", "undecided": "❔ undecided"}

UNFINISHED_MARKDOWN = "## localjudge: the run did not finish\n"
"""Text during a run, so that an earlier result is not mistaken for its result."""
_Problem = tuple[str, str, str] | None
"""Element, type and message of a failed test case, or None."""


def finished(decisions: Sequence[GateDecision], properties: Mapping[str, str]) -> str:
    """Return the JUnit file of a finished run. `properties` identify the run."""
    problems: dict[str, _Problem] = {
        decision.gate: (
            "skipped" if decision.passed else "failure",
            decision.outcome,
            decision.reason,
        )
        if decision.outcome != "pass"
        else None
        for decision in decisions
    }
    return _junit(problems, properties)


def unfinished(gates: Sequence[Gate]) -> str:
    return _junit(
        {str(gate): ("error", "unfinished", "the run did not finish") for gate in gates}, {}
    )


def _junit(cases: Mapping[str, _Problem], properties: Mapping[str, str]) -> str:
    elements = Counter(problem[0] for problem in cases.values() if problem)
    counts = {
        "failures": elements["failure"],
        "errors": elements["error"],
        "skipped": elements["skipped"],
    }
    about = {
        "name": "localjudge",
        "tests": str(len(cases)),
        **{name: str(count) for name, count in counts.items()},
    }
    suites = ElementTree.Element("testsuites", about)
    suite = ElementTree.SubElement(suites, "testsuite", about)
    holder = ElementTree.SubElement(suite, "properties") if properties else suite
    for name, value in properties.items():
        ElementTree.SubElement(holder, "property", {"name": name, "value": _xml_text(value)})
    for name, problem in cases.items():
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": "localjudge.gates", "name": _xml_text(name)}
        )
        if problem:
            element, kind, message = problem
            attributes = {"type": kind, "message": _xml_text(message)}
            ElementTree.SubElement(case, element, attributes).text = _xml_text(f"{name}: {message}")
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _xml_text(text: str) -> str:
    return _NO_CHARACTERS.sub(lambda match: f"\\u{ord(match.group()):04x}", printable(text))


def run_markdown(run: RunRecord, checked: Check) -> str:
    failed, count = (
        sum(not decision.passed for decision in checked.decisions),
        len(checked.decisions),
    )
    passed = (
        f"all gates passed ({count})"
        if count
        else f"{numbered(run.summary.samples, 'sample')} scored"
    )
    headline = f"{failed} of {count} gates failed" if failed else passed
    summary = summary_view(run, labels=checked.labels, details=True, texts=False)
    parts = [f"## localjudge: {headline}", as_markdown(replace(summary, notes=()))]
    if checked.decisions:
        gates = gates_view(checked.decisions)
        rows = [(_SIGN[str(outcome)], *cells) for outcome, *cells in gates.rows]
        parts.append(as_markdown(replace(gates, rows=rows)))
    if checked.comparison:
        parts += ["### Baseline (A) and this run (B)", *_comparison(run, checked.comparison)]
    return "\n\n".join([*parts, markdown_block(map(str, summary.notes))]) + "\n"


def _comparison(run: RunRecord, comparison: RunComparison) -> Iterator[str]:
    unmoved = {
        name: change.model_copy(update={"moved": ()}) for name, change in comparison.metrics.items()
    }
    yield from map(
        as_markdown,
        comparison_view(comparison.model_copy(update={"metrics": unmoved, "by": None})),
    )
    rows = {sample_id: row for row, sample_id in enumerate(stored_ids(run.directory / STORE), 1)}
    lines = [
        f"row {rows[sample.sample_id]:,}: {name} {number(sample.before)} -> {number(sample.after)}"
        for name, change in comparison.metrics.items()
        for sample in change.moved
    ]
    if lines:
        yield f"<details><summary>Samples with the largest changes</summary>\n\n{markdown_block(lines)}\n\n</details>"
