"""From files to samples: every row is read and checked before anything is judged.

    files ──read──> survey of the columns ──resolve──> which column is which field
          ──read again, check each row──> samples in a table, or problems ──> Dataset, or one DataError

No row is dropped in silence: a row becomes a sample, or a problem that is named and counted. Which column is which
field depends on all rows, since a column may first appear in the last one. Memory does not grow with the rows, except
for files that are one value, a JSON array or object: such a file is in memory while it is read.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice, repeat
from pathlib import Path
from typing import Any, NamedTuple, get_args

from localjudge.dataset.columns import (
    ALIASES,
    ID_COLUMNS,
    LOOKED_AT,
    LOOSE_NAMES,
    Resolved,
    check_mapping,
    columns_of,
    guessed_columns,
    is_there,
    map_option,
    reads_like,
    resolve,
)
from localjudge.dataset.formats import expand, read, rows_hint, rows_of_columns, rows_of_iterable, rows_of_table
from localjudge.dataset.problems import (
    MISSING,
    SHOWN,
    UNKNOWN,
    Place,
    Problem,
    Problems,
    by_first_part,
    describe,
    first_part,
    has_value,
    lookup,
    names_inside,
    reaches_inside,
    shown,
    without_places,
)
from localjudge.dataset.rows import (
    CheckedRow,
    RawRow,
    Split,
    check_row,
    fields_of,
    plain,
    printed_value,
    raw_row,
    splitter,
    with_last_turn,
    without_nan,
)
from localjudge.dataset.samples import SampleTable
from localjudge.dataset.sources import STDIN, Source, shown_name
from localjudge.errors import DataError, InputError
from localjudge.progress import Progress, Silence, counted
from localjudge.types import CONTEXT_FIELDS, FieldName, Sample
from localjudge.words import option, option_name, suggestion

_LOOSE = {name: field for field, names in LOOSE_NAMES.items() for name in names}
_NAMES = {name for table in (ALIASES, LOOSE_NAMES) for names in table.values() for name in names}
_FIELDS = frozenset(get_args(FieldName))
_COLUMN_FIELDS = {"id", "user_input", "reference", "response"}

Scalar = str | int | float | bool | None
Rows = Callable[[], Iterator[RawRow | Problem]]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples in the order of the data, and how they were read."""

    table: SampleTable
    sources: tuple[str, ...]
    mappings: tuple[Resolved, ...]
    """For each source: our field -> their column."""
    unused: tuple[tuple[str, ...], ...]
    """For each source: the columns that hold something and are not fields."""
    without_text: frozenset[FieldName]
    """Fields of contexts of which the data has ids and not one text."""
    contexts_each: tuple[int, int] | None
    """The fewest and the most retrieved contexts of a sample that has a list of them; None where none has."""
    nothing: Mapping[str, Counter[str]]
    """For each column (`name[]`: elements of its lists) the words that stand for nothing, taken as missing, counted."""
    conversations: int = 0
    """Rows with a conversation in place of a question, of which the last turn was read."""
    skipped: int = 0
    """Rows left out because of problems: 0 unless that was asked for."""
    problem_count: int = 0
    problems: tuple[str, ...] = ()
    """What is wrong with the rows left out, one line a cause, the first; `problem_count` counts all problems."""

    @property
    def samples(self) -> Sequence[Sample]:
        """The samples, read anew with each pass; a slice gives a tuple."""
        return self.table.samples

    @property
    def extras(self) -> Sequence[dict[str, Any]]:
        """Of each sample the columns that are not fields."""
        return self.table.extras

    @cached_property
    def fingerprint(self) -> str:
        """Sha256 of the samples, whatever the order of the rows and the format of the files."""
        return self.table.fingerprint

    @cached_property
    def ids_alone(self) -> int:
        """Samples with a context of which only the id is known."""
        return self.table.bare

    @property
    def fields(self) -> frozenset[str]:
        """Our fields for which the data has a column, whether or not every row gives a value.

        A column of nothing but ids gives its contexts, too: see `without_text`.
        """
        named = {field for mapping in self.mappings for field in mapping}
        return frozenset(ID_COLUMNS.get(field, field) for field in named) & _FIELDS

    @property
    def mapping(self) -> Resolved:
        """Our field -> their column, and in which source, where the sources differ."""
        merged = {}
        for field in ALIASES:
            pairs = zip(self.sources, self.mappings, strict=True)
            columns = {name: mapping[field] for name, mapping in pairs if field in mapping}
            if len(set(columns.values())) == 1:
                merged[field] = next(iter(columns.values()))
            elif columns:
                merged[field] = ", ".join(f"{column} ({name})" for name, column in columns.items())
        return merged

    @cached_property
    def guesses(self) -> dict[str, list[str]]:
        """For our fields of which the data has no column, or no texts: those of its columns that may be them."""
        taken = {column for mapping in self.mappings for column in columns_of(mapping)}
        guessed = guessed_columns([*islice(self.extras, LOOKED_AT)], taken)
        return {field: columns for field, columns in guessed.items() if field not in self.fields - self.without_text}

    def where(self, is_chosen: Callable[[int, str], bool], *, in_place: bool = False) -> "Dataset":
        """The samples that are chosen by position and id, numbered anew unless they stay `in_place`.

        What the columns give is what they give in the whole.
        """
        table = self.table.where(is_chosen, in_place=in_place)
        return self if len(table) == len(self.table) else replace(self, table=table)

    def column(self, name: str) -> tuple[Scalar, ...]:
        """One value for each sample: a column of theirs (dots reach into objects), or our id or one of our text fields.

        None where a row has no value. Raises InputError for a name that no row has, and for values that are not single.
        Equal values are one object, so of a million rows there are as many as differ.
        """
        fields = {column: field for mapping in self.mappings for field, column in mapping.items()}
        field = name if name in _COLUMN_FIELDS else fields.get(name)
        is_field = field in _COLUMN_FIELDS
        samples = self.samples if is_field else repeat(None, len(self.samples))
        distinct: dict[tuple[type, Scalar], Scalar] = {}
        exists, values = is_field, []
        for position, (extra, sample) in enumerate(zip(self.extras, samples, strict=True)):
            cell = lookup(extra, name, MISSING)
            exists = exists or cell is not MISSING
            if cell is MISSING:
                cell = None if sample is None else getattr(sample, str(field))
            if (is_unknown := str(cell).startswith(UNKNOWN)) or not isinstance(cell, Scalar):
                held = f"{cell if is_unknown else describe(cell)} in the sample {self.samples[position].id}"
                raise InputError(
                    f"the column {shown(name)} holds {held}, not a text or a number",
                    hint=f"a value inside an object is named with a dot: {shown(name)}.NAME",
                )
            values.append(distinct.setdefault((type(cell), cell), cell))
        if not exists:
            known = sorted({shown(column) for extra in self.extras for column in extra} | {"id"} | self.fields)
            raise InputError(f"the data has no column {shown(name)}", hint=f"the columns are {', '.join(known)}")
        return tuple(values)


class _Survey:
    """What one reading tells about the columns of a source; no row is kept.

    `columns` are all of them, `filled` those that hold something, each as they appear. `rows` counts all rows,
    `readable` those that could be read, `conversations` those of which the last turn is read.
    """

    def __init__(self, rows: Iterable[RawRow | Problem], mapping: Mapping[str, str]) -> None:
        self.rows = self.readable = self.conversations = 0
        self.columns: dict[str, None] = {}
        self.filled: dict[str, None] = {}
        self._reached: set[str] = set()
        self._dotted = by_first_part(name for name in _NAMES | columns_of(mapping) if reaches_inside(name))
        self._loose = set(_LOOSE)
        self._loose_inside = by_first_part(name for name in _LOOSE if "." in name)
        for row in rows:
            self.rows += 1
            if isinstance(row, RawRow):
                self.readable += 1
                self.conversations += row.conversation
                self._add(row.values)

    def has(self, name: str) -> bool:
        """Whether any row has the column, or a value under a dotted name that is known or mapped."""
        return name in self.columns or name in self._reached

    def reads_like(self, name: str) -> bool:
        """Whether any value of the column reads like its field, for the names that may also mean something else."""
        return name not in self._loose

    def _add(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if name not in self.filled:
                self.columns[name] = None
                if value is not None and value != "":
                    self.filled[name] = None
        for name in _inside(self._dotted, values):
            if has_value(values, name):
                self._reached.add(name)
                self._dotted[first_part(name)].remove(name)
        for name in {*(self._loose & values.keys()), *_inside(self._loose_inside, values)}:
            if name in self._loose and reads_like(_LOOSE[name], [values], name):
                self._loose.remove(name)


def _inside(names: Mapping[str, set[str]], values: Mapping[str, Any]) -> list[str]:
    """The names whose first part is an object or a list of the row."""
    firsts = [first for first in names.keys() & values.keys() if not isinstance(values[first], str)]
    return [name for first in firsts for name in names[first]]


class _Source(NamedTuple):
    """A source: its rows as often as anybody likes, and what its columns are."""

    rows: Rows
    survey: _Survey
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
    """Read and check all rows of the files, in a format that `formats` knows, gzip or not; `-` is standard input.

    `mapping` says which column of theirs is a field of ours (ours -> theirs) where the names do not, or decides between
    two; `a.b` reaches into objects, `a[].b` into each of a list, and contexts may stand in several columns, `a,b`. With
    `skip_bad_rows` rows with problems are left out and counted; otherwise they are a DataError. With a
    `context_separator` each text that stands for a list of contexts is split. `rows_path` names the list of rows inside
    the objects of a file. The samples are kept in a temporary file, in the directory that TMPDIR names.

    Raises DataError for files that cannot be read or rows that are not what they should be, InputError for a mapping
    that names nothing, OutOfResource where there is no room for the temporary file.
    """
    names = [str(name) for name in ([sources] if isinstance(sources, str | Path) else sources)]
    _check_names(names)
    mapping = mapping or {}
    with ExitStack() as stack:
        opened = [stack.enter_context(closing(Source(name))) for name in names]
        tables = [(source.name, partial(read, source, mapping, rows_path)) for source in opened]
        return _build(tables, mapping, skip_bad_rows, context_separator, progress or Silence())


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
    """Check rows from Python, as `load` does: mappings or objects with anybody's names, or samples.

    They may be a data frame, a table or a data set of another package, as `formats` says. One mapping is columns, each
    a list, or an object that holds rows. A NaN in place of a value is null: pandas writes that. Raises InputError for
    what is not rows at all.
    """
    mapping = mapping or {}
    table = name, _python_rows(rows, mapping, rows_path, name)
    return _build([table], mapping, skip_bad_rows, context_separator, progress or Silence())


def from_samples(
    samples: Iterable[tuple[int, Sample, Mapping[str, Any]]],
    *,
    sources: Sequence[str],
    mapping: Resolved,
    skipped: int = 0,
) -> Dataset:
    """Samples that were checked before, each with its position and columns, in one pass."""
    facts = _Facts()
    for position, sample, extras in samples:
        facts.add(CheckedRow(Place(""), sample.model_dump(), dict(extras), ()), position)
    count = len(sources)
    return facts.dataset(sources=tuple(sources), mappings=(mapping,) * count, unused=((),) * count, skipped=skipped)


class _Facts:
    """The sound rows in a table, and what is to be known of all of them."""

    def __init__(self) -> None:
        self.table = SampleTable()
        self._contexts_each: tuple[int, int] | None = None
        self._nothing: dict[str, Counter[str]] = {}
        self._has_text: dict[FieldName, bool] = {}

    def add(self, row: CheckedRow, position: int | None = None) -> str | None:
        """Add a row, behind the last one if no position is given, or return the place of the one that has its id."""
        if first := self.table.add(row.values, row.extras, row.place, position):
            return first
        for column, word in row.nothing:
            self._nothing.setdefault(column, Counter())[word] += 1
        if (contexts := row.values.get("retrieved_contexts")) is not None:
            fewest, most = self._contexts_each or (len(contexts), len(contexts))
            self._contexts_each = min(fewest, len(contexts)), max(most, len(contexts))
        for field in CONTEXT_FIELDS:
            for context in row.values.get(field) or ():
                self._has_text[field] = self._has_text.get(field, False) or context.get("text") is not None
        return None

    def dataset(self, **facts: Any) -> Dataset:
        """The data set, of which `facts` say the rest."""
        return Dataset(
            table=self.table,
            without_text=frozenset(field for field, has_text in self._has_text.items() if not has_text),
            contexts_each=self._contexts_each,
            nothing=self._nothing,
            **facts,
        )


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise InputError("no data was named", hint="name a file, or - for standard input")
    files: set[str] = set()
    for name in names:
        if "\0" in name:
            raise InputError(f"{name!r} is no name of a file")
        file = name if name == STDIN else os.path.realpath(name)
        if file in files:
            raise InputError(f"{shown_name(name)} is named twice", hint="its rows would count twice")
        files.add(file)


def _python_rows(data: object, mapping: Mapping[str, str], rows_path: str | None, name: str) -> Rows:
    """Data in memory as rows, as often as anybody likes."""
    rows = rows_of_table(data, name)
    whole = None if rows or isinstance(data, Sample) else data if isinstance(data, Mapping) else fields_of(data)
    if whole is not None:
        row = RawRow(Place(name, row=1), plain(whole))
        if rows_path is None and _are_lists_of_cells(row.values):
            return lambda: rows_of_columns(row.values, name)
        return lambda: expand(row._replace(place=Place(name)) if rows_path else row, mapping, rows_path)
    elements = rows or rows_of_iterable(data, name)

    def read() -> Iterator[RawRow | Problem]:
        for number, element in enumerate(elements(), 1):
            place = Place(name, row=number)
            if isinstance(element, Sample):
                raw: RawRow | Problem = RawRow(place, element.model_dump(exclude_none=True), literal=True)
            else:
                raw = raw_row(without_nan(plain(element)), place)
            yield from expand(raw, mapping, rows_path) if rows_path and isinstance(raw, RawRow) else [raw]

    return read


def _are_lists_of_cells(values: Mapping[str, Any]) -> bool:
    """Whether everything is a list, and none a list of objects: these may be rows or messages."""
    lists = [value for value in values.values() if isinstance(value, list)]
    return 0 < len(lists) == len(values) and not any(isinstance(cell, Mapping) for cells in lists for cell in cells)


def _build(
    tables: Sequence[tuple[str, Rows]],
    mapping: Mapping[str, str],
    skip_bad_rows: bool,
    context_separator: str | None,
    progress: Progress,
) -> Dataset:
    check_mapping(mapping)
    if context_separator == "":
        raise InputError("the context separator is empty", hint="give the text that stands between two contexts: '|'")
    opened = [(name, partial(_opened, rows, mapping)) for name, rows in tables]
    surveys = [_Survey(counted(rows(), progress, f"reading {name}"), mapping) for name, rows in opened]
    if any(survey.readable for survey in surveys):
        _check_mapped_columns_exist(opened, surveys, mapping)
    sources = [
        _Source(rows, survey, _columns(name, rows, survey, mapping), splitter(context_separator, survey.has))
        for (name, rows), survey in zip(opened, surveys, strict=True)
    ]
    facts, problems = _checked(sources, progress)
    total = sum(survey.rows for survey in surveys)
    if problems.count and not (skip_bad_rows and len(facts.table)):
        or_skip = "" if skip_bad_rows else f", or leave them out: {option('skip_bad_rows', True)}"
        raise problems.error(
            f"{problems.bad_rows} of {total} rows cannot be used, nothing was judged (problems: {problems.count})",
            hint=f"correct the rows{or_skip}",
        )
    facts.table.complete_ids()
    return facts.dataset(
        sources=tuple(name for name, _ in tables),
        mappings=tuple(source.mapping for source in sources),
        unused=tuple(map(_unused, sources)),
        conversations=sum(survey.conversations for survey in surveys),
        skipped=problems.bad_rows,
        problem_count=problems.count,
        problems=tuple(problems.lines),
    )


def _checked(sources: Sequence[_Source], progress: Progress) -> tuple[_Facts, Problems]:
    """All rows, each sound or with its problems."""
    facts, problems = _Facts(), Problems()
    rows = ((source, row) for source in sources for row in source.rows())
    for source, row in counted(rows, progress, "checking", sum(source.survey.rows for source in sources)):
        outcome = [row] if isinstance(row, Problem) else check_row(row, source.mapping, source.split)
        if isinstance(outcome, CheckedRow) and (first := facts.add(outcome)):
            again = f"the id {outcome.values['id']!r} again (first at {first})"
            outcome = [Problem.at(outcome.place, source.mapping["id"], again, "an id of its own")]
        if not isinstance(outcome, CheckedRow):
            problems.add_row(outcome)
    return facts, problems


def _opened(rows: Rows, mapping: Mapping[str, str]) -> Iterator[RawRow | Problem]:
    """The rows; of a conversation in place of a question the last turn.

    A text that the mapping reaches into is what it is as JSON, or as Python prints it.
    """
    reached_into = {first_part(name) for name in columns_of(mapping) if reaches_inside(name)}
    for row in rows():
        if isinstance(row, Problem):
            yield row
            continue
        texts = {name: row.values[name] for name in reached_into if isinstance(row.values.get(name), str)}
        inside = {name: printed_value(text.strip()) for name, text in texts.items()}
        values = {**row.values, **inside} if any(inside.values()) else row.values
        turn = with_last_turn(values, mapping.get("user_input"))
        yield row._replace(values=values if turn is None else turn, conversation=turn is not None)


def _columns(name: str, rows: Rows, survey: _Survey, mapping: Mapping[str, str]) -> Resolved:
    if not survey.rows:
        raise DataError(f"{name} has no rows", hint="leave it out, or look whether it was written to the end")
    resolved = resolve(survey.has, survey.reads_like, mapping, name)
    if survey.readable and not resolved.keys() - {"id"}:
        first = [row.values for row in islice(rows(), LOOKED_AT) if isinstance(row, RawRow)]
        described = {column: _described(column, value) for row in first for column, value in row.items()}
        columns = [described.get(column, shown(str(column))) for column in islice(survey.columns, SHOWN)]
        hint = rows_hint(first[0]) if survey.rows == 1 else None
        if guessed := guessed_columns(first, set()):
            hint = f"if that is what they hold: {map_option(guessed)}"
        such_as = option("mapping", {"user_input": "COLUMN"})
        raise DataError(
            f"{name}: none of its columns is known (found: {', '.join(columns) or 'none'})",
            hint=hint or f"name them, such as {such_as}; our fields are {', '.join(ALIASES)}",
        )
    return resolved


def _described(column: str, value: Any) -> str:
    """The column's name and, where it holds a list of objects, which might be the rows, the names in these."""
    inside = value[0] if isinstance(value, list) and value else None
    names = ", ".join(shown(str(name)) for name in [*inside][:SHOWN]) if isinstance(inside, Mapping) else ""
    return f"{shown(str(column))} (objects with {names})" if names else shown(str(column))


def _unused(source: _Source) -> tuple[str, ...]:
    """Columns that are not a field, nor an object with one in it, and that hold something in any row."""
    taken = columns_of(source.mapping)
    return tuple(name for name in source.survey.filled if name not in taken | set(map(first_part, taken)))


def _check_mapped_columns_exist(
    tables: Sequence[tuple[str, Rows]], surveys: Sequence[_Survey], mapping: Mapping[str, str]
) -> None:
    """Raise InputError for a mapping that reaches nothing in any source: it may lack what the names inside hold."""
    for field, column in mapping.items():
        if any(is_there(field, column, survey.has) for survey in surveys):
            continue
        first = (row.values for _, rows in tables for row in islice(rows(), SHOWN) if isinstance(row, RawRow))
        names = list(dict.fromkeys(name for row in first for name, _ in names_inside(row)))
        meant = [name for name in names if without_places(name) == without_places(column)]
        hint = f"did you mean {shown(meant[0])}?" if meant else suggestion(column, names, "the columns", show=shown)
        below = [name.removesuffix(f"[].{column}") for name in names if name.endswith(f"[].{column}")]
        if below and reaches_inside(below[0]):
            hint = f"if the rows are there: {option('rows', below[0])}"
        raise InputError(
            f"the mapping {field}={column} names a column that no row of {', '.join(name for name, _ in tables)} has",
            hint=f"give each field a {option_name('mapping')} of its own" if "=" in column else hint,
        )
