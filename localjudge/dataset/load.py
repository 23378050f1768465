"""The samples that were read, and what has to be known about how they were read.

From files to samples: every row is read and checked before anything is judged.

    files ──read──> survey of the columns ──resolve──> which column is which field
          ──read again, check each row──> samples (spooled) or problems ──> Dataset, or one DataError

No row is dropped in silence: a row becomes a sample, or a problem that is named and counted. And none is kept in
memory: what is held of a million rows are some hashes. The exceptions are files that are one value, a JSON array or
object: such a file is in memory while it is read.

A part of the data: its first samples, some drawn by a seed, or a shard, which one of several processes judges.

    drawn   the N samples with the smallest sha256 of (seed, id), in the order of the data
    shard   those whose sha256 of the id, modulo N, is I - 1: I from 1 to N, each sample in one of them

So it depends on the ids alone: more rows, fewer or another order change the part by no more than these rows, and the
samples drawn for N are among those drawn for N + 1. Rows without ids have made ones, which hang on their content.

A part is data of its own, with a fingerprint of its own. What the columns give is what they give in the whole, so that
a part is scored by the metrics that the whole is.

The sound rows of all sources as samples: spooled one by one, with little kept of each in memory.

    row ──> JSON in the spool, its hash (32 bytes), its id's hash (16 bytes)

The ids that rows lack can be made when all rows are there: `row-` and 12 digits of the hash of what the row says, so
moving a row does not change its id. Rows with the same content are told apart by `-2`, `-3`, ... in their order; an id
that another row gives is left out.

What one reading of a source tells about its columns, before any row is checked; no row is kept.

Which column is which field depends on all rows: a column may first appear in the last one.
"""

import hashlib
import heapq
import marshal
import math
import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count, islice, repeat
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar, get_args, overload

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
from localjudge.dataset.identity import Hashes, Spool, Spooled, canonical, fingerprint, fingerprint_of, hash_of
from localjudge.dataset.problems import (
    DEEPEST,
    MISSING,
    SHOWN,
    Place,
    Problem,
    Problems,
    by_first_part,
    describe,
    first_part,
    has_value,
    lone_surrogate,
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
    check_separator,
    fields_of,
    plain,
    printed_value,
    raw_row,
    splitter,
    with_last_turn,
    without_nan,
)
from localjudge.dataset.sources import STDIN, Source, shown_name
from localjudge.errors import DataError, UsageError
from localjudge.progress import Progress, Silence, counted
from localjudge.types import CONTEXT_FIELDS, FieldName, Sample
from localjudge.words import option, option_name, suggestion

_SHOWN = 12


def id_hash(identifier: str) -> bytes:
    """What is kept of an id: 16 bytes."""
    return hashlib.sha256(identifier.encode()).digest()[:16]


class SoundRows:
    """Takes the rows in their order, each as arguments of `Sample` and its extras.

    `ids_alone`, `contexts_each` and `nothing` are as in `Dataset`.
    """

    def __init__(self) -> None:
        self.ids_alone = 0
        self.contexts_each: tuple[int, int] | None = None
        self.nothing: dict[str, Counter[str]] = {}
        self._records = Spool()
        self._extras = Spool()
        self._hashes = Hashes(32)
        self._given = Hashes(16)
        self._made = array("Q")
        """Of each row without an id the digits that its id is made of."""
        self._numbers = array("I")
        """Of each row which of the rows with the same content it is; 0 where it gave its id."""
        self._has_text: dict[FieldName, bool] = {}

    def __len__(self) -> int:
        return len(self._records)

    def add(
        self, values: Mapping[str, Any], extras: Mapping[str, Any], nothing: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Add one row; `nothing` are the columns and the words of its values that say nothing."""
        for column, word in nothing:
            self.nothing.setdefault(column, Counter())[word] += 1
        fields = _stated(values)
        if (contexts := fields.get("retrieved_contexts")) is not None:
            fewest, most = self.contexts_each or (len(contexts), len(contexts))
            self.contexts_each = min(fewest, len(contexts)), max(most, len(contexts))
        if "id" in fields:
            self._given.append(id_hash(fields["id"]))
        else:
            digits = hash_of(fields).hex()[:_SHOWN]
            self._made.append(int(digits, 16))
            fields["id"] = f"row-{digits}"
        self._numbers.append(0 if values["id"] is not None else 1)
        record = canonical(fields)
        self._records.append(record)
        self._hashes.append(hash_of(fields) if "" in fields.values() else hashlib.sha256(record).digest())
        self._extras.append(_packed(extras))
        self._note_texts(fields)

    def repeated_ids(self) -> frozenset[bytes]:
        """What `id_hash` gives for ids that several rows gave."""
        return self._given.repeated()

    def complete_ids(self) -> None:
        """Number the rows whose made ids are the same, when all rows are there."""
        import numpy as np

        if not self._made:
            return
        lacking = np.flatnonzero(np.asarray(self._numbers))
        is_given = self._finder_of_given()
        digits, numbers = -1, count(1)
        for place in np.argsort(self._made, kind="stable"):
            if self._made[place] != digits:
                digits = self._made[place]
                name = f"row-{digits:0{_SHOWN}x}"
                numbers = count(1)
            number = next(number for number in numbers if not is_given(_numbered(name, number)))
            if number > 1:
                position = int(lacking[place])
                self._numbers[position] = number
                self._hashes.replace(position, hash_of(self.samples[position].model_dump(exclude_defaults=True)))

    def _finder_of_given(self) -> Callable[[str], bool]:
        if not len(self._given):
            return lambda _: False
        has = self._given.finder()
        return lambda identifier: has(id_hash(identifier))

    @property
    def samples(self) -> Sequence[Sample]:
        """The rows as samples."""
        numbers = self._numbers

        def read(position: int, record: bytes) -> Sample:
            sample = Sample.model_validate_json(record)
            if numbers[position] > 1:
                return sample.model_copy(update={"id": _numbered(sample.id, numbers[position])})
            return sample

        return Spooled(self._records, read)

    @property
    def extras(self) -> Sequence[dict[str, Any]]:
        """Of each row the columns that are not ours."""
        return Spooled(self._extras, lambda _, record: marshal.loads(record))

    @property
    def fingerprint(self) -> str:
        """Sha256 of the samples, as `identity` says."""
        return fingerprint_of(self._hashes)

    @property
    def without_text(self) -> frozenset[FieldName]:
        """Fields of contexts of which there are ids and not one text."""
        return frozenset(field for field, has_text in self._has_text.items() if not has_text)

    def _note_texts(self, fields: Mapping[str, Any]) -> None:
        ids_alone = False
        for field in CONTEXT_FIELDS:
            for context in fields.get(field, ()):
                self._has_text[field] = self._has_text.get(field, False) or "text" in context
                ids_alone = ids_alone or "text" not in context
        self.ids_alone += ids_alone


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def _stated(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a sample without nulls and defaults, as `model_dump(exclude_defaults=True)` gives them."""
    stated = {name: value for name, value in values.items() if value is not None}
    for field in CONTEXT_FIELDS:
        if field in stated:
            stated[field] = [
                {name: value for name, value in context.items() if value is not None and value != {}}
                for context in stated[field]
            ]
    return stated


def _packed(extras: Mapping[str, Any]) -> bytes:
    """The extras as bytes. In place of a value that no file holds stands what it is, in words: see `kept_words`."""
    try:
        return marshal.dumps(dict(extras))
    except ValueError:
        return marshal.dumps(_packable(extras, DEEPEST))


def kept_words(value: Any) -> str:
    """The value of an extra column in a few words, also of one that could not be kept itself."""
    return value[0].decode() if isinstance(value, tuple) else describe(value)


def _packable(value: Any, levels: int) -> Any:
    packable: Any
    match value:
        case Mapping() if levels:
            packable = {name: _packable(item, levels - 1) for name, item in value.items()}
        case str():
            packable = str.__str__(value)
        case bool() | int() | float():
            packable = value if isinstance(value, bool) else (int if isinstance(value, int) else float)(value)
        case _:
            packable = value
    try:
        marshal.dumps(packable)
    except ValueError:
        return (describe(value).encode(),)
    return packable


_LOOSE = {name: field for field, names in LOOSE_NAMES.items() for name in names}


class Survey:
    """The columns of a source: `columns` all of them, `filled` those that hold something, each as they appear.

    `rows` counts all rows, `readable` those that could be read, `conversations` those of which
    the last turn is read. `mapping` is what the user said (ours -> theirs).
    """

    def __init__(self, rows: Iterable[RawRow | Problem], mapping: Mapping[str, str]) -> None:
        self.rows = 0
        self.readable = 0
        self.conversations = 0
        self.columns: dict[str, None] = {}
        self.filled: dict[str, None] = {}
        self._found: set[str] = set()
        known = {name for table in (ALIASES, LOOSE_NAMES) for names in table.values() for name in names}
        self._dotted = by_first_part(name for name in known | columns_of(mapping) if reaches_inside(name))
        self._loose = set(_LOOSE)
        self._loose_inside = by_first_part(name for name in _LOOSE if "." in name)
        self._reads: set[str] = set()
        for row in rows:
            self.rows += 1
            if isinstance(row, RawRow):
                self.readable += 1
                self.conversations += row.conversation
                self._add(row.values)

    def has(self, name: str) -> bool:
        """Whether any row has the column, or a value under a dotted name that is known or mapped."""
        return name in self.columns or name in self._found

    def reads_like(self, name: str) -> bool:
        """Whether any value of the column reads like its field, for the names that may also mean something else."""
        return name in self._reads

    def _add(self, values: Mapping[str, Any]) -> None:
        for name in values:
            if name not in self.filled:
                self.columns[name] = None
                if values[name] is not None and values[name] != "":
                    self.filled[name] = None
        for name in _reached(self._dotted, values):
            if has_value(values, name):
                self._found.add(name)
                self._dotted[first_part(name)].remove(name)
        for name in {*(self._loose & values.keys()), *_reached(self._loose_inside, values)}:
            if name in self._loose and reads_like(_LOOSE[name], [values], name):
                self._reads.add(name)
                self._loose.remove(name)


def _reached(names: Mapping[str, set[str]], values: Mapping[str, Any]) -> list[str]:
    """The names whose first part is an object or a list of the row."""
    firsts = [first for first in names.keys() & values.keys() if not isinstance(values[first], str)]
    return [name for first in firsts for name in names[first]]


_FIELDS = frozenset(get_args(FieldName))
_COLUMN_FIELDS = {"id", "user_input", "reference", "response"}

Scalar = str | int | float | bool | None


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples in the order of the data; `extras` are the columns that are not ours, one dictionary for each sample.

    Neither is in memory: both are read anew from a temporary file with each pass, and a slice gives a tuple.
    """

    samples: Sequence[Sample]
    sources: tuple[str, ...]
    mappings: tuple[Resolved, ...]
    """For each source: our field -> their column."""
    unused: tuple[tuple[str, ...], ...]
    """For each source: the columns that hold something and are no field of ours."""
    extras: Sequence[dict[str, Any]]
    fingerprint: str
    """Sha256 of the samples, whatever the order of the rows and the format of the files."""
    without_text: frozenset[FieldName]
    """Fields of contexts of which the data has ids and not one text."""
    ids_alone: int
    """Samples with a context of which only the id is known."""
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
            given = {
                name: found[field] for name, found in zip(self.sources, self.mappings, strict=True) if field in found
            }
            if len(set(given.values())) == 1:
                merged[field] = next(iter(given.values()))
            elif given:
                merged[field] = ", ".join(f"{column} ({name})" for name, column in given.items())
        return merged

    @cached_property
    def guesses(self) -> dict[str, list[str]]:
        """For our fields of which the data has no column, or no texts: those of its columns that may be them."""
        taken = {column for mapping in self.mappings for column in columns_of(mapping)}
        found = guessed_columns([*islice(self.extras, LOOKED_AT)], taken)
        return {field: columns for field, columns in found.items() if field not in self.fields - self.without_text}

    def column(self, name: str) -> tuple[Scalar, ...]:
        """One value for each sample: a column of theirs (dots reach into objects), or our id or one of our text fields.

        None where a row has no value. Raises UsageError for a name that no row has, and for values that are not single.
        Equal values are one object, so of a million rows there are as many as differ.
        """
        ours = {column: field for mapping in self.mappings for field, column in mapping.items()}
        field = name if name in _COLUMN_FIELDS else ours.get(name)
        samples = self.samples if field in _COLUMN_FIELDS else repeat(None, len(self.samples))
        distinct: dict[tuple[type, Scalar], Scalar] = {}
        there = field in _COLUMN_FIELDS
        values = []
        for position, (extra, sample) in enumerate(zip(self.extras, samples, strict=True)):
            found = lookup(extra, name, MISSING)
            there = there or found is not MISSING
            if found is MISSING:
                found = None if sample is None else getattr(sample, str(field))
            value = self._single(found, name, position)
            values.append(distinct.setdefault((type(value), value), value))
        if not there:
            known = sorted({shown(column) for extra in self.extras for column in extra} | {"id"} | self.fields)
            raise UsageError(f"the data has no column {shown(name)}", hint=f"the columns are {', '.join(known)}")
        return tuple(values)

    def _single(self, value: Any, column: str, position: int) -> Scalar:
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        if isinstance(value, int | float) or (isinstance(value, str) and lone_surrogate(value) is None):
            return value
        found = f"{kept_words(value)} in the sample {self.samples[position].id}"
        raise UsageError(
            f"the column {shown(column)} holds {found}, not a text or a number",
            hint=f"a value inside an object is named with a dot: {shown(column)}.NAME",
        )


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


_T = TypeVar("_T")
_SHARD = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


class Shard(NamedTuple):
    """Shard `number`, from 1, of so many."""

    number: int
    of: int

    @classmethod
    def read(cls, text: str) -> Self:
        """The shard that `2/4` names. Raises UsageError for a text that names none."""
        found = _SHARD.fullmatch(text)
        number, count = map(int, found.groups()) if found else (0, 0)
        if not 1 <= number <= count:
            raise UsageError(
                f"{option_name('shard')} must be I/N with I from 1 to N, got {text!r:.80}",
                hint="the second of four shards is 2/4",
            )
        return cls(number, count)

    def __str__(self) -> str:
        """As it is given: `2/4`."""
        return f"{self.number}/{self.of}"

    def has(self, sample_id: str) -> bool:
        """Whether the sample is in it."""
        return shard_number(sample_id, self.of) == self.number


def shard_number(sample_id: str, count: int) -> int:
    """In which of so many shards the sample is, from 1. It hangs on the id alone."""
    digest = hashlib.sha256(f"shard|{sample_id}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest) % count + 1


def first(dataset: Dataset, count: int) -> Dataset:
    """The first samples; all if there are no more."""
    return picked(dataset, range(min(count, len(dataset.samples))))


def drawn(dataset: Dataset, count: int, seed: int) -> Dataset:
    """So many samples drawn by the seed; all if there are no more."""
    ranked = ((_rank(sample.id, seed), position) for position, sample in enumerate(dataset.samples))
    return picked(dataset, sorted(position for _, position in heapq.nsmallest(count, ranked)))


def positions_in(dataset: Dataset, shard: Shard) -> Sequence[int]:
    """Positions of the samples of a shard, ascending."""
    return array("q", (position for position, sample in enumerate(dataset.samples) if shard.has(sample.id)))


def _rank(sample_id: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}|{sample_id}".encode("utf-8", "surrogatepass")).digest()


def picked(dataset: Dataset, positions: Sequence[int]) -> Dataset:
    """The samples at these positions, ascending."""
    if len(positions) == len(dataset.samples):
        return dataset
    samples = _Picked(dataset.samples, positions)
    return replace(
        dataset,
        samples=samples,
        extras=_Picked(dataset.extras, positions),
        fingerprint=fingerprint(samples),
        ids_alone=sum(map(_has_bare_context, samples)),
    )


def _has_bare_context(sample: Sample) -> bool:
    contexts = (context for field in CONTEXT_FIELDS for context in getattr(sample, field) or ())
    return any(context.text is None for context in contexts)


class _Picked(Sequence[_T]):
    """Some of the values of a sequence, looked up there each time."""

    def __init__(self, whole: Sequence[_T], positions: Sequence[int]) -> None:
        self._whole = whole
        self._positions = positions

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[_T]:
        return (self._whole[position] for position in self._positions)

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[_T, ...]: ...
    def __getitem__(self, index: int | slice) -> _T | tuple[_T, ...]:
        if isinstance(index, slice):
            return tuple(self._whole[position] for position in self._positions[index])
        return self._whole[self._positions[index]]
