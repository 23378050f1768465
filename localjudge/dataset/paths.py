"""Look up values in rows.

A name with dots reaches into objects by key and into lists by index; `[]` reaches into every
element of a list, or every value of an object (null if one lacks the key, missing if all do). Keys
may contain dots: at each level, the longest key that leads to a value has priority.

    vars.query      answers.0.data      messages.-1.content      hits[].chunk_text
    {"my.hits": [{"chunk.text": "..."}]}                         my.hits[].chunk.text
"""

import re
from collections.abc import Mapping, Sequence
from itertools import chain
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
