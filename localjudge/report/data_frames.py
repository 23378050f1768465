"""The results of a run as data frames of pandas and polars.

A missing score is NaN in pandas. In polars, all contexts of a column with objects are objects, with
the meta as JSON text.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from localjudge.dataset.python_values import extras_text, plain
from localjudge.errors import InputError
from localjudge.report.flat_table import CONTEXT_COLUMNS, TEXTS, FlatTable, Row, Rows, flat_table
from localjudge.run_directory.run_record import RunRecord

if TYPE_CHECKING:
    import pandas
    import polars


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
