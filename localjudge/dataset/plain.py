"""Values of Python programs as the values that JSON knows, so that rows mean the same wherever they come from.

numpy array -> list      datetime -> "2024-05-01T12:00:00"      Decimal("0.5") -> "0.5"      Context -> object
"""

import math
from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from localjudge.dataset.checks import DEEPEST
from localjudge.types import Record

_MISSING = {"NAType", "NaTType"}
"""How pandas calls the kinds of its missing values; pandas itself is not needed to know them."""


def plain(value: Any, levels: int = DEEPEST + 2) -> Any:
    """The value with everything in it made plain, down to as many levels as the checks allow.

    What is of no known kind, or deeper, is left for the checks to name.
    """
    if levels == 0:
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, levels - 1) for item in value]
    return _plain_scalar(value)


def without_nan(row: Any) -> Any:
    """The row with null for every value that is NaN, which is how pandas marks a text that is missing."""
    if not isinstance(row, dict):
        return row
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}


def _plain_scalar(value: Any) -> Any:
    plain_value = value
    if type(value).__name__ in _MISSING:
        plain_value = None
    elif isinstance(value, Record):
        plain_value = value.model_dump()
    elif isinstance(value, date | time):
        plain_value = value.isoformat()
    elif isinstance(value, Decimal | UUID):
        plain_value = str(value)
    elif hasattr(value, "tolist"):
        plain_value = plain(value.tolist())
    return plain_value
