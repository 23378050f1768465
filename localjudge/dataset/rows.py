"""Convert one row of any tool's data to a sample, or list all its problems.

    {"question": "...", "contexts": ["..."]}
    ->  {"user_input": "...", "retrieved_contexts": [Context, ...]}

Null values are valid. In CSV, a placeholder for a missing value (`NaN`, `NULL`, `-`) becomes null
and is counted; NaN is null in every format. `contexts` describes the shapes of contexts,
`conversation` questions that are conversations.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import compress
from typing import Any, NamedTuple

from localjudge.dataset.columns import ID_COLUMNS, Resolved, split_columns
from localjudge.dataset.contexts import (
    add_ids,
    find_text,
    objects_of_columns,
    read_cell,
    read_contexts,
    report_printed_documents,
)
from localjudge.dataset.missing import is_answer_word, is_nan, is_placeholder
from localjudge.dataset.printed import parse_printed
from localjudge.dataset.problems import (
    DECODER,
    Place,
    Problem,
    Report,
    check_id,
    check_text,
    describe,
    lookup,
    number_text,
    shown,
)
from localjudge.dataset.text_keys import whole_collection
from localjudge.errors import DataError, InputError
from localjudge.types import CONTEXT_FIELDS
from localjudge.words import option

ROW = "an object with columns"
_FIELD = re.compile(r"^\w+")
_LIST_FIELDS = (*CONTEXT_FIELDS, *ID_COLUMNS)
_TEXT_FIELDS = ("user_input", "reference", "response")
_MAY_BE_NUMBERS = ("reference", "response")


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
    literal: bool = False
    """Whether it is a sample or a row of an export, with texts that are never placeholders."""


class CheckedRow(NamedTuple):
    """A row with our field names.

    `values` are arguments of `Sample`, with contexts as dicts; the id may be missing.
    """

    place: Place
    values: dict[str, Any]
    extras: dict[str, Any]
    placeholders: list[tuple[str, str]]
    """Column and word of each placeholder for a missing value."""
    joined: bool = False
    """Whether the retrieved contexts are one text that may contain several."""
    is_json_response: bool = False
    """Whether the response is an object or a list in JSON."""


Split = Callable[[Any, Place, str], Any]
"""Receives a value, its place and its column. Returns the value, or parts of a text."""


def raw_row(value: Any, place: Place) -> RawRow | Problem:
    """Return an object as a row, and a problem for any other value."""
    if isinstance(value, Mapping):
        return RawRow(place, value)
    return Problem.at(place, None, describe(value), ROW)


def check_row(
    row: RawRow,
    resolved: Resolved,
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
        column = _FIELD.sub(lambda name: resolved.get(name.group(), name.group()), field, count=1)
        problems.append(Problem.at(row.place, column, value, expected))

    cells = _Cells(row, resolved, split, report, keeps_answer_words)
    values: dict[str, Any] = {"id": check_id(cells.values.get("id"), "id", report)}
    for field in _TEXT_FIELDS:
        values[field] = _check_text(cells.values.get(field), field, report, resolved)
    for ids, field in ID_COLUMNS.items():
        contexts = read_contexts(cells.values.get(field), field, report, resolved.get(field, field))
        if not row.literal:
            report_printed_documents(contexts, field, report)
        if cells.values.get(ids) is not None:
            contexts = add_ids(contexts, cells.values[ids], ids, report)
        values[field] = contexts
    extras = cells.other_columns()
    if problems:
        return problems
    return CheckedRow(
        row.place,
        values,
        extras,
        cells.placeholders,
        joined=_may_contain_several(cells.values.get("retrieved_contexts")),
        is_json_response=_is_json(values["response"]),
    )


def _check_text(cell: Any, field: str, report: Report, resolved: Resolved) -> str | None:
    if field in _MAY_BE_NUMBERS:
        cell = number_text(cell)
    expected = "text or null"
    if isinstance(cell, Mapping):
        inside = option("mapping", {field: f"{resolved.get(field)}.NAME"})
        expected = f"text or null (name a value inside it with a dot: {inside})"
    return check_text(cell, field, report, expected)


_BETWEEN_CONTEXTS = re.compile(r"\||\n\s*\n|\n-+\n")
_IN_BRACKETS = re.compile(r"\s*\[[^\[\]]*, [^\[\]]*\]\s*")


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


class _Cells:
    """The values of a row by our fields, and its placeholders for missing values."""

    def __init__(
        self,
        row: RawRow,
        resolved: Resolved,
        split: Split,
        report: Report,
        keeps_answer_words: bool,
    ) -> None:
        self._row = row
        self._resolved = resolved
        self._keeps_answer_words = keeps_answer_words
        self.values: dict[str, Any] = {}
        self.placeholders: list[tuple[str, str]] = []
        for field, column in resolved.items():
            self.values[field] = self._cell(field, column, report)
        if row.literal:
            return
        self._choose_reference(report)
        self._remove_placeholders()
        for field in _LIST_FIELDS:
            if field in self.values:
                self.values[field] = split(self.values[field], row.place, resolved[field])
        for ids, field in ID_COLUMNS.items():
            self._remove_placeholders_in_list(field, ids)

    def other_columns(self) -> dict[str, Any]:
        """Return the columns without a field, with null for missing values."""
        used = split_columns(self._resolved)
        others = {}
        for column, value in self._row.values.items():
            if column in used:
                continue
            is_word = not self._row.literal and self._is_missing(value) and isinstance(value, str)
            if is_word:
                self.placeholders.append((column, value.strip()))
            others[column] = None if is_word else value
        return others

    def _is_missing(self, value: Any) -> bool:
        return is_nan(value) or (not self._row.typed and is_placeholder(value))

    def _cell(self, field: str, column: str, report: Report) -> Any:
        """Return the value of a column, or one list for several columns of contexts."""
        values = self._row.values
        if field not in _LIST_FIELDS:
            return lookup(values, column)
        if column in values or "," not in column:
            cell = self._list_cell(lookup(values, column), field, report)
            self._refuse_part_of_contexts(field, column, cell)
            return cell
        joined: list[Any] = []
        for name in column.split(","):
            cell = self._list_cell(lookup(values, name), field, report)
            if isinstance(cell, list | tuple):
                joined += cell
            elif cell is not None and not self._is_missing(cell):
                joined.append(cell)
        return joined or None

    def _list_cell(self, value: Any, field: str, report: Report) -> Any:
        if isinstance(value, str):
            return read_cell(value, field, report)
        return value

    def _refuse_part_of_contexts(self, field: str, column: str, cell: Any) -> None:
        """Raise InputError for one context of several: the others would be dropped silently."""
        if column in self._row.values or not isinstance(cell, str | Mapping):
            return
        path = whole_collection(self._row.values, column)
        if path is not None:
            raise InputError(
                f"{self._row.place}: {field}={column} uses one context of several",
                hint=f"to use all of them: {option('mapping', {field: path})}",
            )

    def _choose_reference(self, report: Report) -> None:
        """Replace a list of one or several equal references by the reference."""
        references = self.values.get("reference")
        if not self._row.typed and isinstance(references, str):
            references = _texts_of_list(references) or references
        if not isinstance(references, list | tuple):
            return
        if any(other != references[0] for other in references):
            first = option("mapping", {"reference": f"{self._resolved['reference']}.0"})
            expected = f"one (choose the one that counts; for the first: {first})"
            report("reference", f"{len(references)} reference answers", expected)
        self.values["reference"] = references[0] if references else None

    def _remove_placeholders(self) -> None:
        for field, cell in self.values.items():
            is_answer = field == "response" and self._keeps_answer_words and is_answer_word(cell)
            if self._is_missing(cell) and not is_answer:
                word = cell.strip() if isinstance(cell, str) else "NaN"
                self.placeholders.append((self._resolved[field], word))
                self.values[field] = None

    def _remove_placeholders_in_list(self, field: str, ids: str) -> None:
        """Remove contexts that are placeholders, with their ids."""
        contexts = self.values.get(field)
        elements = objects_of_columns(contexts) or contexts
        if not isinstance(elements, list | tuple):
            return
        texts = list(map(find_text, elements))
        keep = [not self._is_missing(text) for text in texts]
        if all(keep):
            return
        for text in texts:
            if self._is_missing(text):
                word = text.strip() if isinstance(text, str) else "NaN"
                self.placeholders.append((f"{self._resolved[field]}[]", word))
        self.values[field] = [*compress(elements, keep)] or None
        identifiers = self.values.get(ids)
        if isinstance(identifiers, list | tuple) and len(identifiers) == len(keep):
            self.values[ids] = [*compress(identifiers, keep)] or None


def _texts_of_list(text: str) -> list[str] | None:
    """Parse a printed list of texts, such as the right answers of older ragas.

    Return None for other text.
    """
    value = parse_printed(text)
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(item, str) for item in value):
        return value
    return None


_MARK = "|"
_DEEPEVAL_COLUMNS = (
    "additional_metadata",
    "custom_column_key_values",
    "expected_tools",
    "source_file",
    "tools_called",
)


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
            return list(_nonempty_parts(value, separator))
        if is_of_deepeval and _MARK in value:
            raise DataError(
                f"{place}: {shown(column)}: found one text with {_MARK!r}, "
                "which joins the texts of a list in DeepEval",
                hint=f"to split it: {option('context_separator', _MARK)}; "
                "DeepEval's save_as('json') keeps lists",
            )
        return value

    return split


def _nonempty_parts(text: str, separator: str) -> Iterator[str]:
    for part in text.split(separator):
        if part.strip():
            yield part.strip()
