"""What is wrong with the data, row by row, said so that it can be mended.

    answers.jsonl:3: reference: found a number (42), expected text or null

Every problem is counted; the first `SHOWN` are kept in words: a file with a million bad rows is wrong in one way.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from localjudge.errors import DataError
from localjudge.types import Record

SHOWN = 20
_QUOTED = 40
_LONG_NUMBER = 128


class Place(NamedTuple):
    """Where a row stands: the line on which it begins, or its number (from 1) where a format has no lines."""

    source: str
    line: int | None = None
    row: int | None = None

    def __str__(self) -> str:
        if self.line is not None:
            return f"{self.source}:{self.line}"
        return self.source if self.row is None else f"{self.source}, row {self.row}"


class Problem(Record):
    """One thing that is wrong with one row."""

    place: str
    field: str | None
    found: str
    expected: str

    @classmethod
    def at(cls, place: Place, field: str | None, found: str, expected: str) -> "Problem":
        """A problem of the row at a place; a field's name comes from the data and is made fit to be shown."""
        return cls(place=str(place), field=field and shown(field), found=found, expected=expected)

    def __str__(self) -> str:
        field = f"{self.field}: " if self.field else ""
        return f"{self.place}: {field}found {self.found}, expected {self.expected}"


class Problems:
    """Counts problems and bad rows, and keeps the first in words."""

    def __init__(self) -> None:
        self.count = 0
        self.bad_rows = 0
        self.first: list[Problem] = []

    def add_row(self, problems: list[Problem]) -> None:
        """Count one bad row and all that is wrong with it."""
        self.bad_rows += 1
        self.count += len(problems)
        self.first += problems[: SHOWN - len(self.first)]

    def error(self, summary: str, hint: str) -> DataError:
        """The error that shows the first problems and counts all."""
        listed = "".join(f"\n  {problem}" for problem in self.first)
        unlisted = self.count - len(self.first)
        more = f"\n  ... and {unlisted} more" if unlisted else ""
        return DataError(f"{summary}{listed}{more}", hint=hint)


def describe(value: Any) -> str:
    """The value in a few words: its kind, and enough of it to find it again."""
    match value:
        case None | bool():
            words = {None: "null", True: "true", False: "false"}[value]
        case int() | float():
            words = _describe_number(value)
        case str():
            words = f"text {_shortened(repr(value))}" if value.strip() else "blank text"
        case Mapping():
            names = _shortened(", ".join(shown(str(name)) for name in value))
            words = f"an object with the keys {names}" if value else "an empty object"
        case list() | tuple():
            words = f"a list of {len(value)}" if value else "an empty list"
        case _:
            words = f"a value of the Python type {type(value).__name__}"
    return words


def shown(name: str) -> str:
    """A name from the data as it can be shown anywhere: not too long, control and half characters escaped."""
    return _shortened(name if name.isprintable() else repr(name)[1:-1])


def _describe_number(value: float) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int) and value.bit_length() > _LONG_NUMBER:
        return f"a number of {value.bit_length()} bits"
    return f"a number ({value})"


def _shortened(text: str) -> str:
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."
