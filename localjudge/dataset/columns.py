"""One object that holds all rows: under a name of its own, or as columns.

    {"results": [{"query": ...}, {"query": ...}]}           RAGChecker, and many others
    {"results": {"results": [...], "prompts": [...]}}       promptfoo
    {"questions": ["...", "..."], "contexts": [[...], [...]]}    Haystack's inputs, `to_dict` of data frames
    {"columns": ["question", ...], "index": [...], "data": [["...", ...], ...]}    pandas, orient="split"
    {"experiment": {"items": [{"query": ...}]}}             anywhere, with a path that says where: experiment.items

An object is columns if a question or an answer in it is a list, since in a row it is a text or a conversation. A list
in it is its rows if objects in the list have columns that are known: any other list may be the contexts of the one row
that it is.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from localjudge.dataset.aliases import ALIASES, LOOSE_NAMES, columns_of
from localjudge.dataset.conversation import last_turn
from localjudge.dataset.dotted_names import MISSING, first_part, has_value, lookup, names_inside, reaches_inside
from localjudge.dataset.inspect_log import is_log, rows_of_log
from localjudge.dataset.problems import Place, Problem, describe, shown
from localjudge.dataset.rows import RawRow, raw_row
from localjudge.errors import DataError
from localjudge.option_spelling import option

_TEXT_FIELDS = ("user_input", "response")
_OF_CONTAINERS = {"data", "outputs", "request"}
"""Names of ours in a row that an object around rows may have as well."""
_TEXTS = frozenset(name for field in _TEXT_FIELDS for name in ALIASES[field]) - _OF_CONTAINERS
_KNOWN = (
    frozenset(
        name for table in (ALIASES, LOOSE_NAMES) for field, names in table.items() if field != "id" for name in names
    )
    - _OF_CONTAINERS
)
_SPLIT = {"columns", "data"}
_ROWS_OF_PROMPTFOO = "results.results"


def expand(row: RawRow, mapping: Mapping[str, str], rows_path: str | None = None) -> Iterator[RawRow | Problem]:
    """The rows that one object holds: those of its columns, those under one of its names, or itself.

    `mapping` is what the user said about columns (ours -> theirs): it tells a row from an object that holds rows;
    `rows_path` is where the user says that they are. Raises DataError for columns of different lengths, and where
    nothing is under that path.
    """
    values, source = row.values, row.place.source
    if rows_path is not None:
        yield from _rows_under(row, mapping, rows_path)
        return
    if _SPLIT <= values.keys() <= _SPLIT | {"index"}:
        yield from _rows_of_split(values, source)
        return
    if is_log(values):
        yield from rows_of_log(values, source)
        return
    reached_into = {first_part(name) for name in columns_of(mapping) if reaches_inside(name)}
    texts = (_TEXTS - reached_into) | {mapping[field] for field in _TEXT_FIELDS if field in mapping}
    if _are_columns(values, texts):
        yield from rows_of_columns(values, source)
        return
    rows = _rows_inside(values, _KNOWN | columns_of(mapping))
    yield from [row] if rows is None else (raw_row(value, Place(source, row=n)) for n, value in enumerate(rows, 1))


def _rows_under(row: RawRow, mapping: Mapping[str, str], path: str) -> Iterator[RawRow | Problem]:
    inside = lookup(row.values, path, MISSING)
    if isinstance(inside, Mapping):
        yield from expand(row._replace(values=inside), mapping)
    elif isinstance(inside, list | tuple):
        yield from (raw_row(value, row.place._replace(row=number)) for number, value in enumerate(inside, 1))
    else:
        found = "nothing" if inside is MISSING else describe(inside)
        keys = ", ".join(shown(str(key)) for key in row.values)
        raise DataError(f"{row.place}: there is {found} under {shown(path)} (keys: {keys})", hint=rows_hint(row.values))


def rows_hint(values: Mapping[str, Any]) -> str | None:
    """How to say where the rows are: the first longest list of objects in an object, if it has any."""
    lists = {
        name: len(value)
        for name, value in names_inside(values)
        if isinstance(value, list) and [*_objects(value)] and "[]" not in name
    }
    longest = max(lists, key=lambda name: lists[name], default=None)
    return longest and f"if the rows are there: {option('rows', longest)}"


def _are_columns(values: Mapping[str, Any], texts: Iterable[str]) -> bool:
    """Whether a text is a list, or everything is an object by row number, as pandas writes it."""
    given = [values[name] for name in texts if name in values]
    if any(isinstance(value, list | tuple) and not last_turn(value) for value in given):
        return True
    by_row = [value for value in values.values() if isinstance(value, Mapping)]
    if not any(isinstance(value, Mapping) for value in given) or None in map(_cells, values.values()):
        return False
    return len(set(map(tuple, by_row))) == 1 or all(str(key).isdecimal() for value in by_row for key in value)


def _rows_inside(values: Mapping[str, Any], known: Iterable[str]) -> list[Any] | None:
    """The one list whose objects have columns that are known; None where the object is a row itself."""
    if any(has_value(values, name) for name in known):
        return None
    lists = [value for value in (*values.values(), lookup(values, _ROWS_OF_PROMPTFOO)) if isinstance(value, list)]
    if lists == [[]] and len(values) == 1:
        return []
    rows = [value for value in lists if any(has_value(row, name) for row in _objects(value) for name in known)]
    return rows[0] if len(rows) == 1 else None


def _objects(values: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    return (value for value in values if isinstance(value, Mapping))


def rows_of_columns(values: Mapping[str, Any], source: str) -> Iterator[RawRow]:
    """Rows of columns, each a list of cells. Raises DataError if they are not of one length."""
    columns = {name: _cells(value) for name, value in values.items()}
    sound = {name: cells for name, cells in columns.items() if cells is not None}
    numbering = {tuple(value) for value in values.values() if isinstance(value, Mapping)}
    if len(sound) < len(columns) or len({len(cells) for cells in sound.values()}) > 1 or len(numbering) > 1:
        found = (f"{shown(name)}: {'no list' if cells is None else len(cells)}" for name, cells in columns.items())
        raise DataError(
            f"{source} holds columns, but not of the same rows ({', '.join(found)})",
            hint="give every column one value for each row, or write one object for each row",
        )
    for number, row in enumerate(zip(*sound.values(), strict=True), 1):
        yield RawRow(Place(source, row=number), dict(zip(sound, row, strict=True)))


def _rows_of_split(values: Mapping[str, Any], source: str) -> Iterator[RawRow]:
    """Rows of a table that names its columns once. Raises DataError for what is no such table."""
    columns, data = values["columns"], values["data"]
    if not (isinstance(columns, list) and all(isinstance(name, str) for name in columns) and isinstance(data, list)):
        raise DataError(
            f"{source} holds columns and data, but not as a table of pandas does (orient='split')",
            hint="write one object for each row: orient='records'",
        )
    for number, cells in enumerate(data, 1):
        if not isinstance(cells, list) or len(cells) != len(columns):
            raise DataError(
                f"{source}: row {number} of data has {describe(cells)}, and there are {len(columns)} columns",
                hint="write one object for each row: orient='records'",
            )
        yield RawRow(Place(source, row=number), dict(zip(columns, cells, strict=True)))


def _cells(value: Any) -> list[Any] | None:
    """The cells of a column: a list, or an object by row number, as pandas writes it."""
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else None
