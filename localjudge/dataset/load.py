"""From files to samples: every row is read and checked before anything is judged.

    files ──read──> raw rows ──resolve columns, check──> samples or problems ──> Dataset, or one DataError

No row is dropped in silence: a row becomes a sample, or a problem that is named and counted.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.dataset.aliases import ALIASES, Resolved, check_mapping, column_finder, columns_of, resolve
from localjudge.dataset.columns import rows_of_columns
from localjudge.dataset.dataset import Dataset
from localjudge.dataset.guesses import guessed_columns, map_option
from localjudge.dataset.identity import complete_ids
from localjudge.dataset.joined_lists import Split, check_separator, splitter
from localjudge.dataset.plain import plain, without_nan
from localjudge.dataset.problems import SHOWN, Place, Problem, Problems, shown
from localjudge.dataset.readers import read
from localjudge.dataset.rows import CheckedRow, RawRow, check_row, raw_row
from localjudge.dataset.sources import STDIN, shown_name
from localjudge.errors import DataError, UsageError
from localjudge.types import Sample


class _Table(NamedTuple):
    """One source as it was read."""

    name: str
    rows: list[RawRow | Problem]

    @property
    def values(self) -> list[Mapping[str, Any]]:
        """The rows that could be read."""
        return [row.values for row in self.rows if isinstance(row, RawRow)]


def load(
    sources: str | Path | Sequence[str | Path],
    *,
    mapping: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    context_separator: str | None = None,
) -> Dataset:
    """Read and check all rows of the files: JSONL, JSON, CSV or Parquet, gzip or not; `-` is standard input.

    `mapping` says which column of theirs is a field of ours (ours -> theirs) where the names do not, or decides between
    two; `a.b` reaches into objects, and contexts may stand in several columns, `a,b`. With `skip_bad_rows` rows with
    problems are left out and counted; otherwise they are a DataError. With a `context_separator` each text that stands
    for a list of contexts is split, as `joined_lists` says.

    Raises DataError for files that cannot be read or rows that are not what they should be, UsageError for a mapping
    that names nothing.
    """
    names = [str(name) for name in ([sources] if isinstance(sources, str | Path) else sources)]
    _check_names(names)
    tables = [_Table(shown_name(name), list(read(name, mapping or {}))) for name in names]
    return _build(tables, mapping or {}, skip_bad_rows, context_separator)


def from_rows(
    rows: Iterable[Mapping[str, Any] | Sample] | Mapping[str, Sequence[Any]],
    *,
    mapping: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    context_separator: str | None = None,
    name: str = "rows",
) -> Dataset:
    """Check rows that are already in memory, as `load` does: mappings with anybody's column names, or samples.

    One mapping of columns, each a list, is taken as its rows. A NaN in place of a value is null: pandas writes that.
    Raises UsageError for what is no rows at all.
    """
    if not isinstance(rows, Iterable):
        raise UsageError(f"the data are a {type(rows).__name__}", hint="give the name of a file, several, or rows")
    given = (row.values for row in rows_of_columns(plain(rows), name)) if isinstance(rows, Mapping) else rows
    table = _Table(name, [_given_row(Place(name, row=number), row) for number, row in enumerate(given, 1)])
    return _build([table], mapping or {}, skip_bad_rows, context_separator)


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise UsageError("no data was named", hint="name a file, or - for standard input")
    files = [name if name == STDIN or "\0" in name else os.path.realpath(name) for name in names]
    for position, file in enumerate(files):
        if "\0" in file:
            raise UsageError(f"{file!r} is no name of a file")
        if file in files[:position]:
            raise UsageError(f"{shown_name(names[position])} is named twice", hint="its rows would count twice")


def _given_row(place: Place, row: Mapping[str, Any] | Sample) -> RawRow | Problem:
    if isinstance(row, Sample):
        return RawRow(place, row.model_dump(exclude_none=True))
    return raw_row(without_nan(plain(row)), place)


def _build(
    tables: Sequence[_Table], mapping: Mapping[str, str], skip_bad_rows: bool, context_separator: str | None
) -> Dataset:
    check_mapping(mapping)
    check_separator(context_separator)
    problems = Problems()
    mappings = [_columns(table, mapping) for table in tables]
    if any(mappings):
        _check_mapped_columns_exist(mappings, mapping, [table.name for table in tables])
    seen: dict[str, Place] = {}
    checked: list[CheckedRow] = []
    for table, resolved in zip(tables, mappings, strict=True):
        split = splitter(context_separator, column_finder(table.values))
        for row in table.rows:
            outcome = _check(row, resolved, split, seen)
            if isinstance(outcome, CheckedRow):
                checked.append(outcome)
            else:
                problems.add_row(outcome)
    _stop_if_bad(problems, len(checked), skip_bad_rows, tables)
    return Dataset(
        samples=tuple(_samples(checked)),
        sources=tuple(table.name for table in tables),
        mappings=tuple(mappings),
        unused=tuple(_unused(table, resolved) for table, resolved in zip(tables, mappings, strict=True)),
        extras=tuple(row.extras for row in checked),
        skipped=problems.bad_rows,
        problem_count=problems.count,
        problems=tuple(problems.first),
    )


def _columns(table: _Table, mapping: Mapping[str, str]) -> Resolved:
    rows = table.values
    if not table.rows:
        raise DataError(f"{table.name} has no rows", hint="leave it out, or look whether it was written to the end")
    resolved = resolve(rows, mapping, table.name)
    if rows and not resolved.keys() - {"id"}:
        columns = {column: _described(column, value) for row in rows for column, value in row.items()}
        found = ", ".join([*columns.values()][:SHOWN]) or "none"
        guessed = guessed_columns(rows, set())
        name_them = f"name them, such as --map user_input=COLUMN; our fields are {', '.join(ALIASES)}"
        raise DataError(
            f"{table.name}: none of its columns is known (found: {found})",
            hint=f"if that is what they hold: {map_option(guessed)}" if guessed else name_them,
        )
    return resolved


def _described(column: str, value: Any) -> str:
    """The column's name and, where it holds a list of objects, which might be the rows, the names in these."""
    inside = value[0] if isinstance(value, list) and value else None
    names = ", ".join(shown(str(name)) for name in [*inside][:SHOWN]) if isinstance(inside, Mapping) else ""
    return f"{shown(str(column))} (objects with {names})" if names else shown(str(column))


def _unused(table: _Table, resolved: Resolved) -> tuple[str, ...]:
    """Columns that are no field of ours, nor an object with one in it, and that hold something in any row."""
    used = {name.partition(".")[0] for name in columns_of(resolved)} | columns_of(resolved)
    given = (name for row in table.values for name, value in row.items() if value is not None and value != "")
    return tuple(name for name in dict.fromkeys(given) if name not in used)


def _check_mapped_columns_exist(mappings: Sequence[Resolved], mapping: Mapping[str, str], names: Sequence[str]) -> None:
    for field, column in mapping.items():
        if not any(resolved.get(field) == column for resolved in mappings):
            raise UsageError(
                f"the mapping {field}={column} names a column that no row of {', '.join(names)} has",
                hint="--map FIELD=COLUMN: the name on the right is the one in the data",
            )


def _check(
    row: RawRow | Problem, resolved: Resolved, split: Split, seen: dict[str, Place]
) -> CheckedRow | list[Problem]:
    if isinstance(row, Problem):
        return [row]
    outcome = check_row(row, resolved, split)
    if not isinstance(outcome, CheckedRow) or outcome.values["id"] is None:
        return outcome
    identifier = outcome.values["id"]
    if identifier in seen:
        found = f"the id {identifier!r} again (first at {seen[identifier]})"
        return [Problem.at(row.place, resolved["id"], found, "an id of its own")]
    seen[identifier] = row.place
    return outcome


def _stop_if_bad(problems: Problems, sound: int, skip_bad_rows: bool, tables: Sequence[_Table]) -> None:
    if not problems.count or (skip_bad_rows and sound):
        return
    total = sum(len(table.rows) for table in tables)
    raise problems.error(
        f"{problems.bad_rows} of {total} rows cannot be used, nothing was judged (problems: {problems.count})",
        hint="mend the rows"
        if skip_bad_rows
        else "mend the rows, or leave them out: --skip-bad-rows (Python: skip_bad_rows=True)",
    )


def _samples(checked: Sequence[CheckedRow]) -> list[Sample]:
    missing = [row.values["id"] is None for row in checked]
    return complete_ids([Sample(**{**row.values, "id": row.values["id"] or ""}) for row in checked], missing)
