"""Convert values of Python and Arrow to JSON values, and other columns to texts."""

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from enum import Enum
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from localjudge.dataset.rows import DEEPEST, describe
from localjudge.errors import InputError

BATCH_ROWS = 256
"""Rows that are converted at once."""
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


def list_rows(batches: Iterable[Any], at_once: int = BATCH_ROWS) -> Iterator[Any]:
    """Yield the rows of Arrow's batches as Python values. A map is an object."""
    for batch in batches:
        convert = {}
        for field in batch.schema:
            if "map<" in str(field.type):
                convert[field.name] = field.type
        for start in range(0, batch.num_rows, at_once):
            for row in batch.slice(start, at_once).to_pylist():
                for name, kind in convert.items():
                    row[name] = _objects_of_maps(row[name], kind)
                yield row


def _objects_of_maps(value: Any, kind: Any) -> Any:
    """Return a value of an Arrow type with objects for its maps, which Arrow lists as pairs.

    A map with a key that occurs twice, or that is no text, stays a list.
    """
    types = import_pyarrow("the data are an Arrow table").types
    if value is None:
        return None
    if types.is_map(kind):
        pairs = [(key, _objects_of_maps(item, kind.item_type)) for key, item in value]
        fields = dict(pairs)
        if len(fields) < len(pairs):
            return list(map(list, pairs))
        return {str(key): item for key, item in fields.items()}
    if types.is_struct(kind):
        fields = {}
        for field in kind:
            fields[field.name] = _objects_of_maps(value[field.name], field.type)
        return fields
    if "map<" in str(kind) and isinstance(value, list):
        return [_objects_of_maps(item, kind.value_type) for item in value]
    return value


def import_pyarrow(what: str) -> Any:
    """Return the module. Raises InputError that names what needs it."""
    try:
        import pyarrow  # type: ignore[import-untyped]
    except ImportError as error:
        hint = "install it with: pip install pyarrow"
        raise InputError(f"{what}, and pyarrow is not installed", hint=hint) from error
    return pyarrow


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
