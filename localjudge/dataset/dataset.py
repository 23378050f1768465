"""The samples that were read, and what has to be known about how they were read."""

import math
from functools import cached_property
from typing import Any, get_args

from localjudge.dataset.aliases import ALIASES, ID_COLUMNS, Resolved, column_finder, columns_of, lookup
from localjudge.dataset.checks import lone_surrogate
from localjudge.dataset.guesses import guessed_columns
from localjudge.dataset.identity import fingerprint
from localjudge.dataset.problems import Problem, describe, shown
from localjudge.errors import UsageError
from localjudge.types import CONTEXT_FIELDS, Field_, Record, Sample

_FIELDS = frozenset(get_args(Field_))
_COLUMN_FIELDS = {"id", "user_input", "reference", "response"}

Scalar = str | int | float | bool | None


class Dataset(Record):
    """Samples in the order of the data; `extras` are the columns that are not ours, one dictionary for each sample."""

    samples: tuple[Sample, ...]
    sources: tuple[str, ...]
    mappings: tuple[Resolved, ...]
    """For each source: our field -> their column."""
    unused: tuple[tuple[str, ...], ...]
    """For each source: the columns that hold something and are no field of ours."""
    extras: tuple[dict[str, Any], ...]
    skipped: int = 0
    """Rows left out because of problems: 0 unless that was asked for."""
    problem_count: int = 0
    problems: tuple[Problem, ...] = ()
    """The first problems of the rows left out; `problem_count` counts all."""

    @property
    def fields(self) -> frozenset[str]:
        """Our fields for which the data has a column, whether or not every row gives a value.

        A column of nothing but ids gives its contexts, too: see `without_text`.
        """
        named = {field for mapping in self.mappings for field in mapping}
        return frozenset(ID_COLUMNS.get(field, field) for field in named) & _FIELDS

    @cached_property
    def without_text(self) -> frozenset[Field_]:
        """Fields of contexts of which the data has ids and not one text."""
        return frozenset(field for field in CONTEXT_FIELDS if self._has_ids_alone(field))

    def _has_ids_alone(self, field: Field_) -> bool:
        contexts = [context for sample in self.samples for context in getattr(sample, field) or ()]
        return bool(contexts) and all(context.text is None for context in contexts)

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
        found = guessed_columns(self.extras, taken)
        return {field: columns for field, columns in found.items() if field not in self.fields - self.without_text}

    @cached_property
    def fingerprint(self) -> str:
        """Sha256 of the samples, whatever the order of the rows and the format of the files."""
        return fingerprint(self.samples)

    def column(self, name: str) -> tuple[Scalar, ...]:
        """One value for each sample: a column of theirs (dots reach into objects), or our id or one of our text fields.

        None where a row has no value. Raises UsageError for a name that no row has, and for values that are not single.
        """
        ours = {column: field for mapping in self.mappings for field, column in mapping.items()}
        field = name if name in _COLUMN_FIELDS else ours.get(name)
        if field not in _COLUMN_FIELDS and not column_finder(self.extras)(name):
            known = sorted({shown(column) for extra in self.extras for column in extra} | {"id"} | self.fields)
            raise UsageError(f"the data has no column {shown(name)}", hint=f"the columns are {', '.join(known)}")
        return tuple(
            _single(lookup(extra, name, getattr(sample, field) if field in _COLUMN_FIELDS else None), name, sample.id)
            for extra, sample in zip(self.extras, self.samples, strict=True)
        )


def _single(value: Any, column: str, sample_id: str) -> Scalar:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, int | float) or (isinstance(value, str) and lone_surrogate(value) is None):
        return value
    raise UsageError(
        f"the column {shown(column)} holds {describe(value)} in the sample {sample_id}, not a text or a number",
        hint=f"a value inside an object is named with a dot: {shown(column)}.NAME",
    )
