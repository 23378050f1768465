"""Convert one row of any tool's data to a sample, or list all its problems.

    {"question": "...", "contexts": ["..."]}
    ->  {"user_input": "...", "retrieved_contexts": [Context, ...]}

Null values are valid. In CSV, a placeholder for a missing value (`NaN`, `NULL`, `-`) becomes null
and is counted; NaN is null in every format. Contexts may be in several columns, or in one text that
is split.

`contexts` describes the shapes of contexts, `conversation` questions that are conversations.
"""

import re
from collections.abc import Callable, Mapping
from itertools import compress
from typing import Any, NamedTuple

from localjudge.dataset.columns import ID_COLUMNS, ColumnOf, split_columns
from localjudge.dataset.contexts import (
    add_ids,
    find_text,
    objects_of_columns,
    read_contexts,
    read_printed,
    read_printed_elements,
    report_printed_documents,
)
from localjudge.dataset.conversation import looks_like_messages, read_answer
from localjudge.dataset.paths import find_texts, has_value, lookup, whole_collection
from localjudge.dataset.printed import parse_printed
from localjudge.dataset.rows import (
    DECODER,
    Place,
    Problem,
    RawRow,
    Report,
    check_id,
    check_text,
    is_answer_word,
    is_nan,
    is_placeholder,
    number_text,
    shown,
)
from localjudge.errors import DataError, InputError
from localjudge.types import CONTEXT_FIELDS
from localjudge.words import option

_FIELD = re.compile(r"^\w+")
_TEXT_FIELDS = ("user_input", "reference", "response")
_ANSWERS = ("response", "reference")
_LIST_FIELDS = (*CONTEXT_FIELDS, *ID_COLUMNS)
_BETWEEN_CONTEXTS = re.compile(r"\||\n\s*\n|\n-+\n")
_IN_BRACKETS = re.compile(r"\s*\[[^\[\]]*, [^\[\]]*\]\s*")
_MARK = "|"
_DEEPEVAL_COLUMNS = (
    "additional_metadata",
    "custom_column_key_values",
    "expected_tools",
    "source_file",
    "tools_called",
)

Placeholder = tuple[str, str]
"""A column, and a word for a missing value in it."""
Split = Callable[[Any, Place, str], Any]
"""Receives a value, its place and its column. Returns the value, or parts of a text."""


class CheckedRow(NamedTuple):
    """A row with our field names.

    `values` are arguments of `Sample`, with contexts as dicts; the id may be missing.
    """

    place: Place
    values: dict[str, Any]
    extras: dict[str, Any]
    placeholders: list[Placeholder]
    joined: bool = False
    """Whether the retrieved contexts are one text that may contain several."""
    is_json_response: bool = False
    """Whether the response is an object or a list in JSON."""


def check_row(
    row: RawRow,
    column_of: ColumnOf,
    split: Split,
    *,
    keeps_answer_words: bool = False,
) -> CheckedRow | list[Problem]:
    """Return the row in our fields, or all its problems.

    `keeps_answer_words` keeps responses such as `N/A`, for metrics that ask whether a response is a
    refusal. Raises DataError if `split` refuses a text.
    """
    problems: list[Problem] = []

    def report(field: str, value: str, expected: str) -> None:
        column = _FIELD.sub(lambda name: column_of.get(name.group(), name.group()), field, count=1)
        problems.append(Problem.at(row.place, column, value, expected))

    cells, placeholders = _read_fields(
        row, column_of, split, keeps_answer_words=keeps_answer_words, report=report
    )
    values: dict[str, Any] = {"id": check_id(cells.get("id"), "id", report)}
    for field in _TEXT_FIELDS:
        values[field] = _check_text(cells.get(field), field, report, column_of)
    question = values["user_input"]
    if question and not row.conversation and not row.literal and looks_like_messages(question):
        first = _hint_for_first(parse_printed(question), "user_input", column_of)
        expected = f"the question, or a list of messages, each with role and content{first}"
        report("user_input", "a conversation as text that cannot be read", expected)
    for ids, field in ID_COLUMNS.items():
        contexts = read_contexts(cells.get(field), field, report, column_of.get(field, field))
        if not row.literal:
            report_printed_documents(contexts, field, report)
        if cells.get(ids) is not None:
            contexts = add_ids(contexts, cells[ids], ids, report)
        values[field] = contexts
    if problems:
        return problems
    extras, more_placeholders = _read_other_columns(row, column_of)
    return CheckedRow(
        row.place,
        values,
        extras,
        [*placeholders, *more_placeholders],
        joined=_may_contain_several(cells.get("retrieved_contexts")),
        is_json_response=_is_json(values["response"]),
    )


def _check_text(cell: Any, field: str, report: Report, column_of: ColumnOf) -> str | None:
    if field in _ANSWERS:
        cell = number_text(cell)
    expected = "text or null"
    if isinstance(cell, Mapping):
        inside = option("mapping", {field: f"{column_of.get(field)}.NAME"})
        expected = f"text or null (name a value inside it with a dot: {inside})"
    else:
        expected += _hint_for_first(cell, field, column_of)
    return check_text(cell, field, report, expected)


def _hint_for_first(cell: Any, field: str, column_of: ColumnOf) -> str:
    """Return the option that reads the first text of a list, "" for other values."""
    path = str(column_of.get(field))
    is_list = False
    while isinstance(cell, list | tuple) and cell:
        is_list = True
        cell = cell[0]
        path += ".0"
    if not is_list:
        return ""
    path = next(iter(find_texts(cell, path)), path).replace("[]", ".0")
    return f" (for the first text: {option('mapping', {field: path})})"


def _may_contain_several(cell: Any) -> bool:
    if not isinstance(cell, str):
        return False
    if _BETWEEN_CONTEXTS.search(cell) or _IN_BRACKETS.fullmatch(cell):
        return True
    return isinstance(parse_printed(cell), dict)


def _is_json(text: str | None) -> bool:
    if text is None or text.lstrip()[:1] not in {"{", "["}:
        return False
    try:
        value = DECODER.decode(text.strip())
    except (ValueError, RecursionError):
        return False
    return bool(value) and isinstance(value, dict | list)


def _read_fields(
    row: RawRow,
    column_of: ColumnOf,
    split: Split,
    *,
    keeps_answer_words: bool,
    report: Report,
) -> tuple[dict[str, Any], list[Placeholder]]:
    """Return the values of a row by our fields, and the placeholders that they had.

    Raises DataError if `split` refuses a text.
    """
    cells: dict[str, Any] = {}
    for field, column in column_of.items():
        cells[field] = _read_field(row, field, column, report)
    placeholders: list[Placeholder] = []
    if row.literal:
        return cells, placeholders
    if "reference" in cells:
        cells["reference"] = _choose_reference(cells["reference"], row, column_of, report)
    for field, cell in cells.items():
        is_answer = field == "response" and keeps_answer_words and is_answer_word(cell)
        if _is_missing(cell, row) and not is_answer:
            placeholders.append((column_of[field], _describe_missing(cell)))
            cells[field] = None
    for field in _LIST_FIELDS:
        if field in cells:
            cells[field] = split(cells[field], row.place, column_of[field])
    for ids, field in ID_COLUMNS.items():
        if field in cells:
            cells[field] = read_printed_elements(cells[field], field, report)
            words = _remove_missing_contexts(cells, row, field, ids)
            placeholders += [(f"{column_of[field]}[]", word) for word in words]
    return cells, placeholders


def _read_other_columns(
    row: RawRow, column_of: ColumnOf
) -> tuple[dict[str, Any], list[Placeholder]]:
    """Return the columns without a field, and the placeholders that they had."""
    used = split_columns(column_of)
    others: dict[str, Any] = {}
    placeholders: list[Placeholder] = []
    for column, value in row.values.items():
        if column in used:
            continue
        others[column] = value
        if not row.literal and isinstance(value, str) and _is_missing(value, row):
            placeholders.append((column, value.strip()))
            others[column] = None
    return others, placeholders


def _is_missing(value: Any, row: RawRow) -> bool:
    return is_nan(value) or (not row.typed and is_placeholder(value))


def _describe_missing(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    return "NaN"


def _read_field(row: RawRow, field: str, column: str, report: Report) -> Any:
    """Return the value of a column, or one list for several columns of contexts."""
    if field not in _LIST_FIELDS:
        value = lookup(row.values, column)
        if field in _ANSWERS and not row.literal:
            return read_answer(value)
        return value
    if "," not in column or has_value(row.values, column):
        cell = _read_column(row, field, column, report)
        if column not in row.values and isinstance(cell, str | Mapping):
            path = whole_collection(row.values, column)
            if path is not None:
                raise InputError(
                    f"{row.place}: {field}={column} uses one context of several",
                    hint=f"to use all of them: {option('mapping', {field: path})}",
                )
        return cell
    joined: list[Any] = []
    for name in column.split(","):
        cell = _read_column(row, field, name, report)
        if isinstance(cell, list | tuple):
            joined += cell
        elif cell is not None and not _is_missing(cell, row):
            joined.append(cell)
    return joined or None


def _read_column(row: RawRow, field: str, column: str, report: Report) -> Any:
    """Return the contexts or ids in a column. A text may be a printed list of them."""
    value = lookup(row.values, column)
    if isinstance(value, str):
        return read_printed(value, field, report)
    return value


def _choose_reference(cell: Any, row: RawRow, column_of: ColumnOf, report: Report) -> Any:
    """Return the only one of a list of references, or the cell if it is no list.

    Report references that differ.
    """
    references = cell
    if isinstance(cell, str) and not row.typed:
        value = parse_printed(cell)
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            references = value
    if not isinstance(references, list | tuple):
        return references
    if not references:
        return None
    if any(other != references[0] for other in references):
        first = option("mapping", {"reference": f"{column_of['reference']}.0"})
        expected = f"one (choose the one that counts; for the first: {first})"
        report("reference", f"{len(references)} reference answers", expected)
    return references[0]


def _remove_missing_contexts(cells: dict[str, Any], row: RawRow, field: str, ids: str) -> list[str]:
    """Remove contexts that are placeholders, with their ids. Return the placeholders."""
    contexts = objects_of_columns(cells[field]) or cells[field]
    if not isinstance(contexts, list | tuple):
        return []
    texts = list(map(find_text, contexts))
    keep = [not _is_missing(text, row) for text in texts]
    if all(keep):
        return []
    cells[field] = [*compress(contexts, keep)] or None
    identifiers = cells.get(ids)
    if isinstance(identifiers, list | tuple) and len(identifiers) == len(keep):
        cells[ids] = [*compress(identifiers, keep)] or None
    return [_describe_missing(text) for text in texts if _is_missing(text, row)]


def splitter(separator: str | None, has: Callable[[str], bool]) -> Split:
    """Return a function that splits a text into its non-empty contexts.

    Without a separator, it raises DataError for `first|second` in a source with DeepEval's columns:
    DeepEval 4.3.1 joins lists like this, and one text would get another score.
    """
    # Every DeepEval file has these columns, and handwritten data do not.
    is_of_deepeval = any(map(has, _DEEPEVAL_COLUMNS))

    def split(value: Any, place: Place, column: str) -> Any:
        if not isinstance(value, str):
            return value
        if separator is not None:
            parts: list[str] = []
            for part in value.split(separator):
                if part.strip():
                    parts.append(part.strip())
            return parts
        if is_of_deepeval and _MARK in value:
            raise DataError(
                f"{place}: {shown(column)}: found one text with {_MARK!r}, "
                "which joins the texts of a list in DeepEval",
                hint=f"to split it: {option('context_separator', _MARK)}; "
                "DeepEval's save_as('json') keeps lists",
            )
        return value

    return split
