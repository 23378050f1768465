"""Baseline and gates of a run: validated before judging, then decided, shown, and written for CI.

    pass                                   a test case of the JUnit file
    fail, undecided counted as failed      ... with <failure>
    undecided counted as passed            ... with <skipped>
    the run did not finish                 ... with <error>

JUnit files have no standard; this is the common subset of Jenkins, GitLab, GitHub actions and
pytest. The Markdown (GitHub's) has no text or id of a sample, because CI systems store it. Foreign
names appear only as code, where tags, links, mentions and issue references have no effect.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from localjudge.analysis.check import Check, check, check_baseline, check_metrics, checked_obstacles
from localjudge.analysis.comparison import MetricChange, RunComparison
from localjudge.analysis.gates import GateDecision, parse_gate
from localjudge.cli.command import pick
from localjudge.cli.main import ExitCode
from localjudge.errors import InputError
from localjudge.report.comparison_views import comparison_view, gates_view
from localjudge.report.summary_views import summary_view
from localjudge.report.terminal import Table, as_markdown, markdown_block, number
from localjudge.resources import write_output
from localjudge.run_directory.directory import STORE
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.store_reader import stored_ids
from localjudge.words import numbered, printable

_NO_CHARACTERS = re.compile("[\ufffe\uffff]")
"""Characters that XML forbids besides control characters."""
_SIGN = {"pass": "✅ pass", "fail": "❌ fail", "undecided": "❔ undecided"}

_UNFINISHED_MARKDOWN = "## localjudge: the run did not finish\n"
"""Text during a run, so that an earlier result is not mistaken for its result."""
_Problem = tuple[str, str, str] | None
"""Element, type and message of a failed test case, or None."""


class GateOptions:
    """Baseline, gates and output files of a planned run. Raises InputError for an invalid gate."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        until = arguments.get("until", ())
        if isinstance(until, str):
            until = [until]
        gates = dict.fromkeys([*arguments.get("gates", ()), *until])
        self._gates = list(map(parse_gate, gates))
        self._rules = pick(arguments, ("undecided", "allow_different"))
        self._junit: str | Path | None = arguments.get("junit")
        self._markdown: str | Path | None = arguments.get("markdown")
        self.baseline: RunRecord | None = None
        if arguments.get("baseline"):
            self.baseline = RunRecord.open(arguments["baseline"])
        checked_obstacles(arguments.get("allow_different", ()))
        if arguments.get("against") is None:  # the run of that column is the baseline
            check_baseline(self._gates, self.baseline)
        if self._junit and not self._gates:
            hint = "add --gate or --until, or omit --junit"
            raise InputError("--junit writes the outcome of gates", hint=hint)

    def refuse_needless(self, typed: Collection[str]) -> None:
        """Raise InputError for a typed option that has no effect."""
        if self.baseline is None and "allow_different" in typed:
            hint = "add --baseline, or omit --allow-different"
            raise InputError("--allow-different is for gates on a difference", hint=hint)

    def refuse_unknown(self, metrics: Collection[str]) -> None:
        """Raise InputError for a gate on a metric that is not computed."""
        check_metrics(self._gates, metrics)
        if self.baseline is not None and not set(self.baseline) & set(metrics):
            baseline = self.baseline.directory
            names = ", ".join(self.baseline)
            raise InputError(
                f"the baseline {baseline} has no metric in common with this run",
                hint=f"it has {names}; name one of them with --metrics, or another baseline",
            )

    def begin(self) -> None:
        """Write that the run did not finish, which remains true unless it does."""
        if self._junit:
            problem = ("error", "unfinished", "the run did not finish")
            _write(self._junit, _junit(dict.fromkeys(map(str, self._gates), problem), {}))
        if self._markdown:
            _write(self._markdown, _UNFINISHED_MARKDOWN)

    def check(self, run: RunRecord) -> Check:
        """Decide the gates, and write the files."""
        gates = list(map(str, self._gates))
        result = check(run, gates=gates, baseline=self.baseline, **self._rules)
        if self._junit:
            _write(self._junit, finished(result.decisions, _describe_run(run, result)))
        if self._markdown:
            _write(self._markdown, _run_markdown(run, result))
        return result


def _write(file: str | Path, content: str) -> None:
    write_output(Path(file), [content.encode()])


def _describe_run(run: RunRecord, result: Check) -> dict[str, str]:
    """Return the properties of a JUnit file, without empty ones."""
    properties = {
        "run": str(run.directory),
        "judge": str(run.judge),
        "signature": run.summary.signature,
    }
    if run.summary.stopped:
        properties["stopped"] = run.summary.stopped
    if run.origins:
        properties["origin"] = "; ".join(map(str, run.origins))
    corrected = [decision.gate for decision in result.decisions if decision.corrected]
    if corrected:
        properties["corrected by labels"] = ", ".join(corrected)
    return properties


def exit_code(*runs: RunRecord, passed: bool) -> ExitCode:
    """Return the exit code of runs by their gates, then by their failed samples."""
    if not passed:
        return ExitCode.GATE_MISSED
    for run in runs:
        # Only failures that the user allowed explicitly count as done.
        allowed = run.manifest.environment.settings.max_failed or 0
        if run.summary.failed_beyond(allowed):
            return ExitCode.SOME_FAILED
    return ExitCode.DONE


def gate_values(result: Check) -> dict[str, Any]:
    """Return `comparison` and `gates` for JSON, without empty ones."""
    parts = result.model_dump(mode="json")
    values: dict[str, Any] = {}
    if parts["comparison"]:
        values["comparison"] = parts["comparison"]
    if parts["decisions"]:
        values["gates"] = parts["decisions"]
    return values


def gate_views(result: Check, report: Path | None = None) -> list[Table]:
    """Return the comparison, the gates and the path of the report, if there are any."""
    views: list[Table] = []
    if result.comparison:
        views += comparison_view(result.comparison)
    if result.decisions:
        views.append(gates_view(result.decisions))
    if report:
        views.append(Table(notes=[f"report {report}"]))
    return views


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


def _run_markdown(run: RunRecord, checked: Check) -> str:
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
