"""Convert one row of any tool's data to a sample, or list all its problems.

    {"question": "...", "contexts": ["..."]}  ->  {"user_input": "...", "retrieved_contexts": [Context, ...]}

Null values are valid. A placeholder for a missing value (`NaN`, `NULL`, `-`) becomes null and is counted. Contexts may
have these shapes:

    ["text", "text"]                                          a list of texts; one text is also accepted
    '["text", "text"]'                                        a list as text: JSON, or printed by Python or NumPy
    [{"text": "...", "id": "d1", "score": 0.7, "meta": {}}]   objects (Haystack, LangChain, RAGChecker)
    [{"id": "d1"}, {"id": "d2", "score": 0.7}]                ids only, for all contexts of the row
    [{"node": {"text": "...", "id_": "d1"}, "score": 0.7}]    LlamaIndex nodes
    [{"lc": 1, "kwargs": {"page_content": "..."}, ...}]       LangChain documents from `dumpd`
    [["text", "text"]]                                        a nested list: promptfoo expands plain ones
    {"title": ["...", "..."], "text": ["...", "..."]}         columns: Hugging Face's form of a list of objects
    "first|second"                                            joined texts of DeepEval's CSV and JSONL; need a separator

Other keys of a context go into its `meta`. If the question is a conversation, its last turn is used: the user's last
message and the assistant's last reply to it.
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
)
from localjudge.errors import DataError, InputError
from localjudge.types import CONTEXT_FIELDS
from localjudge.words import option

ROW = "an object with columns"
_OURS = re.compile(r"^\w+")
_LISTS = (*CONTEXT_FIELDS, *ID_COLUMNS)
_INDEX = re.compile(r"\.(-?[0-9]{1,9}|\*|\[[0-9*]*\])(?=\.|$)")

PLACEHOLDERS = {
    *("NaN", "nan", "-NaN", "-nan", "NaT", "NULL", "null", "None", "<NA>", "NA", "N/A", "n/a", "#N/A", "#N/A N/A"),
    *("#NA", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "-", "\\N"),
}
"""Placeholders of pandas, plus `-`, `NaT` and `\\N` (databases). Not "none", which may be an answer."""


class RawRow(NamedTuple):
    """A row with its original columns and values."""

    place: Place
    values: Mapping[str, Any]
    typed: bool = True  # False if every value is text (CSV)
    conversation: bool = False  # its question was a conversation, now its last turn
    whole: bool = False  # the only value of a JSON file, which may contain the rows
    literal: bool = False  # a sample: its texts are never placeholders


class CheckedRow(NamedTuple):
    """A row with our field names. `values` are arguments of `Sample`, with contexts as dicts; the id may be missing."""

    place: Place
    values: dict[str, Any]
    extras: dict[str, Any]
    nothing: list[tuple[str, str]]
    """Column and word of each placeholder for a missing value."""
    joined: bool = False
    """Whether the retrieved contexts are one text that may contain several."""


Split = Callable[[Any, Place, str], Any]
"""Receives a value, its place and its column. Returns the value, or parts of a text."""


def raw_row(value: Any, place: Place) -> RawRow | Problem:
    if isinstance(value, Mapping):
        return RawRow(place, value)
    return Problem.at(place, None, describe(value), ROW)


def check_row(row: RawRow, resolved: Resolved, split: Split) -> CheckedRow | list[Problem]:
    """Return the row in our fields, or all its problems. Raises DataError if `split` refuses a text."""
    problems: list[Problem] = []

    def report(field: str, value: str, expected: str) -> None:
        column = _OURS.sub(lambda name: resolved.get(name.group(), name.group()), field, count=1)
        problems.append(Problem.at(row.place, column, value, expected))

    cells, nothing = _cells(row, resolved, split, report)
    values: dict[str, Any] = {"id": check_id(cells.get("id"), "id", report)}
    for field in ("user_input", "reference", "response"):
        cell = cells.get(field)
        inside = f" (name a value inside it with a dot: {option('mapping', {field: f'{resolved.get(field)}.NAME'})})"
        values[field] = check_text(cell, field, report, f"text or null{inside if isinstance(cell, Mapping) else ''}")
    for ids, field in ID_COLUMNS.items():
        contexts = _check_contexts(cells.get(field), field, report, resolved.get(field, field))
        values[field] = contexts if cells.get(ids) is None else _with_ids(contexts, cells[ids], ids, report)
    used = columns_of(resolved)
    extras = {name: value for name, value in row.values.items() if name not in used}
    text = cells.get("retrieved_contexts")
    joined = isinstance(text, str) and _BETWEEN_CONTEXTS.search(text) is not None
    return problems or CheckedRow(row.place, values, extras, nothing, joined)


def _cells(
    row: RawRow, resolved: Resolved, split: Split, report: Report
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    cells = {field: _cell(row, field, column, report) for field, column in resolved.items()}
    if row.literal:
        return cells, []
    if isinstance(references := cells.get("reference"), list | tuple):
        if any(other != references[0] for other in references):
            report("reference", f"{len(references)} reference answers", "one (choose the one that counts)")
        cells["reference"] = references[0] if references else None
    empty = {field: cell for field, cell in cells.items() if is_placeholder(cell)}
    nothing = [(resolved[field], cell.strip() if isinstance(cell, str) else "NaN") for field, cell in empty.items()]
    cells |= dict.fromkeys(empty)
    cells |= {field: split(cells[field], row.place, resolved[field]) for field in _LISTS if field in cells}
    for ids, field in ID_COLUMNS.items():
        nothing += [(f"{resolved[field]}[]", word) for word in _remove_placeholders(cells, field, ids)]
    return cells, nothing


def _remove_placeholders(cells: dict[str, Any], field: str, ids: str) -> list[str]:
    """Remove contexts that are placeholders, with their ids, and return the words."""
    elements = _objects_of_columns(cells.get(field)) or cells.get(field)
    if not isinstance(elements, list | tuple):
        return []
    words = []
    for item in elements:
        text = next(filter(None, map(item.get, _TEXTS)), None) if isinstance(item, Mapping) else item
        words.append(text.strip() if isinstance(text, str) and is_placeholder(text) else None)
    keep = [word is None for word in words]
    if not all(keep):
        cells[field] = [*compress(elements, keep)] or None
        if isinstance(cells.get(ids), list | tuple) and len(cells[ids]) == len(keep):
            cells[ids] = [*compress(cells[ids], keep)] or None
    return [word for word in words if word is not None]


def _cell(row: RawRow, field: str, column: str, report: Report) -> Any:
    """Return the value of a column, or one list for several columns of contexts."""
    names = [column] if field not in _LISTS or column in row.values else column.split(",")
    values = [lookup(row.values, name) for name in names]
    if not row.typed:  # CSV cannot distinguish an empty text from a missing one
        values = [None if value == "" else value for value in values]
    if field not in _LISTS:
        return values[0]
    values = [read_cell(value, field, report) if isinstance(value, str) else value for value in values]
    if len(values) > 1:
        filled = [value for value in values if value is not None and not is_placeholder(value)]
        return [item for value in filled for item in (value if isinstance(value, list | tuple) else [value])] or None
    whole_list = _INDEX.sub("[]", column)  # "hits.0.text" is an element of "hits[].text"
    is_element = column not in row.values and whole_list != column and isinstance(values[0], str | Mapping)
    if is_element and isinstance(lookup(row.values, whole_list), list | tuple):
        raise InputError(  # the other contexts would be dropped silently
            f"{row.place}: {field}={column} uses one context of a list",
            hint=f"to use all of them: {option('mapping', {field: whole_list})}",
        )
    return values[0]


def is_placeholder(value: Any) -> bool:
    return value.strip() in PLACEHOLDERS if isinstance(value, str) else isinstance(value, float) and math.isnan(value)


def read_cell(cell: str, field: str, report: Report) -> Any:
    """Read a list of contexts, or one text. Report a text that only begins like a list."""
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
    """Parse a list or object in JSON, Python or NumPy notation. Return None for other text."""
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
    """Parse a list printed by Python (in the CSV of ragas and pandas) or by NumPy (without commas)."""
    tokens: list[tuple[int, str]] = []
    ended = False
    for kind, string, *_ in tokenize.generate_tokens(io.StringIO(text).readline):
        if kind not in {tokenize.NL, tokenize.NEWLINE}:
            lacks_comma = ended and (kind == tokenize.STRING or string in {"(", "[", "{"})
            tokens += [(tokenize.OP, ","), (kind, string)] if lacks_comma else [(kind, string)]
            ended = kind == tokenize.STRING or string in {")", "]", "}"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Python prints no invalid escapes
        return ast.literal_eval(tokenize.untokenize(tokens))


_TEXTS = ("text", "content", "page_content")
_NODE = ("text", "id_", "metadata")  # keys of a LlamaIndex node


def _check_contexts(value: Any, field: str, report: Report, column: str) -> list[dict[str, Any]] | None:
    """Return the arguments of each `Context`. Hints name the `column`."""
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
            for index in bare if len(bare) < len(contexts) else ():
                report(f"{field}[{index}]", "an id without a text, unlike the others", "a text in each, or in none")
            return contexts
        case _:
            report(field, describe(value), "text, a list of texts, or a list of objects with a text")
            return None


def _objects_of_columns(value: Any) -> list[dict[str, Any]] | None:
    """Convert lists of equal length, one of them texts, to a list of objects. Return None for other values."""
    if not isinstance(value, Mapping) or not any(isinstance(value.get(name), list | tuple) for name in _TEXTS):
        return None
    lengths = {len(items) if isinstance(items, list | tuple) else None for items in value.values()}
    if None in lengths or len(lengths) > 1:
        return None
    return [dict(zip(value, items, strict=True)) for items in zip(*value.values(), strict=True)]


def _with_ids(
    contexts: list[dict[str, Any]] | None, ids: Any, field: str, report: Report
) -> list[dict[str, Any]] | None:
    """Add the ids of a separate column (ragas: `retrieved_context_ids`) to the contexts."""
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
        if contexts is None and (value is None or (isinstance(value, str) and not value.strip())):
            report(place, describe(value), "an id")
        context = {} if contexts is None else contexts[index]
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
    values = {name: value for name in names if (value := rest.pop(name, None)) is not None}
    if len(values) > 1:
        report(field, f"an object with {' and '.join(values)}", "only one of them")
    return next(iter(values.values()), None)


def _without_nulls(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Remove nulls, because Parquet cannot distinguish null from a missing key."""
    items = [(key, value) for key, value in meta.items() if value is not None]
    return {key: _without_nulls(value) if isinstance(value, Mapping) else value for key, value in items}


def _required_text(value: Any, field: str, report: Report) -> str:
    if value is None:
        report(field, "null", "text")
    return check_text(value, field, report, "text, or an object with a text") or ""


def _score(value: Any, field: str, report: Report) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and abs(value) <= sys.float_info.max:  # not NaN, and not an integer too large for a float
        return float(value)
    if value is not None:
        report(field, describe(value), "a finite number or null")
    return None


_USER = {"user", "human"}
_ASSISTANT = {"assistant", "ai"}
_ROLES = _USER | _ASSISTANT | {"system", "developer", "tool", "function"}


def with_last_turn(values: Mapping[str, Any], column: str | None) -> Mapping[str, Any] | None:
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
    """Return the last question of a conversation and its answer. Return None for other lists."""
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
    parts = [content] if isinstance(content, str) else content if isinstance(content, list | tuple) else ()
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


_MARK = "|"
_BETWEEN_CONTEXTS = re.compile(r"\||\n\s*\n|\n-+\n")
_DEEPEVAL_COLUMNS = ("additional_metadata", "custom_column_key_values", "expected_tools", "source_file", "tools_called")


def splitter(separator: str | None, has: Callable[[str], bool]) -> Split:
    """Return a function that splits a text into its non-empty contexts.

    Without a separator, it raises DataError for `first|second` in a source with DeepEval's columns: DeepEval 4.3.1
    joins lists like this, and one text would get another score.
    """
    of_deepeval = any(map(has, _DEEPEVAL_COLUMNS))  # every DeepEval file has these columns, and handwritten data do not

    def split(value: Any, place: Place, column: str) -> Any:
        if isinstance(value, str) and separator is not None:
            return [piece for piece in map(str.strip, value.split(separator)) if piece]
        if isinstance(value, str) and of_deepeval and _MARK in value:
            raise DataError(
                f"{place}: {shown(column)}: found one text with {_MARK!r}, which joins the texts of a list in DeepEval",
                hint=f"to split it: {option('context_separator', _MARK)}; DeepEval's save_as('json') keeps lists",
            )
        return value

    return split


_PLAIN = frozenset({str, int, float, bool, type(None)})
_MISSING = {"NAType", "NaTType"}  # names, so that pandas need not be imported


def plain(value: Any, levels: int = DEEPEST + 2) -> Any:
    """Convert a Python value to a JSON value. Values of unknown types, and those below `levels`, stay unchanged.

    numpy array -> list      datetime -> "2024-05-01T12:00:00"      Decimal("0.5") -> "0.5"      Enum -> its value
    pydantic model, dataclass, named tuple -> object with its fields
    """
    if levels == 0 or type(value) in _PLAIN:
        return value
    if not isinstance(value, Mapping) and (fields := fields_of(value)) is not None:
        value = fields
    result = value
    match value:
        case Mapping():
            result = {str(key): plain(item, levels - 1) for key, item in value.items()}
        case list() | tuple():
            result = [plain(item, levels - 1) for item in value]
        case _ if type(value).__name__ in _MISSING:  # before dates, because NaT is a date
            result = None
        case Enum():
            result = plain(value.value)
        case date() | time():
            result = value.isoformat()
        case Decimal() | UUID():
            result = str(value)
        case _ if hasattr(value, "tolist"):
            result = plain(value.tolist())
    return result


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the fields of a pydantic model, dataclass, named tuple or namespace."""
    if isinstance(value, type):
        return None
    if hasattr(value, "model_fields_set") and hasattr(value, "model_dump"):
        return dict(value.model_dump())
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, SimpleNamespace):
        return dict(vars(value))
    return dict(value._asdict()) if isinstance(value, tuple) and hasattr(value, "_asdict") else None
