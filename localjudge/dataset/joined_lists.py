"""A list of contexts that was written as one text: `first|second`.

DeepEval writes its lists so into CSV and JSONL (`EvaluationDataset.save_as`, read in version 4.3.1). Taken for one
context, such a text gives other sentences and other chunks, and a score that nobody would doubt. So a text with the
mark in a file that has DeepEval's own columns is refused, and `context_separator` says that the texts are to be split.
Where only the columns of its test cases were kept, which others use as well, a text is refused whose mark has no white
space on either side, outside of a table.

Split means: at every place where the separator stands, outer white space of the pieces trimmed, empty pieces left out.
Lists and objects stay what they are, and so do contexts in several columns. Elsewhere a text may hold any mark: tables
in Markdown are full of it.
"""

import re
from collections.abc import Callable
from typing import Any

from localjudge.dataset.problems import Place, shown
from localjudge.errors import DataError, UsageError
from localjudge.option_spelling import option

_MARK = "|"
_OF_DEEPEVAL = ("additional_metadata", "custom_column_key_values", "expected_tools", "source_file", "tools_called")
"""Columns that DeepEval writes into every file, and that nobody who writes rows by hand has."""
_TEST_CASE = ("input", "actual_output", "retrieval_context")
"""Columns of DeepEval's test cases, which are in files by hand too."""
_GLUED = re.compile(r"(?<![\s|])\|(?![\s|])")
_TABLE = re.compile(r"^[ \t]*\||-\||\|:?-", re.MULTILINE)
"""A line that begins with the mark, or the line below the head of a table in Markdown."""

Split = Callable[[Any, Place, str], Any]
"""Takes a value, the place of its row and its column; gives the value, or the pieces of a text."""


def check_separator(separator: str | None) -> None:
    """Raise UsageError for a separator that stands between no two characters."""
    if separator == "":
        raise UsageError("the context separator is empty", hint="give the text that stands between two contexts: '|'")


def splitter(separator: str | None, has: Callable[[str], bool]) -> Split:
    """How the texts of one source are split; `has` tells whether it has a column.

    What it gives raises DataError for a joined list where no separator was given.
    """
    if separator is not None:
        return lambda value, _place, _column: _pieces(value, separator)
    if any(map(has, _OF_DEEPEVAL)):
        return _refuse_joined
    return _refuse_glued if all(map(has, _TEST_CASE)) else lambda value, _place, _column: value


def _pieces(value: Any, separator: str) -> Any:
    if not isinstance(value, str):
        return value
    return [piece for piece in map(str.strip, value.split(separator)) if piece]


def _refuse_glued(value: Any, place: Place, column: str) -> Any:
    if isinstance(value, str) and _GLUED.search(value) and not _TABLE.search(value):
        return _refuse_joined(value, place, column)
    return value


def _refuse_joined(value: Any, place: Place, column: str) -> Any:
    if isinstance(value, str) and _MARK in value:
        raise DataError(
            f"{place}: {shown(column)}: found one text with {_MARK!r} in it, in a file with the columns of DeepEval, "
            "which writes a list so",
            hint=f"split such texts: {option('context_separator', _MARK)}; if it is one text, give a separator that it "
            "does not hold; DeepEval's save_as('json') keeps lists",
        )
    return value
