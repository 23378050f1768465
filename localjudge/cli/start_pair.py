"""`localjudge start` with two systems: from two columns of answers to their corrected difference.

columns, judge ──> localjudge.toml ──> estimate ──> doctor (if needed) ──> run --against
               ──> label page, report
the same with --labels FILE ──> reads labels ──> difference, or the next label page
"""

from collections.abc import Sequence
from pathlib import Path

import click

from localjudge.analysis.compare import compare, join_statements
from localjudge.analysis.comparison import MetricChange, RunComparison, decide_difference
from localjudge.analysis.gate_decisions import count_missing_labels
from localjudge.cli.command import progress_shown
from localjudge.cli.main import ExitCode
from localjudge.cli.start_answers import StartFolder, select_settings
from localjudge.cli.start_steps import (
    ask_for_labels,
    begin_again,
    choose_language,
    format_step,
    instruct,
    print_total,
    read_labels,
    run_step,
)
from localjudge.errors import MissingRun, UnfinishedRun
from localjudge.judging.estimate import Estimate
from localjudge.judging.pair import PairPlan, estimate_pair, plan_pair
from localjudge.judging.verify import REPORT
from localjudge.labels.drawing import DrawingOptions
from localjudge.labels.labelling import DEFAULT_COUNT, Labelling
from localjudge.report.difference_claims import claims, next_step_of_comparison
from localjudge.report.estimate_views import estimate_view
from localjudge.report.terminal import Table, put, show
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.examination import NOT_EXAMINED
from localjudge.run_directory.label_rows import stored_labels
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import printable


def start_pair(folder: StartFolder, label_files: Sequence[Path]) -> int:
    """Judge both columns, read labels, and print the difference and the next command."""
    code = _judge_if_needed(folder)
    directory = ComparisonDirectory.open(folder.run)
    labels_before = stored_labels(directory.path)
    read_labels(folder, directory.path, label_files)
    is_new = stored_labels(directory.path) != labels_before
    comparison = compare(directory.baseline_path, directory.run_path, moved=0)
    instruction = _write_page(folder, comparison)
    if is_new or not (directory.run_path / REPORT).exists():
        run_step(["report", str(directory.path)])
    put("\n")
    show(Table(notes=list(claims(comparison))))
    if instruction is None:
        put(f" next: {printable(next_step_of_comparison(comparison))}\n")
        return code
    ask_for_labels(folder, instruction)
    if any(change.headline for change in comparison.metrics.values()):
        verify = format_step(["verify", str(directory.path)])
        certify = format_step(["report", str(directory.path), "--certificate", "certificate.html"])
        put(f" or certify it as it is: {verify}, then {certify}\n")
    return code


def _judge_if_needed(folder: StartFolder) -> int:
    """Estimate, examine an unknown judge, and judge both columns. Return the exit code."""
    answers = folder.answers
    settings = select_settings(answers)
    metrics = answers["metrics"]
    planned = plan_pair(list(folder.data), metrics, answers["against"], settings)
    is_begun = False
    try:
        runs = _open_runs(folder)
    except MissingRun:
        runs = []
    except UnfinishedRun:
        runs = []
        is_begun = True
    if runs and [run.manifest.data for run in runs] == [
        planned.baseline.identity,
        planned.run.identity,
    ]:
        return ExitCode.DONE
    if runs:
        begin_again(folder)
    run = ["run", "--config", str(folder.config_file)]
    if not is_begun:
        put(f"\n$ {format_step([*run, '--dry-run'])}\n")
        estimate = _estimate(folder, planned)
        is_new_judge = estimate.judge.examined == NOT_EXAMINED
        print_total(estimate, is_new_judge=is_new_judge)
        if is_new_judge:
            run_step(["doctor", "--judge", answers["judge"], "--config", "none"])
    return run_step(run)


def _open_runs(folder: StartFolder) -> list[RunRecord]:
    """Return both runs. Raises MissingRun or UnfinishedRun."""
    directory = ComparisonDirectory.open(folder.run)
    return [RunRecord.open(directory.baseline_path), RunRecord.open(directory.run_path)]


def _estimate(folder: StartFolder, planned: PairPlan) -> Estimate:
    """Measure how long judging both columns takes, print it, and return the sum."""
    with progress_shown(quiet=False) as progress:
        estimates = estimate_pair(
            planned, judge=folder.answers["judge"], out=folder.run, progress=progress
        )
    for column, estimate in zip(planned.columns, estimates, strict=True):
        show(Table(titles=[printable(column)]), estimate_view(estimate))
    before, after = estimates
    seconds = (before.seconds or 0) + (after.seconds or 0)
    verdicts = before.verdicts + after.verdicts
    changes = {"seconds": seconds, "seconds_ci95": None, "verdicts": verdicts}
    return after.model_copy(update=changes)


def _write_page(folder: StartFolder, comparison: RunComparison) -> str | None:
    """Write the page of the next statements to label, and return how to label them.

    Returns None if the difference is decided, or no label helps.
    """
    name = next(iter(comparison.metrics))
    corrected = comparison.metrics[name].corrected
    if decide_difference(comparison, name) not in ("undecided", "judge only"):
        return None
    if corrected and corrected.unsettled:
        options = DrawingOptions(metrics=[name], disputed=True)
        drawing = ["--disputed"]
    else:
        count = _choose_count(comparison.metrics[name])
        if count is None:
            return None
        options = DrawingOptions(metrics=[name], sample=count)
        drawing = ["--sample", str(count)]
    source = join_statements(ComparisonDirectory.open(folder.run))
    if not source.frames[name].by_key:
        return None
    labelling = Labelling(source, options=options)
    if not labelling.rows:
        return None
    page = folder.page(options.sample or len(labelling.rows))
    if options.disputed:
        page = folder.page(len(labelling.rows), "disputed")
    if page.exists():
        for remark in labelling.remarks:
            click.echo(printable(remark), err=True)
    else:
        language = choose_language(folder.answers.get("language"))
        step = ["label", str(folder.run), "--metrics", name, *drawing]
        run_step([*step, "--page", str(page), *language])
    return instruct(page, len(labelling.rows), is_first=corrected is None)


def _choose_count(change: MetricChange) -> int | None:
    """Return how many statements to draw in all: 50, then as many as are missing, or None."""
    labelled = 0
    if change.corrected:
        labelled = change.corrected.labelled
    missing = count_missing_labels(change)
    if missing is not None:
        return labelled + missing
    if labelled >= DEFAULT_COUNT:
        return None
    return DEFAULT_COUNT
