"""Read one object that contains all rows, under a key or as columns.

    {"results": [{"query": ...}, {"query": ...}]}    RAGChecker; one level deeper in promptfoo
    {"questions": ["...", "..."], "contexts": [[...], [...]]}    Haystack, `to_dict` of data frames
    {"version": 2, "eval": {...}, "samples": [...]}         a log of inspect
    {"experiment": {"items": [{"query": ...}]}}      anywhere, at a user's path: experiment.items

An object contains columns if its question or answer is a list that is not a conversation. A list in
it contains the rows if the list's objects have known columns.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from localjudge.dataset.columns import ALIASES, LOOSE_NAMES, split_columns
from localjudge.dataset.conversation import last_turn
from localjudge.dataset.paths import MISSING, first_part, has_value, lookup, reaches_inside
from localjudge.dataset.problems import Place, Problem, describe, shown
from localjudge.dataset.rows import RawRow, raw_row
from localjudge.errors import DataError

_CONTAINER_NAMES = {"data", "outputs", "request"}
"""Names of a field, or of an object around the rows."""
_TEXT_FIELDS = ("user_input", "response")
_TEXTS = {*ALIASES["user_input"], *ALIASES["response"]} - _CONTAINER_NAMES
_LOG_KEYS = {"version", "eval", "samples"}


def _list_column_names() -> set[str]:
    """Return the known names of columns other than the id."""
    known: set[str] = set()
    for table in (ALIASES, LOOSE_NAMES):
        for field, names in table.items():
            if field != "id":
                known.update(names)
    return known - _CONTAINER_NAMES


_COLUMNS = _list_column_names()


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
    rows = _find_rows(values, _COLUMNS | split_columns(mapping))
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


def _find_rows(values: Mapping[str, Any], columns: Iterable[str]) -> list[Any] | None:
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
