"""From files to samples: every row is read and checked before anything is judged.

    files ──read──> raw rows ──resolve columns, check──> samples or problems ──> Dataset, or one DataError

No row is dropped in silence: a row becomes a sample, or a problem that is named and counted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.dataset.aliases import ALIASES, Resolved, check_mapping, column_finder, resolve
from localjudge.dataset.dataset import Dataset
from localjudge.dataset.identity import complete_ids
from localjudge.dataset.json_reader import read_lines
from localjudge.dataset.problems import Place, Problem, Problems, describe
from localjudge.dataset.rows import CheckedRow, RawRow, check_row
from localjudge.errors import DataError, UsageError
from localjudge.types import Sample


class _Table(NamedTuple):
    """One source as it was read."""

    name: str
    rows: list[RawRow | Problem]


def load(
    sources: str | Path | Sequence[str | Path], *, mapping: Mapping[str, str] | None = None, skip_bad_rows: bool = False
) -> Dataset:
    """Read and check all rows of the files.

    `mapping` says which column of theirs is a field of ours (ours -> theirs) where the names do not, or decides between
    two. With `skip_bad_rows` the rows with problems are left out and counted; otherwise they are a DataError.

    Raises DataError for files that cannot be read or rows that are not what they should be, UsageError for a mapping
    that names nothing.
    """
    names = [sources] if isinstance(sources, str | Path) else list(sources)
    if not names:
        raise UsageError("no data was named", hint="name a file, or - for standard input")
    tables = [_Table(str(name), list(_read(Path(name)))) for name in names]
    return _build(tables, mapping or {}, skip_bad_rows)


def from_rows(
    rows: Iterable[Mapping[str, Any] | Sample],
    *,
    mapping: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    name: str = "rows",
) -> Dataset:
    """Check rows that are already in memory: mappings with anybody's column names, or samples. As `load` otherwise."""
    table = _Table(name, [_given_row(Place(name, row=number), row) for number, row in enumerate(rows, 1)])
    return _build([table], mapping or {}, skip_bad_rows)


def _given_row(place: Place, row: Mapping[str, Any] | Sample) -> RawRow | Problem:
    if isinstance(row, Sample):
        return RawRow(place, row.model_dump(exclude_none=True))
    if isinstance(row, Mapping):
        return RawRow(place, row)
    return Problem(place=str(place), field=None, found=describe(row), expected="an object with columns")


def _read(path: Path) -> Iterator[RawRow | Problem]:
    try:
        with path.open(encoding="utf-8-sig") as lines:
            yield from read_lines(lines, str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _build(tables: Sequence[_Table], mapping: Mapping[str, str], skip_bad_rows: bool) -> Dataset:
    check_mapping(mapping)
    problems = Problems()
    mappings = [_columns(table, mapping) for table in tables]
    _check_mapped_columns_exist(mappings, mapping, [table.name for table in tables])
    seen: dict[str, Place] = {}
    checked: list[CheckedRow] = []
    for table, resolved in zip(tables, mappings, strict=True):
        for row in table.rows:
            outcome = _check(row, resolved, seen)
            if isinstance(outcome, CheckedRow):
                checked.append(outcome)
            else:
                problems.add_row(outcome)
    _stop_if_bad(problems, len(checked), skip_bad_rows, tables)
    return Dataset(
        samples=tuple(_samples(checked)),
        sources=tuple(table.name for table in tables),
        mappings=tuple(mappings),
        extras=tuple(row.extras for row in checked),
        skipped=problems.bad_rows,
        problem_count=problems.count,
        problems=tuple(problems.first),
    )


def _columns(table: _Table, mapping: Mapping[str, str]) -> Resolved:
    rows = [row.values for row in table.rows if isinstance(row, RawRow)]
    if not table.rows:
        raise DataError(f"{table.name} has no rows", hint="leave it out, or look whether it was written to the end")
    resolved = resolve(column_finder(rows), mapping, table.name)
    if rows and not resolved.keys() - {"id"}:
        found = ", ".join(dict.fromkeys(str(column) for row in rows for column in row)) or "none"
        raise DataError(
            f"{table.name}: none of its columns is known (found: {found})",
            hint=f"name them, such as --map user_input=COLUMN; our fields are {', '.join(ALIASES)}",
        )
    return resolved


def _check_mapped_columns_exist(mappings: Sequence[Resolved], mapping: Mapping[str, str], names: Sequence[str]) -> None:
    for field, column in mapping.items():
        if not any(resolved.get(field) == column for resolved in mappings):
            raise UsageError(
                f"the mapping {field}={column} names a column that no row of {', '.join(names)} has",
                hint="the name on the right is the one in the data: ours=theirs",
            )


def _check(row: RawRow | Problem, resolved: Resolved, seen: dict[str, Place]) -> CheckedRow | list[Problem]:
    if isinstance(row, Problem):
        return [row]
    outcome = check_row(row, resolved)
    if not isinstance(outcome, CheckedRow) or outcome.values["id"] is None:
        return outcome
    identifier = outcome.values["id"]
    if identifier in seen:
        found = f"the id {identifier!r} again (first at {seen[identifier]})"
        return [Problem(place=str(row.place), field=resolved["id"], found=found, expected="an id of its own")]
    seen[identifier] = row.place
    return outcome


def _stop_if_bad(problems: Problems, sound: int, skip_bad_rows: bool, tables: Sequence[_Table]) -> None:
    if not problems.count or (skip_bad_rows and sound):
        return
    total = sum(len(table.rows) for table in tables)
    raise problems.error(
        f"{problems.bad_rows} of {total} rows cannot be used, nothing was judged (problems: {problems.count})",
        hint="mend the rows" if skip_bad_rows else "mend the rows, or leave them out with --skip-bad-rows",
    )


def _samples(checked: Sequence[CheckedRow]) -> list[Sample]:
    missing = [row.values["id"] is None for row in checked]
    return complete_ids([Sample(**{**row.values, "id": row.values["id"] or ""}) for row in checked], missing)
