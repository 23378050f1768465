"""What commands print besides views: progress, JSON, and whether they name the next command."""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import click
from pydantic import BaseModel

from localjudge.progress import Progress
from localjudge.report.shown_progress import progress_on
from localjudge.report.terminal import put

STEP = object()
"""Object of a command's context within `localjudge start`, which names the next command itself."""


def names_next_step() -> bool:
    """Return whether the current command names the next one."""
    return click.get_current_context().obj is not STEP


@contextmanager
def progress_shown(*, quiet: bool) -> Iterator[Progress]:
    """Show progress on standard error, or only warnings if `quiet`."""
    if quiet:
        logging.getLogger("localjudge").setLevel(logging.WARNING)
    with closing(progress_on(sys.stderr, quiet=quiet)) as progress:
        yield progress


def print_json(values: object) -> None:
    """Print a record or plain values as JSON."""
    if isinstance(values, BaseModel):
        put(f"{values.model_dump_json(indent=2)}\n")
        return
    put(f"{json.dumps(values, indent=2)}\n")
