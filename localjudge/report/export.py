"""Write a run's results to a file (jsonl, csv or parquet), or to a data frame (pandas or polars).

A missing score is null in JSON and Parquet, NaN in pandas, and empty in CSV. Lists and objects in
CSV and Parquet are JSON text, and so is a Parquet column with mixed types. In CSV, text that looks
like a formula gets an apostrophe. In Parquet and polars, all contexts of a column with objects are
objects, with the meta as JSON text.
"""

import csv
import io
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from localjudge.dataset.data_in_memory import plain
from localjudge.dataset.samples import extras_text
from localjudge.errors import InputError
from localjudge.report.flat_table import (
    CONTEXT_COLUMNS,
    TEXTS,
    FlatTable,
    Row,
    Rows,
    convert,
    flat_table,
)
from localjudge.run_directory.result_rows import json_line
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import escape_formula

if TYPE_CHECKING:
    import pandas
    import polars

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
    return (json_line(row).encode() for row in table.rows())


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


def require(package: str) -> None:
    """Raise InputError if the package is not installed."""
    if find_spec(package) is None:
        raise InputError(
            f"the package {package} is not installed",
            hint=f"install it with: pip install {package}",
        )


def pandas_frame(
    run: RunRecord, rows: Rows, types: Mapping[str, Any] = MappingProxyType({})
) -> "pandas.DataFrame":
    """Return the rows with the user's columns in these types.

    Raises InputError if pandas is not installed.
    """
    require("pandas")
    import pandas

    dtypes = {
        "text": object,
        "texts": object,
        "contexts": object,
        "number": "float64",
        "whole": "Int64",
    }
    table = _frame_table(run, rows)
    entries = list(table.rows())
    values = table.columns(entries)
    columns: dict[str, pandas.Series] = {}
    for name, kind in table.kinds.items():
        cells = values[name]
        if kind == "contexts":
            cells = _column(entries, name)
        columns[name] = pandas.Series(cells, dtype=dtypes.get(kind))
    for column, name in table.user_columns.items():
        columns[name] = _in_type(pandas.Series(_column(entries, name)), types.get(column))
    frame = pandas.DataFrame(columns)
    if rows == "samples" and run.manifest.environment.index:
        return _restore_index(run, frame, table.user_columns)
    return frame


def _column(rows: Sequence[Row], name: str) -> list[Any]:
    """Return the values of a column as they are in the rows."""
    return [row[name] for row in rows]


def _restore_index(
    run: RunRecord, frame: "pandas.DataFrame", user_columns: Mapping[str, str]
) -> "pandas.DataFrame":
    """Move the columns that were the index of the data back into the index."""
    import pandas

    ids = run.manifest.environment.mapping.get("id")
    levels: list[pandas.Index] = []
    moved: list[str] = []
    for level in run.manifest.environment.index:
        name = "sample_id"
        if level.column != ids:
            name = user_columns[level.column]
            moved.append(name)
        values = frame[name]
        # JSON may lose the type; the values then stay as stored.
        with suppress(TypeError, ValueError):
            values = values.astype(level.dtype)
        levels.append(pandas.Index(values.array, name=level.name))
    index = levels[0]
    if len(levels) > 1:
        index = pandas.MultiIndex.from_arrays(levels)
    return frame.drop(columns=moved).set_index(index)


def _in_type(values: "pandas.Series", dtype: Any) -> "pandas.Series":
    """Return the values in this type, or unchanged if it does not fit all of them."""
    if dtype is None:
        return values
    categories: dict[Any, Any] = {}
    names = getattr(dtype, "categories", None)
    if names is None:
        names = ()
    for category in names:
        stored = json.loads(extras_text({"": plain(category)}))[""]
        categories[stored] = category
    with suppress(TypeError, ValueError):
        restored = values
        if categories:
            restored = values.map(categories)
        typed = restored.astype(dtype)
        if typed.isna().equals(values.isna()):
            return typed
    return values


def polars_frame(
    run: RunRecord, rows: Rows, types: Mapping[str, Any] = MappingProxyType({})
) -> "polars.DataFrame":
    """Like `pandas_frame`, for polars. Raises InputError if it is not installed."""
    require("polars")
    import polars

    context = polars.Struct(
        {**dict.fromkeys(CONTEXT_COLUMNS, polars.String), "score": polars.Float64}
    )
    dtypes: dict[str, Any] = {
        "text": polars.String,
        "texts": polars.List(polars.String),
        "contexts": polars.List(context),
        "number": polars.Float64,
        "whole": polars.Int64,
        "flag": polars.Boolean,
    }
    table = _frame_table(run, rows)
    schema: dict[str, Any] = {}
    for name, kind in table.kinds.items():
        schema[name] = dtypes[kind]
    frame = polars.DataFrame(table.columns(table.rows()), schema=schema)
    for column, name in table.user_columns.items():
        dtype = types.get(column)
        values = frame[name]
        if not isinstance(dtype, polars.DataType) or dtype.is_nested():
            continue
        with suppress(polars.exceptions.PolarsError, ValueError):
            if isinstance(dtype, polars.datatypes.TemporalType) and values.dtype == polars.String:
                frame = frame.with_columns(values.str.strptime(dtype))
            else:
                frame = frame.with_columns(values.cast(dtype))
    return frame


def _frame_table(run: RunRecord, rows: Rows) -> FlatTable:
    if rows != "samples":
        return flat_table(run, rows)
    table = flat_table(run, rows, texts=True, columns=True)
    leading = ["sample_id", *TEXTS, *table.user_columns.values()]
    return table.select(list(dict.fromkeys([*leading, *table.kinds])))
