"""Convert Python values to JSON values."""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from enum import Enum
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from localjudge.dataset.problems import DEEPEST

_PLAIN = frozenset({str, int, float, bool, type(None)})
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
