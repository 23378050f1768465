r"""What every part of the data room needs: where a value is, what it is in words, and what is wrong with a row.

A name with dots reaches into a row: into an object by its key, into a list by a number, or through all of a list.

    vars.query      answer.documents      answers.0.data      messages.-1.content      hits[].chunk_text

A column of exactly that name goes first. Numbers count from 0, negative ones from the end. `[]` takes every element of
a list, in their order; null for an element that lacks the key, unless they all do.

JSON is read more strictly than the standard library does: a key that stands twice is an error, not a silent loss. A
text need not be Unicode: half of a surrogate pair (`"\ud83d"` in JSON) can be neither encoded nor stored nor judged.

What is wrong is reported row by row. All problems are counted; those that differ only in values and numbers have one
cause and share a line, and the first `SHOWN` causes are put in words:

    answers.jsonl:3: reference: found a number (42), expected text or null
    answers.jsonl:7; answers.jsonl:9; answers.jsonl:12 and 40 more rows: contexts[0]: found null, expected text
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from localjudge.errors import DataError
from localjudge.types import Record

MISSING = object()
"""Stands for the value of a column that a row does not have."""
_EACH = "[]"
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_INDEX = re.compile(r"\.(-?[0-9]{1,9}|\*|\[[0-9*]*\])(?=\.|$)")


def lookup(row: Mapping[str, Any], column: str, default: object = None) -> Any:
    """Value of a column, or under a dotted name; `default` where the row has none."""
    if column in row or not reaches_inside(column):
        return row.get(column, default)
    value = _reach(row, column.replace(_EACH, f".{_EACH}").split("."))
    return default if value is MISSING else value


def has_value(row: Mapping[str, Any], name: str) -> bool:
    """Whether the row has the column, or a value under a dotted name."""
    return lookup(row, name, MISSING) is not MISSING


def reaches_inside(name: str) -> bool:
    """Whether a name is more than that of a column."""
    return "." in name or _EACH in name


def first_part(name: str) -> str:
    """The column that a name reaches into."""
    return name.partition(".")[0].partition(_EACH)[0]


def by_first_part(names: Iterable[str]) -> dict[str, set[str]]:
    """The names by the column that they reach into: only those whose object a row has can reach anything in it."""
    grouped: dict[str, set[str]] = {}
    for name in names:
        grouped.setdefault(first_part(name), set()).add(name)
    return grouped


def through_each(name: str) -> str:
    """The name with every element of a list in place of one: `hits.0.text` as `hits[].text`."""
    return _INDEX.sub(_EACH, name)


def without_places(name: str) -> str:
    """The name with no word about which elements of its lists are meant."""
    return through_each(name).replace(_EACH, "")


def names_inside(value: Any, name: str = "", levels: int = 8) -> Iterator[tuple[str, Any]]:
    """The names that reach something in a row, each with what it reaches; of a list the first elements are read."""
    if isinstance(value, Mapping) and levels:
        for key, item in value.items():
            inside = f"{name}.{key}" if name else str(key)
            yield inside, item
            yield from names_inside(item, inside, levels - 1)
    elif isinstance(value, list | tuple) and levels and name:
        for item in value[:3]:
            yield from names_inside(item, f"{name}{_EACH}", levels - 1)


def _reach(value: Any, steps: Sequence[str]) -> Any:
    for position, key in enumerate(steps):
        if key == _EACH:
            if value is not None:
                return _reach_each(value, steps[position + 1 :])
        elif isinstance(value, Mapping):
            value = value.get(key, MISSING)
        elif isinstance(value, list | tuple) and _NUMBER.fullmatch(key) and -len(value) <= int(key) < len(value):
            value = value[int(key)]
        else:
            return MISSING
    return value


def _reach_each(values: Any, steps: Sequence[str]) -> Any:
    if not isinstance(values, list | tuple):
        return MISSING
    reached = [_reach(item, steps) for item in values]
    if reached and all(item is MISSING for item in reached):
        return MISSING
    items = [None if item is MISSING else item for item in reached]
    return [item for inner in items for item in inner or ()] if _EACH in steps else items


BLANK = " \t\n\r\ufeff"
"""What may stand between values: JSON's white space, and byte-order marks where files were joined."""


class RepeatedKeyError(ValueError):
    """A key that stands twice in one object."""


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object from its keys and values. Raises RepeatedKeyError for a key that stands twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RepeatedKeyError(f"the key {twice!r} stands twice in one object")
    return value


DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)
"""Raises RepeatedKeyError, JSONDecodeError, ValueError (a number of thousands of digits) and RecursionError."""


def reason(error: Exception) -> str:
    """Why a text is not valid JSON."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} (column {error.colno})"
    return "values nested too deep" if isinstance(error, RecursionError) else str(error)


UNKNOWN = "a value of the Python type "
"""How the description of a value begins that no data file holds."""
_QUOTED = 40
_LONG = 128
"""A whole number of more bits is neither shown nor an id."""


def describe(value: Any) -> str:
    """The value in a few words: its kind, and enough of it to find it again."""
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
    """A name from the data as it can be shown anywhere: not too long, control and half characters escaped."""
    return _shortened(name if name.isprintable() else repr(name)[1:-1])


def _shortened(text: str) -> str:
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."


SHOWN = 20
_PLACES = 3
_VALUES = re.compile(r"\(.*\)|'.*'|\".*\"|0x[0-9A-F]+|\d+", re.DOTALL)
"""What may differ in problems of one cause: values, positions, numbers."""


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


@dataclass
class _Cause:
    """Problems of several rows that are alike: the first, its first places, and how many problems and rows."""

    first: Problem
    places: list[str]
    last: str
    rows: int = 1
    problems: int = 1

    def __str__(self) -> str:
        more = self.rows - len(self.places)
        rest = f" and {more:,} more rows" if more else ""
        return f"{'; '.join(self.places)}{rest}{str(self.first).removeprefix(self.first.place)}"


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
            key = tuple(_VALUES.sub("", words) for words in (problem.field or "", problem.found, problem.expected))
            cause = self._causes.get(key)
            if cause is None:
                if len(self._causes) < SHOWN:
                    self._causes[key] = _Cause(problem, [problem.place], problem.place)
                continue
            cause.problems += 1
            if problem.place != cause.last:
                cause.last = problem.place
                cause.rows += 1
                cause.places += [problem.place] if cause.rows <= _PLACES else []

    @property
    def lines(self) -> list[str]:
        """The first causes, each with its first places, and how many problems have another."""
        listed = [str(cause) for cause in self._causes.values()]
        unlisted = self.count - sum(cause.problems for cause in self._causes.values())
        return [*listed, f"... and {unlisted} more"] if unlisted else listed

    def error(self, summary: str, hint: str) -> DataError:
        """The error that shows the first problems and counts all."""
        return DataError("\n  ".join([summary, *self.lines]), hint=hint)


Report = Callable[[str, str, str], None]
"""Takes a problem: field, what was found, what was expected."""
DEEPEST = 64
"""Values inside a context may be nested so deep."""


def check_text(value: Any, field: str, report: Report, expected: str = "text or null") -> str | None:
    """The value if it is Unicode text, None for null; anything else is reported."""
    if isinstance(value, str):
        return value if check_writable(value, field, report) else None
    if value is not None:
        report(field, describe(value), expected)
    return None


def check_writable(value: Any, field: str, report: Report, depth: int = 0) -> bool:
    """Whether the value can be written as JSON in Unicode; a text that cannot, however deep it stands, is reported."""
    if depth > DEEPEST:
        report(field, f"values nested more than {DEEPEST} deep", "fewer levels")
        return False
    match value:
        case str():
            position = lone_surrogate(value)
            if position is not None:
                half = f"half a character (U+{ord(value[position]):04X}, at position {position})"
                report(field, half, "Unicode text")
            return position is None
        case list() | tuple():
            return all([check_writable(item, field, report, depth + 1) for item in value])
        case Mapping():
            return all([check_writable(item, field, report, depth + 1) for pair in value.items() for item in pair])
        case None | int() | float():
            return True
        case _:
            report(field, describe(value), "a value that JSON knows")
            return False


def lone_surrogate(text: str) -> int | None:
    """Position of the first half of a character that lacks its other half: such text cannot be written anywhere."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


def check_id(value: Any, field: str, report: Report) -> str | None:
    """The id as text; whole numbers are ids too, 7.0 as 7: pandas makes it so. None for a missing or blank one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _LONG:
        return str(value)
    text = check_text(value, field, report, "text or a whole number")
    return text if text and text.strip() else None
