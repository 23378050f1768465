"""Run a command of `localjudge` as one step of `localjudge start`, after printing it."""

import shlex
from collections.abc import Sequence

import click

from localjudge.cli.main import ExitCode, command_line
from localjudge.cli.output import STEP
from localjudge.report.terminal import put
from localjudge.words import printable


def format_step(step: Sequence[str]) -> str:
    return printable(shlex.join(["localjudge", *step]))


def print_step(step: Sequence[str]) -> None:
    put(f"\n$ {format_step(step)}\n")


def run_step(step: Sequence[str]) -> int:
    """Print and run a command, and return its exit code."""
    print_step(step)
    command = command_line.get_command(click.get_current_context(), step[0])
    assert command
    code: int | None = command.main(list(step[1:]), standalone_mode=False, obj=STEP)
    return code or ExitCode.DONE
