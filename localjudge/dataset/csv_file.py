"""Read CSV.

The first record with text is the header. Excel's line `sep=;` sets the delimiter; otherwise it is
comma, semicolon or tab: the one by which most rows have as many cells as the header, then the one
that gives the header more known names, then more cells. As in spreadsheets, empty cells at the end
of a row may be missing or too many. Quotes are parsed strictly, because an unclosed
quote would hide all later rows; a quote may also follow a space after the delimiter (`a, "b"`), if
the file begins so. An empty cell is a missing value, and a row of empty cells is a blank line.

A file of `localjudge export` is read as it was written: an apostrophe before a formula is removed,
and words such as `N/A` stay text.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from threading import Lock
from typing import TYPE_CHECKING, TextIO

from localjudge.dataset.columns import is_known_name
from localjudge.dataset.rows import BLANK, Place, Problem, RawRow, is_export, shown
from localjudge.dataset.sources import ALWAYS_UNPACKED
from localjudge.errors import DataError
from localjudge.words import unescape_formula

if TYPE_CHECKING:
    import _csv

_DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab"}
_SEPARATOR_LINE = re.compile('"?sep=(.)"?', re.IGNORECASE)
_SPACE_AND_QUOTE = re.compile(' +"')
_CUT_OFF = "unexpected end of data"
_STYLE_RECORDS = 20
_MAX_HEADER = 2**20  # characters; a row may have `ALWAYS_UNPACKED`
_MAX_CELL = 2**31 - 1
_limit_lock = Lock()


def read_csv(
    stream: TextIO, source: str, head: str, sheet: Collection[str] = ()
) -> Iterator[RawRow | Problem]:
    """Yield the rows of a stream that begins with `head`. Raises DataError for invalid CSV.

    Places include the row in a spreadsheet if it is another number, as after a cell with line
    breaks; in a `sheet` with these columns, always. Lines before its header are skipped.
    """
    separator = _SEPARATOR_LINE.fullmatch(_first_line_with_text(head))
    lines = _BoundedLines(stream, source)
    with _large_cells():
        delimiter = _delimiter_of_columns(head, sheet)
        columns = sheet
        if delimiter is None:
            columns = ()
            delimiter = separator[1] if separator else _best_delimiter(head)
        skips_spaces = _has_spaces_before_quotes(head, delimiter)
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=skips_spaces)
    names: list[str] = []
    is_of_export = False
    is_separator_next = separator is not None
    row_number = 0
    for first_line, cells in _read_records(reader, source):
        lines.begin_record()
        has_text = any(cell.strip() for cell in cells)
        if is_separator_next and has_text:
            is_separator_next = False  # a spreadsheet does not show this line
            continue
        row_number += 1
        if names and has_text:
            place = Place(source, line=first_line)
            if sheet or row_number != first_line:
                place = Place(source, line=first_line, row=row_number)
            record = _add_trailing_cells(cells, len(names))
            if len(record) == len(names):
                row = _make_row(names, record, place, is_of_export=is_of_export)
                yield row._replace(is_short=len(cells) < len(names))
            else:
                yield _refuse_record(names, record, place, delimiter)
        elif not names and has_text and _has_columns(cells, columns):
            names = _name_columns(cells, source)
            is_of_export = is_export(names)
            lines.begin_record(ALWAYS_UNPACKED)


def check_column_names(names: Iterable[str], source: str) -> None:
    """Raise DataError if a name occurs twice."""
    for name, count in Counter(names).items():
        if count > 1:
            hint = "give every column a unique name"
            raise DataError(f"{source} has two columns {shown(name)}", hint=hint)


def _read_records(reader: "_csv.Reader", source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line of each record, and its cells. Raises DataError for invalid CSV."""
    first_line = 1
    while True:
        try:
            with _large_cells():
                cells = next(reader, None)
        except csv.Error as error:
            raise DataError(
                f"{source}:{first_line} is not valid CSV: {error} (at line {reader.line_num})",
                hint='close every quoted cell, and double quotes inside it: "she said ""yes"""',
            ) from error
        if cells is None:
            return
        yield first_line, cells
        first_line = reader.line_num + 1


def _name_columns(header: Sequence[str], source: str) -> list[str]:
    """Return the names of all columns. Raises DataError if two are equal."""
    names = []
    for number, cell in enumerate(header, 1):
        names.append(cell.strip() or f"column {number}")
    check_column_names(names, source)
    return names


def _add_trailing_cells(cells: Sequence[str], count: int) -> Sequence[str]:
    """Return `count` cells, if only empty ones at the end are missing or too many."""
    if any(cell.strip() for cell in cells[count:]):
        return cells
    missing = count - len(cells)
    return [*cells[:count], *[""] * missing]


def _refuse_record(
    names: Sequence[str], cells: Sequence[str], place: Place, delimiter: str
) -> Problem:
    split = f"{len(cells)} cells ({_DELIMITERS.get(delimiter, delimiter)} separates them)"
    expected = (
        f"{len(names)} cells, one for each column of the header (another separator: "
        "a first line such as sep=; names it)"
    )
    return Problem.at(place, None, f"a record of {split}", expected)


def _make_row(
    names: Sequence[str], cells: Sequence[str], place: Place, *, is_of_export: bool
) -> RawRow:
    values: dict[str, str | None] = {}
    for name, cell in zip(names, cells, strict=True):
        if is_of_export:
            values[unescape_formula(name)] = unescape_formula(cell) or None
        elif cell.strip():
            values[name] = cell
        else:
            values[name] = None
    return RawRow(place, values, typed=False, literal=is_of_export)


def _delimiter_of_columns(head: str, columns: Collection[str]) -> str | None:
    """Return the delimiter of a line that has all of these columns, or None without one."""
    if not columns:
        return None
    for line in head.splitlines():
        for delimiter in _DELIMITERS:
            if _has_columns(next(csv.reader([line], delimiter=delimiter), []), columns):
                return delimiter
    return None


def _has_columns(cells: Iterable[str], columns: Collection[str]) -> bool:
    return {*columns} <= {cell.strip() for cell in cells}


def _first_line_with_text(head: str) -> str:
    for line in head.splitlines():
        if line.strip(f"{BLANK},;"):
            return line
    return ""


def _best_delimiter(head: str) -> str:
    """Return the delimiter that fits the first rows best; see above."""
    fits: dict[str, tuple[float, int, int]] = {}
    for delimiter in _DELIMITERS:
        header, *rows = _first_records(head, delimiter)
        if len(header) > 1:
            fitting = sum(_fits(row, len(header)) for row in rows)
            known = sum(is_known_name(name) for name in header)
            fits[delimiter] = (fitting / max(1, len(rows)), known, len(header))
    return max(fits, key=fits.__getitem__, default=",")


def _fits(cells: Sequence[str], count: int) -> bool:
    return len(cells) >= count and len(_add_trailing_cells(cells, count)) == count


def _first_records(head: str, delimiter: str) -> list[list[str]]:
    """Return the header and the first rows, without the last one if it may be cut off."""
    reader = csv.reader(
        io.StringIO(head, newline=""),
        delimiter=delimiter,
        skipinitialspace=_has_spaces_before_quotes(head, delimiter),
    )
    records: list[list[str]] = []
    for cells in islice(reader, _STYLE_RECORDS):
        if any(cell.strip(f"{BLANK},;") for cell in cells):
            records.append(cells)
    if len(records) > 2 and not head.endswith("\n"):  # noqa: PLR2004
        records.pop()
    return records or [[]]


def _has_spaces_before_quotes(head: str, delimiter: str) -> bool:
    """Return whether a first cell is quoted after a space, and all are valid if read so."""
    plain = csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)
    cells = set(chain.from_iterable(islice(plain, _STYLE_RECORDS)))
    candidates = set(filter(_SPACE_AND_QUOTE.match, cells))
    if not candidates:
        return False
    reader = csv.reader(
        io.StringIO(head, newline=""),
        delimiter=delimiter,
        strict=True,
        skipinitialspace=True,
    )
    cells_without_spaces: set[str] = set()
    try:
        for record in islice(reader, _STYLE_RECORDS):
            cells_without_spaces.update(record)
    except csv.Error as error:
        if _CUT_OFF not in str(error):  # the head may end inside a cell
            return False
    # A cell in quotes may itself begin with a space and a quote.
    return not candidates <= cells_without_spaces


@contextmanager
def _large_cells() -> Iterator[None]:
    """Allow cells of more than 131,072 characters within the block.

    The limit belongs to the whole process.
    """
    with _limit_lock:
        earlier = csv.field_size_limit(_MAX_CELL)
        try:
            yield
        finally:
            csv.field_size_limit(earlier)


class _BoundedLines:
    """Lines for `csv.reader`. Raises DataError if a record is too large, as for an unclosed quote.

    Before the header, a record may have `_MAX_HEADER` characters.
    """

    def __init__(self, stream: TextIO, source: str) -> None:
        self._stream = stream
        self._source = source
        self._limit = _MAX_HEADER
        self._left = _MAX_HEADER

    def begin_record(self, limit: int | None = None) -> None:
        """Count the characters of the next record, with another limit from now on if given."""
        if limit is not None:
            self._limit = limit
        self._left = self._limit

    def __iter__(self) -> Iterator[str]:
        while line := self._stream.readline(self._left + 1):
            self._left -= len(line)
            if self._left < 0:
                hint = (
                    "check that it is CSV, that each row ends with a line break and that every "
                    "quote is closed"
                )
                raise DataError(
                    f"{self._source} has a header or a row that is too large",
                    hint=hint,
                )
            yield line
