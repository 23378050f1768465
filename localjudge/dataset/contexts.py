"""Read contexts in the shapes of every tool.

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

Other keys of a context go into its `meta`.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from localjudge.dataset.printed import looks_like_document, looks_printed, parse_printed
from localjudge.dataset.problems import Report, check_id, check_text, check_writable, describe
from localjudge.dataset.text_keys import TEXT, TextKey, find_texts, has_texts_only, is_collection
from localjudge.words import option

TEXT_KEYS = ("text", "content", "page_content")
_SENTENCES = "sentences"
_ID_KEYS = ("id", "id_", "doc_id")
_META_KEYS = ("meta", "metadata")
_NODE_KEYS = ("text", "id_", "metadata")  # of a LlamaIndex node
_MAX_HINTS = 4
_EXPECTED = "text, a list of texts, or a list of objects with a text"
_EXPECTED_OBJECT = f"an object with {' or '.join(TEXT_KEYS)}"


def read_cell(cell: str, field: str, report: Report) -> Any:
    """Read a list of contexts, an object with a text, or one text.

    Report a list that cannot be read.
    """
    value = parse_printed(cell)
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and _is_document(value):
        return value
    if value is None and looks_printed(cell):
        form = (
            'a JSON list, such as ["one text", "another"] '
            "(json.dumps in Python; .tolist() of an array before it)"
        )
        report(field, f"a list that cannot be read ({describe(cell)})", form)
        return None
    return cell


def _is_document(value: Mapping[str, Any]) -> bool:
    """Return whether an object is a context, or contexts as columns. An empty one counts, too."""
    if not value or objects_of_columns(value) is not None:
        return True
    return _text_key(_unwrap(value)) is not None


def read_contexts(
    value: Any,
    field: str,
    report: Report,
    column: str,
) -> list[dict[str, Any]] | None:
    """Return the arguments of each `Context`. Hints name the `column`."""
    contexts: list[dict[str, Any]] | None = None
    if isinstance(value, Mapping):
        contexts = _contexts_of_object(value, field, report, column)
    elif isinstance(value, str):
        contexts = [_read_context(value, field, report, column)]
    elif isinstance(value, list | tuple):
        contexts = _contexts_of_list(value, field, report, column)
    elif value is not None:
        report(field, describe(value), _EXPECTED)
    return contexts


def _contexts_of_object(
    value: Mapping[str, Any],
    field: str,
    report: Report,
    column: str,
) -> list[dict[str, Any]] | None:
    objects = objects_of_columns(value)
    if objects is not None:
        return read_contexts(objects, field, report, column)
    if _text_key(_unwrap(value)) is None and (is_collection(value) or has_texts_only(value)):
        _report_collection(value, field, report, column)
        return None
    return [_read_context(value, field, report, column)]


def _contexts_of_list(
    value: Sequence[Any],
    field: str,
    report: Report,
    column: str,
) -> list[dict[str, Any]] | None:
    is_nested = len(value) == 1 and isinstance(value[0], list | tuple)
    if is_nested and not _is_titled_passage(value[0]):
        return read_contexts(value[0], field, report, f"{column}[]")
    contexts = []
    for index, item in enumerate(value):
        contexts.append(_read_context(item, f"{field}[{index}]", report, f"{column}[]"))
    _check_texts_of_all(contexts, field, report)
    return contexts


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


def _check_texts_of_all(contexts: Sequence[Mapping[str, Any]], field: str, report: Report) -> None:
    without_text = [index for index, context in enumerate(contexts) if context["text"] is None]
    if len(without_text) == len(contexts):
        return
    for index in without_text:
        report(
            f"{field}[{index}]",
            "an id without a text, unlike the others",
            "a text in each, or in none",
        )


def objects_of_columns(value: Any) -> list[dict[str, Any]] | None:
    """Convert an object of equally long lists, one of them texts, to a list of objects.

    Return None for other values.
    """
    if not isinstance(value, Mapping):
        return None
    names = (*TEXT_KEYS, _SENTENCES)
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
    for key in TEXT_KEYS:
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
        place = f"{field}[{index}]"
        identifier = check_id(value, place, report)
        is_blank = value is None or (isinstance(value, str) and not value.strip())
        if contexts is None and is_blank:
            report(place, describe(value), "an id")
        context = {} if contexts is None else contexts[index]
        if identifier is None:
            identifier = context.get("id")
        identified.append({**context, "id": identifier})
    return identified


def _read_context(value: Any, field: str, report: Report, column: str) -> dict[str, Any]:
    if _is_titled_passage(value):
        title, sentences = value
        value = {"title": title, _SENTENCES: sentences}
    if not isinstance(value, Mapping):
        return {"text": _required_text(value, field, report)}
    rest = _unwrap(value)
    text = _take_text(rest, field, report)
    identifier = check_id(_take(rest, _ID_KEYS, field, report), f"{field}.id", report)
    meta = _take(rest, _META_KEYS, field, report)
    score = rest.pop("score", None)
    is_only_id = text is None and identifier is not None and not _without_nulls(rest)
    if not is_only_id or _has_known_text(value, column):
        problem = _find_text_problem(value, text, field, column)
        if problem is not None:
            report(field, *problem)
            text = ""
    meta = _read_meta(meta, f"{field}.meta", report)
    if not (check_writable(rest, field, report) and check_writable(meta, f"{field}.meta", report)):
        rest = {}
        meta = {}
    if text is not None:
        text = _required_text(text, field, report)
    return {
        "text": text,
        "id": identifier,
        "meta": _without_nulls({**rest, **meta}),
        "score": _score(score, f"{field}.score", report),
    }


def _find_text_problem(
    value: Mapping[str, Any], text: Any, field: str, column: str
) -> tuple[str, str] | None:
    """Return what an object has instead of a text, and what was expected, or None."""
    if isinstance(text, Mapping | list | tuple):
        hint = _hint(find_texts(value, column), field, column)
        return describe(text), f"text, or an object with a text{hint}"
    if text is not None:
        return None
    hint = ""
    if value:
        hint = _hint(find_texts(value, column), field, column)
    return describe(value), f"{_EXPECTED_OBJECT}{hint}"


def _has_known_text(value: Mapping[str, Any], column: str) -> bool:
    """Return whether a key inside an object has the name of a text."""
    return any(key.kind == TEXT for key in find_texts(value, column))


def _report_collection(value: Mapping[str, Any], field: str, report: Report, column: str) -> None:
    texts = find_texts(next(iter(value.values())), f"{column}[]")
    path = texts[0].path if texts else f"{column}[]"
    every_text = f"for the texts of all keys: {_mapping(field, path)}"
    one_text = ""
    if not is_collection(value):
        one_text = f"; for the text of one: {_mapping(field, f'{column}.KEY')}"
    report(
        field,
        describe(value),
        f"{_EXPECTED_OBJECT} (every key is a text; {every_text}{one_text})",
    )


def _hint(texts: Sequence[TextKey], field: str, column: str) -> str:
    if not texts:
        return f" (for the text under another key: {_mapping(field, f'{column}.KEY')})"
    if len(texts) == 1:
        return f" (for the text under another key: {_mapping(field, texts[0].path)})"
    choices = ", or ".join(_mapping(field, key.path) for key in texts[:_MAX_HINTS])
    return f" (several keys contain a text, choose one: {choices})"


def _mapping(field: str, path: str) -> str:
    return option("mapping", {field.partition("[")[0]: path})


def _unwrap(value: Mapping[str, Any]) -> dict[str, Any]:
    match value:
        case {"lc": int(), "kwargs": Mapping() as fields}:
            return dict(fields)
        case {"node": Mapping() as node} if value.keys().isdisjoint(TEXT_KEYS):
            rest = {
                name: item for name, item in value.items() if name not in {"node", "class_name"}
            }
            return {name: node[name] for name in _NODE_KEYS if name in node} | rest
        case {"id_": _, "class_name": str()}:
            return {name: value[name] for name in _NODE_KEYS if name in value}
        case _:
            return dict(value)


def _text_key(fields: Mapping[str, Any]) -> str | None:
    for key in TEXT_KEYS:
        if fields.get(key) is not None:
            return key
    if _is_list_of_texts(fields.get(_SENTENCES)):
        return _SENTENCES
    return None


def _take_text(rest: dict[str, Any], field: str, report: Report) -> Any:
    text = _take(rest, TEXT_KEYS, field, report)
    if text is None and _is_list_of_texts(rest.get(_SENTENCES)):
        return _join_sentences(rest.pop(_SENTENCES))
    return text


def _take(rest: dict[str, Any], names: Sequence[str], field: str, report: Report) -> Any:
    values = {}
    for name in names:
        value = rest.pop(name, None)
        if value is not None:
            values[name] = value
    if len(values) > 1:
        report(field, f"an object with {' and '.join(values)}", "only one of them")
    return next(iter(values.values()), None)


def _is_list_of_texts(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(item, str) for item in value)
    )


def _is_titled_passage(value: Any) -> bool:
    """Whether a context is a title with its sentences, as in HotpotQA."""
    if not isinstance(value, list | tuple) or len(value) != 2:  # noqa: PLR2004
        return False
    title, sentences = value
    return isinstance(title, str) and _is_list_of_texts(sentences)


def _join_sentences(sentences: Sequence[str]) -> str:
    """Join sentences with a space, unless there is one."""
    text = ""
    for sentence in sentences:
        is_separate = not text or text[-1].isspace() or sentence[:1].isspace()
        if not is_separate:
            text += " "
        text += sentence
    return text


def _read_meta(meta: Any, field: str, report: Report) -> dict[str, Any]:
    if isinstance(meta, str):
        parsed = parse_printed(meta)  # as in Parquet, where objects have one type
        meta = parsed if isinstance(parsed, dict) else meta
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


def _required_text(value: Any, field: str, report: Report) -> str:
    if value is None:
        report(field, "null", "text")
    return check_text(value, field, report, "text, or an object with a text") or ""


def _score(value: Any, field: str, report: Report) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Not NaN, and not an integer too large for a float.
    if is_number and abs(value) <= sys.float_info.max:
        return float(value)
    if value is not None:
        report(field, describe(value), "a finite number or null")
    return None
