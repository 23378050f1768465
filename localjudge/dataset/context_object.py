"""Read one context: a text, or an object with a text, an id or both.

Other keys of an object go into its `meta`. Objects of LlamaIndex and LangChain, which wrap the
document, are unwrapped. A problem with an unknown key comes with the mapping that reads it.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from localjudge.dataset.printed import parse_printed
from localjudge.dataset.problems import Report, check_id, check_text, check_writable, describe
from localjudge.dataset.text_keys import find_texts, has_named_text, is_collection
from localjudge.words import option

TEXT_KEYS = ("text", "content", "page_content")
SENTENCES = "sentences"
_ID_KEYS = ("id", "id_", "doc_id")
_META_KEYS = ("meta", "metadata")
_NODE_KEYS = ("text", "id_", "metadata")  # of a LlamaIndex node
_RESOURCE = "text_resource"  # with the text of a newer one
_MAX_HINTS = 4
_EXPECTED = f"an object with {' or '.join(TEXT_KEYS)}"


def read_context(value: Any, field: str, report: Report, column: str) -> dict[str, Any]:
    """Return the arguments of a `Context`. Hints name the `column`."""
    if is_titled_passage(value):
        title, sentences = value
        value = {"title": title, SENTENCES: sentences}
    if not isinstance(value, Mapping):
        return {"text": _require_text(value, field, report)}
    rest = _unwrap(value)
    text = _take_text(rest, field, report)
    identifier = check_id(_take(rest, _ID_KEYS, field, report), f"{field}.id", report)
    meta = _take(rest, _META_KEYS, field, report)
    score = rest.pop("score", None)
    # Other keys, or a key with the name of a text, may be those of a document.
    is_only_id = identifier is not None and not _without_nulls(rest) and not has_named_text(value)
    if text is None and not is_only_id:
        report(field, describe(value), f"{_EXPECTED}{_hint(value, field, column)}")
        text = ""
    elif isinstance(text, Mapping | list | tuple):
        expected = f"text, or an object with a text{_hint(value, field, column)}"
        report(field, describe(text), expected)
        text = ""
    meta = _read_meta(meta, f"{field}.meta", report)
    if not (check_writable(rest, field, report) and check_writable(meta, f"{field}.meta", report)):
        rest = {}
        meta = {}
    if text is not None:
        text = _require_text(text, field, report)
    return {
        "text": text,
        "id": identifier,
        "meta": _without_nulls({**rest, **meta}),
        "score": _read_score(score, f"{field}.score", report),
    }


def find_text_key(value: Mapping[str, Any]) -> str | None:
    """Return the key of a context's text, or None for an object that has none."""
    fields = _unwrap(value)
    for key in TEXT_KEYS:
        if fields.get(key) is not None:
            return key
    if is_list_of_texts(fields.get(SENTENCES)):
        return SENTENCES
    return None


def is_list_of_texts(value: Any) -> bool:
    """Return whether a value is a list of one or more texts."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(item, str) for item in value)


def is_titled_passage(value: Any) -> bool:
    """Return whether a context is a title with its sentences, as in HotpotQA."""
    if not isinstance(value, list | tuple) or len(value) != 2:  # noqa: PLR2004
        return False
    title, sentences = value
    return isinstance(title, str) and is_list_of_texts(sentences)


def option_to_map(field: str, path: str) -> str:
    """Return the option that reads a field, or an element of it, from a path."""
    return option("mapping", {field.partition("[")[0]: path})


def _unwrap(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the object, or of the document inside it."""
    match value:
        case {"lc": int(), "kwargs": Mapping() as fields}:
            return dict(fields)
        case {"node": Mapping() as node} if value.keys().isdisjoint(TEXT_KEYS):
            document = _read_node(node)
            for name, item in value.items():
                if name not in {"node", "class_name"}:
                    document[name] = item
            return document
        case {"id_": _, "class_name": str()} | {"id_": _, "text_resource": Mapping()}:
            return _read_node(value)
        case {"text_resource": Mapping() as resource} if value.keys().isdisjoint(TEXT_KEYS):
            others = {name: item for name, item in value.items() if name != _RESOURCE}
            return {**others, "text": resource.get("text")}
        case _:
            return dict(value)


def _read_node(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the text, id and metadata of a LlamaIndex node."""
    document = {name: node[name] for name in _NODE_KEYS if name in node}
    resource = node.get(_RESOURCE)
    if document.get("text") is None and isinstance(resource, Mapping):
        document["text"] = resource.get("text")
    return document


def _take_text(rest: dict[str, Any], field: str, report: Report) -> Any:
    """Return the text, or its sentences with a space between them, unless there is one."""
    text = _take(rest, TEXT_KEYS, field, report)
    if text is not None or not is_list_of_texts(rest.get(SENTENCES)):
        return text
    joined = ""
    for sentence in rest.pop(SENTENCES):
        if joined and not (joined[-1].isspace() or sentence[:1].isspace()):
            joined += " "
        joined += sentence
    return joined


def _take(rest: dict[str, Any], names: Sequence[str], field: str, report: Report) -> Any:
    """Remove the keys with one meaning, and return the only value."""
    values = {}
    for name in names:
        value = rest.pop(name, None)
        if value is not None:
            values[name] = value
    if len(values) > 1:
        report(field, f"an object with {' and '.join(values)}", "only one of them")
    return next(iter(values.values()), None)


def _hint(value: Mapping[str, Any], field: str, column: str) -> str:
    """Return the options that read the text under another key, "" for an empty object."""
    if not value:
        return ""
    paths = find_texts(value, column) or [f"{column}.KEY"]
    if is_collection(value):
        paths = [f"{column}[]"]
    if len(paths) == 1:
        return f" (for the text under another key: {option_to_map(field, paths[0])})"
    choices = ", or ".join(option_to_map(field, path) for path in paths[:_MAX_HINTS])
    return f" (several keys contain a text, choose one: {choices})"


def _read_meta(meta: Any, field: str, report: Report) -> dict[str, Any]:
    if isinstance(meta, str):
        parsed = parse_printed(meta)  # as in Parquet, where objects have one type
        if isinstance(parsed, dict):
            meta = parsed
    if isinstance(meta, Mapping):
        return dict(meta)
    if meta is not None:
        report(field, describe(meta), "an object")
    return {}


def _without_nulls(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Remove nulls, because Parquet cannot distinguish null from a missing key."""
    values = {}
    for key, item in meta.items():
        value = _jsonable(item)
        if value is not None:
            values[key] = value
    return values


def _jsonable(value: Any) -> Any:
    """Return null for NaN, and a text for infinity, which JSON lacks."""
    if isinstance(value, Mapping):
        return _without_nulls(value)
    if isinstance(value, list | tuple):
        return list(map(_jsonable, value))
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return None
        return str(value)
    return value


def _require_text(value: Any, field: str, report: Report) -> str:
    if value is None:
        report(field, "null", "text")
    return check_text(value, field, report, "text, or an object with a text") or ""


def _read_score(value: Any, field: str, report: Report) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Not NaN, and not an integer too large for a float.
    if is_number and abs(value) <= sys.float_info.max:
        return float(value)
    if value is not None:
        report(field, describe(value), "a finite number or null")
    return None
