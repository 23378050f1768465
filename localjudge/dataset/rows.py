"""A row of any tool's data, with its original columns, and its cells without a value.

In CSV, an empty cell and the words that programs and people write for "no value" are missing
values. JSON, Parquet and Python have null, so a word there is text. NaN is missing everywhere.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from localjudge.dataset.problems import Place, Problem, describe

ROW = "an object with columns"
SAMPLE_ID = "sample_id"
STATUS_SUFFIX = "_status"
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


class RawRow(NamedTuple):
    """A row with its original columns and values."""

    place: Place
    values: Mapping[str, Any]
    typed: bool = True
    """False if every value is text (CSV)."""
    conversation: bool = False
    """Whether its question was a conversation. It has the last turn now."""
    whole: bool = False
    """Whether it is the only value of a JSON file, which may contain the rows."""
    is_short: bool = False
    """Whether its record of CSV lacks the last cells."""
    literal: bool = False
    """Whether it is a sample or a row of an export, with texts that are never placeholders."""


def is_export(columns: Collection[str]) -> bool:
    """Return whether `localjudge export` wrote these columns.

    A metric has two columns there, its score and its status.
    """
    if SAMPLE_ID not in columns:
        return False
    return any(f"{name}{STATUS_SUFFIX}" in columns for name in columns)


def raw_row(value: Any, place: Place) -> RawRow | Problem:
    """Return an object as a row, and a problem for any other value."""
    if isinstance(value, Mapping):
        return RawRow(place, value, literal=is_export(value))
    return Problem.at(place, None, describe(value), ROW)


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
