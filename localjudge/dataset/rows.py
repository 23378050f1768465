r"""A row of any tool's data with its original columns, and the problems of a row.

In CSV, an empty cell and the words that programs and people write for "no value" are missing
values. JSON, Parquet and Python have null, so a word there is text. NaN is missing everywhere.

A text may contain a lone surrogate (`"\ud83d"` in JSON, or a non-UTF-8 byte), which cannot be
written to a file.

Problems that differ only in values and numbers share a line:

    answers.jsonl:7; answers.jsonl:9; answers.jsonl:12 and 40 more rows: contexts[0]: found null,
    expected text
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from localjudge.errors import DataError
from localjudge.types import Record
from localjudge.words import numbered

BLANK = " \t\n\r\ufeff"
"""JSON's white space, and byte-order marks."""


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object with these keys and values. Raises ValueError for a repeated key."""
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} appears twice in one object")
    return value


DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)
"""Raises ValueError or RecursionError.

A ValueError is a JSONDecodeError, a repeated key, or a number with thousands of digits.
"""


def reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} (column {error.colno})"
    if isinstance(error, RecursionError):
        return "values nested too deep"
    return str(error)


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
    if len(text) <= _QUOTED:
        return text
    return f"{text[:_QUOTED]}..."


SHOWN = 20
_PLACES = 3
_VALUES = re.compile(r"\(.*\)|'.*'|\".*\"|0x[0-9A-F]+|\d+", re.DOTALL)


class Place(NamedTuple):
    """Place of a row: its first line, or its number (from 1)."""

    source: str
    line: int | None = None
    row: int | None = None

    def __str__(self) -> str:
        place = self.source
        if self.line is not None:
            place += f":{self.line}"
        if self.row is not None:
            place += f", row {self.row}"
        return place


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


ROW = "an object with columns"
SAMPLE_ID = "sample_id"
STATUS_SUFFIX = "_status"
_PROGRAM_WORDS = {
    "NaN", "nan", "-NaN", "-nan", "NaT", "NULL", "null", "<NA>", "#N/A", "#N/A N/A", "#NA", "\\N",
    "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN",
}  # fmt: skip
_ANSWER_WORDS = {"None", "NA", "N/A", "n/a", "-"}
"""Words that a response may contain as an answer."""
_PLACEHOLDERS = _PROGRAM_WORDS | _ANSWER_WORDS
"""Placeholders of pandas, plus `-`, `NaT` and `\\N` (databases).

Not "none", which may be an answer.
"""


class RawRow(NamedTuple):
    """A row with its original columns and values."""

    place: Place
    values: Mapping[str, Any]
    typed: bool = True
    """False if every value is text (CSV)."""
    conversation: bool = False
    """Whether its question was a conversation. It has the last turn now."""
    whole: bool = False
    """Whether it is the only value of a JSON file, which may contain the rows."""
    is_short: bool = False
    """Whether its record of CSV lacks the last cells."""
    literal: bool = False
    """Whether it is a sample or a row of an export, with texts that are never placeholders."""


def is_export(columns: Collection[str]) -> bool:
    """Return whether `localjudge export` wrote these columns.

    A metric has two columns there, its score and its status.
    """
    if SAMPLE_ID not in columns:
        return False
    return any(f"{name}{STATUS_SUFFIX}" in columns for name in columns)


def raw_row(value: Any, place: Place) -> RawRow | Problem:
    """Return an object as a row, and a problem for any other value."""
    if isinstance(value, Mapping):
        return RawRow(place, value, literal=is_export(value))
    return Problem.at(place, None, describe(value), ROW)


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def is_placeholder(text: Any) -> bool:
    """Whether a cell of CSV contains a word for "no value"."""
    return isinstance(text, str) and text.strip() in _PLACEHOLDERS


def is_answer_word(text: Any) -> bool:
    """Whether a placeholder may also be an answer, such as `N/A`."""
    return isinstance(text, str) and text.strip() in _ANSWER_WORDS


def is_blank(value: Any) -> bool:
    """Whether the value of a column names no group: null, NaN, or a blank text."""
    return value is None or is_nan(value) or (isinstance(value, str) and not value.strip())


class Problems:
    """Counts of problems and bad rows, with examples of each cause."""

    def __init__(self) -> None:
        self.count = 0
        self.bad_rows = 0
        self._unlisted = 0
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
            places = "; ".join(problem.place for problem in problems)
            more = self._rows[cause] - len(problems)
            if more:
                places += f" and {numbered(more, 'more row')}"
            lines.append(f"{places}{str(problems[0]).removeprefix(problems[0].place)}")
        if self._unlisted:
            lines.append(f"... and {self._unlisted} more")
        return lines

    def error(self, summary: str, hint: str) -> DataError:
        return DataError("\n  ".join([summary, *self.lines]), hint=hint)


def group_name(value: str | float | bool) -> str:
    """Return the value as a group name. 7.0 is "7", as in ids."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str):
        return value
    return json.dumps(value)


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


def check_text(
    value: Any,
    field: str,
    report: Report,
    expected: str = "text or null",
) -> str | None:
    if isinstance(value, str):
        if check_writable(value, field, report):
            return value
        return None
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
            problem = _lone_surrogate(value)
            if problem is not None:
                advice = _TO_UTF8 if "byte" in problem else ""
                report(field, problem, f"Unicode text{advice}")
            return problem is None
        case list() | tuple():
            return _are_writable(value, field, report, depth + 1)
        case Mapping():
            keys = _are_writable(value.keys(), field, report, depth + 1)
            items = _are_writable(value.values(), field, report, depth + 1)
            return keys and items
        case None | int() | float():
            return True
        case _:
            report(field, describe(value), "a JSON value")
            return False


def _are_writable(values: Iterable[Any], field: str, report: Report, depth: int) -> bool:
    """Check all values, so that every problem is reported."""
    return all([check_writable(value, field, report, depth) for value in values])


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
    """Return the id as text, or None if it is missing or blank.

    7 and 7.0, as pandas stores it, are "7".
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _LONG:
        return str(value)
    text = check_text(value, field, report, "text or a whole number")
    if text and text.strip():
        return text
    return None
