"""What a comparison has to know of a run, in columns: a number for each sample, in the order of the data.

    position       0     1     2
    group          0     0     1         if the run has groups
    score        0.5     -   1.0         of each metric that is compared
    verdicts at    0     -   912         where those of the metric on the sample begin in their file

The samples are read once, and so are the rows of scores and of verdicts.
"""

from array import array
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from localjudge.analysis.pairing import HashedSamples
from localjudge.record.results import Run, unknown_sample

Groups = npt.NDArray[np.int64] | None
"""The number of each sample's group, None if each stands alone. Equal names have equal numbers, in both runs."""
_Number = TypeVar("_Number", np.float64, np.int64)


class SampleColumn(NamedTuple, Generic[_Number]):
    """A number of each sample that has one, by its position; `there` says which have."""

    numbers: npt.NDArray[_Number]
    there: npt.NDArray[np.bool_]

    def at(self, position: int) -> Any:
        """The number of one sample; None if it has none."""
        return self.numbers[position].item() if self.there[position] else None


class SampleColumns(NamedTuple):
    """A run in columns."""

    groups: Groups
    scores: dict[str, SampleColumn[np.float64]]
    places: dict[str, SampleColumn[np.int64]]


def sample_columns(run: Run, metrics: Sequence[str], numbers: dict[str, int]) -> tuple[HashedSamples, SampleColumns]:
    """The samples, and the columns of these metrics.

    `numbers` are those of the groups by their names; new names are added.

    Raises RunDirectoryError for a file that localjudge does not write, and for a score of no sample.
    """
    samples = HashedSamples()
    positions: dict[str, int] = {}
    groups = array("q")
    clusters = run.cluster_of
    for position, sample in enumerate(run.iter_samples()):
        samples.append(sample)
        positions[sample.id] = position
        if clusters is not None:
            groups.append(numbers.setdefault(clusters.get(sample.id, ""), len(numbers)))
    return samples, SampleColumns(
        groups=None if clusters is None else np.asarray(groups),
        scores=_scores(run, positions, metrics),
        places=_places(run, positions, metrics),
    )


def _scores(run: Run, positions: dict[str, int], metrics: Sequence[str]) -> dict[str, SampleColumn[np.float64]]:
    columns = {metric: _empty(len(positions), np.float64) for metric in metrics}
    for row in run.iter_scores():
        position = positions.get(row.sample_id)
        if position is None:
            raise unknown_sample(run, row.sample_id)
        if row.metric in columns and row.score is not None:
            column = columns[row.metric]
            column.numbers[position], column.there[position] = row.score, True
    return columns


def _places(run: Run, positions: dict[str, int], metrics: Sequence[str]) -> dict[str, SampleColumn[np.int64]]:
    columns = {metric: _empty(len(positions), np.int64) for metric in metrics}
    for row, place in run.verdict_places():
        position = positions.get(row.sample_id) if row.metric in columns else None
        if position is not None and not columns[row.metric].there[position]:
            column = columns[row.metric]
            column.numbers[position], column.there[position] = place, True
    return columns


def _empty(samples: int, kind: type[_Number]) -> SampleColumn[_Number]:
    return SampleColumn(np.zeros(samples, dtype=kind), np.zeros(samples, dtype=np.bool_))
