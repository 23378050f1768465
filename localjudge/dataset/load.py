"""Load samples and check every row before judging.

    files ──read──> survey of the columns ──resolve──> column for each field
          ──read again, check each row──> samples in a table, or problems ──> Dataset, or one DataError

Uses constant memory, except for a file with one JSON array or object, and for an iterator. Draws and shards depend only
on the ids, so adding, removing or moving rows changes them by at most those rows.
"""

import heapq
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice, repeat
from pathlib import Path
from typing import Any, get_args

from localjudge.dataset.columns import ALIASES, ID_COLUMNS, Resolved, Survey, columns_of, resolve, source_has
from localjudge.dataset.conversation import with_last_turn
from localjudge.dataset.formats import expand, read, rows_of_columns, rows_of_iterable, rows_of_table
from localjudge.dataset.missing import is_blank, is_nan
from localjudge.dataset.printed import parse_printed
from localjudge.dataset.problems import (
    MISSING,
    SHOWN,
    UNKNOWN,
    Place,
    Problem,
    Problems,
    describe,
    first_part,
    lookup,
    reaches_inside,
    shown,
)
from localjudge.dataset.python_values import fields_of, plain
from localjudge.dataset.rows import CheckedRow, RawRow, Split, check_row, raw_row, splitter
from localjudge.dataset.samples import Column, SampleTable, Shard, id_digest, shard_number
from localjudge.dataset.sources import STDIN, Source, shown_name
from localjudge.errors import DataError, InputError
from localjudge.progress import Progress, Silence, count_with_progress
from localjudge.types import FieldName, Sample
from localjudge.words import option, suggestion

_FIELDS = get_args(FieldName)
_COLUMN_FIELDS = {"id", "user_input", "reference", "response"}

Scalar = str | int | float | bool | None
Rows = Callable[[], Iterator[RawRow | Problem]]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples in the order of the data, and how they were read."""

    table: SampleTable
    sources: tuple[str, ...]
    mappings: tuple[Resolved, ...]
    unused: tuple[tuple[str, ...], ...]
    """Non-empty columns of each source that are not fields."""
    nothing: Mapping[str, Counter[str]]
    """Counts of placeholders for missing values, by column."""
    joined: int = 0
    """Number of rows where one text may contain several retrieved contexts."""
    json_responses: int = 0
    """Number of responses that are an object or a list in JSON."""
    windows_1252: tuple[str, ...] = ()
    """Files that are not UTF-8 and were read as Windows-1252."""
    conversations: int = 0
    """Number of rows with a conversation as question; only its last turn was read."""
    skipped: int = 0
    problem_count: int = 0
    problems: tuple[str, ...] = ()
    """One line per cause, for the first causes. `problem_count` counts all."""

    @property
    def samples(self) -> Sequence[Sample]:
        return Column(self.table, "content", Sample.model_validate_json)

    @property
    def extras(self) -> Sequence[dict[str, Any]]:
        return Column(self.table, "extras", json.loads)

    @cached_property
    def fingerprint(self) -> str:
        return self.table.fingerprint

    @property
    def fields(self) -> frozenset[str]:
        """Fields with a column in the data. A column of ids counts as its contexts."""
        mapped = {field for mapping in self.mappings for field in mapping}
        return frozenset(ID_COLUMNS.get(field, field) for field in mapped).intersection(_FIELDS)

    @property
    def mapping(self) -> Resolved:
        merged = {}
        for field in ALIASES:
            pairs = zip(self.sources, self.mappings, strict=True)
            columns = {name: mapping[field] for name, mapping in pairs if field in mapping}
            if len(set(columns.values())) == 1:
                merged[field] = next(iter(columns.values()))
            elif columns:
                merged[field] = ", ".join(f"{column} ({name})" for name, column in columns.items())
        return merged

    def first(self, count: int) -> "Dataset":
        return self._where(lambda position, _: position < count)

    def draw(self, count: int, seed: int) -> "Dataset":
        """Return the `count` samples with the smallest sha256 of seed and id, in the order of the data."""
        ranked = ((id_digest(f"{seed}|{row.id}"), row.position) for row in self.table.rows())
        return self.at(position for _, position in heapq.nsmallest(count, ranked))

    def at(self, positions: Iterable[int]) -> "Dataset":
        chosen = set(positions)
        return self._where(lambda position, _: position in chosen)

    def draws(self, seed: int, group_of: Mapping[str, str] | None = None) -> list[list[int]]:
        """Return the positions in the order of `draw`, one list per sample or per group."""
        groups: dict[bytes, list[int]] = {}
        for row in self.table.rows():
            name = row.id if group_of is None else group_of[row.id]
            groups.setdefault(id_digest(f"{seed}|{name}"), []).append(row.position)
        return [groups[digest] for digest in sorted(groups)]

    def in_shard(self, shard: Shard) -> "Dataset":
        return self._where(lambda _, sample_id: shard_number(sample_id, shard.of) == shard.number, in_place=True)

    def _where(self, is_chosen: Callable[[int, str], bool], *, in_place: bool = False) -> "Dataset":
        table = self.table.where(is_chosen, in_place=in_place)
        return self if len(table) == len(self.table) else replace(self, table=table)

    def column(self, name: str) -> tuple[Scalar, ...]:
        """Return the values of a column (dots reach into objects), the id or a text field; None if missing.

        Raises InputError for an unknown name, and for lists and objects.
        """
        fields = {column: field for mapping in self.mappings for field, column in mapping.items()}
        field = str(name if name in _COLUMN_FIELDS else fields.get(name))
        exists, values = field in _COLUMN_FIELDS, []
        distinct: dict[tuple[type, Scalar], Scalar] = {}  # equal values share one object to save memory
        for extra, sample in zip(self.extras, self.samples if exists else repeat(None), strict=False):
            cell = lookup(extra, name, MISSING)
            exists = exists or cell is not MISSING
            value = getattr(sample, field, None) if cell is MISSING else cell
            value = None if is_blank(value) else value
            if not isinstance(value, Scalar) or str(value).startswith(UNKNOWN):
                raise InputError(
                    f"the column {shown(name)} contains {value if isinstance(value, str) else describe(value)}, "
                    "not text or a number",
                    hint=f"name a value inside an object with a dot: {shown(name)}.NAME",
                )
            values.append(distinct.setdefault((type(value), value), value))
        if not exists:
            others = {shown(column) for extra in self.extras for column in extra}
            columns = sorted(others | {"id"} | (self.fields & _COLUMN_FIELDS))
            raise InputError(f"the data has no column {shown(name)}", hint=f"the columns are {', '.join(columns)}")
        return tuple(values)


def load(  # noqa: PLR0913 # the options of a run that describe its data
    data: object,
    *,
    mapping: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    context_separator: str | None = None,
    rows_path: str | None = None,
    keeps_answer_words: bool = False,
    progress: Progress | None = None,
    name: str = "rows",
) -> Dataset:
    """Read and check all rows of files (`-` is standard input; see `formats`), or of data in memory.

    Data in memory, called `name` in messages, may be mappings or objects with the column names of any known tool,
    samples, a data frame, a table, or another package's data set. A single mapping contains columns (lists) or rows.
    `keeps_answer_words` is described in `check_row`. Other arguments are as in `localjudge.evaluate` (`rows_path` is
    `rows` there).

    Raises DataError for unreadable data, invalid rows or no rows, InputError for a mapping without a match,
    OutOfResource if the temporary file does not fit.
    """
    mapping, progress = mapping or {}, progress or Silence()
    files = [data] if isinstance(data, str | Path) else data
    if not (isinstance(files, list | tuple) and files and all(isinstance(file, str | Path) for file in files)):
        tables = [(name, _python_rows(data, mapping, rows_path, name))]
        return _build(tables, mapping, skip_bad_rows, context_separator, keeps_answer_words, progress)
    names = list(map(str, files))
    for file in [file for file in names if "\0" in file]:
        raise InputError(f"{file!r} is not the name of a file")
    counts = Counter(file if file == STDIN else os.path.realpath(file) for file in names)
    for file in [file for file, count in counts.items() if count > 1]:
        raise InputError(f"{shown_name(file)} is named twice", hint="its rows would count twice")
    with ExitStack() as stack:
        opened = [stack.enter_context(closing(Source(file))) for file in names]
        tables = [(source.name, partial(read, source, mapping, rows_path)) for source in opened]
        dataset = _build(tables, mapping, skip_bad_rows, context_separator, keeps_answer_words, progress)
        windows_1252 = tuple(source.name for source in opened if source.is_windows_1252)
        return replace(dataset, windows_1252=windows_1252)


def from_samples(
    samples: Iterable[tuple[int, Sample, Mapping[str, Any]]],
    *,
    sources: Sequence[str],
    mapping: Resolved,
    skipped: int = 0,
) -> Dataset:
    table = SampleTable()
    for position, sample, extras in samples:
        table.add(sample.model_dump(), extras, position=position)
    count = len(sources)
    return Dataset(table, tuple(sources), (mapping,) * count, ((),) * count, {}, skipped=skipped)


def _python_rows(data: object, mapping: Mapping[str, str], rows_path: str | None, name: str) -> Rows:
    rows = rows_of_table(data, name)
    whole = None if rows or isinstance(data, Sample) else data if isinstance(data, Mapping) else fields_of(data)
    if whole is not None:
        row = RawRow(Place(name, row=1), plain(whole))
        lists = [value for value in row.values.values() if isinstance(value, list)]
        # A list of objects may contain rows or messages.
        are_cells = not any(isinstance(cell, Mapping) for cells in lists for cell in cells)
        if rows_path is None and 0 < len(lists) == len(row.values) and are_cells:
            return lambda: rows_of_columns(row.values, name)
        return lambda: expand(row._replace(place=Place(name)) if rows_path else row, mapping, rows_path)
    elements = rows or rows_of_iterable(data, name)

    def read() -> Iterator[RawRow | Problem]:
        for number, element in enumerate(elements(), 1):
            place = Place(name, row=number)
            if isinstance(element, Sample):
                raw: RawRow | Problem = RawRow(place, element.model_dump(exclude_none=True), literal=True)
            elif isinstance(raw := raw_row(plain(element), place), RawRow):
                cells = raw.values.items()
                nulls = {column: None for column, cell in cells if is_nan(cell)}
                raw = raw._replace(values={**raw.values, **nulls})
            yield from expand(raw, mapping, rows_path) if rows_path and isinstance(raw, RawRow) else [raw]

    return read


def _build(
    tables: Sequence[tuple[str, Rows]],
    mapping: Mapping[str, str],
    skip_bad_rows: bool,
    context_separator: str | None,
    keeps_answer_words: bool,
    progress: Progress,
) -> Dataset:
    for field in mapping.keys() - ALIASES.keys():
        form = option("mapping", {"FIELD": "COLUMN"})
        raise InputError(
            f"the mapping {field}={mapping[field]} does not begin with a field of localjudge",
            hint=f"in {form}, FIELD is one of {', '.join(ALIASES)}",
        )
    if context_separator == "":
        raise InputError("the context separator is empty", hint="use the text between two contexts, such as '|'")
    sources = [_Source(name, rows, mapping, progress) for name, rows in tables]
    _check_mapped_columns_exist(sources, mapping)
    for source in sources:
        source.resolve(context_separator)
    checked = _check_rows(sources, keeps_answer_words, progress)
    table = checked.table
    problems = checked.problems
    total = sum(source.count for source in sources)
    if problems.count and not (skip_bad_rows and len(table)):
        or_skip = "" if skip_bad_rows else f", or skip them: {option('skip_bad_rows', True)}"
        raise problems.error(
            f"{problems.bad_rows} of {total} rows cannot be used, so nothing was judged (problems: {problems.count})",
            hint=f"correct the rows{or_skip}",
        )
    table.complete_ids()
    return Dataset(
        table=table,
        sources=tuple(name for name, _ in tables),
        mappings=tuple(source.mapping for source in sources),
        unused=tuple(source.survey.unused(source.mapping) for source in sources),
        nothing=checked.nothing,
        joined=checked.joined,
        json_responses=checked.json_responses,
        conversations=sum(source.conversations for source in sources),
        skipped=problems.bad_rows,
        problem_count=problems.count,
        problems=tuple(problems.lines),
    )


class _Source:
    """A source with rows that can be read repeatedly, and a survey of its columns."""

    mapping: Resolved
    split: Split

    def __init__(self, name: str, rows: Rows, mapping: Mapping[str, str], progress: Progress) -> None:
        self.name = name
        self._rows, self._mapping = rows, mapping
        self.survey = Survey(mapping)
        self.count = self.readable = self.conversations = 0
        for row in count_with_progress(self.rows(), progress, f"reading {name}"):
            self.count += 1
            if isinstance(row, RawRow):
                self.readable += 1
                self.conversations += row.conversation
                self.survey.add(row.values)

    def rows(self) -> Iterator[RawRow | Problem]:
        """Yield the rows. Conversations become their last turn, and texts that the mapping reaches into are parsed."""
        reached_into = {first_part(name) for name in columns_of(self._mapping) if reaches_inside(name)}
        for row in self._rows():
            if isinstance(row, Problem):
                yield row
                continue
            texts = {name: row.values[name] for name in reached_into if isinstance(row.values.get(name), str)}
            parsed = {name: parse_printed(text) for name, text in texts.items()}
            values = {**row.values, **parsed} if any(parsed.values()) else row.values
            turn = with_last_turn(values, self._mapping.get("user_input"))
            yield row._replace(values=values if turn is None else turn, conversation=turn is not None)

    def resolve(self, separator: str | None) -> None:
        if not self.count:
            raise DataError(f"{self.name} has no rows", hint="omit it, or check that it is complete")
        self.mapping = resolve(self.survey, self._mapping, self.name)
        self.split = splitter(separator, self.survey.has)
        if self.readable and not self.mapping.keys() - {"id"}:
            columns = ", ".join(shown(str(column)) for column in islice(self.survey.columns, SHOWN)) or "none"
            such_as = option("mapping", {"user_input": "COLUMN"})
            raise DataError(
                f"{self.name}: no column has a known name (columns: {columns})",
                hint=f"map {', '.join(_FIELDS)}: {such_as}; or say where the rows are: {option('rows', 'NAME')}",
            )


class _CheckedRows:
    """The samples of all rows, counts of what was noticed, and problems."""

    def __init__(self) -> None:
        self.table = SampleTable()
        self.problems = Problems()
        self.nothing: dict[str, Counter[str]] = {}
        self.joined = 0
        self.json_responses = 0

    def add(self, row: CheckedRow, id_column: str | None) -> None:
        other_place = self.table.add(row.values, row.extras, row.place)
        if other_place:
            again = f"the id {row.values['id']!r} again (first at {other_place})"
            self.problems.add_row([Problem.at(row.place, id_column, again, "a unique id")])
            return
        self.joined += row.joined
        self.json_responses += row.is_json_response
        for column, word in row.nothing:
            self.nothing.setdefault(column, Counter())[word] += 1


def _check_rows(sources: Sequence[_Source], keeps_answer_words: bool, progress: Progress) -> _CheckedRows:
    checked = _CheckedRows()
    total = sum(source.count for source in sources)
    rows = ((source, row) for source in sources for row in source.rows())
    for source, row in count_with_progress(rows, progress, "checking", total):
        if isinstance(row, Problem):
            checked.problems.add_row([row])
            continue
        outcome = check_row(row, source.mapping, source.split, keeps_answer_words=keeps_answer_words)
        if isinstance(outcome, list):
            checked.problems.add_row(outcome)
        else:
            checked.add(outcome, source.mapping.get("id"))
    return checked


def _check_mapped_columns_exist(sources: Sequence[_Source], mapping: Mapping[str, str]) -> None:
    for field, column in mapping.items() if any(source.readable for source in sources) else ():
        if not any(source_has(field, column, source.survey.has) for source in sources):
            names = list(dict.fromkeys(str(name) for source in sources for name in source.survey.columns))
            raise InputError(
                f"the mapping {field}={column} names a column that no row of "
                f"{', '.join(source.name for source in sources)} has",
                hint=suggestion(column, names, "the columns", show=shown),
            )
