"""Commands on a comparison of two columns: `run --against`, and `show` and `verify` of its runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from localjudge.analysis.check import Check
from localjudge.analysis.compare import MOVED_SAMPLES, compare
from localjudge.analysis.comparison import RunComparison
from localjudge.cli.command import names_next_step, print_json, typed_arguments
from localjudge.cli.gates import GateOptions, exit_code, gate_values, gate_views
from localjudge.cli.main import ExitCode
from localjudge.errors import InputError
from localjudge.judging.pair import estimate_pair, judge_pair, plan_pair
from localjudge.judging.settings import RunSettings
from localjudge.judging.verify import PairVerification, Verification
from localjudge.judging.verify_files import verify_joint_labels
from localjudge.progress import Progress
from localjudge.report.comparison_views import comparison_view
from localjudge.report.conclusions import next_step_of_comparison
from localjudge.report.html_page import write_report
from localjudge.report.planning_views import estimate_view
from localjudge.report.sample_views import find_sample, sample_view
from localjudge.report.summary_views import summary_values
from localjudge.report.terminal import Table, show
from localjudge.report.verification_views import labels_lines
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import call, flag, option_name, printable

_SHOWN_OF_PAIRS = {"directory", "sample", "as_json", "metrics", "worst", "column"}
"""Parameters of `show` that also apply to two runs."""
_WORSE = [ExitCode.DONE, ExitCode.GO_ON_LATER, ExitCode.GATE_MISSED]
"""Exit codes of `verify`, the worst last."""


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
    directory, baseline, run = judge_pair(planned, **how, progress=progress)
    progress.close()
    gates.baseline = baseline
    result = gates.check(run)
    report: Path | None = None
    if arguments.get("report"):
        report = write_report(run, result, baseline)
    if as_json:
        print_json({**_values(directory, baseline, run, report), **gate_values(result)})
    else:
        show(*_views(directory, result, report))
    return exit_code(baseline, run, passed=result.passed)


def _values(
    directory: ComparisonDirectory, baseline: RunRecord, run: RunRecord, report: Path | None
) -> dict[str, Any]:
    values: dict[str, Any] = {
        "directory": str(directory.path),
        "baseline": {"run": str(baseline.directory), **summary_values(baseline)},
        "run": {"run": str(run.directory), **summary_values(run)},
    }
    if report:
        values["report"] = str(report)
    return values


def _views(directory: ComparisonDirectory, result: Check, report: Path | None) -> list[Table]:
    columns = f"A: {printable(directory.baseline)}, the baseline; B: {printable(directory.run)}"
    notes = [columns]
    views = [Table(notes=notes), *gate_views(result, report)]
    if names_next_step() and result.comparison:
        views.append(Table(notes=[f"next: {next_step_of_comparison(result.comparison)}"]))
    return views


def open_comparison(directory: Path, second: Path | None) -> tuple[Path, Path]:
    """Return the baseline and the new run: two directories, or those inside of one.

    Raises InputError for one run alone, and for a comparison beside another directory.
    """
    comparison = ComparisonDirectory.find(directory)
    if second is None and comparison is None:
        hint = "name two runs, or the directory of localjudge run --against"
        raise InputError(f"{directory} is not a comparison of two columns", hint=hint)
    if second is None and comparison is not None:
        return comparison.baseline_path, comparison.run_path
    assert second is not None
    for path in (directory, second):
        found = ComparisonDirectory.find(path)
        if found is not None:
            hint = f"name the comparison alone, or one of its runs: {found.run_path}"
            raise InputError(f"{path} is a comparison of two runs, not a run", hint=hint)
    return directory, second


def name_sides(comparison: RunComparison) -> list[Table]:
    """Return which column of a directory with two runs is A, and which is B."""
    if comparison.directory is None:
        return []
    before, after = (printable(Path(run).name) for run in (comparison.baseline, comparison.run))
    return [Table(notes=[f"A: {before}, the baseline; B: {after}"])]


def show_pair(
    comparison: ComparisonDirectory,
    sample: str | None,
    options: Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    """Show the difference of both runs, or one sample of both.

    Raises InputError for an option that is about one run.
    """
    typed = set(typed_arguments()) - _SHOWN_OF_PAIRS
    if sample is not None and as_json:
        typed.add("json")
    if typed:
        hint = f"name one of its runs: {excerpt(comparison.run_path)}"
        if "labels" in typed:
            disputed = call("label", excerpt(comparison.path), disputed=True)
            hint = f"for labels of both together, settle what is disputed: {disputed}"
        problem = f"{flag(min(typed))} is for one run, and {excerpt(comparison.path)} has two"
        raise InputError(problem, hint=hint)
    metrics: Sequence[str] | None = options["metrics"]
    if sample is not None:
        show(*_sample_tables(comparison, sample, metrics))
        return
    moved = MOVED_SAMPLES
    if "worst" in typed_arguments():
        moved = options["worst"]
    baseline = comparison.baseline_path
    result = compare(baseline, comparison.run_path, moved=moved, by=options["column"])
    if metrics:
        chosen = {name: result.metrics[name] for name in metrics if name in result.metrics}
        result = result.model_copy(update={"metrics": chosen})
    if as_json:
        print_json(result)
    else:
        show(*name_sides(result), *comparison_view(result))


def _sample_tables(
    comparison: ComparisonDirectory, name: str, metrics: Sequence[str] | None
) -> list[Table]:
    tables: list[Table] = []
    paths = {"A": comparison.baseline_path, "B": comparison.run_path}
    for letter, path in paths.items():
        run = RunRecord.open(path)
        sample = find_sample(run, name)
        tables.append(Table(titles=[f"{letter}: {excerpt(path.name)}"]))
        for metric in metrics or (None,):
            tables += sample_view(run, sample, metric=metric)
    return tables


def verify_labels_of_both(
    comparison: ComparisonDirectory,
    results: Sequence[Verification],
    codes: Sequence[ExitCode],
    *,
    as_json: bool,
) -> int:
    """Verify the labels of the difference of two runs, and return the worst exit code of all.

    `results` are the verifications of both runs, with their exit codes.
    """
    is_accepted = all(code == ExitCode.DONE for code in codes)
    labels = verify_joint_labels(comparison.path, keep=is_accepted)
    worst = max(codes, key=_WORSE.index)
    if labels.problems:
        worst = ExitCode.GATE_MISSED
    if as_json:
        baseline, run = results
        verified = PairVerification(baseline, run, labels)._asdict()
        print_json({name: result.model_dump(mode="json") for name, result in verified.items()})
        return worst
    lines = [*labels.problems, *labels_lines(labels)]
    show(Table(titles=["labels of the difference"], notes=lines))
    if names_next_step() and worst == ExitCode.DONE:
        runs = (comparison.baseline_path, comparison.run_path)
        step = next_step_of_comparison(compare(*runs, moved=0))
        show(Table(notes=[f"next: {step}"]))
    return worst
