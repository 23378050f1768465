"""Pair the answers of two columns: the same rows, with the same ids, in two data sets.

    row   answer_a   answer_b
    q1    In 1889.   In 1898.    a pair
    q2    In Paris.  In Paris.   a pair with equal answers
    q3    In Paris.  (empty)     left out of both

The id of a row without one is made from its texts without the answers.
"""

import heapq
import json
from collections.abc import Iterator
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
    befores = SampleTable()
    afters = SampleTable()
    names = (row.id for row in questions.rows())
    for before, after in _rows_of_both(baseline, run):
        if _answer_of(before) and _answer_of(after):
            identifier = {"id": next(names)}
            befores.add({**json.loads(before.content), **identifier}, json.loads(before.extras))
            afters.add({**json.loads(after.content), **identifier}, json.loads(after.extras))
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
