"""Look up values in rows.

A name with dots reaches into objects by key and into lists by index; `[]` reaches into every
element of a list, or every value of an object (null if one lacks the key, missing if all do). A
column with exactly that name has priority.

    vars.query      answers.0.data      messages.-1.content      hits[].chunk_text
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
    """Return the column that a path begins with: `hits` of `hits[].chunk_text`."""
    return name.partition(".")[0].partition(_EACH)[0]


def _reach(value: Any, steps: Sequence[str]) -> Any:
    for position, key in enumerate(steps):
        if key == _EACH:
            if value is None:
                return None
            return _reach_each(value, steps[position + 1 :])
        if isinstance(value, Mapping):
            value = value.get(key, MISSING)
        elif (
            isinstance(value, list | tuple)
            and _NUMBER.fullmatch(key)
            and -len(value) <= int(key) < len(value)
        ):
            value = value[int(key)]
        else:
            return MISSING
    return value


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
