"""Find the rows of data in memory: in one object with all rows, in frames, tables, and lists.

`plain` makes JSON values of the values of Python, and `list_rows` of those of Arrow.

An object, also of a JSON file, has the rows under a key or as columns:

    {"results": [{"query": ...}, {"query": ...}]}    RAGChecker; one level deeper in promptfoo
    {"questions": ["...", "..."], "contexts": [[...], [...]]}    Haystack, `to_dict` of data frames
    {"version": 2, "eval": {...}, "samples": [...]}         a log of inspect
    {"experiment": {"items": [{"query": ...}]}}      anywhere, at a user's path: experiment.items

It contains columns if its question or answer is a list that is not a conversation. A list in it
contains the rows if the list's objects have known columns.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from enum import Enum
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from localjudge.dataset.columns import ALIASES, KNOWN_NAMES, split_columns
from localjudge.dataset.conversation import last_turn
from localjudge.dataset.csv_file import check_column_names
from localjudge.dataset.paths import MISSING, first_part, has_value, lookup, reaches_inside
from localjudge.dataset.rows import (
    DEEPEST,
    Place,
    Problem,
    RawRow,
    describe,
    is_nan,
    raw_row,
    shown,
)
from localjudge.errors import DataError, InputError
from localjudge.types import Sample

BATCH_ROWS = 256
"""Rows that are converted at once."""
_PLAIN = frozenset({str, int, float, bool, type(None)})
_MISSING = {"NAType", "NaTType"}  # names, so that pandas need not be imported
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
        elements = _find_rows(data)
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
        return find_table_rows(data, name) or _find_rows(data)
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


def _find_rows(data: Any) -> _Elements:
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


def plain(value: Any, levels: int = DEEPEST + 2) -> Any:
    """Convert a Python value to a JSON value.

    Values of unknown types, and those below `levels`, stay unchanged.

    numpy array -> list                   datetime -> "2024-05-01T12:00:00"
    Decimal("0.5") -> "0.5"               Enum -> its value
    pydantic model, dataclass, named tuple -> object with its fields
    [("a.pdf", "one text")] -> {"a.pdf": "one text"}
    """
    if levels == 0 or type(value) in _PLAIN:
        return value
    fields = _read_pairs(value) if type(value) in {list, tuple} else read_fields(value)
    if fields is not None:
        value = fields
    result = value
    match value:
        case Mapping():
            result = {str(key): plain(item, levels - 1) for key, item in value.items()}
        case list() | tuple():
            result = [plain(item, levels - 1) for item in value]
        case _ if type(value).__name__ in _MISSING:  # before dates, because NaT is a date
            result = None
        case Enum():
            result = plain(value.value)
        case date() | time():
            result = value.isoformat()
        case Decimal() | UUID():
            result = str(value)
        case _ if hasattr(value, "tolist"):
            result = plain(value.tolist())
    return result


def _read_pairs(values: Sequence[Any]) -> dict[str, Any] | None:
    """Return an object for a list of keys and texts or objects, as pandas gives a map of Parquet.

    Return None for other lists, and if a key occurs twice.
    """
    fields: dict[str, Any] = {}
    for value in values:
        match value:
            case (str() as key, str() | Mapping() as item) if type(value) is tuple:
                fields[key] = item
            case _:
                return None
    return fields if 0 < len(fields) == len(values) else None


def read_fields(value: Any) -> dict[str, Any] | None:
    """Return the fields of a pydantic model, dataclass, named tuple or namespace."""
    if isinstance(value, type | Mapping):
        return None
    if hasattr(value, "model_fields_set") and hasattr(value, "model_dump"):
        return dict(value.model_dump())
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, SimpleNamespace):
        return dict(vars(value))
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return dict(value._asdict())
    return None


def list_rows(batches: Iterable[Any], at_once: int = BATCH_ROWS) -> Iterator[Any]:
    """Yield the rows of Arrow's batches as Python values. A map is an object."""
    for batch in batches:
        convert = {}
        for field in batch.schema:
            if "map<" in str(field.type):
                convert[field.name] = field.type
        for start in range(0, batch.num_rows, at_once):
            for row in batch.slice(start, at_once).to_pylist():
                for name, kind in convert.items():
                    row[name] = _objects_of_maps(row[name], kind)
                yield row


def _objects_of_maps(value: Any, kind: Any) -> Any:
    """Return a value of an Arrow type with objects for its maps, which Arrow lists as pairs.

    A map with a key that occurs twice, or that is no text, stays a list.
    """
    types = import_pyarrow("the data are an Arrow table").types
    if value is None:
        return None
    if types.is_map(kind):
        pairs = [(key, _objects_of_maps(item, kind.item_type)) for key, item in value]
        fields = dict(pairs)
        if len(fields) < len(pairs):
            return list(map(list, pairs))
        return {str(key): item for key, item in fields.items()}
    if types.is_struct(kind):
        fields = {}
        for field in kind:
            fields[field.name] = _objects_of_maps(value[field.name], field.type)
        return fields
    if "map<" in str(kind) and isinstance(value, list):
        return [_objects_of_maps(item, kind.value_type) for item in value]
    return value


def import_pyarrow(what: str) -> Any:
    """Return the module. Raises InputError that names what needs it."""
    try:
        import pyarrow  # type: ignore[import-untyped]
    except ImportError as error:
        hint = "install it with: pip install pyarrow"
        raise InputError(f"{what}, and pyarrow is not installed", hint=hint) from error
    return pyarrow
