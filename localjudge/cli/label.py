"""`localjudge label`: human labels of a run's verdicts, in a sheet or here.

Here one key labels a verdict: it is read from a terminal as soon as it is pressed, from anything else as it comes.
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localjudge.cli import options as cli
from localjudge.errors import InputError

if TYPE_CHECKING:
    from localjudge.analysis.label_sheet import Labelling

_END = "\x04"
# What arrows, Home and the like send (ECMA-48, 5.4), and a key together with Alt.
_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?")


@contextmanager
def _keys() -> Iterator[Iterator[str]]:
    """The keys that are pressed in this block, until standard input ends; then the terminal is as it was."""
    if not sys.stdin.isatty():
        yield (key for key in iter(lambda: sys.stdin.read(1), "") if not key.isspace())
    elif sys.platform == "win32":
        import msvcrt

        yield iter(msvcrt.getwch, _END)
    else:
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
    """Keys that send several characters (arrows, Home) are none: what they send may hold a digit."""
    while (pressed := os.read(descriptor, 64).decode(errors="replace")) not in ("", _END):
        yield from _ESCAPE_SEQUENCE.sub("", pressed)


@cli.command("label", "localjudge label runs/data-3f9a1c2e --n 200 --out sheet.csv")
@cli.run_argument
@cli.count_option("Data", "--n", "Label N random verdicts, over all metrics.  [default: 100]", least=1)
@cli.option("Data", "--seed", type=int, metavar="N", help="Draw other verdicts with another number.  [default: 0]")
@cli.metrics("Only these metrics.  [default: all whose means labels can correct]")
@cli.out_option("The sheet: .csv or .jsonl.  [default in the terminal: labels-RUN.jsonl next to RUN]", metavar="FILE")
@cli.option("Output", "--terminal", is_flag=True, help="Label here, also with --out: one key a verdict.")
@cli.json_option
def label_command(directory: Path, out: Path | None, terminal: bool, as_json: bool, **_: Any) -> None:
    """Draw verdicts of RUN for people to label, without what the judge said: 1 for supported, 0 for not.

    With --out a sheet is written: fill in its column human. Otherwise they are asked here, one after the other: 1, 0, s
    to skip, u to undo, q to quit. Every label is saved when it is given, and the same command goes on.

    Then localjudge show RUN --labels FILE shows the corrected means.
    """
    from localjudge.analysis.label_sheet import Labelling, default_path, label_sheet
    from localjudge.analysis.labels import read_labels
    from localjudge.record.run import Run
    from localjudge.words import printable

    typed = cli.typed_arguments()
    how: dict[str, Any] = {name: typed[name] for name in ("n", "metrics", "seed") if name in typed}
    run = Run.open(directory)
    if out is not None and not terminal:
        rows = len(read_labels(label_sheet(run, out, **how)).verdicts)
        text = f"{rows:,} verdicts to label in {printable(str(out))}: write 1 or 0 into the column human"
        click.echo(json.dumps({"file": str(out), "rows": rows}, indent=2) if as_json else text)
    elif as_json:
        raise InputError("labelling in the terminal prints no JSON", hint="add --out, or omit --json")
    elif not terminal and not sys.stdin.isatty():
        raise InputError("there is no terminal to label in", hint="name a sheet to write with --out")
    else:
        _label(Labelling.begin(out or default_path(run), run, how), directory)


def _label(labelling: "Labelling", directory: Path) -> None:
    """Show a row, read a key, until there is nothing left or nobody goes on."""
    from localjudge.report.checks import KEYS, ended_view, keys_line, row_view
    from localjudge.report.terminal import put, show

    with _keys() as pressed:
        while row := labelling.current:
            show(row_view(row, labelling.labelled, len(labelling)))
            while (key := next(pressed, "q")) not in KEYS:
                put(f" {keys_line()}\n")
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
