"""Baseline and gates of a run, validated before judging."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from localjudge.analysis.check import (
    Check,
    check,
    check_baseline,
    check_metrics,
    checked_obstacles,
    parse_gate,
)
from localjudge.errors import InputError
from localjudge.record.run import Run
from localjudge.report.ci import UNFINISHED_MARKDOWN, finished, run_markdown, unfinished
from localjudge.report.tables import comparison_view, gates_view
from localjudge.report.terminal import Table
from localjudge.resources import write_output


class Checks:
    """Baseline, gates and output files of a planned run. Raises InputError for an invalid gate."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        until = arguments.get("until", ())
        texts = [*arguments.get("gates", ()), *([until] if isinstance(until, str) else until)]
        self._gates = [parse_gate(gate) for gate in dict.fromkeys(texts)]
        self.baseline = Run.open(arguments["baseline"]) if arguments.get("baseline") else None
        checked_obstacles(arguments.get("allow_different", ()))
        self._rules = {name: arguments[name] for name in ("undecided", "allow_different") if arguments.get(name)}
        self._files = {name: Path(arguments[name]) for name in ("junit", "markdown") if arguments.get(name)}
        check_baseline(self._gates, self.baseline)
        if "junit" in self._files and not self._gates:
            raise InputError("--junit writes the outcome of gates", hint="add --gate or --until, or omit --junit")

    def refuse_unknown(self, metrics: Collection[str]) -> None:
        """Raise InputError for a gate on a metric that is not computed."""
        check_metrics(self._gates, metrics)
        if self.baseline is not None and not set(self.baseline) & set(metrics):
            raise InputError(
                f"the baseline {self.baseline.directory} has no metric in common with this run",
                hint=f"it has {', '.join(self.baseline)}; name one of them with --metrics, or another baseline",
            )

    def begin(self) -> None:
        self._write(junit=unfinished(self._gates), markdown=UNFINISHED_MARKDOWN)

    def check(self, run: Run) -> Check:
        result = check(run, gates=list(map(str, self._gates)), baseline=self.baseline, **self._rules)
        properties = {
            "run": str(run.directory),
            "judge": str(run.judge),
            "signature": run.summary.signature,
            "stopped": run.summary.stopped,
            "origin": "; ".join(map(str, run.origins)),
            "corrected by labels": ", ".join(decision.gate for decision in result.decisions if decision.corrected),
        }
        described = {name: value for name, value in properties.items() if value}
        self._write(junit=finished(result.decisions, described), markdown=run_markdown(run, result))
        return result

    def _write(self, **contents: str) -> None:
        for name, file in self._files.items():
            write_output(file, [contents[name].encode()])


def values(result: Check) -> dict[str, Any]:
    """Return `comparison` and `gates` for JSON, without empty ones."""
    parts = result.model_dump(mode="json")
    by_name = {"comparison": parts["comparison"], "gates": parts["decisions"]}
    return {name: part for name, part in by_name.items() if part}


def views(result: Check, report: Path | None = None) -> list[RenderableType]:
    parts: list[RenderableType] = [comparison_view(result.comparison)] if result.comparison else []
    parts += [gates_view(result.decisions)] if result.decisions else []
    return [*parts, Table(notes=[f"report {report}"])] if report else parts
