"""Steps of `localjudge start`, for one system or two: each prints the command that it runs."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import click

from localjudge.cli.command import STEP
from localjudge.cli.main import ExitCode, command_line
from localjudge.cli.start_answers import StartFolder
from localjudge.errors import InputError
from localjudge.judging.estimate import Estimate
from localjudge.labels.decisions import labelling_minutes
from localjudge.labels.labelling import DEFAULT_COUNT
from localjudge.report.terminal import put
from localjudge.run_directory.label_rows import stored_labels
from localjudge.types import Language
from localjudge.words import numbered, printable, printable_lines, roughly

_DOCTOR_MINUTES = 10
_REMEMBERED = ("mapping", "against", "language", "judge", "metrics")


def format_step(step: Sequence[str]) -> str:
    return printable(shlex.join(["localjudge", *step]))


def run_step(step: Sequence[str]) -> int:
    """Print and run a command of `localjudge`, and return its exit code."""
    put(f"\n$ {format_step(step)}\n")
    command = command_line.get_command(click.get_current_context(), step[0])
    assert command
    code: int | None = command.main(list(step[1:]), standalone_mode=False, obj=STEP)
    return code or ExitCode.DONE


def begin_again(folder: StartFolder) -> None:
    """Let the next run judge the changed data, with the answers of the last one."""
    stored = folder.answers
    answers = {name: stored.get(name) for name in _REMEMBERED}
    last = folder.run
    name = folder.next_run()
    click.echo(
        f"the data changed since {last}: judging it again in {folder.path / name}",
        err=True,
    )
    folder.write_config({**answers, "out": name, "reuse": [last.name]})


def read_labels(folder: StartFolder, directory: Path, named_files: Sequence[Path]) -> None:
    """Read the named files, in one command, and without labels the ones of earlier runs.

    The directory has a run, or two that are compared. Parts of one sheet count as one plan if they
    are read together.
    """
    if named_files:
        step = ["label", str(directory)]
        for file in named_files:
            step += ["--read", str(file)]
        run_step(step)
    if not stored_labels(directory):
        for other in folder.other_runs():
            if stored_labels(other):
                _try_to_read(directory, other)


def _try_to_read(directory: Path, earlier: Path) -> None:
    """Read the labels of an earlier run, unless no statement is the same."""
    try:
        run_step(["label", str(directory), "--read", str(earlier)])
    except InputError as error:
        click.echo(printable_lines(f"not read: {error}"), err=True)


def print_total(estimate: Estimate, *, is_new_judge: bool) -> None:
    """Print how long everything takes: judging, labelling and, for a new judge, doctor."""
    seconds = estimate.seconds or 0
    judging = "no time"
    if seconds:
        judging = roughly(seconds, estimate.seconds_ci95)
    minutes = labelling_minutes(min(DEFAULT_COUNT, estimate.verdicts))
    parts = [f"{judging} for judging", f"{numbered(minutes, 'minute')} for labels"]
    if is_new_judge:
        minutes += _DOCTOR_MINUTES
        parts.append(f"up to about {_DOCTOR_MINUTES} minutes for doctor")
    put(f"\n in total {roughly(seconds + 60 * minutes)}: {', '.join(parts)}\n")
    click.echo("Ctrl-C stops; the same command resumes", err=True)


def instruct(page: Path, count: int, *, is_first: bool) -> str:
    noun = "more statement"
    if is_first:
        noun = "statement"
    minutes = numbered(labelling_minutes(count), "minute")
    return f"label {numbered(count, noun)} (about {minutes}): open {page} in a browser"


def choose_language(language: str | None) -> list[str]:
    """Return the option of a page in the language of the texts, if pages have it."""
    if language in get_args(Language):
        return ["--language", str(language)]
    return []


def ask_for_labels(folder: StartFolder, instruction: str) -> None:
    """Print how to label, and the command that reads the labels."""
    start = ["localjudge", "start", *folder.data]
    if folder != StartFolder.find(folder.data, None):
        start += ["--out", str(folder.path)]
    command = f"{shlex.join([*start, '--labels'])} FILE"
    put(printable(f" next: {instruction}") + "\n")
    put(printable(f" then, with the file that the page saves: {command}") + "\n")
