"""Read the contexts of a row in the shapes of every tool.

    ["text", "text"]                                          a list of texts, or one text
    '["text", "text"]'                                        a list as text, see `printed`
    [{"text": "...", "id": "d1", "score": 0.7, "meta": {}}]   objects (Haystack, LangChain ...)
    [{"id": "d1"}, {"id": "d2", "score": 0.7}]                ids only, for all contexts of the row
    [{"node": {"text": "...", "id_": "d1"}, "score": 0.7}]    LlamaIndex nodes
    [{"lc": 1, "kwargs": {"page_content": "..."}, ...}]       LangChain documents from `dumpd`
    [["text", "text"]]                                        a nested list (promptfoo)
    {"title": ["...", "..."], "text": ["...", "..."]}         columns (Hugging Face)
    {"title": ["..."], "sentences": [["...", "..."]]}         texts as lists of sentences (HotpotQA)
    [["title", ["...", "..."]]]                               the same in HotpotQA's own files

A context is a text, or an object with a text, an id or both. Other keys of an object go into its
`meta`. Objects of LlamaIndex and LangChain, which wrap the document, are unwrapped. A problem with
an unknown key comes with the mapping that reads it.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from localjudge.dataset.paths import find_texts, has_named_text, has_texts_only, is_collection
from localjudge.dataset.printed import looks_like_document, looks_printed, parse_printed
from localjudge.dataset.rows import DECODER, Report, check_id, check_text, check_writable, describe
from localjudge.words import option

_TEXT_KEYS = ("text", "content", "page_content")
_SENTENCES = "sentences"
_ID_KEYS = ("id", "id_", "doc_id")
_META_KEYS = ("meta", "metadata")
_NODE_KEYS = ("text", "id_", "metadata")  # of a LlamaIndex node
_RESOURCE = "text_resource"  # with the text of a newer one
_MAX_HINTS = 4
_EXPECTED_OBJECT = f"an object with {' or '.join(_TEXT_KEYS)}"
_EXPECTED = "text, a list of texts, or a list of objects with a text"


def read_printed(cell: str, field: str, report: Report) -> Any:
    """Read a list of contexts, an object with a text, or one text.

    Report a list that cannot be read.
    """
    value = parse_printed(cell)
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and (_is_to_be_read(value) or has_texts_only(value, least=1)):
        return value
    if value is None and looks_printed(cell):
        form = (
            'a JSON list, such as ["one text", "another"] '
            "(json.dumps in Python; .tolist() of an array before it)"
        )
        report(field, f"a list that cannot be read ({describe(cell)})", form)
        return None
    return cell


def read_printed_elements(values: Any, field: str, report: Report) -> Any:
    """Read the printed documents and lists among contexts, and leave other texts and values.

    Report printed objects whose text has another name, and lists among other contexts.
    """
    if not isinstance(values, list | tuple):
        return values
    values = _strings_of(values) or values
    elements: list[Any] = []
    for index, element in enumerate(values):
        value = parse_printed(element) if isinstance(element, str) else None
        if not value:
            elements.append(element)
        elif isinstance(value, dict):
            elements.append(value if _is_to_be_read(value) else element)
        elif len(values) == 1 and all(isinstance(item, str | Mapping) for item in value):
            return value
        elif len(value) == 1 and isinstance(value[0], Mapping):
            elements.append(value[0])
        else:
            elements.append(element)
            if len(value) > 1 and all(isinstance(item, str | Mapping) for item in value):
                printed = f"a printed list ({describe(element)})"
                report(f"{field}[{index}]", printed, "one text, or one list")
    return elements


def _strings_of(values: Sequence[Any]) -> list[str] | None:
    """Return the texts of a list whose texts are all printed in JSON. Return None for others.

    One text in quotation marks may be a quotation.
    """
    if len(values) < 2:  # noqa: PLR2004
        return None
    strings: list[str] = []
    for value in values:
        if not isinstance(value, str) or value[:1] != '"':
            return None
        try:
            string = DECODER.decode(value)
        except (ValueError, RecursionError):
            return None
        strings.append(string)
    return strings


def _is_to_be_read(value: Mapping[str, Any]) -> bool:
    """Return whether a printed object is a context, or contains some, and is no text itself."""
    if not value or objects_of_columns(value) is not None or _find_text_key(value) is not None:
        return True
    return has_named_text(value) or is_collection(value)


def read_contexts(
    value: Any,
    field: str,
    report: Report,
    column: str,
) -> list[dict[str, Any]] | None:
    """Return the arguments of each `Context`, or None without contexts. Hints name the `column`."""
    columns = objects_of_columns(value)
    if columns is not None:
        return read_contexts(columns, field, report, column)
    if isinstance(value, Mapping):
        is_one_context = _find_text_key(value) is not None
        if not is_one_context and (is_collection(value) or has_texts_only(value)):
            _report_collection(value, field, report, column)
            return None
        return [_read_context(value, field, report, column)]
    if isinstance(value, str):
        return [_read_context(value, field, report, column)]
    if isinstance(value, list | tuple):
        return _read_list(value, field, report, column)
    if value is not None:
        report(field, describe(value), _EXPECTED)
    return None


def _read_list(
    values: Sequence[Any],
    field: str,
    report: Report,
    column: str,
) -> list[dict[str, Any]] | None:
    column = f"{column}[]"
    is_nested = len(values) == 1 and isinstance(values[0], list | tuple)
    if is_nested and not _is_titled_passage(values[0]):
        if _is_pair(values[0]):
            key_and_text = f"a key and its text: {_option_to_map(field, f'{column}.1')}"
            two_texts = f"two texts: {_option_to_map(field, column.removesuffix('[]') + '.0')}"
            begins = f"a pair that begins with {describe(values[0][0])}"
            report(field, begins, f"{_EXPECTED} ({key_and_text}; {two_texts})")
            return None
        return read_contexts(values[0], field, report, column)
    contexts = []
    for index, value in enumerate(values):
        contexts.append(_read_context(value, f"{field}[{index}]", report, column))
    without_text = [index for index, context in enumerate(contexts) if context["text"] is None]
    if len(without_text) < len(contexts):
        for index in without_text:
            without = "an id without a text, unlike the others"
            report(f"{field}[{index}]", without, "a text in each, or in none")
    return contexts


def _is_pair(value: Sequence[Any]) -> bool:
    """Return whether a list is a key and its text or document, as from a map of Parquet."""
    if len(value) != 2:  # noqa: PLR2004
        return False
    key, content = value
    if not isinstance(key, str):
        return False
    if isinstance(value, list) and (len(key.split()) != 1 or not key.isascii()):
        return False  # two texts
    return isinstance(content, Mapping) or (isinstance(content, str) and len(content.split()) > 1)


def report_printed_documents(
    contexts: Sequence[Mapping[str, Any]] | None,
    field: str,
    report: Report,
) -> None:
    """Report texts that contain a whole printed document, with its metadata."""
    for index, context in enumerate(contexts or ()):
        text = context["text"]
        if isinstance(text, str) and looks_like_document(text.strip()):
            report(
                f"{field}[{index}]",
                f"a printed document ({describe(text)})",
                "the text of the document only",
            )


def objects_of_columns(value: Any) -> list[dict[str, Any]] | None:
    """Convert an object of equally long lists, one of them texts, to a list of objects.

    Return None for other values.
    """
    if not isinstance(value, Mapping):
        return None
    names = (*_TEXT_KEYS, _SENTENCES)
    if not any(isinstance(value.get(name), list | tuple) for name in names):
        return None
    columns = list(value.values())
    if not all(isinstance(column, list | tuple) for column in columns):
        return None
    if len({len(column) for column in columns}) > 1:
        return None
    if not all(map(_is_list_of_texts, value.get(_SENTENCES, ()))):
        return None
    return [dict(zip(value, items, strict=True)) for items in zip(*columns, strict=True)]


def find_text(context: Any) -> Any:
    """Return the text of a context in any shape, as it is stored."""
    if not isinstance(context, Mapping):
        return context
    for key in _TEXT_KEYS:
        if context.get(key):
            return context[key]
    return None


def add_ids(
    contexts: list[dict[str, Any]] | None,
    ids: Any,
    field: str,
    report: Report,
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
        element = f"{field}[{index}]"
        identifier = check_id(value, element, report)
        context: dict[str, Any] = {}
        if contexts is not None:
            context = contexts[index]
        elif value is None or (isinstance(value, str) and not value.strip()):
            report(element, describe(value), "an id")
        identified.append({**context, "id": identifier or context.get("id")})
    return identified


def _report_collection(value: Mapping[str, Any], field: str, report: Report, column: str) -> None:
    texts = find_texts(next(iter(value.values())), f"{column}[]")
    path = f"{column}[]"
    if texts:
        path = texts[0]
    every_text = f"for the texts of all keys: {_option_to_map(field, path)}"
    one_text = ""
    if not is_collection(value):
        one_text = f"; for the text of one: {_option_to_map(field, f'{column}.KEY')}"
    report(
        field,
        describe(value),
        f"{_EXPECTED_OBJECT} (every key is a text; {every_text}{one_text})",
    )


def _read_context(value: Any, field: str, report: Report, column: str) -> dict[str, Any]:
    """Return the arguments of a `Context`. Hints name the `column`."""
    if _is_titled_passage(value):
        title, sentences = value
        value = {"title": title, _SENTENCES: sentences}
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
        report(field, describe(value), f"{_EXPECTED_OBJECT}{_hint(value, field, column)}")
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


def _find_text_key(value: Mapping[str, Any]) -> str | None:
    """Return the key of a context's text, or None for an object that has none."""
    fields = _unwrap(value)
    for key in _TEXT_KEYS:
        if fields.get(key) is not None:
            return key
    if _is_list_of_texts(fields.get(_SENTENCES)):
        return _SENTENCES
    return None


def _is_list_of_texts(value: Any) -> bool:
    """Return whether a value is a list of one or more texts."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(item, str) for item in value)


def _is_titled_passage(value: Any) -> bool:
    """Return whether a context is a title with its sentences, as in HotpotQA."""
    if not isinstance(value, list | tuple) or len(value) != 2:  # noqa: PLR2004
        return False
    title, sentences = value
    return isinstance(title, str) and _is_list_of_texts(sentences)


def _option_to_map(field: str, path: str) -> str:
    """Return the option that reads a field, or an element of it, from a path."""
    return option("mapping", {field.partition("[")[0]: path})


def _unwrap(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the object, or of the document inside it."""
    match value:
        case {"lc": int(), "kwargs": Mapping() as fields}:
            return dict(fields)
        case {"node": Mapping() as node} if value.keys().isdisjoint(_TEXT_KEYS):
            document = _read_node(node)
            for name, item in value.items():
                if name not in {"node", "class_name"}:
                    document[name] = item
            return document
        case {"id_": _, "class_name": str()} | {"id_": _, "text_resource": Mapping()}:
            return _read_node(value)
        case {"text_resource": Mapping() as resource} if value.keys().isdisjoint(_TEXT_KEYS):
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
    text = _take(rest, _TEXT_KEYS, field, report)
    if text is not None or not _is_list_of_texts(rest.get(_SENTENCES)):
        return text
    joined = ""
    for sentence in rest.pop(_SENTENCES):
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
        return f" (for the text under another key: {_option_to_map(field, paths[0])})"
    choices = ", or ".join(_option_to_map(field, path) for path in paths[:_MAX_HINTS])
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
