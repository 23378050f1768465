"""Find the rows of data in memory: frames, Arrow tables, data sets of other packages, or lists."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from localjudge.dataset.csv_file import check_column_names
from localjudge.dataset.nested_rows import expand, zip_columns
from localjudge.dataset.problems import Place, Problem, shown
from localjudge.dataset.python_values import plain, read_fields
from localjudge.dataset.rows import RawRow, is_nan, raw_row
from localjudge.dataset.table_files import BATCH_ROWS, import_pyarrow, list_rows
from localjudge.errors import InputError
from localjudge.types import Sample

ReadRows = Callable[[], Iterator[RawRow | Problem]]
"""Reads the rows of one source from the beginning."""
_Elements = Callable[[], Iterable[Any]]
"""Gives the rows of data in memory as they are, from the first one."""


def read_in_memory(
    data: object,
    mapping: Mapping[str, str],
    rows_path: str | None,
    name: str,
) -> ReadRows:
    """Return what reads the rows of data in memory, called `name` in messages.

    A mapping, or an object with fields, contains columns or rows. Raises InputError and DataError
    for unusable data.
    """
    elements = find_table_rows(data, name)
    whole: Mapping[str, Any] | None = None
    if elements is None and isinstance(data, Mapping):
        whole = data
    elif elements is None and not isinstance(data, Sample):
        whole = read_fields(data)
    if whole is not None:
        row = RawRow(Place(name, row=1), plain(whole))
        if rows_path is not None:
            return partial(expand, row._replace(place=Place(name)), mapping, rows_path)
        if _are_columns_of_cells(row.values):
            return partial(zip_columns, row.values, name)
        return partial(expand, row, mapping, rows_path)
    if elements is None:
        elements = _find_rows(data, name)
    return partial(_read_elements, elements, mapping, rows_path, name)


def _are_columns_of_cells(values: Mapping[str, Any]) -> bool:
    """Return whether every value is a list without objects.

    A list of objects may contain rows or messages.
    """
    if not values:
        return False
    for column in values.values():
        if not isinstance(column, list) or any(isinstance(cell, Mapping) for cell in column):
            return False
    return True


def _read_elements(
    elements: _Elements,
    mapping: Mapping[str, str],
    rows_path: str | None,
    name: str,
) -> Iterator[RawRow | Problem]:
    for number, element in enumerate(elements(), 1):
        row = _row_of_element(element, Place(name, row=number))
        if rows_path and isinstance(row, RawRow):
            yield from expand(row, mapping, rows_path)
        else:
            yield row


def _row_of_element(element: Any, place: Place) -> RawRow | Problem:
    if isinstance(element, Sample):
        return RawRow(place, element.model_dump(exclude_none=True), literal=True)
    row = raw_row(plain(element), place)
    if isinstance(row, Problem):
        return row
    nulls = {column: None for column, cell in row.values.items() if is_nan(cell)}
    return row._replace(values={**row.values, **nulls})


def find_table_rows(data: Any, name: str) -> _Elements | None:
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
        return find_table_rows(data, name) or _find_rows(data, name)
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


def _find_rows(data: Any, name: str) -> _Elements:
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
