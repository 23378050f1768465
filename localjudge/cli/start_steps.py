"""Steps of `localjudge start`, for one system or two: each prints the command that it runs."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import click

from localjudge.cli.main import ExitCode, command_line
from localjudge.cli.output import STEP
from localjudge.cli.start_answers import StartFolder
from localjudge.judging.estimate import Estimate
from localjudge.labels.labelling import DEFAULT_COUNT
from localjudge.labels.labelling_time import labelling_minutes
from localjudge.report.terminal import put
from localjudge.types import Language
from localjudge.words import numbered, printable, roughly

_DOCTOR_MINUTES = 10


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
    answers = {name: stored.get(name) for name in ("mapping", "language", "judge", "metrics")}
    last = folder.run
    name = folder.next_run()
    click.echo(
        f"the data changed since {last}: judging it again in {folder.path / name}",
        err=True,
    )
    folder.write_config({**answers, "out": name, "reuse": [last.name]})


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
