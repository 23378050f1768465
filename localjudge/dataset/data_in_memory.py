"""Find the rows of data in memory: in one object with all rows, in frames, tables, and lists.

An object, also of a JSON file, has the rows under a key or as columns:

    {"results": [{"query": ...}, {"query": ...}]}    RAGChecker; one level deeper in promptfoo
    {"questions": ["...", "..."], "contexts": [[...], [...]]}    Haystack, `to_dict` of data frames
    {"version": 2, "eval": {...}, "samples": [...]}         a log of inspect
    {"experiment": {"items": [{"query": ...}]}}      anywhere, at a user's path: experiment.items

It contains columns if its question or answer is a list that is not a conversation. A list in it
contains the rows if the list's objects have known columns.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from localjudge.dataset.columns import ALIASES, KNOWN_NAMES, split_columns
from localjudge.dataset.conversation import last_turn
from localjudge.dataset.csv_file import check_column_names
from localjudge.dataset.paths import MISSING, first_part, has_value, lookup, reaches_inside
from localjudge.dataset.python_values import (
    BATCH_ROWS,
    import_pyarrow,
    list_rows,
    plain,
    read_fields,
)
from localjudge.dataset.rows import Place, Problem, RawRow, describe, is_nan, raw_row, shown
from localjudge.errors import DataError, InputError
from localjudge.types import Sample

ReadRows = Callable[[], Iterator[RawRow | Problem]]
"""Reads the rows of one source from the beginning."""
_Elements = Callable[[], Iterable[Any]]
"""Gives the rows of data in memory as they are, from the first one."""
_CONTAINER_NAMES = {"data", "outputs", "request"}
"""Names of a field, or of an object around the rows."""
_TEXT_FIELDS = ("user_input", "response")
_TEXTS = {*ALIASES["user_input"], *ALIASES["response"]} - _CONTAINER_NAMES
_LOG_KEYS = {"version", "eval", "samples"}
_COLUMNS = KNOWN_NAMES - {*ALIASES["id"]} - _CONTAINER_NAMES
"""Known names of columns other than the id."""


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


def expand(
    row: RawRow,
    mapping: Mapping[str, str],
    rows_path: str | None = None,
) -> Iterator[RawRow | Problem]:
    """Yield the rows inside one object, or the object itself.

    `mapping`: our field -> the user's column.

    Raises DataError for columns of different lengths, and for an object without `rows_path`.
    """
    values = row.values
    source = row.place.source
    if rows_path is not None:
        yield from _expand_path(row, mapping, rows_path)
        return
    if values.keys() >= _LOG_KEYS and isinstance(values["samples"], list):
        for sample in number_rows(values["samples"], Place(source)):
            yield _name_epoch(sample)
        return
    text_columns = set(_TEXTS)
    for name in split_columns(mapping):
        if reaches_inside(name):
            text_columns.discard(first_part(name))
    for field in _TEXT_FIELDS:
        if field in mapping:
            text_columns.add(mapping[field])
    if _are_columns(values, text_columns):
        yield from zip_columns(values, source)
        return
    rows = _find_nested_rows(values, _COLUMNS | split_columns(mapping))
    if rows is None:
        yield row
        return
    yield from number_rows(rows, Place(source))


def number_rows(values: Iterable[Any], place: Place) -> Iterator[RawRow | Problem]:
    for number, value in enumerate(values, 1):
        yield raw_row(value, place._replace(row=number))


def _name_epoch(row: RawRow | Problem) -> RawRow | Problem:
    """Return a row of inspect's log. Its id is unique among the repetitions of the sample."""
    if isinstance(row, Problem):
        return row
    epoch = row.values.get("epoch")
    if not isinstance(epoch, int) or epoch <= 1:
        return row
    identifier = f"{row.values.get('id')}_epoch_{epoch}"  # the name of the sample's file in the log
    return row._replace(values={**row.values, "id": identifier})


def _expand_path(row: RawRow, mapping: Mapping[str, str], path: str) -> Iterator[RawRow | Problem]:
    """Yield the rows at a path that the user named."""
    inside = lookup(row.values, path, MISSING)
    if isinstance(inside, Mapping):
        yield from expand(row._replace(values=inside), mapping)
        return
    if isinstance(inside, list | tuple):
        yield from number_rows(inside, row.place)
        return
    what = "nothing"
    if inside is not MISSING:
        what = describe(inside)
    keys = ", ".join(map(shown, map(str, row.values)))
    raise DataError(f"{row.place}: there is {what} under {shown(path)} (keys: {keys})")


def _are_columns(values: Mapping[str, Any], texts: Collection[str]) -> bool:
    """Return whether a text field is a list, or every value an object by row number (pandas).

    An object with one question or one answer is a row, also if the other is a list.
    """
    if any(isinstance(values.get(name), str) for name in texts):
        return False
    has_objects = False
    for name in texts:
        value = values.get(name)
        if isinstance(value, list | tuple) and not last_turn(value):
            return True
        has_objects = has_objects or isinstance(value, Mapping)
    for column in values.values():
        if not isinstance(column, Mapping) or not all(str(key).isdecimal() for key in column):
            return False
    return has_objects


def _find_nested_rows(values: Mapping[str, Any], columns: Iterable[str]) -> list[Any] | None:
    """Return the only list of objects with one of these columns, or None if the object is a row."""
    if _has_any(values, columns):
        return None
    lists = [value for value in values.values() if isinstance(value, list)]
    of_promptfoo = lookup(values, "results.results")
    if isinstance(of_promptfoo, list):
        lists.append(of_promptfoo)
    if lists == [[]] and len(values) == 1:
        return []
    with_columns: list[list[Any]] = []
    for rows in lists:
        objects = [element for element in rows if isinstance(element, Mapping)]
        if any(_has_any(element, columns) for element in objects):
            with_columns.append(rows)
    if len(with_columns) == 1:
        return with_columns[0]
    return None


def _has_any(values: Mapping[str, Any], columns: Iterable[str]) -> bool:
    return any(has_value(values, name) for name in columns)


def zip_columns(values: Mapping[str, Any], source: str) -> Iterator[RawRow]:
    """Yield the rows of columns: lists, or objects keyed by row number.

    Raises DataError for unequal lengths.
    """
    lists: dict[str, list[Any]] = {}
    numberings: set[tuple[str, ...]] = set()
    for name, column in values.items():
        if isinstance(column, Mapping):
            lists[name] = list(column.values())
            numberings.add(tuple(column))
        elif isinstance(column, list | tuple):
            lists[name] = list(column)
    lengths = set(map(len, lists.values()))
    if len(lists) < len(values) or len(lengths) > 1 or len(numberings) > 1:
        counts = []
        for name in values:
            if name in lists:
                counts.append(f"{shown(name)}: {len(lists[name])}")
            else:
                counts.append(f"{shown(name)}: not a list")
        raise DataError(
            f"{source} has columns of different lengths ({', '.join(counts)})",
            hint="give every column one value per row, or write one object per row",
        )
    for number, cells in enumerate(zip(*lists.values(), strict=True), 1):
        row = dict(zip(lists, cells, strict=True))
        yield RawRow(Place(source, row=number), row)
