"""Find the rows of data in memory: frames, Arrow tables, data sets of other packages, or lists."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from localjudge.dataset.csv_file import check_column_names
from localjudge.dataset.problems import shown
from localjudge.dataset.table_files import BATCH_ROWS, import_pyarrow, list_rows
from localjudge.errors import InputError

Elements = Callable[[], Iterable[Any]]
"""Gives the rows of data in memory as they are, from the first one."""


def find_table_rows(data: Any, name: str) -> Elements | None:
    """Return the rows of a table, or None for other data.

    Raises InputError and DataError for unusable tables.
    """
    if isinstance(data, Mapping):
        if not data or not all(map(_is_table, data.values())):
            return None
        if len(data) > 1:
            names = list(map(str, data))
            raise InputError(
                f"the data contain {len(data)} splits: {', '.join(map(shown, names))}",
                hint=f"pass one of them: data[{names[0]!r}]",
            )
        (data,) = data.values()
        return find_table_rows(data, name) or find_rows(data, name)
    if hasattr(data, "to_frame"):
        kind = type(data).__name__
        raise InputError(
            f"the data are one column (a {kind})",
            hint="pass the whole frame, or data.to_frame()",
        )
    if _is_pandas(data):
        check_column_names(map(str, data.columns), name)
        return lambda: _read_frame(data)
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):
        data = data.collect()
    if hasattr(data, "iter_rows"):
        return lambda: data.iter_rows(named=True)
    if hasattr(data, "__arrow_c_stream__"):
        table = import_pyarrow("the data are an Arrow table").table(data)
        check_column_names(table.column_names, name)
        return lambda: list_rows(table.to_batches())
    return None


def find_rows(data: Any, name: str) -> Elements:
    """Return the rows of data that are not a table. Raises InputError for an unsupported type."""
    if isinstance(data, Iterable):
        rows = data
        is_sequence = hasattr(data, "__len__") and hasattr(data, "__getitem__")
        if not is_sequence:
            rows = list(data)
        return lambda: rows
    if hasattr(data, "test_cases") and hasattr(data, "goldens"):
        return lambda: data.test_cases or data.goldens
    raise InputError(
        f"the data have the unsupported type {type(data).__name__}",
        hint="pass names of files, rows or a data frame",
    )


def _read_frame(frame: Any) -> Iterator[Any]:
    for start in range(0, len(frame), BATCH_ROWS):
        yield from frame.iloc[start : start + BATCH_ROWS].to_dict("records")


def _is_pandas(data: Any) -> bool:
    return hasattr(data, "iloc") and hasattr(data, "columns")


def _is_table(data: Any) -> bool:
    if _is_pandas(data):
        return True
    return any(hasattr(data, name) for name in ("column_names", "iter_rows", "collect_schema"))
