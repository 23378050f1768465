"""A name with dots reaches into a row: into an object by its key, into a list by a number, or through all of a list.

    vars.query      answer.documents      answers.0.data      messages.-1.content      hits[].chunk_text

A column of exactly that name goes first. Numbers count from 0, negative ones from the end. `[]` takes every element of
a list, in their order; null for an element that lacks the key, unless they all do.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

MISSING = object()
"""Stands for the value of a column that a row does not have."""

_NUMBER = re.compile(r"-?[0-9]{1,9}")
_EACH = "[]"
_INDEX = re.compile(r"\.(-?[0-9]{1,9}|\*|\[[0-9*]*\])(?=\.|$)")
_DEEPEST = 8
_ELEMENTS_SEEN = 3


def lookup(row: Mapping[str, Any], column: str, default: object = None) -> Any:
    """Value of a column, or under a dotted name; `default` where the row has none."""
    if column in row or not reaches_inside(column):
        return row.get(column, default)
    value = _reach(row, _steps(column))
    return default if value is MISSING else value


def has_value(row: Mapping[str, Any], name: str) -> bool:
    """Whether the row has the column, or a value under a dotted name."""
    return lookup(row, name, MISSING) is not MISSING


def reaches_inside(name: str) -> bool:
    """Whether a name is more than that of a column."""
    return "." in name or _EACH in name


def first_part(name: str) -> str:
    """The column that a name reaches into."""
    return name.partition(".")[0].partition(_EACH)[0]


def by_first_part(names: Iterable[str]) -> dict[str, set[str]]:
    """The names by the column that they reach into: only those whose object a row has can reach anything in it."""
    grouped: dict[str, set[str]] = {}
    for name in names:
        grouped.setdefault(first_part(name), set()).add(name)
    return grouped


def through_each(name: str) -> str:
    """The name with every element of a list in place of one: `hits.0.text` as `hits[].text`."""
    return _INDEX.sub(_EACH, name)


def without_places(name: str) -> str:
    """The name with no word about which elements of its lists are meant."""
    return through_each(name).replace(_EACH, "")


def names_inside(value: Any, name: str = "", levels: int = _DEEPEST) -> Iterator[tuple[str, Any]]:
    """The names that reach something in a row, each with what it reaches; of a list the first elements are read."""
    if isinstance(value, Mapping) and levels:
        for key, item in value.items():
            inside = f"{name}.{key}" if name else str(key)
            yield inside, item
            yield from names_inside(item, inside, levels - 1)
    elif isinstance(value, list | tuple) and levels and name:
        for item in value[:_ELEMENTS_SEEN]:
            yield from names_inside(item, f"{name}{_EACH}", levels - 1)


def _steps(name: str) -> list[str]:
    steps = []
    for part in name.split("."):
        key = part.rstrip(_EACH) if part.endswith(_EACH) else part
        steps += [key, *[_EACH] * ((len(part) - len(key)) // len(_EACH))]
    return steps


def _reach(value: Any, steps: Sequence[str]) -> Any:
    for place, step in enumerate(steps):
        if step == _EACH and value is not None:
            return _each(value, steps[place + 1 :])
        value = value if step == _EACH else _inside(value, step)
        if value is MISSING:
            return MISSING
    return value


def _each(values: Any, steps: Sequence[str]) -> Any:
    if not isinstance(values, list | tuple):
        return MISSING
    reached = [_reach(item, steps) for item in values]
    if reached and all(item is MISSING for item in reached):
        return MISSING
    items = [None if item is MISSING else item for item in reached]
    return [item for inner in items for item in inner or ()] if _EACH in steps else items


def _inside(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(key, MISSING)
    if isinstance(value, list | tuple) and _NUMBER.fullmatch(key) and -len(value) <= int(key) < len(value):
        return value[int(key)]
    return MISSING
