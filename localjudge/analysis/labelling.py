"""Labelling a sheet row by row: what comes next, and what is undone. Every label is saved when it is given.

    rows     1 0 . . . .        labelled, labelled, the current one, and those that come
    skip     the row comes again when the sheet is taken up anew
    undo     the last answered row loses its answer and is the current one

The file is replaced as a whole after each answer: whoever is killed has lost none.
"""

from pathlib import Path
from typing import Any

from localjudge.analysis.human_labels import HUMAN, read_labels
from localjudge.analysis.label_sheet import SheetRow, drawn_rows, write_sheet
from localjudge.errors import UsageError
from localjudge.option_spelling import option
from localjudge.record.results import Run
from localjudge.types import Label

SHEET = ".jsonl"


class Labelling:
    """The rows of a sheet in the order in which they are shown, and where somebody is in them."""

    def __init__(self, path: Path, rows: list[SheetRow]) -> None:
        self.path = path
        self._rows = rows
        self._open = [number for number, row in enumerate(rows) if row[HUMAN] is None]
        self._answered = [number for number, row in enumerate(rows) if row[HUMAN] is not None]

    @classmethod
    def begin(cls, path: Path, run: Run, given: dict[str, Any]) -> "Labelling":
        """Go on with the sheet at the path, or draw one: `given` are `n`, `metrics` and `seed` as far as they are said.

        Raises UsageError for a sheet of another run, or that was drawn otherwise than is said now; DataError for none.
        """
        if path.suffix != SHEET:
            raise UsageError(f"{path} cannot be labelled here", hint=f"name a file that ends in {SHEET}")
        if path.exists() or path.is_symlink():
            return cls(path, _rows_of(path, run, given))
        drawn = drawn_rows(run, given.get("n", 100), given.get("metrics"), given.get("seed", 0))
        write_sheet(path, drawn)
        return cls(path, drawn)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def labelled(self) -> int:
        """How many rows have a label."""
        return sum(row[HUMAN] is not None for row in self._rows)

    @property
    def current(self) -> SheetRow | None:
        """The row that is to be answered; None if there is none left."""
        return self._rows[self._open[0]] if self._open else None

    def answer(self, label: Label) -> None:
        """Label the current row, and save."""
        self._rows[self._open[0]][HUMAN] = label
        self._answered.append(self._open.pop(0))
        write_sheet(self.path, self._rows)

    def skip(self) -> None:
        """Leave the current row without a label for now."""
        self._answered.append(self._open.pop(0))

    def undo(self) -> bool:
        """Go back to the row that was answered or skipped last, and save; False if there is none."""
        if not self._answered:
            return False
        number = self._answered.pop()
        self._open.insert(0, number)
        if self._rows[number][HUMAN] is not None:
            self._rows[number][HUMAN] = None
            write_sheet(self.path, self._rows)
        return True


def default_path(run: Run) -> Path:
    """Where labels are kept if nobody says otherwise: beside the directory of the run, not in it, as it is a record."""
    directory = run.directory.resolve()
    return run.directory.parent / f"labels-{directory.name}{SHEET}"


def _rows_of(path: Path, run: Run, given: dict[str, Any]) -> list[SheetRow]:
    labels = read_labels(path)
    if labels.shape != "verdicts":
        raise UsageError(f"{path} is no sheet of verdicts", hint=f"name another with {option('out')}")
    rows = [{**row.columns, HUMAN: row.human} for row in labels.verdicts]
    said = {
        "n": len(rows),
        "metrics": list(dict.fromkeys(row["metric"] for row in rows)),
        "seed": rows[0].get("seed"),
    }
    if any(row.get("run") != run.summary.signature for row in rows):
        raise UsageError(f"{path} is a sheet of another run", hint=f"name another with {option('out')}")
    for name, value in given.items():
        if said[name] != value:
            raise UsageError(
                f"{path} was drawn with {name} {said[name]}, not {value}",
                hint=f"leave it out to go on with the sheet, or name another with {option('out')}",
            )
    return rows
