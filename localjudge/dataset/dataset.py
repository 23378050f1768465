"""The samples that were read, and what has to be known about how they were read."""

from functools import cached_property
from typing import Any, get_args

from localjudge.dataset.aliases import ALIASES, Resolved, lookup
from localjudge.dataset.identity import fingerprint
from localjudge.dataset.problems import Problem
from localjudge.errors import UsageError
from localjudge.types import Field_, Record, Sample

_FIELDS = frozenset(get_args(Field_))


class Dataset(Record):
    """Samples in the order of the data; `extras` are the columns that are not ours, one dictionary for each sample."""

    samples: tuple[Sample, ...]
    sources: tuple[str, ...]
    mappings: tuple[Resolved, ...]
    """For each source: our field -> their column."""
    extras: tuple[dict[str, Any], ...]
    skipped: int = 0
    """Rows left out because of problems: 0 unless that was asked for."""
    problem_count: int = 0
    problems: tuple[Problem, ...] = ()
    """The first problems of the rows left out; `problem_count` counts all."""

    @property
    def fields(self) -> frozenset[str]:
        """Our fields for which the data has a column, whether or not every row gives a value."""
        return frozenset(field for mapping in self.mappings for field in mapping) & _FIELDS

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
    def fingerprint(self) -> str:
        """Sha256 of the samples, whatever the order of the rows and the format of the files."""
        return fingerprint(self.samples)

    def column(self, name: str) -> tuple[Any, ...]:
        """Value of a column for each sample: a column of theirs (dots reach into objects), or a field of ours.

        None where a row has no value. Raises UsageError for a name that no row has.
        """
        if name in Sample.model_fields:
            return tuple(getattr(sample, name) for sample in self.samples)
        ours = {column: field for mapping in self.mappings for field, column in mapping.items()}
        if ours.get(name) in Sample.model_fields:
            return self.column(ours[name])
        values = tuple(lookup(extra, name) for extra in self.extras)
        if all(value is None for value in values):
            known = sorted({column for extra in self.extras for column in extra} | {"id"} | self.fields)
            raise UsageError(f"the data has no column {name!r}", hint=f"the columns are {', '.join(known)}")
        return values
