"""Load samples and check every row before judging.

    files ──read──> survey of the columns ──resolve──> column for each field
          ──read again, check each row──> samples in a table, or problems ──> Dataset, or one
          DataError

Uses constant memory, except for a file with one JSON array or object, and for an iterator. Draws
and shards depend only on the ids, so adding, removing or moving rows changes them by at most those
rows.
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
from typing import Any, TypeGuard, get_args

from localjudge.dataset.columns import (
    ALIASES,
    ID_COLUMNS,
    Resolved,
    Survey,
    columns_of,
    resolve,
    source_has,
)
from localjudge.dataset.conversation import with_last_turn
from localjudge.dataset.data_in_memory import Elements, find_rows, find_table_rows
from localjudge.dataset.formats import read
from localjudge.dataset.missing import is_blank, is_nan
from localjudge.dataset.nested_rows import expand, zip_columns
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
from localjudge.dataset.samples import Column, SampleTable
from localjudge.dataset.shards import Shard, id_digest, shard_number
from localjudge.dataset.sources import STDIN, Source, shown_name
from localjudge.errors import DataError, InputError
from localjudge.progress import Progress, Silence, count_with_progress
from localjudge.types import FieldName, Sample
from localjudge.words import option, suggestion

_FIELDS = get_args(FieldName)
_COLUMN_FIELDS = {"id", "user_input", "reference", "response"}

Scalar = str | int | float | bool | None
ReadRows = Callable[[], Iterator[RawRow | Problem]]
"""Reads the rows of one source from the beginning."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples in the order of the data, and how they were read."""

    table: SampleTable
    sources: tuple[str, ...]
    mappings: tuple[Resolved, ...]
    unused: tuple[tuple[str, ...], ...]
    """Non-empty columns of each source that are not fields."""
    placeholders: Mapping[str, Counter[str]]
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
        """Our field -> its column. Different columns are listed with their sources."""
        columns_by_field: dict[str, dict[str, str]] = {}
        for source, mapping in zip(self.sources, self.mappings, strict=True):
            for field, column in mapping.items():
                columns_by_field.setdefault(field, {})[source] = column
        merged = {}
        for field in ALIASES:
            columns = columns_by_field.get(field, {})
            if len(set(columns.values())) == 1:
                merged[field] = next(iter(columns.values()))
            elif columns:
                merged[field] = ", ".join(
                    f"{column} ({source})" for source, column in columns.items()
                )
        return merged

    def first(self, count: int) -> "Dataset":
        return self._where(lambda position, _: position < count)

    def draw(self, count: int, seed: int) -> "Dataset":
        """Return the `count` samples with the smallest sha256 of seed and id.

        They remain in the order of the data.
        """
        ranked = ((id_digest(f"{seed}|{row.id}"), row.position) for row in self.table.rows())
        smallest = heapq.nsmallest(count, ranked)
        return self.at(position for _, position in smallest)

    def at(self, positions: Iterable[int]) -> "Dataset":
        chosen = set(positions)
        return self._where(lambda position, _: position in chosen)

    def draws(self, seed: int, group_of: Mapping[str, str] | None = None) -> list[list[int]]:
        """Return the positions in the order of `draw`, one list per sample or per group."""
        groups: dict[bytes, list[int]] = {}
        for row in self.table.rows():
            name = row.id
            if group_of is not None:
                name = group_of[name]
            groups.setdefault(id_digest(f"{seed}|{name}"), []).append(row.position)
        return [groups[digest] for digest in sorted(groups)]

    def in_shard(self, shard: Shard) -> "Dataset":
        return self._where(
            lambda _, sample_id: shard_number(sample_id, shard.of) == shard.number,
            in_place=True,
        )

    def _where(self, is_chosen: Callable[[int, str], bool], *, in_place: bool = False) -> "Dataset":
        table = self.table.where(is_chosen, in_place=in_place)
        if len(table) == len(self.table):
            return self
        return replace(self, table=table)

    def column(self, name: str) -> tuple[Scalar, ...]:
        """Return the values of a column, the id or a text field, None if missing.

        Dots reach into objects. Raises InputError for an unknown name, and for lists and objects.
        """
        field = self._field_of_column(name)
        exists = field is not None
        samples: Iterable[Sample | None] = repeat(None)
        if field is not None:
            samples = self.samples
        values: list[Scalar] = []
        # Equal values share one object to save memory.
        distinct: dict[tuple[type, Scalar], Scalar] = {}
        for extra, sample in zip(self.extras, samples, strict=False):
            value = lookup(extra, name, MISSING)
            if value is not MISSING:
                exists = True
            elif field is not None:
                value = getattr(sample, field)
            else:
                value = None
            if is_blank(value):
                value = None
            _check_scalar(name, value)
            values.append(distinct.setdefault((type(value), value), value))
        if not exists:
            raise InputError(
                f"the data has no column {shown(name)}",
                hint=f"the columns are {', '.join(self._column_names())}",
            )
        return tuple(values)

    def _field_of_column(self, name: str) -> str | None:
        """Return the id or the text field that a name stands for, or None for another column."""
        if name in _COLUMN_FIELDS:
            return name
        for mapping in self.mappings:
            for field, column in mapping.items():
                if column == name and field in _COLUMN_FIELDS:
                    return field
        return None

    def _column_names(self) -> list[str]:
        names = {"id"} | (self.fields & _COLUMN_FIELDS)
        for extra in self.extras:
            names.update(map(shown, extra))
        return sorted(names)


def _check_scalar(name: str, value: Any) -> None:
    """Raise InputError unless a value can name a group."""
    if isinstance(value, Scalar) and not str(value).startswith(UNKNOWN):
        return
    description = value
    if not isinstance(value, str):
        description = describe(value)
    raise InputError(
        f"the column {shown(name)} contains {description}, not text or a number",
        hint=f"name a value inside an object with a dot: {shown(name)}.NAME",
    )


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
    """Read and check all rows of files, or of data in memory.

    The file `-` is standard input. `formats` lists the formats. Data in memory, called `name` in
    messages, may be mappings or objects with the column names of any known tool, samples, a data
    frame, a table, or another package's data set. A single mapping contains columns (lists) or
    rows. `keeps_answer_words` is described in `check_row`. Other arguments are as in
    `localjudge.evaluate` (`rows_path` is `rows` there).

    Raises DataError for unreadable data, invalid rows or no rows, InputError for a mapping without
    a match, OutOfResource if the temporary file does not fit.
    """
    mapping = mapping or {}
    progress = progress or Silence()
    files = data
    if isinstance(data, str | Path):
        files = [data]
    if not _are_files(files):
        tables = [(name, _rows_in_memory(data, mapping, rows_path, name))]
        return _build(
            tables,
            mapping,
            skip_bad_rows,
            context_separator,
            keeps_answer_words,
            progress,
        )
    names = list(map(str, files))
    _check_file_names(names)
    with ExitStack() as stack:
        sources = [stack.enter_context(closing(Source(file))) for file in names]
        tables = [(source.name, partial(read, source, mapping, rows_path)) for source in sources]
        dataset = _build(
            tables,
            mapping,
            skip_bad_rows,
            context_separator,
            keeps_answer_words,
            progress,
        )
        windows_1252 = tuple(source.name for source in sources if source.is_windows_1252)
        return replace(dataset, windows_1252=windows_1252)


def _are_files(data: object) -> TypeGuard[Sequence[str | Path]]:
    if not isinstance(data, list | tuple) or not data:
        return False
    return all(isinstance(file, str | Path) for file in data)


def _check_file_names(names: Sequence[str]) -> None:
    """Raise InputError for an impossible name, and for a file that is named twice."""
    counts = Counter[str]()
    for name in names:
        if "\0" in name:
            raise InputError(f"{name!r} is not the name of a file")
        path = name
        if name != STDIN:
            path = os.path.realpath(name)
        counts[path] += 1
    for name, count in counts.items():
        if count > 1:
            raise InputError(
                f"{shown_name(name)} is named twice",
                hint="its rows would count twice",
            )


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


def _rows_in_memory(
    data: object,
    mapping: Mapping[str, str],
    rows_path: str | None,
    name: str,
) -> ReadRows:
    elements = find_table_rows(data, name)
    whole: Mapping[str, Any] | None = None
    if elements is None and isinstance(data, Mapping):
        whole = data
    elif elements is None and not isinstance(data, Sample):
        whole = fields_of(data)
    if whole is not None:
        return _rows_in_object(whole, mapping, rows_path, name)
    if elements is None:
        elements = find_rows(data, name)
    return partial(_read_elements, elements, mapping, rows_path, name)


def _rows_in_object(
    whole: Mapping[str, Any],
    mapping: Mapping[str, str],
    rows_path: str | None,
    name: str,
) -> ReadRows:
    row = RawRow(Place(name, row=1), plain(whole))
    if rows_path is not None:
        return partial(expand, row._replace(place=Place(name)), mapping, rows_path)
    if _are_columns_of_cells(row.values):
        return partial(zip_columns, row.values, name)
    return partial(expand, row, mapping, rows_path)


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
    elements: Elements,
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


def _build(
    tables: Sequence[tuple[str, ReadRows]],
    mapping: Mapping[str, str],
    skip_bad_rows: bool,
    context_separator: str | None,
    keeps_answer_words: bool,
    progress: Progress,
) -> Dataset:
    _check_fields(mapping)
    if context_separator == "":
        raise InputError(
            "the context separator is empty",
            hint="use the text between two contexts, such as '|'",
        )
    sources = [_Source(name, rows, mapping, progress) for name, rows in tables]
    _check_mapped_columns_exist(sources, mapping)
    for source in sources:
        source.resolve(context_separator)
    checked = _check_rows(sources, keeps_answer_words, progress)
    table = checked.table
    problems = checked.problems
    total = sum(source.count for source in sources)
    if problems.count and not (skip_bad_rows and len(table)):
        hint = "correct the rows"
        if not skip_bad_rows:
            hint += f", or skip them: {option('skip_bad_rows', True)}"
        raise problems.error(
            f"{problems.bad_rows} of {total} rows cannot be used, so nothing was judged "
            f"(problems: {problems.count})",
            hint=hint,
        )
    table.complete_ids()
    return Dataset(
        table=table,
        sources=tuple(name for name, _ in tables),
        mappings=tuple(source.mapping for source in sources),
        unused=tuple(source.survey.unused(source.mapping) for source in sources),
        placeholders=checked.placeholders,
        joined=checked.joined,
        json_responses=checked.json_responses,
        conversations=sum(source.conversations for source in sources),
        skipped=problems.bad_rows,
        problem_count=problems.count,
        problems=tuple(problems.lines),
    )


def _check_fields(mapping: Mapping[str, str]) -> None:
    """Raise InputError for a mapping of an unknown field."""
    for field, column in mapping.items():
        if field not in ALIASES:
            form = option("mapping", {"FIELD": "COLUMN"})
            raise InputError(
                f"the mapping {field}={column} does not begin with a field of localjudge",
                hint=f"in {form}, FIELD is one of {', '.join(ALIASES)}",
            )


class _Source:
    """A source with rows that can be read repeatedly, and a survey of its columns."""

    mapping: Resolved
    split: Split

    def __init__(
        self,
        name: str,
        rows: ReadRows,
        mapping: Mapping[str, str],
        progress: Progress,
    ) -> None:
        self.name = name
        self._rows = rows
        self._mapping = mapping
        columns = columns_of(mapping)
        self._reached_into = {first_part(column) for column in columns if reaches_inside(column)}
        self.survey = Survey(mapping)
        self.count = 0
        self.readable = 0
        self.conversations = 0
        for row in count_with_progress(self.rows(), progress, f"reading {name}"):
            self.count += 1
            if isinstance(row, RawRow):
                self.readable += 1
                self.conversations += row.conversation
                self.survey.add(row.values)

    def rows(self) -> Iterator[RawRow | Problem]:
        """Yield the rows.

        Conversations become their last turn, and texts that the mapping reaches into are parsed.
        """
        for row in self._rows():
            if isinstance(row, Problem):
                yield row
                continue
            values = self._with_parsed_texts(row.values)
            turn = with_last_turn(values, self._mapping.get("user_input"))
            if turn is None:
                yield row._replace(values=values, conversation=False)
            else:
                yield row._replace(values=turn, conversation=True)

    def _with_parsed_texts(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        parsed = {}
        for name in self._reached_into:
            text = values.get(name)
            if not isinstance(text, str):
                continue
            value = parse_printed(text)
            if value is not None:
                parsed[name] = value
        if parsed:
            return {**values, **parsed}
        return values

    def resolve(self, separator: str | None) -> None:
        if not self.count:
            raise DataError(
                f"{self.name} has no rows",
                hint="omit it, or check that it is complete",
            )
        self.mapping = resolve(self.survey, self._mapping, self.name)
        self.split = splitter(separator, self.survey.has)
        if self.readable and not self.mapping.keys() - {"id"}:
            names = map(str, islice(self.survey.columns, SHOWN))
            columns = ", ".join(map(shown, names)) or "none"
            mapping = f"map {', '.join(_FIELDS)}: {option('mapping', {'user_input': 'COLUMN'})}"
            raise DataError(
                f"{self.name}: no column has a known name (columns: {columns})",
                hint=f"{mapping}; or say where the rows are: {option('rows', 'NAME')}",
            )


class _CheckedRows:
    """The samples of all rows, counts of what was noticed, and problems."""

    def __init__(self) -> None:
        self.table = SampleTable()
        self.problems = Problems()
        self.placeholders: dict[str, Counter[str]] = {}
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
        for column, word in row.placeholders:
            self.placeholders.setdefault(column, Counter())[word] += 1


def _check_rows(
    sources: Sequence[_Source],
    keeps_answer_words: bool,
    progress: Progress,
) -> _CheckedRows:
    checked = _CheckedRows()
    total = sum(source.count for source in sources)
    rows = ((source, row) for source in sources for row in source.rows())
    for source, row in count_with_progress(rows, progress, "checking", total):
        if isinstance(row, Problem):
            checked.problems.add_row([row])
            continue
        outcome = check_row(
            row,
            source.mapping,
            source.split,
            keeps_answer_words=keeps_answer_words,
        )
        if isinstance(outcome, list):
            checked.problems.add_row(outcome)
        else:
            checked.add(outcome, source.mapping.get("id"))
    return checked


def _check_mapped_columns_exist(sources: Sequence[_Source], mapping: Mapping[str, str]) -> None:
    if not any(source.readable for source in sources):
        return
    for field, column in mapping.items():
        if any(source_has(field, column, source.survey.has) for source in sources):
            continue
        names: dict[str, None] = {}
        for source in sources:
            names.update(dict.fromkeys(map(str, source.survey.columns)))
        files = ", ".join(source.name for source in sources)
        raise InputError(
            f"the mapping {field}={column} names a column that no row of {files} has",
            hint=suggestion(column, list(names), "the columns", show=shown),
        )
