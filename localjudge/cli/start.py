"""`localjudge start`: from data to a mean corrected by labels, one step at each call.

    columns (if unclear), judge ──> localjudge.toml ──> estimate ──> doctor (if needed)
                                ──> run ──> label page, report
    the same with --labels FILE ──> reads labels ──> corrected mean and report,
                                                     or the next label page

Each step is the command that it prints: questions are in `start_answers`, judging in
`start_judging`, labels and the result in `start_labels`.
"""

import shlex
import sys
from pathlib import Path

import click

from localjudge.cli import options as cli
from localjudge.cli.command import command
from localjudge.cli.main import ExitCode
from localjudge.cli.start_answers import (
    ask_and_store,
    choose_default_judge,
    choose_default_metric,
    plan_with_columns,
)
from localjudge.cli.start_folder import StartFolder
from localjudge.cli.start_judging import judge_if_needed
from localjudge.cli.start_labels import describe_result, read_labels, write_page
from localjudge.cli.start_steps import format_step, run_step
from localjudge.config import CONFIG_FILE
from localjudge.errors import InputError
from localjudge.judging.verify import REPORT
from localjudge.labels.labelling import DEFAULT_COUNT
from localjudge.labels.run_labels import read_run_labels
from localjudge.report.next_step import next_step
from localjudge.report.terminal import Table, put, show
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import printable


@command("start", "localjudge start data.csv")
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
    code = judge_if_needed(folder)
    _label_and_report(folder, labels)
    return code


def _print_commands(folder: StartFolder, judge: str | None, metric: str | None) -> int:
    """Print the commands of the default answers for a caller without a terminal."""
    planned = plan_with_columns(folder.data, {}, again=False)
    metric = metric or choose_default_metric(planned)
    judge = judge or choose_default_judge()
    directory = str(folder.run)
    no_config = []
    if Path(CONFIG_FILE).is_file():
        no_config = ["--config", "none"]
    chosen = ["--judge", judge, "--metrics", metric, "--out", directory]
    run = ["run", *folder.data, *chosen, *no_config]
    page = str(folder.page(DEFAULT_COUNT))
    steps = [
        [*run, "--dry-run"],
        ["doctor", "--judge", judge, *no_config],
        run,
        ["label", directory, "--metrics", metric, "--page", page],
        ["label", directory, "--read", "labels-NAME.jsonl"],
        ["report", directory],
    ]
    click.echo(
        "start asks its questions in a terminal; the default answers give these commands:",
        err=True,
    )
    for step in steps:
        put(f"{format_step(step)}\n")
    return ExitCode.NOTHING_JUDGED


def _label_and_report(folder: StartFolder, label_files: tuple[Path, ...]) -> None:
    """Read labels, write the pages, and print the result and the next command."""
    run = RunRecord.open(folder.run)
    metric = next(iter(run))
    labels_before = read_run_labels(run)
    read_labels(folder, run, label_files)
    labels = read_run_labels(run)
    instruction = write_page(folder, run, metric, labels)
    if labels != labels_before or not (run.directory / REPORT).exists():
        run_step(["report", str(run.directory)])
    result = describe_result(run, metric, labels_before, labels)
    put("\n")
    show(Table(notes=[result]))
    if instruction is None:
        put(f" next: {printable(next_step(run, labels))}\n")
        return
    start = ["localjudge", "start", *folder.data]
    if folder != StartFolder.find(folder.data, None):
        start += ["--out", str(folder.path)]
    command = f"{shlex.join([*start, '--labels'])} FILE"
    put(printable(f" next: {instruction}") + "\n")
    put(printable(f" then, with the file that the page saves: {command}") + "\n")
