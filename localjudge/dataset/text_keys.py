"""Find the texts inside the objects of search engines and databases, for hints.

    {"id": "5c56...", "score": 0.9, "payload": {"text": "It is in Ulm.", "page": 3}}
    -> payload.text

A key is judged by its last word: `chunk_text` and `pageContent` are texts, `doc_id`, `fileName` and
`title` are not. Of keys with unknown names, values with two words are texts.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from localjudge.dataset.paths import split_path

_TEXT_WORDS = {
    "text", "texts", "content", "contents", "body", "passage", "passages", "paragraph",
    "paragraphs", "snippet", "snippets", "chunk", "chunks", "excerpt", "document", "documents",
    "sentence", "sentences", "fulltext", "context", "contexts",
}  # fmt: skip
_SHORTENED_TEXT_WORDS = {
    "description", "summary", "abstract", "extract", "fragment", "segment", "highlight",
    "highlights", "value", "caption", "answer", "data", "preview",
}  # fmt: skip
_OTHER_WORDS = {
    "id", "ids", "uuid", "guid", "key", "hash", "checksum", "sha", "url", "uri", "link", "href",
    "path", "file", "filename", "source", "title", "titles", "name", "names", "heading",
    "header", "section", "type", "kind", "class", "lang", "language", "date", "time",
    "timestamp", "created", "updated", "at", "author", "authors", "version", "score", "scores",
    "rank", "index", "collection", "format", "mime", "status", "tag", "tags", "category", "doi",
    "isbn", "distance", "page", "publisher", "domain", "site", "favicon", "thumbnail", "query",
    "input", "output", "prompt", "response", "reference", "expected", "truth", "gold", "target",
    "messages", "question", "model", "namespace", "vector", "embedding", "label", "subject",
    "topic", "license", "licence",
}  # fmt: skip
_WORD = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+|\d+")
_ADDRESS = re.compile(r"\w+://\S+|www\.\S+|\S+/\S*\.\w{1,5}|[0-9a-fA-F-]{8,}|\S+@\S+")
_TWO_WORDS = re.compile(r"\w\S*\s+\S*\w|[\u3040-\u30ff\u4e00-\u9fff\u0e00-\u0e7f]{4}")
_FILE_NAME = re.compile(r".+\.(\w{1,5})")
_DIGITS = re.compile(r"\d+")
_INDEX = re.compile(r"-?\d{1,9}")
_UNNAMEABLE = re.compile(r"\[\]|^$")
_MAX_LEVELS = 6
_MAX_ELEMENTS = 3

TEXT, SHORTENED_TEXT, UNKNOWN_TEXT, SHORT_TEXT = range(4)
"""How likely a key contains the text of a context, best first."""


def find_texts(value: Any, path: str) -> list[str]:
    """Return the most likely paths to texts inside a value at `path`, as in a mapping.

    There are several if their names do not decide.
    """
    texts = dict.fromkeys(_walk(value, path, _MAX_LEVELS))
    best = min((kind for _, kind in texts), default=None)
    return [inner for inner, kind in texts if kind == best]


def has_named_text(value: Any) -> bool:
    """Return whether a key inside an object has the name of a text."""
    return any(kind == TEXT for _, kind in _walk(value, "", _MAX_LEVELS))


def is_collection(value: Any) -> bool:
    """Return whether an object contains texts or documents by their names.

    For example, `{"a.pdf": "...", "b.pdf": "..."}`.
    """
    if not isinstance(value, Mapping) or not value:
        return False
    names = list(map(str, value))
    values = [item for item in value.values() if item is not None]
    names_without_digits = {_DIGITS.sub("", name) for name in names}
    are_numbered = len(names) > 1 and len(names_without_digits) == 1
    files = [_FILE_NAME.fullmatch(name) for name in names]  # "a.pdf", not "chunk.text"
    has_names_of_files = all(file and file[1] not in _TEXT_WORDS for file in files)
    if all(isinstance(item, str) for item in values):
        return are_numbered or has_names_of_files
    if not all(isinstance(item, Mapping) for item in values):
        return False
    have_equal_keys = len(values) > 1 and len(set(map(frozenset, values))) == 1
    return are_numbered or has_names_of_files or have_equal_keys


def has_texts_only(value: Any, least: int = 2) -> bool:
    """Whether an object has at least so many keys, each with a text, and none with a known name."""
    if not isinstance(value, Mapping) or len(value) < least:
        return False
    return all(_kind_of_text(str(key), item) == UNKNOWN_TEXT for key, item in value.items())


def _walk(value: Any, path: str, levels: int) -> Iterator[tuple[str, int]]:
    """Yield the path to each text inside a value, and how likely it is the text of a context."""
    if not isinstance(value, Mapping) or not levels:
        return
    for key, item in value.items():
        if not isinstance(key, str) or _UNNAMEABLE.search(key):
            continue
        inner = f"{path}.{key}"
        if isinstance(item, Mapping):
            yield from _walk(item, inner, levels - 1)
        elif isinstance(item, list | tuple) and any(
            isinstance(element, Mapping) for element in item
        ):
            for element in islice(item, _MAX_ELEMENTS):
                yield from _walk(element, f"{inner}[]", levels - 1)
        else:
            kind = _kind_of_text(key, _first_text(item))
            if kind is not None:
                yield inner, kind


def _first_text(value: Any) -> Any:
    """Return the longest text of a list of texts, or of a list that begins with such a list."""
    for _ in range(2):
        if isinstance(value, list | tuple) and value:
            texts = [item for item in value if isinstance(item, str)]
            value = max(texts, key=len) if texts else value[0]
    return value


def _kind_of_text(key: str, value: Any) -> int | None:
    if not isinstance(value, str) or not value.strip() or _ADDRESS.fullmatch(value.strip()):
        return None
    words = _WORD.findall(key) or [key]
    word = words[-1].lower()
    if word in _OTHER_WORDS:
        return None
    if word in _TEXT_WORDS:
        return TEXT
    if word in _SHORTENED_TEXT_WORDS:
        return SHORTENED_TEXT
    if _TWO_WORDS.search(value):
        return UNKNOWN_TEXT
    return SHORT_TEXT


def whole_collection(values: Mapping[str, Any], column: str) -> str | None:
    """Return the path to all elements, if a column names one element of a list or collection.

    Otherwise None.
    """
    first, *keys = split_path(values, column)
    parts = [first]
    value = values.get(first)
    for key in keys:
        if isinstance(value, list | tuple):
            if not _INDEX.fullmatch(key) or not -len(value) <= int(key) < len(value):
                return None
            if len(value) > 1:
                parts[-1] += "[]"
            else:
                parts.append(key)
            value = value[int(key)]
        elif isinstance(value, Mapping):
            if len(value) > 1 and (is_collection(value) or has_texts_only(value)):
                parts[-1] += "[]"
            else:
                parts.append(key)
            value = value.get(key)
        else:
            return None
    path = ".".join(parts)
    if path == column:
        return None
    return path
