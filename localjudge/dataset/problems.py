r"""Look up values in rows, describe them, and report problems of a row.

A name with dots reaches into objects by key and into lists by index; `[]` reaches into every element of a list, or
every value of an object (null if one lacks the key, missing if all do). A column with exactly that name has priority.

    vars.query      answers.0.data      messages.-1.content      hits[].chunk_text

A text may contain a lone surrogate (`"\ud83d"` in JSON, or a non-UTF-8 byte), which cannot be written to a file.

Problems that differ only in values and numbers share a line:

    answers.jsonl:7; answers.jsonl:9; answers.jsonl:12 and 40 more rows: contexts[0]: found null, expected text
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from localjudge.errors import DataError
from localjudge.types import Record

MISSING = object()  # the value of a column that a row does not have
_EACH = "[]"
_NUMBER = re.compile(r"-?[0-9]{1,9}")


def lookup(row: Mapping[str, Any], column: str, default: object = None) -> Any:
    if column in row or not reaches_inside(column):
        return row.get(column, default)
    value = _reach(row, column.replace(_EACH, f".{_EACH}").split("."))
    return default if value is MISSING else value


def has_value(row: Mapping[str, Any], name: str) -> bool:
    """Return whether `lookup` finds a value, even null."""
    return lookup(row, name, MISSING) is not MISSING


def reaches_inside(name: str) -> bool:
    return "." in name or _EACH in name


def first_part(name: str) -> str:
    return name.partition(".")[0].partition(_EACH)[0]


def _reach(value: Any, steps: Sequence[str]) -> Any:
    for position, key in enumerate(steps):
        if key == _EACH:
            return None if value is None else _reach_each(value, steps[position + 1 :])
        if isinstance(value, Mapping):
            value = value.get(key, MISSING)
        elif isinstance(value, list | tuple) and _NUMBER.fullmatch(key) and -len(value) <= int(key) < len(value):
            value = value[int(key)]
        else:
            return MISSING
    return value


def _reach_each(values: Any, steps: Sequence[str]) -> Any:
    if isinstance(values, Mapping):
        values = [value for value in values.values() if value is not None]
    items: list[Any] = [_reach(item, steps) for item in values] if isinstance(values, list | tuple) else [MISSING]
    if items and all(item is MISSING for item in items):
        return MISSING
    items = [None if item is MISSING else item for item in items]
    return [item for inner in items for item in inner or ()] if _EACH in steps else items


BLANK = " \t\n\r\ufeff"
"""JSON's white space, and byte-order marks."""


class RepeatedKeyError(ValueError):
    """A key occurs twice in one JSON object."""


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RepeatedKeyError(f"the key {twice!r} appears twice in one object")
    return value


DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)
"""Raises ValueError (RepeatedKeyError, JSONDecodeError, thousands of digits in a number) or RecursionError."""


def reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} (column {error.colno})"
    return "values nested too deep" if isinstance(error, RecursionError) else str(error)


UNKNOWN = "a value of the Python type "
"""Start of the description of a value that is not JSON."""
_QUOTED = 40
_LONG = 128  # most bits of an integer that is printed or used as an id


def describe(value: Any) -> str:
    match value:
        case None | bool():
            words = {None: "null", True: "true", False: "false"}[value]
        case int() if value.bit_length() > _LONG:
            words = f"a number of {value.bit_length()} bits"
        case float() if not math.isfinite(value):
            words = json.dumps(value)
        case int() | float():
            words = f"a number ({value})"
        case str():
            words = f"text {_shortened(repr(value))}" if value.strip() else "blank text"
        case Mapping():
            names = _shortened(", ".join(shown(str(name)) for name in value))
            words = f"an object with the keys {names}" if value else "an empty object"
        case list() | tuple():
            words = f"a list of {len(value)}" if value else "an empty list"
        case _:
            words = f"{UNKNOWN}{type(value).__name__}"
    return words


def shown(name: str) -> str:
    return _shortened(name if name.isprintable() else repr(name)[1:-1])


def _shortened(text: str) -> str:
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."


SHOWN = 20
_PLACES = 3
_VALUES = re.compile(r"\(.*\)|'.*'|\".*\"|0x[0-9A-F]+|\d+", re.DOTALL)


class Place(NamedTuple):
    """Place of a row: its first line, or its number (from 1)."""

    source: str
    line: int | None = None
    row: int | None = None

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return place if self.row is None else f"{place}, row {self.row}"


class Problem(Record):
    """One problem of one row."""

    place: str
    field: str | None
    value: str
    expected: str

    @classmethod
    def at(cls, place: Place, field: str | None, value: str, expected: str) -> "Problem":
        return cls(place=str(place), field=field and shown(field), value=value, expected=expected)

    def __str__(self) -> str:
        field = f"{self.field}: " if self.field else ""
        return f"{self.place}: {field}found {self.value}, expected {self.expected}"


class Problems:
    """Counts of problems and bad rows, with examples of each cause."""

    def __init__(self) -> None:
        self.count = self.bad_rows = self._unlisted = 0
        self._examples: dict[tuple[str, ...], list[Problem]] = {}
        self._rows: Counter[tuple[str, ...]] = Counter()

    def add_row(self, problems: list[Problem]) -> None:
        self.bad_rows += 1
        self.count += len(problems)
        causes: dict[tuple[str, ...], Problem] = {}
        for problem in problems:
            words = (problem.field or "", problem.value, problem.expected)
            causes.setdefault(tuple(_VALUES.sub("", word) for word in words), problem)
        for cause, problem in causes.items():
            if cause not in self._examples and len(self._examples) == SHOWN:
                self._unlisted += 1
                continue
            self._rows[cause] += 1
            if self._rows[cause] <= _PLACES:
                self._examples.setdefault(cause, []).append(problem)

    @property
    def lines(self) -> list[str]:
        lines = []
        for cause, problems in self._examples.items():
            more = self._rows[cause] - len(problems)
            rest = f" and {more:,} more row{'s' if more > 1 else ''}" if more else ""
            places = "; ".join(problem.place for problem in problems)
            lines.append(f"{places}{rest}{str(problems[0]).removeprefix(problems[0].place)}")
        return [*lines, f"... and {self._unlisted} more"] if self._unlisted else lines

    def error(self, summary: str, hint: str) -> DataError:
        return DataError("\n  ".join([summary, *self.lines]), hint=hint)


def group_name(value: str | float | bool) -> str:
    """Return the value as a group name. 7.0 is "7", as in ids."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value)


def number_text(value: Any) -> Any:
    """Return a number as text, and other values unchanged. 7.0 is "7", as in ids."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return value
    if isinstance(value, int) and value.bit_length() > _LONG:
        return value
    return group_name(value)


Report = Callable[[str, str, str], None]
"""Called with the field of a problem, its value and what was expected."""
DEEPEST = 64  # most levels of nesting inside a context
_TO_UTF8 = " (save the file as UTF-8)"


def check_text(value: Any, field: str, report: Report, expected: str = "text or null") -> str | None:
    if isinstance(value, str):
        return value if check_writable(value, field, report) else None
    if value is not None:
        report(field, describe(value), expected)
    return None


def check_writable(value: Any, field: str, report: Report, depth: int = 0) -> bool:
    """Return whether the value can be written as JSON in UTF-8, and report why not."""
    if depth > DEEPEST:
        report(field, f"values nested more than {DEEPEST} levels deep", "fewer levels")
        return False
    match value:
        case str():
            if problem := _lone_surrogate(value):
                report(field, problem, f"Unicode text{_TO_UTF8 if 'byte' in problem else ''}")
            return problem is None
        case list() | tuple():
            return all([check_writable(item, field, report, depth + 1) for item in value])
        case Mapping():
            return all([check_writable(item, field, report, depth + 1) for pair in value.items() for item in pair])
        case None | int() | float():
            return True
        case _:
            report(field, describe(value), "a JSON value")
            return False


def _lone_surrogate(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = text[error.start]
        if "\udc80" <= half <= "\udcff":
            return f"the byte 0x{ord(half) - 0xDC00:02X}, which is not UTF-8"
        return f"half of a surrogate pair (U+{ord(half):04X}, at position {error.start})"
    return None


def check_id(value: Any, field: str, report: Report) -> str | None:
    """Return the id as text, or None if it is missing or blank. 7 and 7.0, as pandas stores it, are "7"."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _LONG:
        return str(value)
    text = check_text(value, field, report, "text or a whole number")
    return text if text and text.strip() else None
