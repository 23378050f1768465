"""Convert Python values to JSON values, and write the columns that are no fields as JSON."""

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from enum import Enum
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from localjudge.dataset.rows import DEEPEST, describe

_PLAIN = frozenset({str, int, float, bool, type(None)})
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_LARGEST = 2**63  # integers below it are stored as integers
_MISSING = {"NAType", "NaTType"}  # names, so that pandas need not be imported


def plain(value: Any, levels: int = DEEPEST + 2) -> Any:
    """Convert a Python value to a JSON value.

    Values of unknown types, and those below `levels`, stay unchanged.

    numpy array -> list                   datetime -> "2024-05-01T12:00:00"
    Decimal("0.5") -> "0.5"               Enum -> its value
    pydantic model, dataclass, named tuple -> object with its fields
    [("a.pdf", "one text")] -> {"a.pdf": "one text"}
    """
    if levels == 0 or type(value) in _PLAIN:
        return value
    fields = _read_pairs(value) if type(value) in {list, tuple} else read_fields(value)
    if fields is not None:
        value = fields
    result = value
    match value:
        case Mapping():
            result = {str(key): plain(item, levels - 1) for key, item in value.items()}
        case list() | tuple():
            result = [plain(item, levels - 1) for item in value]
        case _ if type(value).__name__ in _MISSING:  # before dates, because NaT is a date
            result = None
        case Enum():
            result = plain(value.value)
        case date() | time():
            result = value.isoformat()
        case Decimal() | UUID():
            result = str(value)
        case _ if hasattr(value, "tolist"):
            result = plain(value.tolist())
    return result


def _read_pairs(values: Sequence[Any]) -> dict[str, Any] | None:
    """Return an object for a list of keys and texts or objects, as pandas gives a map of Parquet.

    Return None for other lists, and if a key occurs twice.
    """
    fields: dict[str, Any] = {}
    for value in values:
        match value:
            case (str() as key, str() | Mapping() as item) if type(value) is tuple:
                fields[key] = item
            case _:
                return None
    return fields if 0 < len(fields) == len(values) else None


def read_fields(value: Any) -> dict[str, Any] | None:
    """Return the fields of a pydantic model, dataclass, named tuple or namespace."""
    if isinstance(value, type | Mapping):
        return None
    if hasattr(value, "model_fields_set") and hasattr(value, "model_dump"):
        return dict(value.model_dump())
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, SimpleNamespace):
        return dict(vars(value))
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return dict(value._asdict())
    return None


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
