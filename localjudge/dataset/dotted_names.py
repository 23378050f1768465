"""A name with dots reaches into a row: into an object by its key, into a list by its number.

    vars.query      answer.documents      answers.0.data      messages.-1.content

A column of exactly that name goes first. Numbers count from 0, negative ones from the end.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

MISSING = object()
"""Stands for the value of a column that a row does not have."""

_NUMBER = re.compile(r"-?[0-9]{1,9}")


def lookup(row: Mapping[str, Any], column: str, default: object = None) -> Any:
    """Value of a column, or under a dotted name; `default` where the row has none."""
    if column in row or "." not in column:
        return row.get(column, default)
    value: Any = row
    for key in column.split("."):
        value = _inside(value, key)
        if value is MISSING:
            return default
    return value


def has_value(row: Mapping[str, Any], name: str) -> bool:
    """Whether the row has the column, or a value under a dotted name."""
    return lookup(row, name, MISSING) is not MISSING


def by_first_part(names: Iterable[str]) -> dict[str, set[str]]:
    """The names by what stands before their first dot: only those whose object a row has can reach anything in it."""
    grouped: dict[str, set[str]] = {}
    for name in names:
        grouped.setdefault(name.partition(".")[0], set()).add(name)
    return grouped


def _inside(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(key, MISSING)
    if isinstance(value, list | tuple) and _NUMBER.fullmatch(key) and -len(value) <= int(key) < len(value):
        return value[int(key)]
    return MISSING
