"""From files to samples: every row is read and checked before anything is judged.

    files ──read──> survey of the columns ──resolve──> which column is which field
          ──read again, check each row──> samples (spooled) or problems ──> Dataset, or one DataError

No row is dropped in silence: a row becomes a sample, or a problem that is named and counted. And none is kept in
memory: what is held of a million rows are some hashes. The exceptions are files that are one value, a JSON array or
object: such a file is in memory while it is read.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.dataset.aliases import ALIASES, Resolved, check_mapping, columns_of, is_there, resolve
from localjudge.dataset.cells import printed_value
from localjudge.dataset.columns import expand, rows_hint, rows_of_columns
from localjudge.dataset.conversation import with_last_turn
from localjudge.dataset.dataset import Dataset
from localjudge.dataset.dotted_names import first_part, names_inside, reaches_inside, without_places
from localjudge.dataset.guesses import LOOKED_AT, guessed_columns, map_option
from localjudge.dataset.joined_lists import Split, check_separator, splitter
from localjudge.dataset.plain import fields_of, plain, without_nan
from localjudge.dataset.problems import SHOWN, Place, Problem, Problems, shown
from localjudge.dataset.readers import read
from localjudge.dataset.rows import CheckedRow, RawRow, check_row, raw_row
from localjudge.dataset.sound_rows import SoundRows, id_hash
from localjudge.dataset.sources import STDIN, Source, shown_name
from localjudge.dataset.survey import Survey
from localjudge.dataset.tables import rows_of_iterable, rows_of_table
from localjudge.errors import DataError, UsageError
from localjudge.option_spelling import option, option_name
from localjudge.progress import Progress, Silence, counted
from localjudge.suggestion import suggestion
from localjudge.types import Sample


class _Table(NamedTuple):
    """One source: its name, and its rows as often as they are wanted."""

    name: str
    rows: Callable[[], Iterator[RawRow | Problem]]


class _Resolved(NamedTuple):
    """A source whose columns are known, and how one text that stands for a list of contexts is split."""

    table: _Table
    survey: Survey
    mapping: Resolved
    split: Split


def load(
    sources: str | Path | Sequence[str | Path],
    *,
    mapping: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    context_separator: str | None = None,
    rows_path: str | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Read and check all rows of the files, in a format that `readers` knows, gzip or not; `-` is standard input.

    `mapping` says which column of theirs is a field of ours (ours -> theirs) where the names do not, or decides between
    two; `a.b` reaches into objects, `a[].b` into each of a list, and contexts may stand in several columns, `a,b`. With
    `skip_bad_rows` rows with problems are left out and counted; otherwise they are a DataError. With a
    `context_separator` each text that stands for a list of contexts is split, as `joined_lists` says. `rows_path` names
    the list of rows inside the objects of a file. The samples are kept in a temporary file, in the directory that
    TMPDIR names.

    Raises DataError for files that cannot be read or rows that are not what they should be, UsageError for a mapping
    that names nothing, OutOfResource where there is no room for the temporary file.
    """
    names = [str(name) for name in ([sources] if isinstance(sources, str | Path) else sources)]
    _check_names(names)
    with ExitStack() as stack:
        opened = [stack.enter_context(closing(Source(name))) for name in names]
        tables = [_Table(source.name, partial(read, source, mapping or {}, rows_path)) for source in opened]
        return _build(tables, mapping or {}, skip_bad_rows, context_separator, progress or Silence())


def from_rows(
    rows: object,
    *,
    mapping: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    context_separator: str | None = None,
    rows_path: str | None = None,
    progress: Progress | None = None,
    name: str = "rows",
) -> Dataset:
    """Check rows that are already in memory, as `load` does: mappings or objects with anybody's names, or samples.

    They may be a data frame, a table or a data set of another package, as `tables` says. One mapping is columns, each a
    list, or an object that holds rows, as `columns` says. A NaN in place of a value is null: pandas writes that.
    Raises UsageError for what is no rows at all.
    """
    mapping = mapping or {}
    table = _Table(name, _given_rows(rows, mapping, rows_path, name))
    return _build([table], mapping, skip_bad_rows, context_separator, progress or Silence())


def from_samples(
    samples: Iterable[tuple[Sample, Mapping[str, Any]]], *, sources: Sequence[str], mapping: Resolved, skipped: int = 0
) -> Dataset:
    """Samples that were checked before, each with its other columns; how sources and columns were called then.

    One pass is made over them.
    """
    sound = SoundRows()
    for sample, extras in samples:
        sound.add(sample.model_dump(), extras)
    return Dataset(
        samples=sound.samples,
        sources=tuple(sources),
        mappings=(mapping,) * len(sources),
        unused=((),) * len(sources),
        extras=sound.extras,
        fingerprint=sound.fingerprint,
        without_text=sound.without_text,
        ids_alone=sound.ids_alone,
        contexts_each=sound.contexts_each,
        nothing=sound.nothing,
        skipped=skipped,
    )


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise UsageError("no data was named", hint="name a file, or - for standard input")
    files = [name if name == STDIN or "\0" in name else os.path.realpath(name) for name in names]
    for position, file in enumerate(files):
        if "\0" in file:
            raise UsageError(f"{file!r} is no name of a file")
        if file in files[:position]:
            raise UsageError(f"{shown_name(names[position])} is named twice", hint="its rows would count twice")


def _given_rows(
    data: object, mapping: Mapping[str, str], rows_path: str | None, name: str
) -> Callable[[], Iterator[RawRow | Problem]]:
    """Data in memory as rows, as often as wanted."""
    rows = rows_of_table(data, name)
    whole = None if rows or isinstance(data, Sample) else plain(data) if isinstance(data, Mapping) else fields_of(data)
    if whole is not None:
        one = RawRow(Place(name, row=1), plain(whole))
        if rows_path is None and _are_lists_of_cells(one.values):
            return lambda: rows_of_columns(one.values, name)
        return lambda: expand(one._replace(place=Place(name)) if rows_path else one, mapping, rows_path)
    given = rows or rows_of_iterable(data, name)

    def read() -> Iterator[RawRow | Problem]:
        for number, row in enumerate(given(), 1):
            raw = _given_row(Place(name, row=number), row)
            yield from expand(raw, mapping, rows_path) if rows_path and isinstance(raw, RawRow) else [raw]

    return read


def _are_lists_of_cells(values: Mapping[str, Any]) -> bool:
    """Whether everything is a list, and none a list of objects: these may be rows or messages."""
    lists = [value for value in values.values() if isinstance(value, list)]
    return 0 < len(lists) == len(values) and not any(isinstance(cell, Mapping) for cells in lists for cell in cells)


def _given_row(place: Place, row: object) -> RawRow | Problem:
    if isinstance(row, Sample):
        return RawRow(place, row.model_dump(exclude_none=True), literal=True)
    return raw_row(without_nan(plain(row)), place)


def _build(
    tables: Sequence[_Table],
    mapping: Mapping[str, str],
    skip_bad_rows: bool,
    context_separator: str | None,
    progress: Progress,
) -> Dataset:
    check_mapping(mapping)
    check_separator(context_separator)
    tables = [_Table(table.name, partial(_opened, table, mapping)) for table in tables]
    surveys = [Survey(counted(table.rows(), progress, f"reading {table.name}"), mapping) for table in tables]
    if any(survey.readable for survey in surveys):
        _check_mapped_columns_exist(tables, surveys, mapping)
    sources = [
        _Resolved(table, survey, _columns(table, survey, mapping), splitter(context_separator, survey.has))
        for table, survey in zip(tables, surveys, strict=True)
    ]
    sound, problems = _checked(sources, frozenset(), progress)
    if repeated := sound.repeated_ids():
        sound, problems = _checked(sources, repeated, progress)
    _stop_if_bad(problems, len(sound), skip_bad_rows, sum(survey.rows for survey in surveys))
    sound.complete_ids()
    return Dataset(
        samples=sound.samples,
        sources=tuple(table.name for table in tables),
        mappings=tuple(source.mapping for source in sources),
        unused=tuple(_unused(source) for source in sources),
        extras=sound.extras,
        fingerprint=sound.fingerprint,
        without_text=sound.without_text,
        ids_alone=sound.ids_alone,
        contexts_each=sound.contexts_each,
        nothing=sound.nothing,
        conversations=sum(survey.conversations for survey in surveys),
        skipped=problems.bad_rows,
        problem_count=problems.count,
        problems=tuple(problems.lines),
    )


def _opened(table: _Table, mapping: Mapping[str, str]) -> Iterator[RawRow | Problem]:
    """The rows of a table; of a conversation in place of a question the last turn.

    A text that the mapping reaches into is what it is as JSON, or as Python prints it.
    """
    reached_into = {first_part(name) for name in columns_of(mapping) if reaches_inside(name)}
    for row in table.rows():
        yield _opened_row(row, reached_into, mapping) if isinstance(row, RawRow) else row


def _opened_row(row: RawRow, reached_into: Iterable[str], mapping: Mapping[str, str]) -> RawRow:
    texts = {name: row.values[name] for name in reached_into if isinstance(row.values.get(name), str)}
    values = {name: printed_value(text.strip()) for name, text in texts.items()}
    if any(values.values()):
        row = row._replace(values={**row.values, **values})
    turn = with_last_turn(row.values, mapping.get("user_input"))
    return row if turn is None else row._replace(values=turn, conversation=True)


def _columns(table: _Table, survey: Survey, mapping: Mapping[str, str]) -> Resolved:
    if not survey.rows:
        raise DataError(f"{table.name} has no rows", hint="leave it out, or look whether it was written to the end")
    resolved = resolve(survey, mapping, table.name)
    if survey.readable and not resolved.keys() - {"id"}:
        rows = [row.values for row in islice(table.rows(), LOOKED_AT) if isinstance(row, RawRow)]
        described = {column: _described(column, value) for row in rows for column, value in row.items()}
        columns = [described.get(column, shown(str(column))) for column in islice(survey.columns, SHOWN)]
        guessed = guessed_columns(rows, set())
        such_as = option("mapping", {"user_input": "COLUMN"})
        name_them = f"name them, such as {such_as}; our fields are {', '.join(ALIASES)}"
        may_be = f"if that is what they hold: {map_option(guessed)}" if guessed else None
        below = rows_hint(rows[0]) if survey.rows == 1 else None
        raise DataError(
            f"{table.name}: none of its columns is known (found: {', '.join(columns) or 'none'})",
            hint=may_be or below or name_them,
        )
    return resolved


def _described(column: str, value: Any) -> str:
    """The column's name and, where it holds a list of objects, which might be the rows, the names in these."""
    inside = value[0] if isinstance(value, list) and value else None
    names = ", ".join(shown(str(name)) for name in [*inside][:SHOWN]) if isinstance(inside, Mapping) else ""
    return f"{shown(str(column))} (objects with {names})" if names else shown(str(column))


def _unused(source: _Resolved) -> tuple[str, ...]:
    """Columns that are no field of ours, nor an object with one in it, and that hold something in any row."""
    taken = columns_of(source.mapping)
    used = {first_part(name) for name in taken} | taken
    return tuple(name for name in source.survey.filled if name not in used)


def _check_mapped_columns_exist(
    tables: Sequence[_Table], surveys: Sequence[Survey], mapping: Mapping[str, str]
) -> None:
    """Raise UsageError for a mapping that reaches nothing in any source: it may lack what the names inside hold."""
    for field, column in mapping.items():
        if any(is_there(field, column, survey.has) for survey in surveys):
            continue
        rows = (row.values for table in tables for row in islice(table.rows(), SHOWN) if isinstance(row, RawRow))
        names = list(dict.fromkeys(name for row in rows for name, _ in names_inside(row)))
        meant = [name for name in names if without_places(name) == without_places(column)]
        hint = f"did you mean {shown(meant[0])}?" if meant else suggestion(column, names, "the columns", show=shown)
        below = [name.removesuffix(f"[].{column}") for name in names if name.endswith(f"[].{column}")]
        if below and reaches_inside(below[0]):
            hint = f"if the rows are there: {option('rows', below[0])}"
        raise UsageError(
            f"the mapping {field}={column} names a column that no row of {_names(tables)} has",
            hint=f"give each field a {option_name('mapping')} of its own" if "=" in column else hint,
        )


def _names(tables: Iterable[_Table]) -> str:
    return ", ".join(table.name for table in tables)


def _checked(
    sources: Sequence[_Resolved], repeated: frozenset[bytes], progress: Progress
) -> tuple[SoundRows, Problems]:
    """All rows, each sound or with its problems.

    An id that is there before is a problem only among those `repeated` (by `id_hash`), so that no other id has to be
    remembered: whoever finds that ids are repeated checks the rows once more.
    """
    sound, problems = SoundRows(), Problems()
    first_places: dict[str, Place] = {}
    rows = ((source, row) for source in sources for row in source.table.rows())
    for source, row in counted(rows, progress, "checking", sum(source.survey.rows for source in sources)):
        outcome = [row] if isinstance(row, Problem) else check_row(row, source.mapping, source.split)
        if isinstance(outcome, CheckedRow) and repeated:
            outcome = _first_of_its_id(outcome, source.mapping, repeated, first_places)
        if isinstance(outcome, CheckedRow):
            sound.add(outcome.values, outcome.extras, outcome.nothing)
        else:
            problems.add_row(outcome)
    return sound, problems


def _first_of_its_id(
    row: CheckedRow, resolved: Resolved, repeated: frozenset[bytes], first_places: dict[str, Place]
) -> CheckedRow | list[Problem]:
    identifier = row.values["id"]
    if identifier is None or id_hash(identifier) not in repeated:
        return row
    if identifier in first_places:
        found = f"the id {identifier!r} again (first at {first_places[identifier]})"
        return [Problem.at(row.place, resolved["id"], found, "an id of its own")]
    first_places[identifier] = row.place
    return row


def _stop_if_bad(problems: Problems, sound: int, skip_bad_rows: bool, total: int) -> None:
    if not problems.count or (skip_bad_rows and sound):
        return
    raise problems.error(
        f"{problems.bad_rows} of {total} rows cannot be used, nothing was judged (problems: {problems.count})",
        hint="mend the rows" if skip_bad_rows else f"mend the rows, or leave them out: {option('skip_bad_rows', True)}",
    )
