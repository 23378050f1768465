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

from localjudge.analysis.check import Check
from localjudge.analysis.comparison import MetricChange, RunComparison
from localjudge.analysis.gate_decisions import GateDecision
from localjudge.analysis.gates import Gate
from localjudge.report.comparison_views import comparison_view, gates_view
from localjudge.report.summary_views import summary_view
from localjudge.report.terminal import as_markdown, markdown_block, number
from localjudge.run_directory.directory import STORE
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.store_reader import stored_ids
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
    problems: dict[str, _Problem] = {}
    for decision in decisions:
        if decision.outcome == "pass":
            problems[decision.gate] = None
        else:
            element = "failure"
            if decision.passed:
                element = "skipped"
            problems[decision.gate] = element, decision.outcome, decision.reason
    return _junit(problems, properties)


def unfinished(gates: Sequence[Gate]) -> str:
    """Return the JUnit file of a run that did not finish."""
    problem = ("error", "unfinished", "the run did not finish")
    return _junit(dict.fromkeys(map(str, gates), problem), {})


def _junit(cases: Mapping[str, _Problem], properties: Mapping[str, str]) -> str:
    elements = Counter[str]()
    for problem in cases.values():
        if problem:
            elements[problem[0]] += 1
    about = {
        "name": "localjudge",
        "tests": str(len(cases)),
        "failures": str(elements["failure"]),
        "errors": str(elements["error"]),
        "skipped": str(elements["skipped"]),
    }
    suites = ElementTree.Element("testsuites", about)
    suite = ElementTree.SubElement(suites, "testsuite", about)
    if properties:
        holder = ElementTree.SubElement(suite, "properties")
        for name, value in properties.items():
            ElementTree.SubElement(holder, "property", {"name": name, "value": _xml_text(value)})
    for name, problem in cases.items():
        attributes = {"classname": "localjudge.gates", "name": _xml_text(name)}
        case = ElementTree.SubElement(suite, "testcase", attributes)
        if problem:
            element, kind, message = problem
            attributes = {"type": kind, "message": _xml_text(message)}
            details = ElementTree.SubElement(case, element, attributes)
            details.text = _xml_text(f"{name}: {message}")
    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _xml_text(text: str) -> str:
    return _NO_CHARACTERS.sub(lambda match: f"\\u{ord(match.group()):04x}", printable(text))


def run_markdown(run: RunRecord, checked: Check) -> str:
    """Return the gates, the summary and the changes since the baseline, without texts."""
    summary = summary_view(run, labels=checked.labels, details=True, texts=False)
    parts = [f"## localjudge: {_headline(run, checked)}"]
    parts.append(as_markdown(replace(summary, notes=())))
    if checked.decisions:
        gates = gates_view(checked.decisions)
        rows = [(_SIGN[str(outcome)], *cells) for outcome, *cells in gates.rows]
        parts.append(as_markdown(replace(gates, rows=rows)))
    if checked.comparison:
        parts.append("### Baseline (A) and this run (B)")
        parts += _comparison(run, checked.comparison)
    parts.append(markdown_block(map(str, summary.notes)))
    return "\n\n".join(parts) + "\n"


def _headline(run: RunRecord, checked: Check) -> str:
    count = len(checked.decisions)
    failed = [decision for decision in checked.decisions if not decision.passed]
    if failed:
        return f"{len(failed)} of {count} gates failed"
    if count:
        return f"all gates passed ({count})"
    return f"{numbered(run.summary.samples, 'sample')} scored"


def _comparison(run: RunRecord, comparison: RunComparison) -> Iterator[str]:
    """Yield the comparison without samples, then the samples that changed most by their rows."""
    unmoved: dict[str, MetricChange] = {}
    for name, change in comparison.metrics.items():
        unmoved[name] = change.model_copy(update={"moved": ()})
    without_samples = comparison.model_copy(update={"metrics": unmoved, "by": None})
    for table in comparison_view(without_samples):
        yield as_markdown(table)
    lines: list[str] = []
    ids = stored_ids(run.directory / STORE)
    rows = {sample_id: row for row, sample_id in enumerate(ids, start=1)}
    for name, change in comparison.metrics.items():
        for sample in change.moved:
            scores = f"{number(sample.after)}, was {number(sample.before)}"
            lines.append(f"row {rows[sample.sample_id]:,}: {name} {scores}")
    if lines:
        summary = "<summary>Samples with the largest changes</summary>"
        yield f"<details>{summary}\n\n{markdown_block(lines)}\n\n</details>"
