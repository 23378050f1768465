"""The samples of a run, and how they were read; the answers of two columns as two data sets.

Draws and shards depend only on the ids, so adding, removing or moving rows changes them by at most
those rows.

The answers of two columns are paired by their rows, which have the same ids in both data sets:

    row   answer_a   answer_b
    q1    In 1889.   In 1898.    a pair
    q2    In Paris.  In Paris.   a pair with equal answers
    q3    In Paris.  (empty)     left out of both

The id of a row without one is made from its texts without the answers.
"""

import dataclasses
import hashlib
import heapq
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, repeat
from operator import attrgetter
from typing import Any, NamedTuple, Self

from localjudge.dataset.columns import ALIASES, ID_COLUMNS, ColumnOf
from localjudge.dataset.paths import MISSING, lookup
from localjudge.dataset.rows import UNKNOWN, describe, is_blank, shown
from localjudge.dataset.samples import Column, SampleRow, SampleTable
from localjudge.errors import DataError, InputError
from localjudge.types import FIELDS, Sample
from localjudge.words import option_name

AGAINST = "against"
"""Stands beside the fields of a mapping for the column of the baseline."""
_COLUMN_FIELDS = {"id", "user_input", "reference", "response"}
_SHARD = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
_SHOWN = 5
"""Places of rows that are left out of a pair, at most."""
Scalar = str | int | float | bool | None


class Shard(NamedTuple):
    """Shard `number` (from 1) of `of` shards."""

    number: int
    of: int

    @classmethod
    def read(cls, text: str) -> Self:
        match = _SHARD.fullmatch(text)
        if match:
            number, count = map(int, match.groups())
            if 1 <= number <= count:
                return cls(number, count)
        raise InputError(
            f"{option_name('shard')} must be I/N with I from 1 to N, got {text!r:.80}",
            hint="the second of four shards is 2/4",
        )

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def _digest(text: str) -> bytes:
    """Return the sha256 of a text with ids, which may contain lone surrogates."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples in the order of the data, and how they were read."""

    table: SampleTable
    sources: tuple[str, ...]
    mappings: tuple[ColumnOf, ...]
    unused: tuple[tuple[str, ...], ...]
    """Non-empty columns of each source that are not fields."""
    placeholders: Mapping[str, Counter[str]]
    """Counts of placeholders for missing values, by column."""
    joined: int = 0
    """Number of rows where one text may contain several retrieved contexts."""
    json_responses: int = 0
    """Number of responses that are an object or a list in JSON."""
    encodings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Files that are not Unicode, with the encoding in which they were read."""
    conversations: int = 0
    """Number of rows with a conversation as question; only its last turn was read."""
    short_rows: int = 0
    """Number of records of CSV that lack their last cells, which count as empty."""
    source_sha256: tuple[str, ...] = ()
    """The sha256 of each file, without data in memory."""
    skipped: int = 0
    skipped_places: tuple[str, ...] = ()
    """Places of the first skipped rows."""
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
        fields: set[str] = set()
        for mapping in self.mappings:
            for field in mapping:
                fields.add(ID_COLUMNS.get(field, field))
        return frozenset(fields.intersection(FIELDS))

    @property
    def mapping(self) -> ColumnOf:
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
                names = [f"{column} ({source})" for source, column in columns.items()]
                merged[field] = ", ".join(names)
        return merged

    def first(self, count: int) -> "Dataset":
        return self._where(lambda position, _: position < count)

    def draw(self, count: int, seed: int) -> "Dataset":
        """Return the `count` samples with the smallest sha256 of seed and id.

        They remain in the order of the data.
        """
        ranked = ((_digest(f"{seed}|{row.id}"), row.position) for row in self.table.rows())
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
            groups.setdefault(_digest(f"{seed}|{name}"), []).append(row.position)
        return [groups[digest] for digest in sorted(groups)]

    def in_shard(self, shard: Shard) -> "Dataset":
        """Return the samples whose hashes belong to this shard, at their positions."""

        def is_in_shard(_: int, sample_id: str) -> bool:
            number = int.from_bytes(_digest(f"shard|{sample_id}")) % shard.of + 1
            return number == shard.number

        return self._where(is_in_shard, in_place=True)

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
            names = {"id"} | (self.fields & _COLUMN_FIELDS)
            for extra in self.extras:
                names.update(map(shown, extra))
            hint = f"the columns are {', '.join(sorted(names))}"
            raise InputError(f"the data has no column {shown(name)}", hint=hint)
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


def from_samples(
    samples: Iterable[tuple[int, Sample, Mapping[str, Any]]],
    *,
    sources: Sequence[str],
    mapping: ColumnOf,
    skipped: int = 0,
) -> Dataset:
    table = SampleTable()
    for position, sample, extras in samples:
        table.add(sample.model_dump(), extras, position=position)
    count = len(sources)
    return Dataset(table, tuple(sources), (mapping,) * count, ((),) * count, {}, skipped=skipped)


class PairedAnswers(NamedTuple):
    """Two data sets with the rows that have both answers.

    `left_out` counts the rows without one of them, and `examples` names the first of these by id or
    place. `equal` counts the pairs with equal answers.
    """

    baseline: Dataset
    run: Dataset
    left_out: int
    examples: tuple[str, ...]
    equal: int


def pair_answers(baseline: Dataset, run: Dataset) -> PairedAnswers:
    """Pair the rows of one file that was read twice, whose positions number all its rows.

    Raises DataError if no row has both answers.
    """
    left_out: list[str] = []
    places = list(run.skipped_places)
    generated = run.table.places_without_id()
    equal = 0
    questions = SampleTable()
    for before, after in _rows_of_both(baseline, run):
        answer = _answer_of(after)
        if not (_answer_of(before) and answer):
            left_out.append(generated.get(after.position, after.id))
            if len(places) < _SHOWN:
                places.append(run.table.place_at(after.position))
            continue
        equal += _answer_of(before) == answer
        fields = json.loads(after.content)
        del fields["response"]
        if after.position in generated:
            del fields["id"]
        questions.add(fields, {})
    if not len(questions):
        source = ", ".join(run.sources)
        hint = "name two columns with the answers of two systems"
        raise DataError(f"no row of {source} has both answers", hint=hint)
    questions.complete_ids()
    befores, afters = _rename_pairs(baseline, run, questions)
    unused: list[tuple[str, ...]] = []
    for without_before, without_after in zip(baseline.unused, run.unused, strict=True):
        unused.append(tuple(name for name in without_after if name in without_before))
    skipped = run.skipped + len(run.table) - len(afters)
    changes: dict[str, Any] = {
        "skipped": skipped,
        "skipped_places": tuple(places[:_SHOWN]),
        "unused": tuple(unused),
    }
    return PairedAnswers(
        replace(baseline, table=befores, **changes),
        replace(run, table=afters, **changes),
        len(left_out),
        tuple(left_out[:_SHOWN]),
        equal,
    )


def _rename_pairs(
    baseline: Dataset, run: Dataset, questions: SampleTable
) -> tuple[SampleTable, SampleTable]:
    """Return the rows of each that have both answers, with the ids of their questions."""
    befores = SampleTable()
    afters = SampleTable()
    names = (row.id for row in questions.rows())
    for before, after in _rows_of_both(baseline, run):
        if _answer_of(before) and _answer_of(after):
            identifier = {"id": next(names)}
            befores.add({**json.loads(before.content), **identifier}, json.loads(before.extras))
            afters.add({**json.loads(after.content), **identifier}, json.loads(after.extras))
    return befores, afters


def _rows_of_both(baseline: Dataset, run: Dataset) -> Iterator[tuple[SampleRow, SampleRow]]:
    """Yield the rows that can be used in both data sets, as they are in each."""
    position = attrgetter("position")
    merged = heapq.merge(baseline.table.rows(), run.table.rows(), key=position)
    for _, group in groupby(merged, key=position):
        rows = list(group)
        if len(rows) > 1:
            before, after = rows
            yield before, after


def _answer_of(row: SampleRow) -> str:
    return str(json.loads(row.content).get("response") or "").strip()
