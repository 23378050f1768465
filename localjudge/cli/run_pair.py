"""`localjudge run --against`: judge the answers of two columns, and compare them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from localjudge.analysis.check import Check
from localjudge.cli.gates import GateOptions, gate_values, gate_views
from localjudge.cli.main import ExitCode
from localjudge.cli.output import names_next_step, print_json
from localjudge.errors import InputError
from localjudge.judging.pair import Pair, estimate_pair, judge_pair, plan_pair
from localjudge.judging.settings import RunSettings
from localjudge.progress import Progress
from localjudge.report.estimate_views import estimate_view
from localjudge.report.html_page import write_report
from localjudge.report.summary_views import summary_values
from localjudge.report.terminal import Table, show
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import call, option_name, printable


def refuse_beside_against(arguments: Mapping[str, Any], *, is_demo: bool) -> None:
    """Raise InputError for an argument that two columns cannot have."""
    against = option_name("against")
    if is_demo:
        raise InputError(f"--demo has one answer, and {against} needs two", hint="omit one of them")
    if arguments.get("baseline"):
        problem = f"{option_name('baseline')} and {against} cannot both be given"
        hint = f"the column of {against} is the baseline: omit {option_name('baseline')}"
        raise InputError(problem, hint=hint)


def run_pair(
    arguments: Mapping[str, Any],
    settings: RunSettings,
    gates: GateOptions,
    progress: Progress,
    *,
    as_json: bool,
    is_dry: bool,
) -> int:
    """Judge both columns, decide the gates, and print the comparison."""
    data = list(arguments.get("data", ()))
    metrics = arguments.get("metrics")
    planned = plan_pair(data or None, metrics, arguments["against"], settings, progress)
    gates.refuse_unknown([metric.name for metric in planned.run.metrics])
    how: dict[str, Any] = {"judge": arguments.get("judge"), "out": arguments.get("out")}
    if is_dry:
        estimates = estimate_pair(planned, **how, progress=progress)
        progress.close()
        if as_json:
            values = [estimate.model_dump(mode="json") for estimate in estimates]
            print_json({"baseline": values[0], "run": values[1]})
            return ExitCode.DONE
        for column, estimate in zip(planned.columns, estimates, strict=True):
            show(Table(titles=[excerpt(column)]), estimate_view(estimate))
        return ExitCode.DONE
    pair = judge_pair(planned, **how, progress=progress)
    progress.close()
    gates.baseline = pair.baseline
    result = gates.check(pair.run)
    report: Path | None = None
    if arguments.get("report"):
        report = write_report(pair.run, result, pair.baseline)
    if as_json:
        print_json(_values(pair, result, report))
    else:
        show(*_views(pair, result, report))
    if not result.passed:
        return ExitCode.GATE_MISSED
    if any(_has_failures(run) for run in (pair.baseline, pair.run)):
        return ExitCode.SOME_FAILED
    return ExitCode.DONE


def _has_failures(run: RunRecord) -> bool:
    """Return whether more samples failed than the user allowed explicitly."""
    allowed = run.manifest.environment.settings.max_failed or 0
    return bool(run.summary.failed_beyond(allowed))


def _values(pair: Pair, result: Check, report: Path | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        "directory": str(pair.directory.path),
        "baseline": {"run": str(pair.baseline.directory), **summary_values(pair.baseline)},
        "run": {"run": str(pair.run.directory), **summary_values(pair.run)},
    }
    if report:
        values["report"] = str(report)
    return {**values, **gate_values(result)}


def _views(pair: Pair, result: Check, report: Path | None) -> list[Table]:
    columns = [pair.directory.baseline, pair.directory.run]
    notes = [f"A: {printable(columns[0])}, the baseline; B: {printable(columns[1])}"]
    views = [Table(notes=notes), *gate_views(result, report)]
    if names_next_step():
        views.append(Table(notes=[f"next: {call('label', str(pair.directory.path))}"]))
    return views
