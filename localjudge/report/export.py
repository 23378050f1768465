"""Write a run's results to a file: jsonl, csv or parquet.

A missing score is null in JSON and Parquet, and empty in CSV. Lists and objects in CSV and Parquet
are JSON text, and so is a Parquet column with mixed types. In CSV, text that looks like a formula
gets an apostrophe. In Parquet, all contexts of a column with objects are objects, with the meta as
JSON text.
"""

import csv
import io
import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Literal

from localjudge.report.data_frames import require
from localjudge.report.flat_table import CONTEXT_COLUMNS, FlatTable, Rows, convert, flat_table
from localjudge.run_directory.result_rows import json_line
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import escape_formula

Format = Literal["jsonl", "csv", "parquet"]
GROUP_ROWS = 65_536
_BLOCK = 1 << 20


def exported_parts(
    run: RunRecord,
    as_format: Format,
    rows: Rows,
    *,
    texts: bool = False,
    columns: bool = False,
) -> Iterator[bytes]:
    """Yield the exported file in parts. Raises InputError for missing data or a missing package."""
    table = flat_table(run, rows, texts=texts, columns=columns)
    if as_format == "csv":
        return _csv(table)
    if as_format == "parquet":
        return _parquet(table)
    return _jsonl(table)


def _jsonl(table: FlatTable) -> Iterator[bytes]:
    for row in table.rows():
        yield json_line(row).encode()


def _csv(table: FlatTable) -> Iterator[bytes]:
    yield _csv_line(table.kinds)
    for row in table.rows():
        yield _csv_line(row.values())


def _csv_line(cells: Iterable[Any]) -> bytes:
    """Return a line with lists and objects as JSON, and formulas have an apostrophe."""
    escaped: list[Any] = []
    for cell in cells:
        value = cell
        if isinstance(cell, list | dict):
            value = convert(cell, "text")
        escaped.append(escape_formula(value))
    text = io.StringIO(newline="")
    csv.writer(text).writerow(escaped)
    return text.getvalue().encode()


def _parquet(table: FlatTable) -> Iterator[bytes]:
    require("pyarrow")
    import pyarrow  # type: ignore[import-untyped]
    from pyarrow import parquet

    text = pyarrow.string()
    number = pyarrow.float64()
    context = pyarrow.struct({**dict.fromkeys(CONTEXT_COLUMNS, text), "score": number})
    types = {
        "text": text,
        "texts": pyarrow.list_(text),
        "contexts": pyarrow.list_(context),
        "number": number,
        "whole": pyarrow.int64(),
        "flag": pyarrow.bool_(),
    }
    schema = pyarrow.schema({name: types[kind] for name, kind in table.kinds.items()})
    rows = table.rows()
    with tempfile.TemporaryFile() as file:  # without a name, so no other process can open it
        with parquet.ParquetWriter(file, schema) as writer:
            while block := list(islice(rows, GROUP_ROWS)):
                writer.write_table(pyarrow.table(table.columns(block), schema=schema))
        file.seek(0)
        yield from iter(lambda: file.read(_BLOCK), b"")
