"""One row of anybody's data as a sample, or everything that is wrong with it.

    {"question": "...", "contexts": ["..."]}  ->  {"user_input": "...", "retrieved_contexts": [Context, ...]}

A null is a null: a row that lacks a value is sound, and a metric that needs the value is `Undefined` for it. A text
that only says that there is nothing (`NaN`, `NULL`, `-`) is a null too, and counted. A text means the same whether it
stood in a file or in a frame: `pandas.read_csv` leaves a list as the text it was. Contexts come in these shapes:

    ["text", "text"]                                          a list of texts, or one text alone
    '["text", "text"]'                                        a list in a cell, as JSON, as Python or NumPy prints it
    [{"text": "...", "id": "d1", "score": 0.7, "meta": {}}]   objects (Haystack, LangChain, RAGChecker)
    [{"id": "d1"}, {"id": "d2", "score": 0.7}]                ids alone: no text is known of any context of the row
    [{"node": {"text": "...", "id_": "d1"}, "score": 0.7}]    LlamaIndex's nodes
    [{"lc": 1, "kwargs": {"page_content": "..."}, ...}]       LangChain's documents, written by its `dumpd`
    [["text", "text"]]                                        a list in a list: promptfoo would expand a plain one
    {"title": ["...", "..."], "text": ["...", "..."]}         columns, as Hugging Face writes a list of objects
    "first|second"                                            DeepEval's CSV and JSONL: refused unless a separator is
                                                              given, since one text would give another score

Keys of a context that are not its text, id or score are kept in `meta`. A conversation in place of a question stands
for its last turn: the last thing that the user said, and the last that the assistant said after it. Objects of Python
programs (models, dataclasses, arrays, dates) are taken as the values that JSON knows.
"""

import ast
import dataclasses
import io
import math
import re
import tokenize
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from enum import Enum
from itertools import accumulate, compress
from typing import Any, NamedTuple
from uuid import UUID

from localjudge.dataset.columns import ALIASES, ID_COLUMNS, LOOSE_NAMES, Resolved, columns_of
from localjudge.dataset.problems import (
    DECODER,
    DEEPEST,
    Place,
    Problem,
    RepeatedKeyError,
    Report,
    check_id,
    check_text,
    check_writable,
    describe,
    has_value,
    lookup,
    shown,
    through_each,
)
from localjudge.errors import DataError, UsageError
from localjudge.types import CONTEXT_FIELDS
from localjudge.words import option

NOTHING = frozenset(
    {*("NaN", "nan", "-NaN", "-nan", "NaT", "NULL", "null", "None", "<NA>", "NA", "N/A", "n/a", "#N/A", "#N/A N/A")}
    | {*("#NA", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "-", "\\N")}
)
"""Words that stand for a value that is missing: those that pandas takes for it, `-`, `NaT`, and the `\\N` of databases.

Not "none" or "nil", which are answers.
"""
_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")


def says_nothing(value: Any) -> bool:
    """Whether the value stands for one that is missing."""
    if isinstance(value, str):
        return value.strip() in NOTHING
    return isinstance(value, float) and math.isnan(value)


def read_cell(cell: str, field: str, report: Report) -> Any:
    """Contexts in the text of a cell: a list if it can be read as one, otherwise the cell is one text.

    A cell that begins like a list of texts or objects and cannot be read is reported, not taken for a text.
    """
    stripped = cell.strip()
    if not (stripped.startswith("[") and stripped.endswith("]")) and not _begins_like_list(stripped):
        return cell
    value = printed_value(stripped)
    if isinstance(value, list):
        return value
    if not _begins_like_list(stripped):
        return cell
    report(field, f"a list that cannot be read ({describe(cell)})", 'a JSON list, such as ["one text", "another"]')
    return None


def printed_value(text: str) -> Any:
    """The list or the object that a text is as JSON, as Python prints it or as NumPy does; None for any other text."""
    for read in (DECODER.decode, _printed_list):
        try:
            value = read(text)
        except RepeatedKeyError:
            break
        except (ValueError, SyntaxError, Warning, RecursionError, MemoryError, tokenize.TokenError):
            continue
        if isinstance(value, list | dict):
            return value
    return None


def _begins_like_list(text: str) -> bool:
    return text.startswith("[") and text[1:].lstrip()[:1] in {'"', "'", "{"}


def _printed_list(text: str) -> Any:
    """A list as Python prints it (ragas and pandas write it into CSV), or as NumPy does, which leaves the commas out.

    Python would read two texts without a comma as one. Raises ValueError where some commas are missing, or values that
    NumPy left out of a long list.
    """
    gaps, commas = _commas(text)
    if gaps and commas:
        raise ValueError("commas between some values only")
    for gap in reversed(gaps):
        text = f"{text[:gap]},{text[gap:]}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an escape that Python does not know was not printed by Python
        return ast.literal_eval(text)


def _commas(text: str) -> tuple[list[int], int]:
    """Where a comma is missing between two values of the outermost list, and how many commas are there."""
    begins = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    gaps, commas, depth, ended = [], 0, 0, False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in {tokenize.NL, tokenize.NEWLINE}:
            continue
        opens, closes = token.string in _OPENING, token.string in _CLOSING
        if ended and (opens or token.type == tokenize.STRING):
            if depth != 1:
                raise ValueError("two values without a comma between them")
            gaps.append(begins[token.start[0] - 1] + token.start[1])
        if token.string == "...":
            raise ValueError("values were left out")
        commas += depth == 1 and token.string == ","
        depth += opens - closes
        ended = closes or token.type == tokenize.STRING
    return gaps, commas


_TEXTS = ("text", "content", "page_content")
_IDS = ("id", "id_", "doc_id")
_METAS = ("meta", "metadata")
_NODE = ("text", "id_", "metadata")
_LARGEST = 1.7976931348623157e308
"""The largest float: a greater whole number cannot become one. No NaN is at most this either."""
_SHAPE = "text, a list of texts, or a list of objects with a text"


def check_contexts(value: Any, field: str, report: Report, column: str) -> list[dict[str, Any]] | None:
    """The contexts of one row as arguments of `Context`, None for null; what is wrong with them is reported.

    `column` is what a mapping calls the value, to say how a mapping would reach into it.
    """
    match value:
        case None:
            return None
        case [list() | tuple() as inner]:
            return check_contexts(inner, field, report, f"{column}[]")
        case Mapping() if objects := objects_of_columns(value):
            return check_contexts(objects, field, report, column)
        case str() | Mapping():
            return [_context(value, field, report, column)]
        case list() | tuple():
            contexts = [_context(item, f"{field}[{index}]", report, f"{column}[]") for index, item in enumerate(value)]
            _check_all_or_no_text(contexts, field, report)
            return contexts
        case _:
            report(field, describe(value), _SHAPE)
            return None


def objects_of_columns(value: Any) -> list[dict[str, Any]] | None:
    """The objects of which each value of an object is a list, one of them texts; None for any other value."""
    if not isinstance(value, Mapping) or not any(isinstance(value.get(name), list | tuple) for name in _TEXTS):
        return None
    lengths = {len(items) if isinstance(items, list | tuple) else None for items in value.values()}
    if None in lengths or len(lengths) > 1:
        return None
    return [dict(zip(value, items, strict=True)) for items in zip(*value.values(), strict=True)]


def context_text(item: Any) -> Any:
    """The text of an element of a list of contexts, under whichever of the names of ours."""
    if not isinstance(item, Mapping):
        return item
    return next((text for name in _TEXTS if (text := item.get(name)) is not None), None)


def add_ids(contexts: list[dict[str, Any]] | None, ids: Any, field: str, report: Report) -> list[dict[str, Any]] | None:
    """The contexts with the ids that stand in a column of their own (ragas: `retrieved_context_ids`).

    Where the row gives ids and no contexts, the ids are all that is known of them.
    """
    if ids is None:
        return contexts
    if not isinstance(ids, list | tuple):
        report(field, describe(ids), "a list of ids")
    elif contexts is None:
        return [{"id": _only_id(value, f"{field}[{index}]", report)} for index, value in enumerate(ids)]
    elif len(ids) != len(contexts):
        report(field, f"{len(ids)} for {len(contexts)} contexts", "one id for each context")
    else:
        for index, (context, value) in enumerate(zip(contexts, ids, strict=True)):
            _add_id(context, check_id(value, f"{field}[{index}]", report), f"{field}[{index}]", report)
    return contexts


def _check_all_or_no_text(contexts: list[dict[str, Any]], field: str, report: Report) -> None:
    """Ids alone may stand for what was retrieved; one among texts is a text that was lost."""
    without = [index for index, context in enumerate(contexts) if context["text"] is None]
    if 0 < len(without) < len(contexts):
        for index in without:
            report(f"{field}[{index}]", "an id without a text, beside contexts with one", "a text in each, or in none")


def _only_id(value: Any, field: str, report: Report) -> str | None:
    identifier = check_id(value, field, report)
    if value is None or (isinstance(value, str) and not value.strip()):
        report(field, describe(value), "an id")
    return identifier


def _add_id(context: dict[str, Any], identifier: str | None, field: str, report: Report) -> None:
    own = context.get("id")
    if own is not None and identifier is not None and own != identifier:
        report(field, f"the id {identifier!r} for a context with the id {own!r}", "the same id")
    elif identifier is not None:
        context["id"] = identifier


def _context(value: Any, field: str, report: Report, column: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {"text": _given_text(value, field, report)}
    rest = _unwrapped(value)
    text = _take(rest, _TEXTS, field, report)
    identifier = check_id(_take(rest, _IDS, field, report), f"{field}.id", report)
    meta = _take(rest, _METAS, field, report)
    score = rest.pop("score", None)
    if text is None and (identifier is None or _without_nulls(rest)):
        report(field, describe(value), f"an object with {' or '.join(_TEXTS)}{_mapping_to_text(value, field, column)}")
        text = ""
    if meta is not None and not isinstance(meta, Mapping):
        report(f"{field}.meta", describe(meta), "an object")
        meta = None
    if not (check_writable(rest, field, report) and check_writable(meta, f"{field}.meta", report)):
        rest, meta = {}, None
    twice = [key for key in rest if key in (meta or {}) and rest[key] != (meta or {})[key]]
    if twice:
        report(field, f"{shown(str(twice[0]))} both in the object and in its meta", "only one of them")
    return {
        "text": text if text is None else _given_text(text, field, report),
        "id": identifier,
        "meta": _without_nulls({**rest, **(meta or {})}),
        "score": _score(score, f"{field}.score", report),
    }


def _mapping_to_text(value: Mapping[str, Any], field: str, column: str) -> str:
    """How to name the key under which the object has its longest text; "" if it has none."""
    texts = {
        key: max(
            (text for text in (item if isinstance(item, list) else [item]) if isinstance(text, str)),
            key=len,
            default="",
        )
        for key, item in value.items()
    }
    key = max(texts, key=lambda name: len(texts[name]), default=None)
    if key is None or not texts[key]:
        return ""
    return f" (for the text under another key: {option('mapping', {field.partition('[')[0]: f'{column}.{key}'})})"


def _unwrapped(value: Mapping[str, Any]) -> dict[str, Any]:
    """What the object says of its text, where it stands one level down; a node of LlamaIndex without its index."""
    match value:
        case {"lc": int(), "kwargs": Mapping() as fields}:
            return dict(fields)
        case {"node": Mapping() as node} if value.keys().isdisjoint(_TEXTS):
            rest = {name: item for name, item in value.items() if name not in ("node", "class_name")}
            return {**{name: node[name] for name in _NODE if name in node}, **rest}
        case {"id_": _, "class_name": str()}:
            return {name: value[name] for name in _NODE if name in value}
        case _:
            return dict(value)


def _without_nulls(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The meta without its nulls: Parquet cannot tell a null from a key that is not there."""
    return {
        key: _without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in meta.items()
        if value is not None
    }


def _given_text(value: Any, field: str, report: Report) -> str:
    if value is None:
        report(field, "null", "text")
    return check_text(value, field, report, "text, or an object with a text") or ""


def _take(rest: dict[str, Any], names: tuple[str, ...], field: str, report: Report) -> Any:
    given = {name: rest.pop(name) for name in names if name in rest}
    present = [name for name, value in given.items() if value is not None]
    if len(present) > 1:
        report(field, f"an object with {' and '.join(present)}", "only one of them")
    return given[present[0]] if present else None


def _score(value: Any, field: str, report: Report) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST:
        return float(value)
    report(field, describe(value), "a finite number or null")
    return None


_USER = {"user", "human"}
_ASSISTANT = {"assistant", "ai"}
_ROLES = _USER | _ASSISTANT | {"system", "developer", "tool", "function"}


class Turn(NamedTuple):
    """A question, and the answer to it if there is one."""

    question: str
    answer: str | None


def with_last_turn(values: Mapping[str, Any], column: str | None) -> Mapping[str, Any] | None:
    """The row with the last turn of the conversation that stands in place of its question; None if none does.

    `column` is where the question is, if the user said so.
    """
    for name in [column] if column else (*ALIASES["user_input"], *LOOSE_NAMES["user_input"]):
        value = lookup(values, name)
        if isinstance(value, str):
            return None
        turn = last_turn(value) if isinstance(value, list | tuple) else None
        if turn:
            has_response = any(has_value(values, other) for other in ALIASES["response"])
            response = {} if has_response or turn.answer is None else {"response": turn.answer}
            return {**values, name: turn.question} | response
    return None


def last_turn(messages: Sequence[Any]) -> Turn | None:
    """The last turn of a conversation; None for what is not one, or one in which the user said nothing.

    Messages are those of the chat APIs and of inspect (`role`), or of ragas and LangChain (`type`).
    """
    turns = []
    for message in messages:
        role = message.get("role", message.get("type")) if isinstance(message, Mapping) else None
        if not (isinstance(role, str) and role in _ROLES and "content" in message):
            return None
        turns.append((role, _message_text(message["content"])))
    asked = [place for place, (role, text) in enumerate(turns) if role in _USER and text]
    if not asked:
        return None
    answers = [text for role, text in turns[asked[-1] + 1 :] if role in _ASSISTANT and text]
    return Turn(turns[asked[-1]][1], answers[-1] if answers else None)


def _message_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


_MARK = "|"
_OF_DEEPEVAL = ("additional_metadata", "custom_column_key_values", "expected_tools", "source_file", "tools_called")
"""Columns that DeepEval writes into every file, and that nobody who writes rows by hand has."""
_TEST_CASE = ("input", "actual_output", "retrieval_context")
"""Columns of DeepEval's test cases, which are in files by hand too."""
_GLUED = re.compile(r"(?<![\s|])\|(?![\s|])")
_TABLE = re.compile(r"^[ \t]*\||-\||\|:?-", re.MULTILINE)
"""A line that begins with the mark, or the line below the head of a table in Markdown."""

Split = Callable[[Any, Place, str], Any]
"""Takes a value, the place of its row and its column; gives the value, or the pieces of a text."""


def check_separator(separator: str | None) -> None:
    """Raise UsageError for a separator that stands between no two characters."""
    if separator == "":
        raise UsageError("the context separator is empty", hint="give the text that stands between two contexts: '|'")


def splitter(separator: str | None, has: Callable[[str], bool]) -> Split:
    """How the texts of one source are split; `has` tells whether it has a column.

    With a separator at every place where it stands, outer white space trimmed and empty pieces left out. Without one,
    what this gives raises DataError for a joined list: any text with the mark in a file with DeepEval's own columns
    (read in its version 4.3.1); where only those of its test cases were kept, which others use as well, a text whose
    mark has no white space on either side, outside of a table.
    """
    if separator is not None:
        return lambda value, _place, _column: (
            [piece for piece in map(str.strip, value.split(separator)) if piece] if isinstance(value, str) else value
        )
    is_deepeval, is_test_case = any(map(has, _OF_DEEPEVAL)), all(map(has, _TEST_CASE))

    def check(value: Any, place: Place, column: str) -> Any:
        if isinstance(value, str) and (
            (is_deepeval and _MARK in value) or (is_test_case and _GLUED.search(value) and not _TABLE.search(value))
        ):
            raise DataError(
                f"{place}: {shown(column)}: found one text with {_MARK!r} in it, in a file with the columns of "
                "DeepEval, which writes a list so",
                hint=f"split such texts: {option('context_separator', _MARK)}; if it is one text, give a separator "
                "that it does not hold; DeepEval's save_as('json') keeps lists",
            )
        return value

    return check


_PLAIN = frozenset({str, int, float, bool, type(None)})
_MISSING = {"NAType", "NaTType"}
"""How pandas calls the kinds of its missing values; pandas itself is not needed to know them."""


def plain(value: Any, levels: int = DEEPEST + 2) -> Any:
    """The value with everything in it made plain, down to as many levels as the checks allow.

    What is of no known kind, or deeper, is left for the checks to name.
    """
    if levels == 0 or type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, levels - 1) for item in value]
    fields = fields_of(value)
    return _plain_scalar(value) if fields is None else plain(fields, levels)


def fields_of(value: Any) -> dict[str, Any] | None:
    """The fields of a pydantic model or a dataclass; None of anything else."""
    if isinstance(value, type):
        return None
    if hasattr(value, "model_fields_set") and hasattr(value, "model_dump"):
        return dict(value.model_dump())
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def without_nan(row: Any) -> Any:
    """The row with null for every value that is NaN, which is how pandas marks a text that is missing."""
    if not isinstance(row, dict):
        return row
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}


def _plain_scalar(value: Any) -> Any:
    if type(value).__name__ in _MISSING:
        return None
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    inside = value.value if isinstance(value, Enum) else value.tolist() if hasattr(value, "tolist") else value
    return value if inside is value else plain(inside)


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
        value, expected = given.get(field), "text or null"
        if isinstance(value, Mapping):
            inside = option("mapping", {field: f"{resolved.get(field)}.NAME"})
            expected += f" (what is inside is named with a dot: {inside})"
        values[field] = check_text(value, field, report, expected)
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
