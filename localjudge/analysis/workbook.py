"""Excel workbooks (.xlsx) of rows to fill in, with openpyxl (the extra `localjudge[xlsx]`).

Texts remain texts, even after editing: `=1+1`, `#N/A`, `007` and `2024-01-05`. Characters invalid in XML are escaped
as in ECMA-376-1 (22.9.2.19: `_x000D_`).
"""

import io
import re
import warnings
import zipfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from localjudge.dataset.formats import check_column_names
from localjudge.dataset.problems import Place, shown
from localjudge.dataset.rows import RawRow
from localjudge.dataset.sources import check_expansion, shown_name
from localjudge.errors import DataError, InputError
from localjudge.words import printable

LONGEST_CELL = 32_767
"""Maximum characters (UTF-16 units) in a cell."""
_TEXT_FORMAT = 255
"""Maximum characters that older versions of Excel show in a cell formatted as text."""
_WIDEST = 60
_MOST_ROWS, _MOST_COLUMNS = 2**20, 256
"""Limits on reading a worksheet: Excel's number of rows, and more columns than any label sheet has."""
_UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
_ESCAPE = re.compile("_x(00[01][0-9A-Fa-f]|005[Ff]|[Ff]{3}[EeFf])_")  # openpyxl drops the first half of other escapes


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError as error:
        hint = "install the extra localjudge[xlsx] (pip install openpyxl), or use CSV"
        raise InputError("an Excel workbook needs openpyxl, which is not installed", hint=hint) from error
    return openpyxl


def workbook(rows: Sequence[Mapping[str, Any]], labels: str, whole: Collection[str]) -> bytes:
    """Return a workbook of rows with the same columns. The column `labels` accepts 1 and 0.

    Raises InputError without openpyxl, and for a text too long for a cell in a `whole` column. In other columns such a
    text is cut and marked.
    """
    package = _openpyxl()
    book = package.Workbook(write_only=True)
    sheet = book.create_sheet("labels")
    sheet.freeze_panes = "A2"
    columns = list(rows[0]) if rows else []
    for number, column in enumerate(columns, 1):
        letter = package.utils.get_column_letter(number)
        longest = max(len(str(row[column] or "")) for row in rows)
        sheet.column_dimensions[letter].width = 2 + min(max(longest, len(column)), _WIDEST)
        if column == labels:
            cells = f"{letter}2:{letter}{len(rows) + 1}"
            choice = package.worksheet.datavalidation.DataValidation("list", '"1,0"', allow_blank=True, sqref=cells)
            choice.showErrorMessage, choice.error = True, "1 for yes, 0 for no, nothing if it cannot be decided"
            sheet.data_validations.append(choice)
    sheet.append(_cell(package, sheet, column, header=True, label=column == labels) for column in columns)
    for row in rows:
        values = ((column, _fitting(row, column, whole)) for column in columns)
        sheet.append(_cell(package, sheet, value, label=column == labels) for column, value in values)
    book.save(content := io.BytesIO())
    return content.getvalue()


def _cell(package: Any, sheet: Any, value: Any, *, label: bool, header: bool = False) -> Any:
    is_text, is_long = isinstance(value, str), len(str(value)) > _TEXT_FORMAT
    cell, styles = package.cell.WriteOnlyCell(sheet), package.styles
    cell.alignment = styles.Alignment(vertical="top", wrap_text=True)
    if header:
        cell.font = styles.Font(name="Calibri", size=11, bold=True)
    if label:
        cell.fill = styles.PatternFill("solid", fgColor="FFF2CC")
    cell.number_format = "@" if is_text and not is_long else "General"
    cell.quotePrefix = is_text and is_long
    cell.value = value
    cell.data_type = "s" if is_text else "n"  # openpyxl would detect formulas and errors in texts
    return cell


def is_too_long(value: object) -> bool:
    """Return whether the value is a text too long for an Excel cell."""
    return isinstance(value, str) and len(_units(value)) > 2 * LONGEST_CELL


def _units(text: str) -> bytes:
    return _UNWRITABLE.sub(lambda match: f"_x{ord(match[0]):04X}_", text).encode("utf-16-le")


def _fitting(row: Mapping[str, Any], column: str, whole: Collection[str]) -> Any:
    if not isinstance(value := row[column], str):
        return value
    mark = f"\n[... cut here: it has {len(value):,} characters]" if is_too_long(value) else ""
    if mark and column in whole:
        problem = (
            f"{column} has {len(value):,} characters in a row, more than a cell of Excel can hold ({LONGEST_CELL:,})"
        )
        raise InputError(problem, hint="name a file that ends in .jsonl")
    return _units(value)[: 2 * (LONGEST_CELL - len(mark))].decode("utf-16-le", errors="ignore") + mark


def workbook_rows(file: Path, labels: str) -> list[RawRow]:
    """Read the rows of the only worksheet with the column `labels`. A row's place is its number in the sheet.

    Values are the displayed ones; a formula has its saved result. Raises DataError for an invalid workbook, or unless
    exactly one worksheet has the column, and InputError without openpyxl.
    """
    package, name = _openpyxl(), shown_name(str(file))
    try:
        with open(file, "rb") as stream, zipfile.ZipFile(stream) as packed, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # openpyxl warns of unsupported content
            check_expansion(name, file.stat().st_size, sum(part.file_size for part in packed.infolist()))
            book = package.load_workbook(stream, read_only=True, data_only=True)
            tables = {sheet.title: rows for sheet in book.worksheets if (rows := _rows(sheet, name, labels))}
            titles = [sheet.title for sheet in book.worksheets]
    except InputError:
        raise
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror or error}", hint="name a file") from error
    except Exception as error:  # openpyxl raises arbitrary errors for a damaged file
        problem = f"{name} cannot be read as an Excel workbook: {printable(str(error)):.200}"
        raise DataError(problem, hint="save it once more, as .xlsx or as CSV") from error
    if len(tables) != 1:
        names = ", ".join(map(shown, tables or titles))
        problem = f"{name} has {len(tables) or 'no'} sheets with a column {labels} and rows below it ({names})"
        raise DataError(problem, hint="delete all but one" if tables else f"keep the header with {labels}")
    [rows] = tables.values()
    return rows


def _rows(sheet: Any, name: str, labels: str) -> list[RawRow]:
    sheet.reset_dimensions()  # the file's own may be wrong
    cells = enumerate(sheet.iter_rows(max_col=_MOST_COLUMNS, values_only=True), 1)
    filled = ((number, row) for number, row in cells if _is_filled(number, row, name))
    columns = [str("" if cell is None else cell).strip() for cell in next(filled, (0, ()))[1]]
    if labels not in columns:
        return []
    check_column_names(filter(None, columns), name)
    values: dict[str, Any] = dict.fromkeys(filter(None, columns))
    rows = []
    for number, row in filled:
        cells_of = zip(columns, row, strict=True)
        values |= {column: _unescaped(cell) for column, cell in cells_of if column and cell is not None}
        rows.append(RawRow(Place(name, row=number), values))
        values = {}  # the first row has all columns, even empty ones
    return rows


def _is_filled(number: int, row: Sequence[Any], name: str) -> bool:
    if number > _MOST_ROWS:
        raise DataError(
            f"{name} has rows beyond {_MOST_ROWS:,}, the last row of Excel", hint="save it once more in Excel"
        )
    return row.count(None) < len(row)


def _unescaped(value: Any) -> Any:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), value) if isinstance(value, str) else value
