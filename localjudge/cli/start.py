"""`localjudge start`: from data to a mean corrected by labels, one step at each call.

    columns (if unclear), judge ──> localjudge.toml ──> estimate ──> doctor (if needed)
                                ──> run ──> label page, report
    the same with --labels FILE ──> reads labels ──> corrected mean and report,
                                                     or the next label page

With two columns of answers (`run --against`), both are judged, and the labels correct their
difference. Each step is the command that it prints (`start_folder`); the questions are in
`start_answers`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click

from localjudge.analysis.compare import compare, join_statements
from localjudge.analysis.comparison import (
    MetricChange,
    RunComparison,
    count_missing_labels,
    decide_difference,
)
from localjudge.cli import command as cli
from localjudge.cli.main import ExitCode
from localjudge.cli.start_answers import (
    ask_and_store,
    choose_default_judge,
    choose_default_metric,
    plan_stored,
    plan_with_columns,
    recognise_language,
)
from localjudge.cli.start_folder import (
    StartFolder,
    ask_for_labels,
    begin_again,
    choose_language,
    format_step,
    print_total,
    read_labels,
    run_step,
)
from localjudge.config import CONFIG_FILE
from localjudge.errors import InputError, MissingRun, UnfinishedRun
from localjudge.judging.estimate import Estimate, estimate_plan
from localjudge.judging.pair import PairPlan, estimate_pair
from localjudge.judging.plan import Plan
from localjudge.judging.verify import REPORT
from localjudge.labels.corrected_mean import CorrectedMean
from localjudge.labels.decisions import labelling_minutes
from localjudge.labels.drawing import DrawingOptions
from localjudge.labels.label_source import LabelSource
from localjudge.labels.labelling import DEFAULT_COUNT, Labelling
from localjudge.labels.run_labels import RunLabels, find_corrected, read_run_labels
from localjudge.report.conclusions import claims, next_step, next_step_of_comparison
from localjudge.report.planning_views import estimate_view
from localjudge.report.quoted_metrics import quote_metrics, state_mean
from localjudge.report.terminal import Table, number, put, show
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.label_rows import stored_labels
from localjudge.run_directory.measured_judges import NOT_EXAMINED
from localjudge.run_directory.run_record import RunRecord
from localjudge.stats.interval import NoMean
from localjudge.words import numbered, option, option_name, printable


@cli.command("start", "localjudge start data.csv")
@click.argument("data", nargs=-1, required=True, type=click.Path())
@click.option(
    "--labels",
    type=cli.PATH,
    multiple=True,
    metavar="FILE",
    help="Read this file of labels, saved from the page or a sheet (may be repeated).",
)
@click.option("--ask", "again", is_flag=True, help="Ask for columns and judge again.")
@click.option("--judge", metavar="NAME|PATH", help="Do not ask for the judge.")
@click.option("--metric", metavar="NAME", help="Default: faithfulness, else context_recall.")
@cli.out_option("Folder for the run, its pages and your answers.  [default: runs/<data>]")
def start_command(
    data: tuple[str, ...],
    labels: tuple[Path, ...],
    again: bool,
    judge: str | None,
    metric: str | None,
    out: Path | None,
) -> int:
    """Go from DATA to a mean that is corrected by labels, step by step.

    Asks for columns (only if they are unclear) and the judge, says how long it will take, judges,
    and writes a page with 50 statements to label. Label them, and run the same command with the
    file that the page saves (--labels FILE): it reads the labels, corrects the mean, writes the
    report, and prints the next command. Answers are kept in localjudge.toml next to the run.

    With two columns that may be the answer, it can compare two systems (localjudge run --against).

    Each step prints its command. Without a terminal, the first call only prints the commands. After
    an interruption, the same command resumes.

    Exit code: that of localjudge run, or 1 if commands were only printed.
    """
    if "-" in data:
        raise InputError(
            "start asks questions, so it cannot read data from standard input",
            hint="name a file",
        )
    folder = StartFolder.find(data, out)
    is_new = not folder.answers
    if is_new and not sys.stdin.isatty():
        return _print_commands(folder, judge, metric)
    if is_new or again or judge or metric:
        ask_and_store(folder, judge, metric, again=again)
    code = _judge_if_needed(folder)
    if folder.answers.get("against"):
        _label_and_compare(folder, labels)
    else:
        _label_and_report(folder, labels)
    return code


def _print_commands(folder: StartFolder, judge: str | None, metric: str | None) -> int:
    """Print the commands of the default answers for a caller without a terminal."""
    planned, against = plan_with_columns(folder.data, {}, again=False)
    metric = metric or choose_default_metric(planned)
    judge = judge or choose_default_judge()
    directory = str(folder.run)
    no_config = []
    if Path(CONFIG_FILE).is_file():
        no_config = ["--config", cli.NO_CONFIG]
    columns: list[str] = []
    for field, column in planned.settings.mapping.items():
        columns += ["--map", f"{field}={column}"]
    if against is not None:
        columns += ["--against", against]
    language = recognise_language(planned)
    if language:
        columns += ["--language", language]
    chosen = ["--judge", judge, "--metrics", metric, "--out", directory]
    run = ["run", *folder.data, *columns, *chosen, *no_config]
    page = str(folder.page(DEFAULT_COUNT))
    steps = [
        [*run, "--dry-run"],
        ["doctor", "--judge", judge, *no_config],
        run,
        ["label", directory, "--metrics", metric, "--page", page, *choose_language(language)],
        ["label", directory, "--read", "labels-NAME.jsonl"],
        ["report", directory],
        ["verify", directory],
        ["report", directory, "--certificate", str(folder.path / "certificate.html")],
    ]
    if against is not None:
        steps.insert(-3, ["compare", directory])
    elif "response" not in planned.dataset.fields:
        mapped = option("mapping", {"response": "COLUMN"})
        other = f"{option_name('against')} OTHER"
        line = f"no column is known as the answer: add {mapped}, and {other} to compare two systems"
        click.echo(line, err=True)
    click.echo(
        "start asks its questions in a terminal; the default answers give these commands, where "
        "labels-NAME.jsonl is the file that the page saves:",
        err=True,
    )
    for step in steps:
        put(f"{format_step(step)}\n")
    return ExitCode.NOTHING_JUDGED


def _judge_if_needed(folder: StartFolder) -> int:
    """Estimate, examine an unknown judge, and run. Return the exit code of the run."""
    planned = plan_stored(folder)
    state = _find_state(folder, planned)
    if state == "finished":
        return ExitCode.DONE
    if state == "other data":
        begin_again(folder)
        planned = plan_stored(folder)
    run = ["run", "--config", str(folder.config_file)]
    if state != "unfinished":
        put(f"\n$ {format_step([*run, '--dry-run'])}\n")
        estimate = _estimate(folder, planned)
        is_new_judge = estimate.judge.examined == NOT_EXAMINED
        print_total(estimate, is_new_judge=is_new_judge)
        if is_new_judge:
            run_step(["doctor", "--judge", folder.answers["judge"], "--config", cli.NO_CONFIG])
    return run_step(run)


def _find_state(
    folder: StartFolder, planned: Plan | PairPlan
) -> Literal["missing", "unfinished", "finished", "other data"]:
    """Return the state of the current run, or of both runs of a comparison."""
    try:
        if isinstance(planned, PairPlan):
            directory = ComparisonDirectory.open(folder.run)
            paths = [directory.baseline_path, directory.run_path]
            plans = [planned.baseline, planned.run]
        else:
            paths = [folder.run]
            plans = [planned]
        runs = [RunRecord.open(path) for path in paths]
    except MissingRun:
        return "missing"
    except UnfinishedRun:
        return "unfinished"
    if [run.manifest.data for run in runs] != [each.identity for each in plans]:
        return "other data"
    return "finished"


def _estimate(folder: StartFolder, planned: Plan | PairPlan) -> Estimate:
    """Measure how long judging takes, and print it. Of both columns, return the sum."""
    judge = folder.answers["judge"]
    if isinstance(planned, PairPlan):
        with cli.progress_shown(quiet=False) as progress:
            estimates = estimate_pair(planned, judge=judge, out=folder.run, progress=progress)
        for column, estimate in zip(planned.columns, estimates, strict=True):
            show(Table(titles=[printable(column)]), estimate_view(estimate))
        before, after = estimates
        seconds = (before.seconds or 0) + (after.seconds or 0)
        verdicts = before.verdicts + after.verdicts
        changes = {"seconds": seconds, "seconds_ci95": None, "verdicts": verdicts}
        return after.model_copy(update=changes)
    with cli.progress_shown(quiet=False) as progress:
        estimate = estimate_plan(planned, judge=judge, out=folder.run, progress=progress)
    show(estimate_view(estimate))
    return estimate


def _label_and_report(folder: StartFolder, label_files: Sequence[Path]) -> None:
    """Read labels, write the pages, and print the result and the next command."""
    run = RunRecord.open(folder.run)
    metric = next(iter(run))
    labels_before = read_run_labels(run)
    read_labels(folder, run.directory, label_files)
    labels = read_run_labels(run)
    instruction = _write_page(folder, run, metric, labels)
    if labels != labels_before or not (run.directory / REPORT).exists():
        run_step(["report", str(run.directory)])
    result = _describe_result(run, metric, labels_before, labels)
    put("\n")
    show(Table(notes=[result]))
    if instruction is None:
        put(f" next: {printable(next_step(run, labels))}\n")
        return
    ask_for_labels(folder, instruction)


def _describe_result(
    run: RunRecord, metric: str, labels_before: RunLabels | None, labels: RunLabels | None
) -> str:
    """Return the mean in words, and what new labels changed. Too few labels leave no mean."""
    quoted = quote_metrics(run, labels)[0].quoted
    if quoted.basis == "too few labels":
        return f"{metric}: {quoted.based_on}"
    if isinstance(quoted, NoMean):
        return f"{metric} has no mean"
    line = state_mean(metric, quoted)
    if labels is None:
        return f"{line}, by the judge only; no label yet"
    if quoted.basis == "judge":
        return f"{line}, by the judge only; {numbered(labels.statements, 'label')} so far"
    before = quote_metrics(run, labels_before)[0].quoted
    change = ""
    if before.basis != "labels":
        change = f"; {number(run.summary.metrics[metric].mean)} is the mean by the judge only"
    elif before.mean != quoted.mean:
        change = f"; it was {number(before.mean)} before the new labels"
    return f"{line}, by {quoted.based_on}{change}"


def _write_page(
    folder: StartFolder, run: RunRecord, metric: str, labels: RunLabels | None
) -> str | None:
    """Write the page of the next statements to label, and return how to label them.

    Returns None if no label is needed or helps.
    """
    mean = find_corrected(labels, metric)
    if mean and mean.unsettled:
        options = DrawingOptions(metrics=[metric], disputed=True)
    elif mean and (mean.ci95 or not mean.needed):
        return None
    else:
        options = DrawingOptions(metrics=[metric], sample=_choose_count(labels, mean))
    try:
        labelling = Labelling(LabelSource.of_run(run), options=options)
    except InputError:  # no verdicts
        return None
    if labelling.remarks or not labelling.rows:
        for remark in labelling.remarks:
            click.echo(printable(remark), err=True)
        return None
    return _write_statements(folder, metric, labelling, options.sample, is_first=not labels)


def _write_statements(
    folder: StartFolder, metric: str, labelling: Labelling, count: int | None, *, is_first: bool
) -> str:
    """Write a page of `count` statements, or of disputed ones, and return how to label them.

    A page that exists stays as it is.
    """
    left = len(labelling.rows)
    if count is None:
        page = folder.page(left, "disputed")
        drawing = ["--disputed"]
    else:
        page = folder.page(count)
        drawing = ["--sample", str(count)]
    if page.exists():
        for remark in labelling.remarks:
            click.echo(printable(remark), err=True)
    else:
        language = choose_language(folder.answers.get("language"))
        step = ["label", str(folder.run), "--metrics", metric, *drawing]
        run_step([*step, "--page", str(page), *language])
    noun = "more statement"
    if is_first:
        noun = "statement"
    minutes = numbered(labelling_minutes(left), "minute")
    return f"label {numbered(left, noun)} (about {minutes}): open {page} in a browser"


def _choose_count(labels: RunLabels | None, mean: CorrectedMean | None) -> int:
    """Return how many statements to draw in all: the first 50, then as many as are needed."""
    if labels is None:
        return DEFAULT_COUNT
    answered = labels.statements + labels.unsure
    if answered < DEFAULT_COUNT:
        return DEFAULT_COUNT
    if mean and mean.needed:
        return answered + mean.needed
    return answered + DEFAULT_COUNT


def _label_and_compare(folder: StartFolder, label_files: Sequence[Path]) -> None:
    """Read labels of both runs, and print the difference and the next command."""
    directory = ComparisonDirectory.open(folder.run)
    labels_before = stored_labels(directory.path)
    read_labels(folder, directory.path, label_files)
    is_new = stored_labels(directory.path) != labels_before
    comparison = compare(directory.baseline_path, directory.run_path, moved=0)
    instruction = _write_page_of_both(folder, comparison)
    if is_new or not (directory.run_path / REPORT).exists():
        run_step(["report", str(directory.path)])
    put("\n")
    show(Table(notes=list(claims(comparison))))
    if instruction is None:
        put(f" next: {printable(next_step_of_comparison(comparison))}\n")
        return
    ask_for_labels(folder, instruction)
    if any(change.headline for change in comparison.metrics.values()):
        verify = format_step(["verify", str(directory.path)])
        certify = format_step(["report", str(directory.path), "--certificate", "certificate.html"])
        put(f" or certify it as it is: {verify}, then {certify}\n")


def _write_page_of_both(folder: StartFolder, comparison: RunComparison) -> str | None:
    """Write the page of the next statements to label, and return how to label them.

    Returns None if the difference is decided, or no label helps.
    """
    name = next(iter(comparison.metrics))
    corrected = comparison.metrics[name].corrected
    if decide_difference(comparison, name) not in ("undecided", "judge only"):
        return None
    if corrected and corrected.unsettled:
        options = DrawingOptions(metrics=[name], disputed=True)
    else:
        count = _choose_count_of_both(comparison.metrics[name])
        if count is None:
            return None
        options = DrawingOptions(metrics=[name], sample=count)
    source = join_statements(ComparisonDirectory.open(folder.run))
    if not source.frames[name].by_key:
        return None
    labelling = Labelling(source, options=options)
    if not labelling.rows:
        return None
    is_first = corrected is None
    return _write_statements(folder, name, labelling, options.sample, is_first=is_first)


def _choose_count_of_both(change: MetricChange) -> int | None:
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
