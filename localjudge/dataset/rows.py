"""Turn one row of foreign data into a sample, or list everything wrong with it.

    {"question": "...", "contexts": ["..."]}  ->  {"user_input": "...", "retrieved_contexts": [Context, ...]}

A null stays null: the row is valid, and a metric that needs the value is `Undefined` for it. A placeholder for a
missing value (`NaN`, `NULL`, `-`) is also null, and counted. A text is read the same way from a file and a frame:
`pandas.read_csv` leaves a list as text. Contexts come in these shapes:

    ["text", "text"]                                          a list of texts, or one text
    '["text", "text"]'                                        a list in a cell, as JSON or as printed by Python or NumPy
    [{"text": "...", "id": "d1", "score": 0.7, "meta": {}}]   objects (Haystack, LangChain, RAGChecker)
    [{"id": "d1"}, {"id": "d2", "score": 0.7}]                ids only: no context of the row has a text
    [{"node": {"text": "...", "id_": "d1"}, "score": 0.7}]    LlamaIndex's nodes
    [{"lc": 1, "kwargs": {"page_content": "..."}, ...}]       LangChain's documents, written by its `dumpd`
    [["text", "text"]]                                        a list in a list: promptfoo would expand a plain one
    {"title": ["...", "..."], "text": ["...", "..."]}         columns, as Hugging Face writes a list of objects
    "first|second"                                            DeepEval's CSV and JSONL: refused without a separator,
                                                              since one text would give another score

Other keys of a context are kept in `meta`. A conversation as question is replaced by its last turn: the last message of
the user and the assistant's last reply to it.
"""

import ast
import dataclasses
import io
import math
import re
import sys
import tokenize
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from enum import Enum
from itertools import compress
from types import SimpleNamespace
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
from localjudge.errors import DataError, InputError
from localjudge.types import CONTEXT_FIELDS
from localjudge.words import option

ROW = "an object with columns"
_OURS = re.compile(r"^\w+")
_LISTS = (*CONTEXT_FIELDS, *ID_COLUMNS)

NOTHING = {
    *("NaN", "nan", "-NaN", "-nan", "NaT", "NULL", "null", "None", "<NA>", "NA", "N/A", "n/a", "#N/A", "#N/A N/A"),
    *("#NA", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "-", "\\N"),
}
"""Words for a missing value: pandas' list, `-`, `NaT`, the `\\N` of databases. Not "none", which may be an answer."""


class RawRow(NamedTuple):
    """A row with its original columns and values."""

    place: Place
    values: Mapping[str, Any]
    typed: bool = True  # False where every value is text (CSV)
    conversation: bool = False  # the values have its last turn alone
    whole: bool = False  # all that a file of JSON holds, and so it may hold the rows
    literal: bool = False  # a sample already: its texts say what they say


class CheckedRow(NamedTuple):
    """A row in our field names. `values` are arguments of `Sample` with contexts as objects; the id may be missing.

    `nothing` lists column and word of each placeholder for a missing value.
    """

    place: Place
    values: dict[str, Any]
    extras: dict[str, Any]
    nothing: tuple[tuple[str, str], ...]
    joined: bool = False
    """Whether the retrieved contexts are one text, and not a list, in which several may stand."""


Split = Callable[[Any, Place, str], Any]
"""Receives a value, its place and its column; returns the value, or the pieces of a text."""


def raw_row(value: Any, place: Place) -> RawRow | Problem:
    """Return a row for an object, or a problem for any other value."""
    if isinstance(value, Mapping):
        return RawRow(place, value)
    return Problem.at(place, None, describe(value), ROW)


def check_row(row: RawRow, resolved: Resolved, split: Split) -> CheckedRow | list[Problem]:
    """Return the row as a sample's values, or all its problems. Raises DataError if `split` refuses a text."""
    problems: list[Problem] = []

    def report(field: str, value: str, expected: str) -> None:
        column = _OURS.sub(lambda name: resolved.get(name.group(), name.group()), field, count=1)
        problems.append(Problem.at(row.place, column, value, expected))

    cells, nothing = _cells(row, resolved, split, report)
    values: dict[str, Any] = {"id": check_id(cells.get("id"), "id", report)}
    for field in ("user_input", "reference", "response"):
        cell = cells.get(field)
        inside = f" (what is inside is named with a dot: {option('mapping', {field: f'{resolved.get(field)}.NAME'})})"
        values[field] = check_text(cell, field, report, f"text or null{inside if isinstance(cell, Mapping) else ''}")
    for ids, field in ID_COLUMNS.items():
        contexts = _check_contexts(cells.get(field), field, report, resolved.get(field, field))
        values[field] = contexts if cells.get(ids) is None else _with_ids(contexts, cells[ids], ids, report)
    used = columns_of(resolved)
    extras = {name: value for name, value in row.values.items() if name not in used}
    text = cells.get("retrieved_contexts")
    joined = isinstance(text, str) and not row.literal and _BETWEEN_CONTEXTS.search(text) is not None
    return problems or CheckedRow(row.place, values, extras, tuple(nothing), joined)


def _cells(
    row: RawRow, resolved: Resolved, split: Split, report: Report
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the value of each field, with placeholders as null, and the list for `CheckedRow.nothing`."""
    cells = {field: _cell(row, field, column, report) for field, column in resolved.items()}
    if isinstance(references := cells.get("reference"), list | tuple):
        if any(other != references[0] for other in references):
            report("reference", f"{len(references)} reference answers", "one: which of them counts is yours to say")
        cells["reference"] = references[0] if references else None
    nothing = []
    for field in [] if row.literal else [field for field, cell in cells.items() if says_nothing(cell)]:
        nothing.append((resolved[field], cells[field].strip() if isinstance(cells[field], str) else "NaN"))
        cells[field] = None
    cells |= {field: split(cells[field], row.place, resolved[field]) for field in _LISTS if field in cells}
    for ids, field in () if row.literal else ID_COLUMNS.items():
        nothing += [(f"{resolved[field]}[]", word) for word in _leave_out_elements(cells, field, ids)]
    return cells, nothing


def _leave_out_elements(cells: dict[str, Any], field: str, ids: str) -> list[str]:
    """Remove contexts that are placeholders, with their ids, and return the words. An empty result becomes null."""
    elements = _objects_of_columns(cells.get(field)) or cells.get(field)
    if not isinstance(elements, list | tuple):
        return []
    words = []
    for item in elements:
        text = next(filter(None, map(item.get, _TEXTS)), None) if isinstance(item, Mapping) else item
        words.append(text.strip() if isinstance(text, str) and says_nothing(text) else None)
    keep = [word is None for word in words]
    if not all(keep):
        cells[field] = [*compress(elements, keep)] or None
        if isinstance(cells.get(ids), list | tuple) and len(cells[ids]) == len(keep):
            cells[ids] = [*compress(cells[ids], keep)] or None
    return [word for word in words if word is not None]


def _cell(row: RawRow, field: str, column: str, report: Report) -> Any:
    """Return the value of a column, or one list for several columns of contexts (null if all are null)."""
    if field not in _LISTS:
        value = lookup(row.values, column)
        return None if value == "" and not row.typed else value
    names = [column] if column in row.values else column.split(",")
    values = [lookup(row.values, name) for name in names]
    for index, value in enumerate(values):
        if isinstance(value, str):  # CSV cannot tell an empty text from a missing one
            values[index] = read_cell(value, field, report) if value or row.typed else None
    if len(values) > 1:
        filled = [value for value in values if value is not None and not says_nothing(value)]
        return [item for value in filled for item in (value if isinstance(value, list | tuple) else [value])] or None
    all_of_them = through_each(column)
    one_of_them = column not in row.values and all_of_them != column and isinstance(values[0], str | Mapping)
    if one_of_them and isinstance(lookup(row.values, all_of_them), list | tuple):
        raise InputError(  # the others would be missing without a word
            f"{row.place}: {field}={column} takes one context of a list",
            hint=f"to take all of them: {option('mapping', {field: all_of_them})}",
        )
    return values[0]


def says_nothing(value: Any) -> bool:
    """Return whether the value is a placeholder for a missing one."""
    return value.strip() in NOTHING if isinstance(value, str) else isinstance(value, float) and math.isnan(value)


def read_cell(cell: str, field: str, report: Report) -> Any:
    """Read contexts from the text of a cell: a list if it parses as one, otherwise one text.

    Reports a cell that begins like a list of texts or objects and cannot be parsed.
    """
    text = cell.strip()
    begins_like_list = text.startswith("[") and text[1:].lstrip()[:1] in {'"', "'", "{"}
    value = printed_value(text) if begins_like_list or (text.startswith("[") and text.endswith("]")) else None
    if isinstance(value, list):
        return value
    if not begins_like_list:
        return cell
    report(field, f"a list that cannot be read ({describe(cell)})", 'a JSON list, such as ["one text", "another"]')
    return None


def printed_value(text: str) -> Any:
    """Parse a list or object in JSON, Python or NumPy notation. None for any other text."""
    for read in (DECODER.decode, _printed_by_python):
        try:
            value = read(text)
        except RepeatedKeyError:
            break
        except (ValueError, SyntaxError, Warning, RecursionError, MemoryError, tokenize.TokenError):
            continue
        if isinstance(value, list | dict):
            return value
    return None


def _printed_by_python(text: str) -> Any:
    """Parse a list printed by Python (ragas and pandas write it into CSV) or by NumPy (without commas).

    Raises SyntaxError for other text, and for lists that NumPy abbreviated.
    """
    tokens: list[tuple[int, str]] = []
    ended = False
    for kind, string, *_ in tokenize.generate_tokens(io.StringIO(text).readline):
        if kind not in {tokenize.NL, tokenize.NEWLINE}:
            gap = ended and (kind == tokenize.STRING or string in {"(", "[", "{"})
            tokens += [(tokenize.OP, ","), (kind, string)] if gap else [(kind, string)]
            ended = kind == tokenize.STRING or string in {")", "]", "}"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an escape that Python does not know was not printed by Python
        return ast.literal_eval(tokenize.untokenize(tokens))


_TEXTS = ("text", "content", "page_content")

_NODE = ("text", "id_", "metadata")  # of LlamaIndex's


def _check_contexts(value: Any, field: str, report: Report, column: str) -> list[dict[str, Any]] | None:
    """Return the contexts of one row as arguments of `Context`, or None for null. Reports problems.

    `column` is the name in the user's mapping, for the advice in messages.
    """
    match value:
        case None:
            return None
        case [list() | tuple() as inner]:
            return _check_contexts(inner, field, report, f"{column}[]")
        case Mapping() if objects := _objects_of_columns(value):
            return _check_contexts(objects, field, report, column)
        case str() | Mapping():
            return [_context(value, field, report, column)]
        case list() | tuple():
            contexts = [_context(item, f"{field}[{index}]", report, f"{column}[]") for index, item in enumerate(value)]
            bare = [index for index, context in enumerate(contexts) if context["text"] is None]
            for index in bare if len(bare) < len(contexts) else ():  # one id among texts is a text that was lost
                report(f"{field}[{index}]", "an id without a text, unlike the others", "a text in each, or in none")
            return contexts
        case _:
            report(field, describe(value), "text, a list of texts, or a list of objects with a text")
            return None


def _objects_of_columns(value: Any) -> list[dict[str, Any]] | None:
    """Convert an object of lists, one of them texts, into a list of objects. None for any other value."""
    if not isinstance(value, Mapping) or not any(isinstance(value.get(name), list | tuple) for name in _TEXTS):
        return None
    lengths = {len(items) if isinstance(items, list | tuple) else None for items in value.values()}
    if None in lengths or len(lengths) > 1:
        return None
    return [dict(zip(value, items, strict=True)) for items in zip(*value.values(), strict=True)]


def _with_ids(
    contexts: list[dict[str, Any]] | None, ids: Any, field: str, report: Report
) -> list[dict[str, Any]] | None:
    """Add the ids of a separate column (ragas: `retrieved_context_ids`) to the contexts, or return only the ids."""
    if not isinstance(ids, list | tuple):
        report(field, describe(ids), "a list of ids")
        return contexts
    if contexts is not None and len(ids) != len(contexts):
        report(field, f"{len(ids)} for {len(contexts)} contexts", "one id for each context")
        return contexts
    identified = []
    for index, value in enumerate(ids):
        place = f"{field}[{index}]"
        identifier = check_id(value, place, report)
        context = {"id": None} if contexts is None else contexts[index]
        if contexts is None and (value is None or (isinstance(value, str) and not value.strip())):
            report(place, describe(value), "an id")
        identified.append({**context, "id": context.get("id") if identifier is None else identifier})
    return identified


def _context(value: Any, field: str, report: Report, column: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {"text": _required_text(value, field, report)}
    rest = _unwrapped(value)
    text = _take(rest, _TEXTS, field, report)
    identifier = check_id(_take(rest, ("id", "id_", "doc_id"), field, report), f"{field}.id", report)
    meta = _take(rest, ("meta", "metadata"), field, report)
    score = rest.pop("score", None)
    if text is None and (identifier is None or _without_nulls(rest)):
        key = max(value, key=lambda key: len(_text_of(value[key])), default="KEY")
        mapping = option("mapping", {field.partition("[")[0]: f"{column}.{key}"})
        other_key = f" (for the text under another key: {mapping})" if value else ""
        report(field, describe(value), f"an object with {' or '.join(_TEXTS)}{other_key}")
        text = ""
    if meta is not None and not isinstance(meta, Mapping):
        report(f"{field}.meta", describe(meta), "an object")
        meta = None
    if not (check_writable(rest, field, report) and check_writable(meta, f"{field}.meta", report)):
        rest, meta = {}, None
    return {
        "text": text if text is None else _required_text(text, field, report),
        "id": identifier,
        "meta": _without_nulls({**rest, **(meta or {})}),
        "score": _score(score, f"{field}.score", report),
    }


def _unwrapped(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inner object if it contains the text."""
    match value:
        case {"lc": int(), "kwargs": Mapping() as fields}:
            return dict(fields)
        case {"node": Mapping() as node} if value.keys().isdisjoint(_TEXTS):
            rest = {name: item for name, item in value.items() if name not in {"node", "class_name"}}
            return {name: node[name] for name in _NODE if name in node} | rest
        case {"id_": _, "class_name": str()}:
            return {name: value[name] for name in _NODE if name in value}
        case _:
            return dict(value)


def _take(rest: dict[str, Any], names: Sequence[str], field: str, report: Report) -> Any:
    """Remove and return the value under one of the names. Reports more than one match."""
    values = {name: value for name in names if (value := rest.pop(name, None)) is not None}
    if len(values) > 1:
        report(field, f"an object with {' and '.join(values)}", "only one of them")
    return next(iter(values.values()), None)


def _without_nulls(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Remove nulls from the meta, because Parquet cannot distinguish null from a missing key."""
    items = [(key, value) for key, value in meta.items() if value is not None]
    return {key: _without_nulls(value) if isinstance(value, Mapping) else value for key, value in items}


def _required_text(value: Any, field: str, report: Report) -> str:
    if value is None:
        report(field, "null", "text")
    return check_text(value, field, report, "text, or an object with a text") or ""


def _score(value: Any, field: str, report: Report) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and abs(value) <= sys.float_info.max:  # a greater whole number cannot become a float, and NaN is not <=
        return float(value)
    if value is not None:
        report(field, describe(value), "a finite number or null")
    return None


_USER = {"user", "human"}
_ASSISTANT = {"assistant", "ai"}
_ROLES = _USER | _ASSISTANT | {"system", "developer", "tool", "function"}


def with_last_turn(values: Mapping[str, Any], column: str | None) -> Mapping[str, Any] | None:
    """Replace a conversation in `column` by its last turn. None if there is no conversation."""
    for name in [column] if column else (*ALIASES["user_input"], *LOOSE_NAMES["user_input"]):
        value = lookup(values, name)
        if isinstance(value, str):
            return None
        turn = last_turn(value) if isinstance(value, list | tuple) else None
        if turn:
            question, answer = turn
            answered = answer is None or any(has_value(values, other) for other in ALIASES["response"])
            return {**values, name: question} | ({} if answered else {"response": answer})
    return None


def last_turn(messages: Sequence[Any]) -> tuple[str, str | None] | None:
    """Return the last question of a conversation and its answer, if any. None for any other list."""
    turn: tuple[str, str | None] | None = None
    for message in messages:
        role = isinstance(message, Mapping) and "content" in message and message.get("role", message.get("type"))
        if not isinstance(role, str) or role not in _ROLES:
            return None
        text = _text_of(message["content"])
        if text and role in _USER:
            turn = text, None
        elif text and role in _ASSISTANT and turn:
            turn = turn[0], text
    return turn


def _text_of(content: Any) -> str:
    """Return the text of a message: its content, or the texts of its parts on separate lines."""
    parts = [content] if isinstance(content, str) else content if isinstance(content, list | tuple) else ()
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


_MARK = "|"
_BETWEEN_CONTEXTS = re.compile(r"\||\n\s*\n|\n-+\n")
_OF_DEEPEVAL = ("additional_metadata", "custom_column_key_values", "expected_tools", "source_file", "tools_called")
"""Columns that DeepEval writes into every file and handwritten data lack."""


def splitter(separator: str | None, has: Callable[[str], bool]) -> Split:
    """Return the function that splits texts of one source into contexts. `has` tells whether a column exists.

    Trims the pieces and removes empty ones. Leaves lists and objects unchanged. Without a separator, the function
    raises DataError for `first|second` in a file with DeepEval's columns (4.3.1 writes lists so); elsewhere it is plain
    text.
    """
    of_deepeval = any(map(has, _OF_DEEPEVAL))

    def split(value: Any, place: Place, column: str) -> Any:
        if isinstance(value, str) and separator is not None:
            return [piece for piece in map(str.strip, value.split(separator)) if piece]
        if isinstance(value, str) and of_deepeval and _MARK in value:
            raise DataError(
                f"{place}: {shown(column)}: found one text with {_MARK!r} in it, in a file of DeepEval, which writes "
                "lists so",
                hint=f"split such texts: {option('context_separator', _MARK)}; DeepEval's save_as('json') keeps lists",
            )
        return value

    return split


_PLAIN = frozenset({str, int, float, bool, type(None)})
_MISSING = {"NAType", "NaTType"}
"""Type names of pandas' missing values, so that pandas need not be imported."""


def plain(value: Any, levels: int = DEEPEST + 2) -> Any:
    """Convert Python values to JSON values, so that rows mean the same from any source.

        numpy array -> list      datetime -> "2024-05-01T12:00:00"      Decimal("0.5") -> "0.5"      Enum -> its value
        pydantic model, dataclass, named tuple -> object with its fields

    Leaves values of unknown types and at excessive depth to later checks.
    """
    if levels == 0 or type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item, levels - 1) for key, item in value.items()}
    fields = fields_of(value)
    if fields is None and isinstance(value, list | tuple):
        return [plain(item, levels - 1) for item in value]
    return _plain_scalar(value) if fields is None else plain(fields, levels)


def _plain_scalar(value: Any) -> Any:
    if type(value).__name__ in _MISSING:  # before dates: NaT is one
        return None
    match value:
        case Enum():
            return plain(value.value)
        case date() | time():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case _:
            return plain(value.tolist()) if hasattr(value, "tolist") else value


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the fields of a pydantic model, dataclass, named tuple or namespace; None of others."""
    if isinstance(value, type):
        return None
    if hasattr(value, "model_fields_set") and hasattr(value, "model_dump"):
        return dict(value.model_dump())
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, SimpleNamespace):
        return dict(vars(value))
    return dict(value._asdict()) if isinstance(value, tuple) and hasattr(value, "_asdict") else None
