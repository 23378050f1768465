"""Values of Python programs as the values that JSON knows, so that rows mean the same wherever they come from.

    numpy array -> list      datetime -> "2024-05-01T12:00:00"      Decimal("0.5") -> "0.5"      Context -> object
    pydantic model -> object with its fields      dataclass -> object with its fields      Enum -> its value

Samples of ragas, test cases of DeepEval and documents of LangChain and LlamaIndex are pydantic models; documents and
answers of Haystack are dataclasses. No package is needed to know them.
"""

import dataclasses
import math
from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from localjudge.dataset.checks import DEEPEST

_PLAIN = frozenset({str, int, float, bool, type(None)})
_MISSING = {"NAType", "NaTType"}
"""How pandas calls the kinds of its missing values; pandas itself is not needed to know them."""


def plain(value: Any, levels: int = DEEPEST + 2) -> Any:
    """The value with everything in it made plain, down to as many levels as the checks allow.

    What is of no known kind, or deeper, is left for the checks to name.
    """
    if levels == 0 or type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, levels - 1) for item in value]
    fields = fields_of(value)
    return _plain_scalar(value) if fields is None else plain(fields, levels)


def fields_of(value: Any) -> dict[str, Any] | None:
    """The fields of a pydantic model or a dataclass; None of anything else."""
    if isinstance(value, type):
        return None
    if hasattr(value, "model_fields_set") and hasattr(value, "model_dump"):
        return dict(value.model_dump())
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def without_nan(row: Any) -> Any:
    """The row with null for every value that is NaN, which is how pandas marks a text that is missing."""
    if not isinstance(row, dict):
        return row
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}


def _plain_scalar(value: Any) -> Any:
    plain_value = value
    if type(value).__name__ in _MISSING:
        plain_value = None
    elif isinstance(value, Enum):
        plain_value = plain(value.value)
    elif isinstance(value, date | time):
        plain_value = value.isoformat()
    elif isinstance(value, Decimal | UUID):
        plain_value = str(value)
    elif hasattr(value, "tolist"):
        plain_value = plain(value.tolist())
    return plain_value
