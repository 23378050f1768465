"""The options of commands that show what labels make of a run's means."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def label_options(command: _Command) -> _Command:
    """Give a command the options `--labels` and `--foreign-labels`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option(
        "--labels",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Also correct each mean by the labels of people in this file: localjudge label.",
    ),
    click.option(
        "--foreign-labels", is_flag=True, help="With --labels: take labels of another run, too, under a warning."
    ),
)
