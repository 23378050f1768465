"""Command line: the list of commands, imported when called, and their common error handling."""

import errno
import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from importlib import import_module
from typing import Any, NoReturn

import click
from click.shell_completion import shell_complete

from localjudge.errors import NO_ROOM, LocaljudgeError, OutOfResource
from localjudge.words import as_typed, printable_lines

EVERYDAY = {
    "start": ("start", "Go from data to a mean corrected by your labels, step by step."),
    "run": ("run", "Score data with a local judge."),
    "label": ("label", "Label statements of a run, to correct its means."),
    "show": ("view", "Show a run, or one of its samples."),
    "report": ("view", "Write a run as one HTML page, or a certificate."),
    "verify": ("run", "Re-run the judge and check that a run can be reproduced."),
    "compare": ("view", "Compare two runs."),
    "models": ("judges", "List the models on this machine."),
    "doctor": ("judges", "Check a judge and this machine before a run."),
}
ADVANCED = {
    "calibrate": ("judges", "Measure a judge on human labels and choose a threshold."),
    "export": ("view", "Write the results of a run in another format."),
}
COMMANDS = {**EVERYDAY, **ADVANCED}
"""Module in `localjudge.cli` and summary of each command."""
_RESUMES = ("start", "run", "calibrate", "label")
"""Commands that keep completed work."""
_EXPECTED = {*NO_ROOM, errno.ENAMETOOLONG}
"""Errors of the system that are no defect."""
_COMPLETION = "_LOCALJUDGE_COMPLETE"


class ExitCode(IntEnum):
    """Exit codes for scripts."""

    DONE = 0  # all scored or undefined
    NOTHING_JUDGED = 1  # usage or input error
    SOME_FAILED = 2  # finished, some samples failed
    GATE_MISSED = 3
    GO_ON_LATER = 4  # interrupted or out of a resource: the same command resumes


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        chapter = import_module(f"localjudge.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(chapter, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in (("Commands", EVERYDAY), ("Advanced", ADVANCED)):
            with formatter.section(title):
                formatter.write_dl([(name, summary) for name, (_, summary) in commands.items()])


_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=_LazyGroup, context_settings=_CONTEXT)
@click.version_option(
    package_name="localjudge",
    message="localjudge %(version)s",
    help="Show the version.",
)
def command_line() -> None:
    """Evaluate retrieval-augmented generation offline, with a local GGUF model as the judge.

    Try it: localjudge run --demo
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    completion = os.environ.get(_COMPLETION)
    if completion:
        sys.exit(shell_complete(command_line, {}, "localjudge", _COMPLETION, completion))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with _log_to_stderr():
        if arguments is None:
            arguments = sys.argv[1:]
        code = _exit_code(list(arguments))
    sys.exit(code)


@contextmanager
def _log_to_stderr() -> Iterator[None]:
    messages = logging.StreamHandler(sys.stderr)
    logger = logging.getLogger("localjudge")
    level = logger.level
    logger.addHandler(messages)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(messages)
        logger.setLevel(level)


def _exit_code(arguments: list[str]) -> int:
    try:
        # Not `command_line.main`, which has other exit codes.
        with as_typed(), command_line.make_context("localjudge", list(arguments)) as context:
            code: Any = command_line.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        error.show()
        return ExitCode.NOTHING_JUDGED
    except BrokenPipeError:
        _leave_stdout()
        return ExitCode.DONE
    except (LocaljudgeError, OSError, MemoryError, click.Abort, KeyboardInterrupt) as error:
        is_ours = isinstance(error, LocaljudgeError)  # as for files that users name
        if isinstance(error, OSError) and not is_ours and error.errno not in _EXPECTED:
            traceback.print_exception(error)
        message, code = _message_and_code(error, _advice(arguments))
        click.echo(f"localjudge: {printable_lines(message)}", err=True)
    return code or ExitCode.DONE


def _leave_stdout() -> None:
    """Detach a closed output, because Python would complain when flushing at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message_and_code(error: BaseException, advice: str) -> tuple[str, ExitCode]:
    match error:
        case OutOfResource():
            return str(error), ExitCode.GO_ON_LATER
        case LocaljudgeError():
            return str(error), ExitCode.NOTHING_JUDGED
        case OSError() if error.errno not in NO_ROOM:
            return (
                f"{error.filename or 'a file'}: {error.strerror or error}",
                ExitCode.NOTHING_JUDGED,
            )
        case OSError(filename=None):  # standard output
            _leave_stdout()
            problem = f"the output cannot be written: {error.strerror}\n  hint: free disk space"
        case OSError():
            problem = f"{error.filename}: {error.strerror}\n  hint: free disk space"
        case MemoryError():
            problem = "out of memory\n  hint: free some memory, or use a smaller model"
        case _:
            return f"interrupted\n  hint: {advice}", ExitCode.GO_ON_LATER
    return f"{problem}; {advice}", ExitCode.GO_ON_LATER


def _advice(arguments: Sequence[str]) -> str:
    if arguments and arguments[0] in _RESUMES:
        return "run the same command again to resume"
    return "run the same command again; it starts over"
