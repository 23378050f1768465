"""A column of contexts, in the shapes in which people have them.

    ["text", "text"]                                          a list of texts
    [{"text": "...", "id": "d1", "score": 0.7, "meta": {}}]   a list of objects (Haystack, LangChain, RAGChecker)
    "text"                                                    one text
    '["text", "text"]'                                        a list in a CSV cell, as JSON or as Python prints it
    [{"id": "d1"}, {"id": "d2", "score": 0.7}]                ids alone: no text is known of any context of the row
    [{"node": {"text": "...", "id_": "d1"}, "score": 0.7}]    LlamaIndex's nodes
    [{"lc": 1, "kwargs": {"page_content": "..."}, ...}]       LangChain's documents, written by its `dumpd`
    [["text", "text"]]                                        a list in a list: promptfoo would expand a plain one
    {"title": ["...", "..."], "text": ["...", "..."]}         columns, as Hugging Face writes a list of objects

An object's text may be called `text`, `content` or `page_content`, its id `id`, `id_` or `doc_id`, its meta `meta` or
`metadata`. Any other key is kept in `meta` (Haystack writes a document's meta that way), so nothing given is lost; a
null in an object is the same as no key. Text under another key is named by a mapping: `hits[].chunk_text`.
"""

from collections.abc import Mapping
from typing import Any

from localjudge.dataset.checks import Report, check_id, check_text, check_writable
from localjudge.dataset.problems import describe, shown
from localjudge.option_spelling import option

_TEXTS = ("text", "content", "page_content")
_IDS = ("id", "id_", "doc_id")
_METAS = ("meta", "metadata")
_NODE = ("text", "id_", "metadata")
_NODE_ALONE = frozenset({"node", "class_name"})
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
    texts = {key: max(_texts_in(item), key=len, default="") for key, item in value.items()}
    key = max(texts, key=lambda name: len(texts[name]), default=None)
    if key is None or not texts[key]:
        return ""
    return f" (for the text under another key: {option('mapping', {field.partition('[')[0]: f'{column}.{key}'})})"


def _texts_in(value: Any) -> list[str]:
    return [item for item in (value if isinstance(value, list | tuple) else [value]) if isinstance(item, str)]


def _unwrapped(value: Mapping[str, Any]) -> dict[str, Any]:
    """What the object says of its text, where it stands one level down."""
    match value:
        case {"lc": int(), "kwargs": Mapping() as fields}:
            return dict(fields)
        case {"node": Mapping() as node} if value.keys().isdisjoint(_TEXTS):
            return {**_of_node(node), **{name: item for name, item in value.items() if name not in _NODE_ALONE}}
        case {"id_": _, "class_name": str()}:
            return _of_node(value)
        case _:
            return dict(value)


def _of_node(node: Mapping[str, Any]) -> dict[str, Any]:
    """LlamaIndex's node without how it is shown and what belongs to its index."""
    return {name: node[name] for name in _NODE if name in node}


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
