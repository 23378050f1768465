"""Each metric by the values of a column of the data: `localjudge show RUN --by department`.

    cardiology   41 samples   context_recall 0.712 [0.601, 0.805]
    oncology     12 samples   context_recall 0.430 [0.218, 0.661]

Every slice is summarised as a run is, over its own samples: mean, 95 % interval (over groups, if the run has some),
counts. An interval holds for one slice that was named before; of twenty, one is expected to miss.
"""

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from localjudge.dataset.dotted_names import MISSING, lookup
from localjudge.errors import RunDirectoryError, UsageError
from localjudge.record.result_rows import evaluations_of
from localjudge.record.results import Run
from localjudge.record.summary import MetricSummary, Totals
from localjudge.record.untrusted import BY_HAND, shown
from localjudge.types import Record

MOST_SLICES = 1_000
_COLUMNS_SHOWN = 20


class Slice(Record):
    """The samples that have one value in the column; None: those that have none."""

    value: str | None
    samples: int
    metrics: dict[str, MetricSummary]


class Slices(Record):
    """A run by the values of a column, those with the most samples first."""

    schema_version: int = 1
    run: str
    column: str
    slices: tuple[Slice, ...]


def slices(run: Run, column: str) -> Slices:
    """The metrics of a run by the values of a column that is no field of ours; dots reach into objects.

    What grows with the data is an entry for each sample: its id and its value. Raises UsageError for a column that the
    run does not hold, whose values are not texts or numbers, or are too many.
    """
    value_of = column_values(run, column)
    totals: dict[str | None, Totals] = {}
    groups = run.cluster_of if run.manifest.data["clusters_sha256"] is not None else None
    rows = groupby(evaluations_of(run.iter_scores(), ()), key=lambda evaluation: evaluation.sample_id)
    for sample_id, evaluations in rows:
        if sample_id not in value_of:
            raise RunDirectoryError(
                f"{run.directory} has a score of {shown(sample_id)} and no such sample", hint=BY_HAND
            )
        value = value_of[sample_id]
        if value not in totals:
            totals[value] = Totals(run.summary.metrics, run.summary, groups)
        totals[value].add(evaluations)
    found = [Slice(value=value, samples=one.samples, metrics=one.metrics) for value, one in totals.items()]
    found.sort(key=lambda one: (-one.samples, one.value is None, one.value or ""))
    return Slices(run=str(run.directory), column=column, slices=tuple(found))


def column_values(run: Run, column: str) -> dict[str, str | None]:
    """For each sample id the value of the column as text, None where there is none.

    Raises UsageError for a column that the run does not hold, whose values are not single, or are too many.
    """
    return dict(iter_column(run, column))


def iter_column(run: Run, column: str) -> Iterator[tuple[str, str | None]]:
    """The same in the order of the data; a column that the run does not hold is only known at the end."""
    names: dict[str | None, str | None] = {}
    there = False
    for sample_id, extras in run.iter_extras():
        found = lookup(extras, column, MISSING)
        there = there or found is not MISSING
        value = _text(None if found is MISSING else found, column, sample_id)
        yield sample_id, names.setdefault(value, value)
        if len(names) > MOST_SLICES:
            raise UsageError(
                f"the column {shown(column)} has more than {MOST_SLICES:,} different values",
                hint="name one with fewer, such as a topic or a source",
            )
    if not there:
        raise UsageError(f"the run holds no column {shown(column)}", hint=_columns_in_words(run))


def _columns_in_words(run: Run) -> str:
    known = ", ".join(map(shown, _some_columns(run)))
    return f"its columns are {known}" if known else "it holds none beside those that are judged"


def _text(value: Any, column: str, sample_id: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return json.dumps(value)
    raise UsageError(
        f"the column {shown(column)} of the sample {shown(sample_id)} is not a text or a number",
        hint=f"a value inside an object is named with a dot: {shown(column)}.NAME",
    )


def _some_columns(run: Run) -> list[str]:
    """Names of the first columns."""
    return list(dict.fromkeys(_names(run)))[:_COLUMNS_SHOWN]


def _names(run: Run) -> Iterator[str]:
    seen: set[str] = set()
    for _, extras in run.iter_extras():
        new = [name for name in extras if name not in seen]
        seen.update(new)
        yield from new
        if len(seen) >= _COLUMNS_SHOWN:
            return
