"""The samples that were read, and what has to be known about how they were read."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, repeat
from typing import Any, get_args

from localjudge.dataset.aliases import ALIASES, ID_COLUMNS, Resolved, columns_of
from localjudge.dataset.checks import lone_surrogate
from localjudge.dataset.dotted_names import MISSING, lookup
from localjudge.dataset.guesses import LOOKED_AT, guessed_columns
from localjudge.dataset.problems import shown
from localjudge.dataset.sound_rows import kept_words
from localjudge.errors import UsageError
from localjudge.types import FieldName, Sample

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
