"""Baseline and gates of a run, validated before judging."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from localjudge.analysis.check import Check, check, checked_obstacles
from localjudge.analysis.gates import check_baseline, check_metrics, parse_gate
from localjudge.cli.command import pick
from localjudge.errors import InputError
from localjudge.report.ci import UNFINISHED_MARKDOWN, finished, run_markdown, unfinished
from localjudge.report.comparison_views import comparison_view, gates_view
from localjudge.report.terminal import Table
from localjudge.resources import write_output
from localjudge.run_directory.run_record import RunRecord


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
            _write(self._junit, unfinished(self._gates))
        if self._markdown:
            _write(self._markdown, UNFINISHED_MARKDOWN)

    def check(self, run: RunRecord) -> Check:
        """Decide the gates, and write the files."""
        gates = list(map(str, self._gates))
        result = check(run, gates=gates, baseline=self.baseline, **self._rules)
        if self._junit:
            _write(self._junit, finished(result.decisions, _describe_run(run, result)))
        if self._markdown:
            _write(self._markdown, run_markdown(run, result))
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
