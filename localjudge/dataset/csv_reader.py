"""CSV as rows: every value is text, and an empty cell is null.

Quotes are read strictly. The lenient reading would take everything after a quote that is never closed, to the end of
the file, for one cell, and lose the rows in it without a word.
"""

import csv
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TextIO

from localjudge.dataset.encodings import NOT_UTF8, undecodable
from localjudge.dataset.problems import Place, Problem, shown
from localjudge.dataset.rows import RawRow
from localjudge.errors import DataError

_DELIMITERS = (",", ";", "\t")
_LONGEST_CELL = min(sys.maxsize, 2**31 - 1)


def read_csv(stream: TextIO, source: str, head: str) -> Iterator[RawRow | Problem]:
    """One row for each record after the header; `head` is how the text begins, and decides on the delimiter.

    `stream` must not translate line ends. Raises DataError for a column named twice and for broken quotes.
    """
    reader = csv.reader(stream, delimiter=_delimiter(head), strict=True)
    records = _records(reader)
    line = 1
    try:
        columns = _columns(next(records, []), source)
        line = reader.line_num + 1
        for cells in records:
            if cells:
                yield _row(cells, columns, Place(source, line=line))
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{source}:{line} is no valid CSV: {error} (at line {reader.line_num})",
            hint='every quote that opens a cell closes it; one inside is written twice: "she said ""yes"""',
        ) from error


def _records(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    """Contexts may be longer than the csv module's limit of 131,072 characters.

    The limit is one for the process: it is another only while a record is read, not while its taker works.
    """
    while True:
        before = csv.field_size_limit(_LONGEST_CELL)
        try:
            cells = next(reader, None)
        finally:
            csv.field_size_limit(before)
        if cells is None:
            return
        yield cells


def _delimiter(head: str) -> str:
    """The delimiter that gives the header most cells; a comma if none does."""
    header = head.lstrip("\r\n").splitlines()[:1]
    return max(_DELIMITERS, key=lambda delimiter: len(next(csv.reader(header, delimiter=delimiter), [])))


def _columns(header: list[str], source: str) -> list[str]:
    names = [cell.strip() or f"column {number}" for number, cell in enumerate(header, 1)]
    for name in names:
        if problem := _not_text(name):
            raise DataError(f"{source}: the header has {problem}", hint=f"save the file as {NOT_UTF8}")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            f"{source}: the header names {shown(twice[0])} twice", hint="give every column a name of its own"
        )
    return names


def _row(cells: list[str], columns: list[str], place: Place) -> RawRow | Problem:
    if len(cells) != len(columns):
        expected = f"{len(columns)} cells, one for each column of the header"
        return Problem.at(place, None, f"a record of {len(cells)}", expected)
    for column, cell in zip(columns, cells, strict=True):
        if problem := _not_text(cell):
            return Problem.at(place, column, problem, NOT_UTF8)
    return RawRow(place, dict(zip(columns, cells, strict=True)), typed=False)


def _not_text(cell: str) -> str | None:
    return "a NUL byte" if "\0" in cell else undecodable(cell)
