"""Recognise cells without a value.

In CSV, an empty cell and the words that programs and people write for "no value" are missing
values. JSON, Parquet and Python have null, so a word there is text. NaN is missing everywhere.
"""

import math
from typing import Any

_PROGRAM_WORDS = {
    "NaN", "nan", "-NaN", "-nan", "NaT", "NULL", "null", "<NA>", "#N/A", "#N/A N/A", "#NA", "\\N",
    "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN",
}  # fmt: skip
_ANSWER_WORDS = {"None", "NA", "N/A", "n/a", "-"}
"""Words that a response may contain as an answer."""
PLACEHOLDERS = _PROGRAM_WORDS | _ANSWER_WORDS
"""Placeholders of pandas, plus `-`, `NaT` and `\\N` (databases).

Not "none", which may be an answer.
"""


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def is_placeholder(text: Any) -> bool:
    """Whether a cell of CSV contains a word for "no value"."""
    return isinstance(text, str) and text.strip() in PLACEHOLDERS


def is_answer_word(text: Any) -> bool:
    """Whether a placeholder may also be an answer, such as `N/A`."""
    return isinstance(text, str) and text.strip() in _ANSWER_WORDS


def is_blank(value: Any) -> bool:
    """Whether the value of a column names no group: null, NaN, or a blank text."""
    return value is None or is_nan(value) or (isinstance(value, str) and not value.strip())
