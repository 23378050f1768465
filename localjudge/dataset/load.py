"""Load samples and check every row before judging.

    files ──read──> survey of the columns ──resolve──> column for each field
          ──read again, check each row──> samples in a table, or problems ──> Dataset, or one
          DataError

Uses constant memory, except for a file with one JSON array or object, and for an iterator.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeGuard, get_args

from localjudge.dataset.columns import (
    ALIASES,
    Resolved,
    Survey,
    resolve,
    source_has,
    split_columns,
)
from localjudge.dataset.conversation import with_last_turn
from localjudge.dataset.data_in_memory import Elements, find_rows, find_table_rows
from localjudge.dataset.dataset import Dataset
from localjudge.dataset.formats import read
from localjudge.dataset.missing import is_nan
from localjudge.dataset.nested_rows import expand, zip_columns
from localjudge.dataset.printed import parse_printed
from localjudge.dataset.problems import (
    SHOWN,
    Place,
    Problem,
    Problems,
    first_part,
    reaches_inside,
    shown,
)
from localjudge.dataset.python_values import plain, read_fields
from localjudge.dataset.rows import CheckedRow, RawRow, Split, check_row, raw_row, splitter
from localjudge.dataset.samples import SampleTable
from localjudge.dataset.sources import STDIN, Source, shown_name
from localjudge.errors import DataError, InputError
from localjudge.progress import Progress, count_with_progress
from localjudge.types import FieldName, Sample
from localjudge.words import option, suggestion

_FIELDS = get_args(FieldName)

ReadRows = Callable[[], Iterator[RawRow | Problem]]
"""Reads the rows of one source from the beginning."""


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
    progress = progress or Progress()
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
        whole = read_fields(data)
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
    sources = [_SurveyedSource(name, rows, mapping, progress) for name, rows in tables]
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


class _SurveyedSource:
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
        columns = split_columns(mapping)
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
    sources: Sequence[_SurveyedSource],
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


def _check_mapped_columns_exist(
    sources: Sequence[_SurveyedSource], mapping: Mapping[str, str]
) -> None:
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
