"""Data of other packages in memory as rows: known by the methods that they have, so that no package is imported.

    pandas                DataFrame                    some rows at a time
    polars                DataFrame, LazyFrame         a lazy one is collected once
    Arrow                 __arrow_c_stream__           tables, batches, streams, of any package; needs pyarrow
    Hugging Face          Dataset, DatasetDict         of a dict of splits the one that it has
    ragas, DeepEval       EvaluationDataset            samples, test cases
    portions of rows      an iterable of tables        `read_csv(chunksize=...)`, a data set with a format of frames

What can be gone through again is not copied; what can be gone through only once is kept as a list.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from localjudge.dataset.arrow_reader import BATCH_ROWS, check_column_names, pyarrow_for, rows_of_batches
from localjudge.dataset.problems import shown
from localjudge.errors import DataError, UsageError

Rows = Callable[[], Iterable[Any]]
_LISTS = ("test_cases", "goldens")
"""DeepEval's data set, which is nothing that can be gone through, has its rows in one of these."""


def rows_of_table(data: Any, name: str) -> Rows | None:
    """The rows of a table, as often as wanted; None if the data are no table.

    Raises UsageError for several tables or a package that is not installed, DataError for a column that stands twice.
    """
    if isinstance(data, Mapping):
        return _rows_of_splits(data, name)
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):
        data = data.collect()
    rows: Rows | None = None
    if hasattr(data, "to_frame"):
        raise UsageError(
            f"the data are one column (a {type(data).__name__})",
            hint="give the whole frame, or data.to_frame() if a metric needs nothing else",
        )
    if _is_pandas(data):
        check_column_names([str(column) for column in data.columns], name)
        rows = _rows_of_pandas(data)
    elif hasattr(data, "iter_rows"):
        rows = _rows_of_polars(data)
    elif hasattr(data, "__arrow_c_stream__"):
        table = pyarrow_for("the data are an Arrow table").table(data)
        check_column_names(table.column_names, name)
        rows = _rows_of_arrow(table, name)
    return rows


def rows_of_iterable(data: Any, name: str) -> Rows:
    """The rows of what can be gone through. Raises UsageError for anything else, DataError for DeepEval's empty one."""
    if isinstance(data, Iterable):
        kept = data if hasattr(data, "__len__") and hasattr(data, "__getitem__") else [*data]
        return lambda: _without_tables(kept, name)
    if all(hasattr(data, attribute) for attribute in _LISTS):
        filled = [rows for attribute in _LISTS if (rows := getattr(data, attribute))]
        if not filled:
            raise DataError(f"{name} has no rows", hint="add test cases or goldens")
        return lambda: filled[0]
    raise UsageError(
        f"the data are of the type {type(data).__name__}", hint="give the name of a file, several, rows or a data frame"
    )


def _without_tables(rows: Iterable[Any], name: str) -> Iterator[Any]:
    """The rows, those of a table in place of it: what a data set gives that is formatted as frames, or in portions."""
    for row in rows:
        table = None if isinstance(row, Mapping) or not _is_table(row) else rows_of_table(row, name)
        yield from [row] if table is None else table()


def _is_pandas(data: Any) -> bool:
    return hasattr(data, "iloc") and hasattr(data, "columns")


def _is_table(data: Any) -> bool:
    return any(hasattr(data, name) for name in ("column_names", "iter_rows", "collect_schema")) or _is_pandas(data)


def _rows_of_splits(splits: Mapping[Any, Any], name: str) -> Rows | None:
    if not splits or not all(map(_is_table, splits.values())):
        return None
    if len(splits) > 1:
        names = [str(split) for split in splits]
        raise UsageError(
            f"the data are {len(splits)} splits: {', '.join(map(shown, names))}",
            hint=f"give one of them: data[{names[0]!r}]",
        )
    (table,) = splits.values()
    return rows_of_table(table, name) or rows_of_iterable(table, name)


def _rows_of_pandas(frame: Any) -> Rows:
    def rows() -> Iterator[Any]:
        for start in range(0, len(frame), BATCH_ROWS):
            yield from frame.iloc[start : start + BATCH_ROWS].to_dict("records")

    return rows


def _rows_of_polars(frame: Any) -> Rows:
    return lambda: frame.iter_rows(named=True)


def _rows_of_arrow(table: Any, name: str) -> Rows:
    return lambda: (row.values for row in rows_of_batches(table.to_batches(), name))
