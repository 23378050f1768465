"""JSON read more strictly than the standard library does: a key that stands twice is an error, not a silent loss."""

import json
from typing import Any

BLANK = " \t\n\r\ufeff"
"""What may stand between values: JSON's white space, and byte-order marks where files were joined."""


class RepeatedKeyError(ValueError):
    """A key that stands twice in one object."""


def reason(error: Exception) -> str:
    """Why a text is not valid JSON."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} (column {error.colno})"
    return "values nested too deep" if isinstance(error, RecursionError) else str(error)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object from its keys and values. Raises RepeatedKeyError for a key that stands twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RepeatedKeyError(f"the key {twice!r} stands twice in one object")
    return value


DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)
"""Raises RepeatedKeyError, JSONDecodeError, ValueError (a number of thousands of digits) and RecursionError."""
