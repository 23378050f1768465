"""One row of anybody's data as a sample, or everything that is wrong with it.

    {"question": "...", "contexts": ["..."]}  ->  {"user_input": "...", "retrieved_contexts": [Context, ...]}

A null is a null: a row that lacks a value is sound, and a metric that needs the value is `Undefined` for it.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from localjudge.dataset.aliases import ID_COLUMNS, JSON_COLUMNS, Resolved, columns_of
from localjudge.dataset.cells import read_cell
from localjudge.dataset.checks import Report, check_id, check_text
from localjudge.dataset.contexts import add_ids, check_contexts
from localjudge.dataset.dotted_names import lookup
from localjudge.dataset.joined_lists import Split
from localjudge.dataset.problems import Place, Problem, describe
from localjudge.option_spelling import option
from localjudge.types import CONTEXT_FIELDS

TEXT_FIELDS = ("user_input", "reference", "response")
_OURS = re.compile(r"^\w+")
ROW = "an object with columns"
_LISTS = (*CONTEXT_FIELDS, *ID_COLUMNS)


class RawRow(NamedTuple):
    """A row as it was read: their columns and values. `typed` is False where every value is text (CSV).

    Of a `conversation` the values have the last turn alone.
    """

    place: Place
    values: Mapping[str, Any]
    typed: bool = True
    conversation: bool = False


def raw_row(value: Any, place: Place) -> RawRow | Problem:
    """A value that was read as a row, if it is an object."""
    if isinstance(value, Mapping):
        return RawRow(place, value)
    return Problem.at(place, None, describe(value), ROW)


class CheckedRow(NamedTuple):
    """A row in our words. `values` are the arguments of `Sample`, contexts as objects; its id may still be missing."""

    place: Place
    values: dict[str, Any]
    extras: dict[str, Any]


def check_row(row: RawRow, resolved: Resolved, split: Split) -> CheckedRow | list[Problem]:
    """The row as a sample's values, or all its problems. Raises DataError where `split` refuses a text."""
    problems: list[Problem] = []

    def report(field: str, found: str, expected: str) -> None:
        column = _OURS.sub(lambda ours: resolved.get(ours.group(), ours.group()), field, count=1)
        problems.append(Problem.at(row.place, column, found, expected))

    given = _given(row, resolved, split, report)
    values: dict[str, Any] = {"id": check_id(given.get("id"), "id", report)}
    for field in TEXT_FIELDS:
        value = _single(given.get(field), report) if field == "reference" else given.get(field)
        inside = f" (what is inside is named with a dot: {option('mapping', {field: f'{resolved.get(field)}.NAME'})})"
        values[field] = check_text(value, field, report, f"text or null{inside if isinstance(value, Mapping) else ''}")
    for field in CONTEXT_FIELDS:
        values[field] = check_contexts(given.get(field), field, report)
    for ids, contexts in ID_COLUMNS.items():
        values[contexts] = add_ids(values[contexts], given.get(ids), ids, report)
    used = columns_of(resolved)
    extras = {name: value for name, value in row.values.items() if name not in used}
    if problems:
        return problems
    return CheckedRow(row.place, values, extras)


def _given(row: RawRow, resolved: Resolved, split: Split, report: Report) -> dict[str, Any]:
    """The value of each field as the row gives it: cells of CSV read, texts of contexts split."""
    given = {field: _value(row, field, column, report) for field, column in resolved.items()}
    joined = {field: split(given[field], row.place, resolved[field]) for field in _LISTS if field in given}
    return given | joined


def _value(row: RawRow, field: str, column: str, report: Report) -> Any:
    """The value of a column; of several columns of contexts one list, null if all are."""
    names = [column] if column in row.values or field not in _LISTS else column.split(",")
    values = [lookup(row.values, name) for name in names]
    if not row.typed or column in JSON_COLUMNS:
        values = [_from_cell(value, field, report) if isinstance(value, str) else value for value in values]
    if len(values) == 1:
        return values[0]
    given = [value for value in values if value is not None]
    return [item for value in given for item in (value if isinstance(value, list | tuple) else [value])] or None


def _from_cell(cell: Any, field: str, report: Report) -> Any:
    """A CSV cell as a value: CSV cannot tell an empty text from a missing one, so an empty cell is null."""
    if not cell:
        return None
    return read_cell(cell, field, report) if field in _LISTS else cell


def _single(reference: Any, report: Report) -> Any:
    """The one reference of a list (older ragas, Haystack, SQuAD). Several that differ cannot all be the reference."""
    if not isinstance(reference, list | tuple):
        return reference
    if any(other != reference[0] for other in reference):
        report("reference", f"{len(reference)} reference answers", "one: which of them counts is yours to say")
    return reference[0] if reference else None
