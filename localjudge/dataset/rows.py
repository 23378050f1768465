"""A row of any tool's data, with its original columns."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from localjudge.dataset.problems import Place, Problem, describe

ROW = "an object with columns"
SAMPLE_ID = "sample_id"
STATUS_SUFFIX = "_status"


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
