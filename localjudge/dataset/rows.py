"""One row of anybody's data as a sample, or everything that is wrong with it.

    {"question": "...", "contexts": ["..."]}  ->  {"user_input": "...", "retrieved_contexts": [Context, ...]}

A null is a null: a row that lacks a value is sound, and a metric that needs the value is `Undefined` for it. A text
that only says that there is nothing (`NaN`, `NULL`, `-`: see `cells`) is a null too, and counted.
"""

import re
from collections.abc import Mapping
from itertools import compress
from typing import Any, NamedTuple

from localjudge.dataset.aliases import ID_COLUMNS, Resolved, columns_of
from localjudge.dataset.cells import printed_value, read_cell, says_nothing
from localjudge.dataset.checks import Report, check_id, check_text
from localjudge.dataset.contexts import add_ids, check_contexts, context_text, objects_of_columns
from localjudge.dataset.dotted_names import lookup, through_each
from localjudge.dataset.joined_lists import Split
from localjudge.dataset.problems import Place, Problem, describe
from localjudge.errors import UsageError
from localjudge.option_spelling import option
from localjudge.types import CONTEXT_FIELDS

TEXT_FIELDS = ("user_input", "reference", "response")
_OURS = re.compile(r"^\w+")
ROW = "an object with columns"
_LISTS = (*CONTEXT_FIELDS, *ID_COLUMNS)


class RawRow(NamedTuple):
    """A row as it was read: their columns and values. `typed` is False where every value is text (CSV).

    Of a `conversation` the values have the last turn alone. A `whole` row is all that a file of JSON holds, and so may
    hold the rows. A `literal` one is a sample already: its texts say what they say.
    """

    place: Place
    values: Mapping[str, Any]
    typed: bool = True
    conversation: bool = False
    whole: bool = False
    literal: bool = False


def raw_row(value: Any, place: Place) -> RawRow | Problem:
    """A value that was read as a row, if it is an object."""
    if isinstance(value, Mapping):
        return RawRow(place, value)
    return Problem.at(place, None, describe(value), ROW)


class CheckedRow(NamedTuple):
    """A row in our words. `values` are the arguments of `Sample`, contexts as objects; its id may still be missing.

    `nothing` has for each value that only says that there is nothing its column (with `[]` for an element of a list)
    and the word.
    """

    place: Place
    values: dict[str, Any]
    extras: dict[str, Any]
    nothing: tuple[tuple[str, str], ...]


def check_row(row: RawRow, resolved: Resolved, split: Split) -> CheckedRow | list[Problem]:
    """The row as a sample's values, or all its problems. Raises DataError where `split` refuses a text."""
    problems: list[Problem] = []

    def report(field: str, found: str, expected: str) -> None:
        column = _OURS.sub(lambda ours: resolved.get(ours.group(), ours.group()), field, count=1)
        problems.append(Problem.at(row.place, column, found, expected))

    nothing: list[tuple[str, str]] = []
    given = _given(row, resolved, split, report, nothing)
    values: dict[str, Any] = {"id": check_id(given.get("id"), "id", report)}
    for field in TEXT_FIELDS:
        value = given.get(field)
        inside = f" (what is inside is named with a dot: {option('mapping', {field: f'{resolved.get(field)}.NAME'})})"
        values[field] = check_text(value, field, report, f"text or null{inside if isinstance(value, Mapping) else ''}")
    for field in CONTEXT_FIELDS:
        values[field] = check_contexts(given.get(field), field, report, resolved.get(field, field))
    for ids, contexts in ID_COLUMNS.items():
        values[contexts] = add_ids(values[contexts], given.get(ids), ids, report)
    used = columns_of(resolved)
    extras = {name: value for name, value in row.values.items() if name not in used}
    if problems:
        return problems
    return CheckedRow(row.place, values, extras, tuple(nothing))


def _given(
    row: RawRow, resolved: Resolved, split: Split, report: Report, nothing: list[tuple[str, str]]
) -> dict[str, Any]:
    """The value of each field as the row gives it: cells read, texts of contexts split, what says nothing null."""
    given = {field: _value(row, field, column, report) for field, column in resolved.items()}
    if "reference" in given:
        given["reference"] = _single(given["reference"], report)
    for field in [] if row.literal else [field for field, value in given.items() if says_nothing(value)]:
        nothing.append((resolved[field], _word(given[field])))
        given[field] = None
    given |= {field: split(given[field], row.place, resolved[field]) for field in _LISTS if field in given}
    for ids, contexts in () if row.literal else ID_COLUMNS.items():
        words = _leave_out_elements(given, contexts, ids)
        nothing += [(f"{resolved[contexts]}[]", word) for word in words]
    return given


def _leave_out_elements(given: dict[str, Any], field: str, ids: str) -> list[str]:
    """Leave out contexts whose text says nothing, with their ids; a list of nothing else is null. Gives the words."""
    elements = objects_of_columns(given.get(field)) or given.get(field)
    if not isinstance(elements, list | tuple):
        return []
    texts = [context_text(element) for element in elements]
    keep = [not (isinstance(text, str) and says_nothing(text)) for text in texts]
    if not all(keep):
        given[field] = [*compress(elements, keep)] or None
        if isinstance(given.get(ids), list | tuple) and len(given[ids]) == len(keep):
            given[ids] = [*compress(given[ids], keep)] or None
    return [_word(text) for text, kept in zip(texts, keep, strict=True) if not kept]


def _word(value: Any) -> str:
    return value.strip() if isinstance(value, str) else "NaN"


def _value(row: RawRow, field: str, column: str, report: Report) -> Any:
    """The value of a column; of several columns of contexts one list, null if all are."""
    if field not in _LISTS:
        value = lookup(row.values, column)
        return None if value == "" and not row.typed else value
    names = [column] if column in row.values else column.split(",")
    values = [_list_in(lookup(row.values, name), field, row, report) for name in names]
    if len(values) == 1:
        _refuse_one_of_a_list(row, field, column, values[0])
        return values[0]
    given = [value for value in values if value is not None]
    return [item for value in given for item in (value if isinstance(value, list | tuple) else [value])] or None


def _list_in(value: Any, field: str, row: RawRow, report: Report) -> Any:
    """What a text says, where it is a list. CSV cannot tell an empty text from a missing one, so it is null there."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("{") and objects_of_columns(columns := printed_value(value.strip())):
        return columns
    return read_cell(value, field, report) if value or row.typed else None


def _refuse_one_of_a_list(row: RawRow, field: str, column: str, value: Any) -> None:
    """Raise UsageError for a name that takes one context of a list: the others would be missing without a word."""
    all_of_them = through_each(column)
    if column in row.values or all_of_them == column or not isinstance(value, str | Mapping):
        return
    if isinstance(lookup(row.values, all_of_them), list | tuple):
        raise UsageError(
            f"{row.place}: {field}={column} takes one context of a list",
            hint=f"to take all of them: {option('mapping', {field: all_of_them})}",
        )


def _single(reference: Any, report: Report) -> Any:
    """The one reference of a list (older ragas, Haystack, SQuAD). Several that differ cannot all be the reference."""
    if not isinstance(reference, list | tuple):
        return reference
    if any(other != reference[0] for other in reference):
        report("reference", f"{len(reference)} reference answers", "one: which of them counts is yours to say")
    return reference[0] if reference else None
