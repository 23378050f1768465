"""What changed between two runs by the values of a column: `localjudge compare A B --by department`.

    department   samples   context_recall A      B   B - A
    cardiology        41              0.712  0.790  +0.078
    oncology          12              0.430  0.301  -0.129

A pair of samples belongs to the slice that its sample has in the new run, whatever the baseline says: a baseline made
before columns were kept will do. Every slice is compared as two whole runs are, over its own pairs, or over the groups
that both runs name. An interval holds for one slice that was named before; of twenty, one is expected to miss.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localjudge.analysis.pairing import Pairing, Places
from localjudge.analysis.sample_columns import SampleColumns
from localjudge.analysis.score_changes import ScoreChanges, score_changes
from localjudge.analysis.slices import iter_column
from localjudge.record.results import Run
from localjudge.stats import PairedTally
from localjudge.types import Record


class SliceChange(Record):
    """One metric on the samples of a slice that have a score in both runs; `scores` is None if none has."""

    compared: int
    scores: ScoreChanges | None


class ComparedSlice(Record):
    """The samples of the new run that have one value in the column (None: those that have none), and those in pairs."""

    value: str | None
    samples: int
    paired: int
    metrics: dict[str, SliceChange]


class SlicedChanges(Record):
    """Two runs by the values of a column in the new one, those with the most samples first."""

    column: str
    slices: tuple[ComparedSlice, ...]


class ColumnValues(NamedTuple):
    """The values of a column, and of each sample, in the order of the data, the number of its own: (n,)."""

    values: list[str | None]
    numbers: npt.NDArray[np.int64]


class BothRuns(NamedTuple):
    """Baseline and new run in columns, and the pairs of their samples."""

    before: SampleColumns
    after: SampleColumns
    pairing: Pairing

    @property
    def clusters(self) -> Places | None:
        """The group of each sample of the new run, if both runs have groups."""
        return None if self.before.groups is None else self.after.groups


def sliced_changes(both: BothRuns, metrics: list[str], run: Run, column: str) -> SlicedChanges:
    """These metrics of both runs by the values of a column of the new one. Raises UsageError as `slices` does."""
    found = values_by_position(run, column)
    samples = np.bincount(found.numbers, minlength=len(found.values)).tolist()
    of_pair = found.numbers[both.pairing.after]
    order = np.argsort(of_pair, kind="stable")
    ends = np.searchsorted(of_pair[order], np.arange(len(found.values)), side="right")
    parts = np.split(order, ends[:-1])
    compared = [
        ComparedSlice(
            value=value,
            samples=count,
            paired=len(pairs),
            metrics={name: _change(both, name, pairs) for name in metrics},
        )
        for value, count, pairs in zip(found.values, samples, parts, strict=True)
    ]
    compared.sort(key=lambda one: (-one.samples, one.value is None, one.value or ""))
    return SlicedChanges(column=column, slices=tuple(compared))


def values_by_position(run: Run, column: str) -> ColumnValues:
    """The values of a column. Raises UsageError for one that the run does not hold, or whose values are no slices."""
    known: dict[str | None, int] = {}
    numbers = [known.setdefault(value, len(known)) for _, value in iter_column(run, column)]
    return ColumnValues([*known], np.asarray(numbers, dtype=np.int64))


def _change(both: BothRuns, metric: str, pairs: Places) -> SliceChange:
    """One metric on some of the pairs, by their places among them."""
    before, after = both.pairing.before[pairs], both.pairing.after[pairs]
    (old, in_old), (new, in_new) = both.before.scores[metric], both.after.scores[metric]
    scored = in_old[before] & in_new[after]
    before, after = before[scored], after[scored]
    if not len(after):
        return SliceChange(compared=0, scores=None)
    tally = PairedTally()
    tally.add(old[before], new[after], None if both.clusters is None else both.clusters[after])
    return SliceChange(compared=len(after), scores=score_changes(tally))
