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

`context_object` reads each of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from localjudge.dataset.context_object import (
    SENTENCES,
    TEXT_KEYS,
    find_text_key,
    is_list_of_texts,
    is_titled_passage,
    option_to_map,
    read_context,
)
from localjudge.dataset.printed import looks_like_document, looks_printed, parse_printed
from localjudge.dataset.problems import DECODER, Report, check_id, describe
from localjudge.dataset.text_keys import find_texts, has_named_text, has_texts_only, is_collection

_EXPECTED = "text, a list of texts, or a list of objects with a text"
_EXPECTED_OBJECT = f"an object with {' or '.join(TEXT_KEYS)}"


def read_cell(cell: str, field: str, report: Report) -> Any:
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


def read_elements(values: Any, field: str, report: Report) -> Any:
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
                place = f"{field}[{index}]"
                report(place, f"a printed list ({describe(element)})", "one text, or one list")
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
    if not value or objects_of_columns(value) is not None or find_text_key(value) is not None:
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
        is_one_context = find_text_key(value) is not None
        if not is_one_context and (is_collection(value) or has_texts_only(value)):
            _report_collection(value, field, report, column)
            return None
        return [read_context(value, field, report, column)]
    if isinstance(value, str):
        return [read_context(value, field, report, column)]
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
    if is_nested and not is_titled_passage(values[0]):
        if _is_pair(values[0]):
            _report_pair(values[0], field, report, column)
            return None
        return read_contexts(values[0], field, report, column)
    contexts = []
    for index, value in enumerate(values):
        contexts.append(read_context(value, f"{field}[{index}]", report, column))
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


def _report_pair(pair: Sequence[Any], field: str, report: Report, column: str) -> None:
    content = f"{column}.1"
    key_and_text = f"a key and its text: {option_to_map(field, content)}"
    two_texts = f"two texts: {option_to_map(field, column.removesuffix('[]') + '.0')}"
    report(
        field,
        f"a pair that begins with {describe(pair[0])}",
        f"{_EXPECTED} ({key_and_text}; {two_texts})",
    )


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
    names = (*TEXT_KEYS, SENTENCES)
    if not any(isinstance(value.get(name), list | tuple) for name in names):
        return None
    columns = list(value.values())
    if not all(isinstance(column, list | tuple) for column in columns):
        return None
    if len({len(column) for column in columns}) > 1:
        return None
    if not all(map(is_list_of_texts, value.get(SENTENCES, ()))):
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
        context: dict[str, Any] = {}
        if contexts is not None:
            context = contexts[index]
        elif value is None or (isinstance(value, str) and not value.strip()):
            report(place, describe(value), "an id")
        identified.append({**context, "id": identifier or context.get("id")})
    return identified


def _report_collection(value: Mapping[str, Any], field: str, report: Report, column: str) -> None:
    texts = find_texts(next(iter(value.values())), f"{column}[]")
    path = f"{column}[]"
    if texts:
        path = texts[0]
    every_text = f"for the texts of all keys: {option_to_map(field, path)}"
    one_text = ""
    if not is_collection(value):
        one_text = f"; for the text of one: {option_to_map(field, f'{column}.KEY')}"
    report(
        field,
        describe(value),
        f"{_EXPECTED_OBJECT} (every key is a text; {every_text}{one_text})",
    )
