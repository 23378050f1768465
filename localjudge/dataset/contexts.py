"""A column of contexts, in the shapes in which people have them.

    ["text", "text"]                                          a list of texts
    [{"text": "...", "id": "d1", "score": 0.7, "meta": {}}]   a list of objects (Haystack, LangChain, RAGChecker)
    "text"                                                    one text
    '["text", "text"]'                                        a list in a CSV cell, as JSON or as Python prints it

An object's text may be called `text`, `content` or `page_content`, its id `id` or `doc_id`, its meta `meta` or
`metadata`. Any other key is kept in `meta` (Haystack writes a document's meta that way), so nothing given is lost; a
null in an object is the same as no key.
"""

import ast
import io
import json
import tokenize
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from localjudge.dataset.problems import describe

Report = Callable[[str, str, str], None]
"""Takes a problem: field, what was found, what was expected."""

_TEXTS = ("text", "content", "page_content")
_IDS = ("id", "doc_id")
_METAS = ("meta", "metadata")
DEEPEST = 64
"""Values inside a context may be nested so deep."""
_LONGEST_ID = 128
_SHAPE = "text, a list of texts, or a list of objects with a text"


def check_text(value: Any, field: str, report: Report, expected: str = "text or null") -> str | None:
    """The value if it is Unicode text, None for null; anything else is reported."""
    if value is None:
        return None
    if not isinstance(value, str):
        report(field, describe(value), expected)
        return None
    return value if check_writable(value, field, report) else None


def check_writable(value: Any, field: str, report: Report, depth: int = 0) -> bool:
    """Whether the value can be written as JSON in Unicode; a text that cannot, however deep it stands, is reported."""
    if depth > DEEPEST:
        report(field, f"values nested more than {DEEPEST} deep", "fewer levels")
        return False
    match value:
        case str():
            return _check_characters(value, field, report)
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


def _check_characters(text: str, field: str, report: Report) -> bool:
    position = lone_surrogate(text)
    if position is None:
        return True
    report(field, f"half a character (U+{ord(text[position]):04X}, at position {position})", "Unicode text")
    return False


def check_id(value: Any, field: str, report: Report) -> str | None:
    """The id as text; whole numbers are ids too. None for a missing or blank one."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _LONGEST_ID:
        return str(value)
    text = check_text(value, field, report, "text or a whole number")
    return text if text and text.strip() else None


def check_contexts(value: Any, field: str, report: Report) -> list[dict[str, Any]] | None:
    """The contexts of one row as arguments of `Context`, None for null; what is wrong with them is reported."""
    match value:
        case None:
            return None
        case str() | Mapping():
            return [_context(value, field, report)]
        case list() | tuple():
            return [_context(item, f"{field}[{index}]", report) for index, item in enumerate(value)]
        case _:
            report(field, describe(value), _SHAPE)
            return None


def read_cell(cell: str, field: str, report: Report) -> Any:
    """Contexts in a CSV cell: a list if it can be read as one, otherwise the cell is one text.

    A cell that begins like a list of texts or objects and cannot be read is reported, not taken for a text.
    """
    stripped = cell.strip()
    if not (stripped.startswith("[") and stripped.endswith("]")) and not _begins_like_list(stripped):
        return cell
    for read in (json.loads, _python_list):
        try:
            value = read(stripped)
        except (ValueError, SyntaxError, Warning, RecursionError, MemoryError, tokenize.TokenError):
            continue
        if isinstance(value, list):
            return value
    if not _begins_like_list(stripped):
        return cell
    report(field, f"a list that cannot be read ({describe(cell)})", 'a JSON list, such as ["one text", "another"]')
    return None


def add_ids(contexts: list[dict[str, Any]] | None, ids: Any, field: str, report: Report) -> None:
    """Give contexts the ids that stand in a column of their own (ragas: `retrieved_context_ids`)."""
    if ids is None:
        return
    if not isinstance(ids, list | tuple):
        report(field, describe(ids), "a list of ids")
    elif len(ids) != len(contexts or ()):
        report(field, f"{len(ids)} for {len(contexts or ())} contexts", "one id for each context")
    else:
        for index, (context, value) in enumerate(zip(contexts or (), ids, strict=True)):
            _add_id(context, check_id(value, f"{field}[{index}]", report), f"{field}[{index}]", report)


def _add_id(context: dict[str, Any], identifier: str | None, field: str, report: Report) -> None:
    own = context.get("id")
    if own is not None and identifier is not None and own != identifier:
        report(field, f"the id {identifier!r} for a context with the id {own!r}", "the same id")
    elif identifier is not None:
        context["id"] = identifier


def _context(value: Any, field: str, report: Report) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {"text": _given_text(value, field, report)}
    rest = dict(value)
    text = _take(rest, _TEXTS, field, report)
    identifier = check_id(_take(rest, _IDS, field, report), f"{field}.id", report)
    meta = _take(rest, _METAS, field, report)
    score = rest.pop("score", None)
    if text is None:
        report(field, describe(value), f"an object with {' or '.join(_TEXTS)}")
    if meta is not None and not isinstance(meta, Mapping):
        report(f"{field}.meta", describe(meta), "an object")
        meta = None
    if not (check_writable(rest, field, report) and check_writable(meta, f"{field}.meta", report)):
        rest, meta = {}, None
    return {
        "text": _given_text(text, field, report) if text is not None else "",
        "id": identifier,
        "meta": _without_nulls({**rest, **(meta or {})}),
        "score": _score(score, f"{field}.score", report),
    }


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


_LARGEST = 1.7976931348623157e308
"""The largest float: a greater whole number cannot become one. No NaN is at most this either."""


def _begins_like_list(text: str) -> bool:
    return text.startswith("[") and text[1:].lstrip()[:1] in {'"', "'", "{"}


def _python_list(text: str) -> Any:
    """A list as Python prints it (ragas and pandas write it into CSV). Raises ValueError where a comma is missing.

    NumPy prints a list of texts without commas, and Python would read that as one long text.
    """
    previous = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == previous == tokenize.STRING:
            raise ValueError("two texts without a comma between them")
        if token.type not in {tokenize.NL, tokenize.NEWLINE}:
            previous = token.type
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an escape that Python does not know was not printed by Python
        return ast.literal_eval(text)
