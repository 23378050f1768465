"""Write the columns that are no fields as JSON, whatever they contain."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from localjudge.dataset.problems import DEEPEST, describe

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_LARGEST = 2**63  # integers below it are stored as integers


def extras_text(extras: Mapping[str, Any]) -> str:
    """Write columns as JSON, with NaN as null and other objects as text."""
    return _ENCODER.encode(_jsonable(extras, DEEPEST))


def _jsonable(value: Any, levels: int) -> Any:
    jsonable: Any = value
    match value:
        case str():
            # SQLite stores UTF-8, which has no lone surrogates.
            jsonable = value.encode("utf-8", "backslashreplace").decode("utf-8")
        case Mapping() | list() | set() | frozenset() if levels:
            jsonable = _jsonable_items(value, levels - 1)
        case float() if not math.isfinite(value):
            if math.isnan(value):
                jsonable = None
            else:
                jsonable = str(value)
        case int() if not -_LARGEST <= value < _LARGEST:
            jsonable = describe(value)
        case None | int() | float():
            pass
        case list() | Mapping():
            jsonable = describe(value)
        case _:  # an interval, a period, a path: its text, unless it contains a memory address
            text = str(value)
            if _ADDRESS.search(text):
                text = describe(value)
            jsonable = _jsonable(text, 0)
    return jsonable


def _jsonable_items(value: Any, levels: int) -> dict[str, Any] | list[Any]:
    """Return a container with JSON values, down to this many more levels."""
    if isinstance(value, Mapping):
        items = {}
        for name, item in value.items():
            items[_jsonable(str(name), 0)] = _jsonable(item, levels)
        return items
    elements = [_jsonable(item, levels) for item in value]
    if isinstance(value, list):
        return elements
    return sorted(elements, key=str)
