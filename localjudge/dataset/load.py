"""Load samples and check every row before judging.

    files ──read──> survey of the columns ──choose──> column of each field
          ──read again, check each row──> samples in a table, or problems ──> Dataset, or one
          DataError

Uses constant memory, except for a file with one JSON array or object, and for an iterator.
"""

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict, TypeGuard, Unpack

from localjudge.dataset.checked_rows import CheckedRow, check_row, splitter
from localjudge.dataset.columns import (
    ALIASES,
    ColumnOf,
    Survey,
    choose_columns,
    numbers_rows,
    source_has,
    split_columns,
)
from localjudge.dataset.conversation import with_last_turn
from localjudge.dataset.data_in_memory import ReadRows, read_in_memory
from localjudge.dataset.dataset import AGAINST, Dataset, PairedAnswers, pair_answers
from localjudge.dataset.formats import read
from localjudge.dataset.paths import first_parts, reaches_inside
from localjudge.dataset.printed import parse_printed
from localjudge.dataset.rows import SHOWN, Problem, Problems, RawRow, is_blank, shown
from localjudge.dataset.samples import SampleTable
from localjudge.dataset.sources import STDIN, Source, shown_name
from localjudge.errors import DataError, InputError
from localjudge.progress import Progress, count_with_progress
from localjudge.types import FIELDS
from localjudge.words import option, suggestion


class ReadOptions(TypedDict, total=False):
    """How data are read. `keeps_answer_words` is described in `check_row`.

    The others are as in `localjudge.evaluate` (`rows_path` is `rows` there).
    """

    mapping: Mapping[str, str] | None
    skip_bad_rows: bool
    context_separator: str | None
    rows_path: str | None
    keeps_answer_words: bool


def load(
    data: object,
    *,
    progress: Progress | None = None,
    name: str = "rows",
    **options: Unpack[ReadOptions],
) -> Dataset:
    """Read and check all rows of files, or of data in memory.

    The file `-` is standard input. `formats` lists the formats. Data in memory, called `name` in
    messages, may be mappings or objects with the column names of any known tool, samples, a data
    frame, a table, or another package's data set. A single mapping contains columns (lists) or
    rows.

    Raises DataError for unreadable data, invalid rows or no rows, InputError for a mapping without
    a match, OutOfResource if the temporary file does not fit.
    """
    mapping = options.get("mapping") or {}
    progress = progress or Progress()
    with _surveyed(data, mapping, options, progress, name) as (sources, tables):
        _find_ids(tables)
        dataset = _check_tables(tables, options, progress)
        return replace(dataset, **_describe_sources(sources))


def load_pair(
    data: object,
    against: str,
    *,
    progress: Progress | None = None,
    name: str = "rows",
    **options: Unpack[ReadOptions],
) -> PairedAnswers:
    """Read the data twice: with the response, and with the column `against` in its place.

    Arguments and errors as in `load`. Also raises InputError if `against` is the response or no
    column is the response, and DataError if no row has both answers.
    """
    mapping = options.get("mapping") or {}
    progress = progress or Progress()
    columns = {**mapping, AGAINST: against}
    with _surveyed(data, columns, options, progress, name) as (sources, tables):
        _check_answers(tables, against)
        _find_ids(tables)
        described = _describe_sources(sources)
        run = _check_tables(tables, options, progress, keeps_numbers=True)
        for table in tables:
            table.replace_response(against)
        baseline = _check_tables(tables, options, progress, keeps_numbers=True)
        return pair_answers(replace(baseline, **described), replace(run, **described))


def _check_answers(tables: Sequence["_Table"], against: str) -> None:
    """Raise InputError unless there is a response, and another column to compare it with."""
    names: dict[str, None] = {}
    responses: set[str] = set()
    for table in tables:
        names.update(dict.fromkeys(map(str, table.survey.columns)))
        responses.update(filter(None, [table.columns.get("response")]))
    if against in responses:
        hint = f"name the column with the other answers: {option('against', 'COLUMN')}"
        raise InputError(f"{option('against', against)} is the response itself", hint=hint)
    if not responses:
        others = [shown(name) for name in names if name != against]
        problem = f"no column is the response to compare with {shown(against)}"
        choice = option("mapping", {"response": "COLUMN"})
        raise InputError(problem, hint=f"name it: {choice}; the columns are {', '.join(others)}")


@contextmanager
def _surveyed(
    data: object,
    mapping: Mapping[str, str],
    options: ReadOptions,
    progress: Progress,
    name: str,
) -> Iterator[tuple[list[Source], list["_Table"]]]:
    """Open the data, and yield its files and its tables, with the column of each field."""
    _check_fields(mapping)
    rows_path = options.get("rows_path")
    if options.get("context_separator") == "":
        raise InputError(
            "the context separator is empty",
            hint="use the text between two contexts, such as '|'",
        )
    files = data
    if isinstance(data, str | Path):
        files = [data]
    with ExitStack() as stack:
        sources: list[Source] = []
        tables: list[_Table] = []
        if _are_files(files):
            names = list(map(str, files))
            _check_file_names(names)
            sources = [stack.enter_context(Source(file)) for file in names]
        else:
            read_rows = read_in_memory(data, mapping, rows_path, name)
            tables.append(_Table(name, read_rows, mapping))
        for source in sources:
            tables.append(_Table(source.name, partial(read, source, mapping, rows_path), mapping))
        for table in tables:
            table.survey_columns(progress)
        _check_mapped_columns_exist(tables, mapping)
        for table in tables:
            table.choose_columns()
        yield sources, tables


def _describe_sources(sources: Sequence[Source]) -> dict[str, Any]:
    """Return the encodings that are not Unicode, and the checksums of the files."""
    encodings: dict[str, str] = {}
    for source in sources:
        if source.other_encoding is not None:
            encodings[source.name] = source.other_encoding
    checksums = tuple(source.sha256 for source in sources)
    return {"encodings": encodings, "source_sha256": checksums}


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


def _check_fields(mapping: Mapping[str, str]) -> None:
    """Raise InputError for a mapping of an unknown field."""
    for field, column in mapping.items():
        if field not in ALIASES and field != AGAINST:
            form = option("mapping", {"FIELD": "COLUMN"})
            raise InputError(
                f"the mapping {field}={column} does not begin with a field of localjudge",
                hint=f"in {form}, FIELD is one of {', '.join(ALIASES)}",
            )


class _Table:
    """The rows of one source, which are read twice: for a survey of the columns, and to be checked.

    `columns` is the column of each field, once it has been chosen.
    """

    def __init__(self, name: str, read_rows: ReadRows, mapping: Mapping[str, str]) -> None:
        self.name = name
        self._read_rows = read_rows
        self._mapping = mapping
        mapped = split_columns(mapping)
        self._reached_into: set[str] = set()
        for column in filter(reaches_inside, mapped):
            self._reached_into |= first_parts(column) - {column}
        self.survey = Survey(mapping)
        self.columns: ColumnOf = {}
        self.count = 0
        self.readable = 0
        self.conversations = 0
        self.short_rows = 0

    def rows(self) -> Iterator[RawRow | Problem]:
        """Yield the rows.

        Conversations become their last turn, and texts that the mapping reaches into are parsed.
        """
        for row in self._read_rows():
            if isinstance(row, Problem):
                yield row
                continue
            values = self._with_parsed_texts(row.values)
            turn = None
            if not row.literal:
                turn = with_last_turn(values, self._mapping.get("user_input"))
            if turn is None:
                yield row._replace(values=values, conversation=False)
            else:
                yield row._replace(values=turn, conversation=True)

    def _with_parsed_texts(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        parsed = {}
        for name in self._reached_into:
            value = values.get(name)
            if isinstance(value, str):
                parsed[name] = _parse_text(value, (list, dict))
            elif isinstance(value, list) and any(isinstance(item, str) for item in value):
                parsed[name] = [_parse_text(item, (dict,)) for item in value]
        if parsed:
            return {**values, **parsed}
        return values

    def survey_columns(self, progress: Progress) -> None:
        """Read all rows, and note their columns."""
        for row in count_with_progress(self.rows(), progress, f"reading {self.name}"):
            self.count += 1
            if isinstance(row, RawRow):
                self.readable += 1
                self.conversations += row.conversation
                self.short_rows += row.is_short
                self.survey.add(row.values)

    def choose_columns(self) -> None:
        """Choose the column of each field. Raises DataError without rows or a known column."""
        if not self.count:
            raise DataError(
                f"{self.name} has no rows",
                hint="omit it, or check that it is complete",
            )
        self.columns = choose_columns(self.survey, self._mapping, self.name)
        if self.readable and not self.columns.keys() - {"id"}:
            names = map(str, islice(self.survey.columns, SHOWN))
            columns = ", ".join(map(shown, names)) or "none"
            mapping = f"map {', '.join(FIELDS)}: {option('mapping', {'user_input': 'COLUMN'})}"
            raise DataError(
                f"{self.name}: no column has a known name (columns: {columns})",
                hint=f"{mapping}; or say where the rows are: {option('rows', 'NAME')}",
            )

    def replace_response(self, column: str) -> None:
        """Read the response from another column, or from none if these rows lack it."""
        others = {field: name for field, name in self.columns.items() if field != "response"}
        if self.survey.has(column):
            others["response"] = column
        self.columns = others


def _find_ids(tables: Sequence[_Table]) -> None:
    """Take a column that numbers all rows, such as `Nr`, as the id if there is no other id.

    It does so only if every row has a value of its own there, which is read once more.
    """
    if any("id" in table.columns for table in tables):
        return
    used = {*tables[0].columns.values()}
    names = [name for name in tables[0].survey.columns if numbers_rows(name) and name not in used]
    if len(names) != 1 or not all(table.survey.columns.get(names[0]) for table in tables):
        return
    with closing(sqlite3.connect("")) as database:  # a temporary file
        database.execute("CREATE TABLE id (value TEXT PRIMARY KEY)")
        for table in tables:
            for row in table.rows():
                if isinstance(row, Problem):
                    continue
                value = row.values.get(names[0])
                if is_blank(value) or not isinstance(value, str | int):
                    return
                added = database.execute(
                    "INSERT OR IGNORE INTO id VALUES (?)", [str(value).strip()]
                )
                if not added.rowcount:
                    return
    for table in tables:
        table.columns = {"id": names[0], **table.columns}


def _parse_text(value: Any, kinds: tuple[type, ...]) -> Any:
    """Return what is printed in a text, if it is of these kinds, and other values as they are."""
    parsed = parse_printed(value) if isinstance(value, str) else None
    if isinstance(parsed, kinds):
        return parsed
    return value


def _check_tables(
    tables: Sequence[_Table],
    options: ReadOptions,
    progress: Progress,
    *,
    keeps_numbers: bool = False,
) -> Dataset:
    """Return the samples of all valid rows.

    With `keeps_numbers`, the position of a sample counts bad rows too.

    Raises DataError for invalid rows, unless they are skipped and others are left.
    """
    samples = SampleTable()
    problems = Problems()
    places: list[str] = []
    placeholders: dict[str, Counter[str]] = {}
    joined = 0
    json_responses = 0
    total = sum(table.count for table in tables)
    skips_bad_rows = options.get("skip_bad_rows", False)
    rows = _check_rows(tables, samples, options, keeps_numbers=keeps_numbers)
    for row in count_with_progress(rows, progress, "checking", total):
        if isinstance(row, list):
            problems.add_row(row)
            if len(places) < SHOWN:
                places.append(row[0].place)
            continue
        joined += row.joined
        json_responses += row.is_json_response
        for column, word in row.placeholders:
            placeholders.setdefault(column, Counter())[word] += 1
    if problems.count and not (skips_bad_rows and len(samples)):
        raise _bad_rows(problems, total, skips_bad_rows=skips_bad_rows)
    samples.complete_ids()
    return Dataset(
        table=samples,
        sources=tuple(table.name for table in tables),
        mappings=tuple(table.columns for table in tables),
        unused=tuple(table.survey.unused(table.columns) for table in tables),
        placeholders=placeholders,
        joined=joined,
        json_responses=json_responses,
        conversations=sum(table.conversations for table in tables),
        short_rows=sum(table.short_rows for table in tables),
        skipped=problems.bad_rows,
        skipped_places=tuple(places),
        problem_count=problems.count,
        problems=tuple(problems.lines),
    )


def _bad_rows(problems: Problems, total: int, *, skips_bad_rows: bool) -> DataError:
    hint = "correct the rows"
    if not skips_bad_rows:
        hint += f", or skip them: {option('skip_bad_rows', True)}"
    return problems.error(
        f"{problems.bad_rows} of {total} rows cannot be used, so nothing was judged "
        f"(problems: {problems.count})",
        hint=hint,
    )


def _check_rows(
    tables: Sequence[_Table], samples: SampleTable, options: ReadOptions, *, keeps_numbers: bool
) -> Iterator[CheckedRow | list[Problem]]:
    """Add the sample of each valid row. Yield the row, or its problems."""
    number = -1
    position: int | None = None
    keeps_words = options.get("keeps_answer_words", False)
    for table in tables:
        split = splitter(options.get("context_separator"), table.survey.has)
        for row in table.rows():
            number += 1
            if keeps_numbers:
                position = number
            if isinstance(row, Problem):
                yield [row]
                continue
            checked = check_row(row, table.columns, split, keeps_answer_words=keeps_words)
            if isinstance(checked, list):
                yield checked
                continue
            other_place = samples.add(checked.values, checked.extras, checked.place, position)
            if other_place is None:
                yield checked
                continue
            again = f"the id {checked.values['id']!r} again (first at {other_place})"
            yield [Problem.at(checked.place, table.columns.get("id"), again, "a unique id")]


def _check_mapped_columns_exist(tables: Sequence[_Table], mapping: Mapping[str, str]) -> None:
    """Raise InputError for a mapped column that no row has."""
    if not any(table.readable for table in tables):
        return
    for field, column in mapping.items():
        if any(source_has(field, column, table.survey.has) for table in tables):
            continue
        names: dict[str, None] = {}
        for table in tables:
            names.update(dict.fromkeys(map(str, table.survey.columns)))
        files = ", ".join(table.name for table in tables)
        what = f"the mapping {field}={column}"
        if field == AGAINST:
            what = option("against", column)
        raise InputError(
            f"{what} names a column that no row of {files} has",
            hint=suggestion(column, list(names), "the columns", show=shown),
        )
