"""Look up values in rows by their paths, and find the paths to texts, for hints.

A name with dots reaches into objects by key and into lists by index; `[]` reaches into every
element of a list, or every value of an object (null if one lacks the key, missing if all do). Keys
may contain dots: at each level, the longest key that leads to a value has priority.

    vars.query      answers.0.data      messages.-1.content      hits[].chunk_text
    {"my.hits": [{"chunk.text": "..."}]}                         my.hits[].chunk.text

The texts inside the objects of search engines and databases:

    {"id": "5c56...", "score": 0.9, "payload": {"text": "It is in Ulm.", "page": 3}}
    -> payload.text

A key is judged by its last word: `chunk_text` and `pageContent` are texts, `doc_id`, `fileName` and
`title` are not. Of keys with unknown names, values with two words are texts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

MISSING = object()  # the value of a column that a row does not have
_EACH = "[]"
_NUMBER = re.compile(r"-?[0-9]{1,9}")


def lookup(row: Mapping[str, Any], column: str, default: object = None) -> Any:
    """Return the value of a column, or at a path; `default` if the row has none."""
    if column in row or not reaches_inside(column):
        return row.get(column, default)
    value = _reach(row, column.replace(_EACH, f".{_EACH}").split("."))
    if value is MISSING:
        return default
    return value


def has_value(row: Mapping[str, Any], name: str) -> bool:
    """Return whether `lookup` finds a value, even null."""
    return lookup(row, name, MISSING) is not MISSING


def reaches_inside(name: str) -> bool:
    """Return whether a name may be a path into a column."""
    return "." in name or _EACH in name


def first_part(name: str) -> str:
    """Return the column, without a dot in its name, of a path: `hits` of `hits[].text`."""
    return name.partition(".")[0].partition(_EACH)[0]


def first_parts(name: str) -> frozenset[str]:
    """Return the columns that a path may begin with: `my`, `my.hits` of `my.hits[].text`."""
    steps = name.partition(_EACH)[0].split(".")
    return frozenset(".".join(steps[:count]) for count in range(1, len(steps) + 1))


def split_path(value: Any, path: str) -> list[str]:
    """Return the keys of a path, each with its dots if an object has such a key."""
    keys: list[str] = []
    steps = path.split(".")
    while steps:
        count = next(iter(_key_lengths(value, steps)), 1)
        keys.append(".".join(steps[:count]))
        value = _reach(value, steps[:count])
        steps = steps[count:]
    return keys


def _key_lengths(value: Any, steps: Sequence[str]) -> list[int]:
    """Return how many steps each key of an object has that the steps begin with, longest first."""
    if not isinstance(value, Mapping):
        return []
    longest = len(steps)
    if _EACH in steps:
        longest = steps.index(_EACH)
    return [count for count in range(longest, 0, -1) if ".".join(steps[:count]) in value]


def _reach(value: Any, steps: Sequence[str]) -> Any:
    if not steps:
        return value
    key, *rest = steps
    if key == _EACH:
        if value is None:
            return None
        return _reach_each(value, rest)
    for count in _key_lengths(value, steps):
        inner = _reach(value[".".join(steps[:count])], steps[count:])
        if inner is not MISSING:
            return inner
    if isinstance(value, list | tuple) and _NUMBER.fullmatch(key):
        index = int(key)
        if -len(value) <= index < len(value):
            return _reach(value[index], rest)
    return MISSING


def _reach_each(values: Any, steps: Sequence[str]) -> Any:
    if isinstance(values, Mapping):
        values = [value for value in values.values() if value is not None]
    if not isinstance(values, list | tuple):
        return MISSING
    items = [_reach(value, steps) for value in values]
    if items and all(item is MISSING for item in items):
        return MISSING
    items = [None if item is MISSING else item for item in items]
    if _EACH not in steps:
        return items
    return list(chain.from_iterable(item or () for item in items))


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
            if not _NUMBER.fullmatch(key) or not -len(value) <= int(key) < len(value):
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
