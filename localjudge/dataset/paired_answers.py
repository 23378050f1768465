"""Pair the answers of two columns: the same rows, with the same ids, in two data sets.

    row   answer_a   answer_b
    q1    In 1889.   In 1898.    a pair
    q2    In Paris.  In Paris.   a pair with equal answers
    q3    In Paris.  (empty)     left out of both

The id of a row without one is made from its texts without the answers.
"""

import heapq
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from localjudge.dataset.dataset import Dataset
from localjudge.dataset.samples import SampleRow, SampleTable
from localjudge.errors import DataError

AGAINST = "against"
"""Stands beside the fields of a mapping for the column of the baseline."""
_SHOWN = 5
_Fields = dict[str, Any]


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


class _Row(NamedTuple):
    """A row of both data sets: its name and position, and its fields and columns in each."""

    name: str
    position: int
    before: tuple[_Fields, str]
    after: tuple[_Fields, str]

    @property
    def answers(self) -> list[str]:
        return [
            str(fields.get("response") or "").strip() for fields, _ in (self.before, self.after)
        ]


def pair_answers(baseline: Dataset, run: Dataset) -> PairedAnswers:
    """Pair the rows of one file that was read twice, whose positions number all its rows.

    Raises DataError if no row has both answers.
    """
    left_out: list[str] = []
    places = list(run.skipped_places)
    equal = 0
    questions = SampleTable()
    for row in _rows_of_both(baseline, run):
        if not all(row.answers):
            left_out.append(row.name)
            if len(places) < _SHOWN:
                places.append(run.table.place_at(row.position))
            continue
        equal += row.answers[0] == row.answers[1]
        fields, _ = row.after
        questions.add({key: value for key, value in fields.items() if key != "response"}, {})
    if not len(questions):
        source = ", ".join(run.sources)
        hint = "name two columns with the answers of two systems"
        raise DataError(f"no row of {source} has both answers", hint=hint)
    questions.complete_ids()
    before = SampleTable()
    after = SampleTable()
    names = (row.id for row in questions.rows())
    for row in _rows_of_both(baseline, run):
        if all(row.answers):
            identifier = {"id": next(names)}
            before.add({**row.before[0], **identifier}, json.loads(row.before[1]))
            after.add({**row.after[0], **identifier}, json.loads(row.after[1]))
    unused: list[tuple[str, ...]] = []
    for without_before, without_after in zip(baseline.unused, run.unused, strict=True):
        unused.append(tuple(name for name in without_after if name in without_before))
    skipped = run.skipped + len(run.table) - len(after)
    changes: dict[str, Any] = {
        "skipped": skipped,
        "skipped_places": tuple(places[:_SHOWN]),
        "unused": tuple(unused),
    }
    return PairedAnswers(
        replace(baseline, table=before, **changes),
        replace(run, table=after, **changes),
        len(left_out),
        tuple(left_out[:_SHOWN]),
        equal,
    )


def _rows_of_both(baseline: Dataset, run: Dataset) -> Iterator[_Row]:
    """Yield the rows that can be used in both data sets. Generated ids are left out."""
    places = run.table.places_without_id()
    position = attrgetter("position")
    merged = heapq.merge(baseline.table.rows(), run.table.rows(), key=position)
    for _, group in groupby(merged, key=position):
        rows = list(group)
        if len(rows) == 1:
            continue
        before, after = rows
        name = places.get(after.position, after.id)
        yield _Row(name, after.position, _read(before, places), _read(after, places))


def _read(row: SampleRow, places: Mapping[int, str]) -> tuple[_Fields, str]:
    fields = json.loads(row.content)
    if row.position in places:
        del fields["id"]
    return fields, row.extras
