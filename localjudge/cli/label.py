"""`localjudge label`: human labels of a run's verdicts, in a sheet or here.

Here one key labels a verdict: it is read from a terminal as soon as it is pressed, from anything else as it comes.
"""

import json
import os
import re
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localjudge.cli.options import (
    GroupedCommand,
    count_option,
    grouped,
    json_option,
    metrics,
    out_option,
    run_argument,
    typed_arguments,
)
from localjudge.errors import InputError

if TYPE_CHECKING:
    from localjudge.analysis.label_sheet import Labelling

# What arrows, Home and the like send (ECMA-48, 5.4), and a key together with Alt.
_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?")
_END = "\x04"


@contextmanager
def keys() -> Generator[Iterator[str], None, None]:
    """The keys that are pressed in this block, until standard input ends; then the terminal is as it was.

    Keys that send several characters (arrows, Home) are none: what they send may hold a digit.
    """
    if not sys.stdin.isatty():
        yield (key for key in iter(lambda: sys.stdin.read(1), "") if not key.isspace())
        return
    if sys.platform == "win32":
        import msvcrt

        yield iter(msvcrt.getwch, _END)
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        yield _pressed(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _pressed(descriptor: int) -> Iterator[str]:
    while pressed := os.read(descriptor, 64).decode(errors="replace"):
        for key in _ESCAPE_SEQUENCE.sub("", pressed):
            if key == _END:
                return
            yield key


@click.command("label", cls=GroupedCommand, example="localjudge label runs/data-3f9a1c2e --n 200 --out sheet.csv")
@run_argument
@count_option("Data", "--n", "Label N random verdicts, over all metrics.  [default: 100]", least=1)
@grouped("Data", "--seed", type=int, metavar="N", help="Draw other verdicts with another number.  [default: 0]")
@metrics("Only these metrics.  [default: all whose means labels can correct]")
@out_option(
    "The sheet: .csv or .jsonl.  [default in the terminal: labels-RUN.jsonl beside the directory of the run]",
    metavar="FILE",
)
@grouped("Output", "--terminal", is_flag=True, help="Label here, also with --out: one key a verdict.")
@json_option
def label_command(directory: Path, out: Path | None, terminal: bool, as_json: bool, **_: Any) -> None:
    """Draw verdicts of RUN for people to label, without what the judge said: 1 for supported, 0 for not.

    With --out a sheet is written: fill in its column human. Otherwise they are asked here, one after the other: 1, 0, s
    to skip, u to undo, q to quit. Every label is saved when it is given, and the same command goes on.

    Then localjudge show RUN --labels FILE shows the corrected means.
    """
    from localjudge.record.run import Run

    typed = typed_arguments()
    how: dict[str, Any] = {name: typed[name] for name in ("n", "metrics", "seed") if name in typed}
    run = Run.open(directory)
    if out is not None and not terminal:
        from localjudge.analysis.label_sheet import label_sheet

        return _print_sheet(label_sheet(run, out, **how), as_json)
    if as_json:
        raise InputError("labelling in the terminal prints no JSON", hint="add --out, or omit --json")
    if not terminal and not sys.stdin.isatty():
        raise InputError("there is no terminal to label in", hint="name a sheet to write with --out")
    from localjudge.analysis.label_sheet import Labelling, default_path

    return _label(Labelling.begin(out or default_path(run), run, how), directory)


def _label(labelling: "Labelling", directory: Path) -> None:
    """Show a row, read a key, until there is nothing left or nobody goes on."""
    from localjudge.report.label_tables import KEYS, ended_view, row_view
    from localjudge.report.terminal import put, show

    with keys() as pressed:
        while row := labelling.current:
            show(row_view(row, labelling.labelled, len(labelling)))
            while (key := next(pressed, "q")) not in KEYS:
                put(f" {', '.join(f'{key} {what}' for key, what in KEYS.items())}\n")
            put(f" {key} {KEYS[key]}\n")
            match key:
                case "1" | "0":
                    labelling.answer(1 if key == "1" else 0)
                case "s":
                    labelling.skip()
                case "u":
                    if not labelling.undo():
                        put(" there is nothing to undo\n")
                case _:
                    break
    show(ended_view(labelling, directory))


def _print_sheet(path: Path, as_json: bool) -> None:
    from localjudge.analysis.labels import read_labels
    from localjudge.report.terminal import put
    from localjudge.words import printable

    rows = len(read_labels(path).verdicts)
    if as_json:
        put(f"{json.dumps({'file': str(path), 'rows': rows}, indent=2)}\n")
    else:
        put(f"{rows:,} verdicts to label in {printable(str(path))}: write 1 or 0 into the column human\n")
