"""One object that holds all rows: under a name of its own, or as columns.

    {"results": [{"query": ...}, {"query": ...}]}           RAGChecker, and many others
    {"questions": ["...", "..."], "contexts": [[...], [...]]}    Haystack's inputs, `to_dict` of data frames

An object is columns if a question or an answer in it is a list, since in a row it is a text.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from localjudge.dataset.aliases import ALIASES
from localjudge.dataset.problems import Place, Problem, shown
from localjudge.dataset.rows import RawRow, raw_row
from localjudge.errors import DataError

_TEXT_FIELDS = ("user_input", "response")
_TEXTS = frozenset(name for field in _TEXT_FIELDS for name in ALIASES[field])
_KNOWN = frozenset(name for names in ALIASES.values() for name in names)


def expand(row: RawRow, mapping: Mapping[str, str]) -> Iterator[RawRow | Problem]:
    """The rows that one object holds: those of its columns, those under its only list, or itself.

    `mapping` is what the user said about columns (ours -> theirs). Raises DataError for columns of different lengths.
    """
    values, source = row.values, row.place.source
    texts = _TEXTS | {mapping[field] for field in _TEXT_FIELDS if field in mapping}
    if any(_cells(values[name]) is not None for name in texts & values.keys()):
        yield from rows_of_columns(values, source)
        return
    lists = [value for value in values.values() if isinstance(value, list)]
    if len(lists) == 1 and not (_KNOWN | set(mapping.values())) & values.keys():
        yield from (raw_row(value, Place(source, row=number)) for number, value in enumerate(lists[0], 1))
        return
    yield row


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


def _cells(value: Any) -> list[Any] | None:
    """The cells of a column: a list, or an object by row number, as pandas writes it."""
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else None
