"""Convert one row of any tool's data to a sample, or list all its problems.

    {"question": "...", "contexts": ["..."]}
    ->  {"user_input": "...", "retrieved_contexts": [Context, ...]}

Null values are valid. `cells` reads the values, `contexts` describes the shapes of contexts,
`conversation` questions that are conversations.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from localjudge.dataset.cells import Placeholder, Split, read_cells, read_other_columns
from localjudge.dataset.columns import ID_COLUMNS, Resolved
from localjudge.dataset.contexts import add_ids, read_contexts, report_printed_documents
from localjudge.dataset.conversation import looks_like_messages
from localjudge.dataset.printed import parse_printed
from localjudge.dataset.problems import (
    DECODER,
    Place,
    Problem,
    Report,
    check_id,
    check_text,
    number_text,
)
from localjudge.dataset.rows import RawRow
from localjudge.dataset.text_keys import find_texts
from localjudge.words import option

_FIELD = re.compile(r"^\w+")
_TEXT_FIELDS = ("user_input", "reference", "response")
_MAY_BE_NUMBERS = ("reference", "response")


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

    cells, placeholders = read_cells(
        row, resolved, split, keeps_answer_words=keeps_answer_words, report=report
    )
    values: dict[str, Any] = {"id": check_id(cells.get("id"), "id", report)}
    for field in _TEXT_FIELDS:
        values[field] = _check_text(cells.get(field), field, report, resolved)
    question = values["user_input"]
    if question and not row.conversation and not row.literal and looks_like_messages(question):
        first = _hint_for_first(parse_printed(question), "user_input", resolved)
        expected = f"the question, or a list of messages, each with role and content{first}"
        report("user_input", "a conversation as text that cannot be read", expected)
    for ids, field in ID_COLUMNS.items():
        contexts = read_contexts(cells.get(field), field, report, resolved.get(field, field))
        if not row.literal:
            report_printed_documents(contexts, field, report)
        if cells.get(ids) is not None:
            contexts = add_ids(contexts, cells[ids], ids, report)
        values[field] = contexts
    if problems:
        return problems
    extras, more_placeholders = read_other_columns(row, resolved)
    return CheckedRow(
        row.place,
        values,
        extras,
        [*placeholders, *more_placeholders],
        joined=_may_contain_several(cells.get("retrieved_contexts")),
        is_json_response=_is_json(values["response"]),
    )


def _check_text(cell: Any, field: str, report: Report, resolved: Resolved) -> str | None:
    if field in _MAY_BE_NUMBERS:
        cell = number_text(cell)
    expected = "text or null"
    if isinstance(cell, Mapping):
        inside = option("mapping", {field: f"{resolved.get(field)}.NAME"})
        expected = f"text or null (name a value inside it with a dot: {inside})"
    else:
        expected += _hint_for_first(cell, field, resolved)
    return check_text(cell, field, report, expected)


def _hint_for_first(cell: Any, field: str, resolved: Resolved) -> str:
    """Return the option that reads the first text of a list, "" for other values."""
    path = str(resolved.get(field))
    is_list = False
    while isinstance(cell, list | tuple) and cell:
        is_list = True
        cell = cell[0]
        path += ".0"
    if not is_list:
        return ""
    path = next(iter(find_texts(cell, path)), path).replace("[]", ".0")
    return f" (for the first text: {option('mapping', {field: path})})"


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
