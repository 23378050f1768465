"""What is wrong with the data, row by row, said so that it can be mended.

    answers.jsonl:3: reference: found a number (42), expected text or null
    answers.jsonl:7; answers.jsonl:9; answers.jsonl:12 and 40 more rows: contexts[0]: found null, expected text

Every problem is counted. Those that differ in values and numbers alone have one cause and share a line; the first
`SHOWN` causes are kept in words.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from localjudge.errors import DataError
from localjudge.types import Record

SHOWN = 20
_PLACES = 3
_VALUES = re.compile(r"\(.*\)|'.*'|\".*\"|0x[0-9A-F]+|\d+", re.DOTALL)
"""What may differ in problems of one cause: values, positions, numbers."""
_QUOTED = 40
_LONG_NUMBER = 128


class Place(NamedTuple):
    """Where a row stands: the line on which it begins, or its number (from 1) where a format has no lines."""

    source: str
    line: int | None = None
    row: int | None = None

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return place if self.row is None else f"{place}, row {self.row}"


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
    """Counts problems and bad rows, and keeps those with the first causes in words: one line a cause."""

    def __init__(self) -> None:
        self.count = 0
        self.bad_rows = 0
        self._causes: dict[tuple[str, ...], _Cause] = {}

    def add_row(self, problems: list[Problem]) -> None:
        """Count one bad row and all that is wrong with it."""
        self.bad_rows += 1
        self.count += len(problems)
        for problem in problems:
            cause = tuple(_VALUES.sub("", words) for words in (problem.field or "", problem.found, problem.expected))
            if cause in self._causes:
                self._causes[cause].add(problem)
            elif len(self._causes) < SHOWN:
                self._causes[cause] = _Cause(problem)

    @property
    def lines(self) -> list[str]:
        """The first causes, each with its first places, and how many problems have another."""
        listed = [str(cause) for cause in self._causes.values()]
        unlisted = self.count - sum(cause.problems for cause in self._causes.values())
        return [*listed, f"... and {unlisted} more"] if unlisted else listed

    def error(self, summary: str, hint: str) -> DataError:
        """The error that shows the first problems and counts all."""
        return DataError("\n  ".join([summary, *self.lines]), hint=hint)


class _Cause:
    """Problems of several rows that are alike: the first of them, where they are, and their number."""

    def __init__(self, problem: Problem) -> None:
        self._first = problem
        self._places = [problem.place]
        self._rows = 1
        self._last = problem.place
        self.problems = 1

    def add(self, problem: Problem) -> None:
        """Count another one."""
        self.problems += 1
        if problem.place != self._last:
            self._last = problem.place
            self._rows += 1
            self._places += [problem.place] if self._rows <= _PLACES else []

    def __str__(self) -> str:
        """The first problem, in front of it the first places and how many rows more."""
        more = self._rows - len(self._places)
        rest = "".join(f"; {place}" for place in self._places[1:]) + (f" and {more:,} more rows" if more else "")
        return f"{self._places[0]}{rest}{str(self._first)[len(self._places[0]) :]}"


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
