"""Other means of a run than its summary's: by the values of a column, and of all units.

A slice is corrected by labels if it has enough.

In the mean over samples a long answer counts only as much as a short one:

    sample   supported      mean over samples    (1/1 + 1/3) / 2 = 0.667
    a        1 of 1         pooled               (1 + 1) / (1 + 3) = 0.500
    b        1 of 3

The interval of a pooled share is the one of a ratio of sums over samples or groups
(`localjudge.stats.interval`, W. G. Cochran (1977), Sampling Techniques, chapter 6).
"""

from array import array
from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
from pydantic import Field

from localjudge.labels.corrected_mean import CorrectedMean
from localjudge.labels.run_labels import slice_means
from localjudge.run_directory.label_rows import LabelRow
from localjudge.run_directory.result_rows import join_rows
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import column_values, slice_order, unknown_sample
from localjudge.run_directory.summary import MetricSummary, Totals
from localjudge.stats.interval import Counts, Mean, share_interval
from localjudge.types import Record


class Slice(Record):
    """Samples with one value in the column.

    `corrected` has the metrics with verdicts of a labelled run.
    """

    value: str | None
    samples: int
    metrics: dict[str, MetricSummary]
    corrected: dict[str, CorrectedMean] = Field(default_factory=dict)


class Slices(Record):
    """A run by the values of a column, largest slice first."""

    schema_version: int = 1
    run: str
    column: str
    slices: tuple[Slice, ...]


def slices(run: RunRecord, column: str, others: Sequence[LabelRow] = ()) -> Slices:
    """Return the metrics of a run by the values of a column of the data.

    Dots in the column's name select values in objects. `others` are labels of other runs. Raises
    InputError for a missing column, too many values, or values other than text and numbers.
    """
    values = column_values(run, column)
    totals = _add_up(run, values)
    means = slice_means(run, values, others)
    parts = []
    for value, total in totals.items():
        metrics = total.metrics
        corrected = {}
        for name, mean in means[value].items():
            if metrics[name].mean is not None:
                corrected[name] = mean
        part = Slice(value=value, samples=total.samples, metrics=metrics, corrected=corrected)
        parts.append(part)
    parts.sort(key=lambda part: slice_order(part.samples, part.value))
    return Slices(run=str(run.directory), column=column, slices=tuple(parts))


def _add_up(run: RunRecord, values: Mapping[str, str | None]) -> dict[str | None, Totals]:
    """Return the totals of the samples with each value of the column."""
    totals: dict[str | None, Totals] = {}
    scores = join_rows(run.iter_scores(), ())
    for sample_id, evaluations in groupby(scores, key=lambda evaluation: evaluation.sample_id):
        if sample_id not in values:
            raise unknown_sample(run, sample_id)
        value = values[sample_id]
        if value not in totals:
            totals[value] = run.totals(run.summary.metrics)
        totals[value].add(evaluations)
    return totals


class PooledShare(Record):
    """Share of all `units` of the scored `samples` with its 95 % interval.

    `ci95` is None if all samples are in one group, or if scores decided when to stop.
    """

    share: float
    ci95: tuple[float, float] | None
    units: int
    samples: int

    @property
    def by_judge(self) -> Mean:
        return Mean(self.share, self.ci95, "clustered bootstrap", self.units, self.samples)


def pooled_shares(run: RunRecord) -> dict[str, PooledShare]:
    """Return the share of each metric with fractions, unless too many of its samples failed."""
    shares = {}
    for name, counts in _read_counts(run).items():
        groups, ones, units = counts.T
        clusters = np.unique(groups, return_inverse=True)[1]
        share = share_interval(ones, units, clusters)
        ci95 = share.ci95
        # The size of the largest sample to come is unknown, so no confidence sequence is valid.
        if run.sampling.optional_stopping:
            ci95 = None
        shares[name] = PooledShare(share=share.mean, ci95=ci95, units=share.n, samples=len(ones))
    return shares


def _read_counts(run: RunRecord) -> dict[str, Counts]:
    """Return group number, ones and units of each scored sample (samples, 3), by metric."""
    excluded = run.summary.failed_beyond(run.max_failed)
    group_numbers: dict[str, int] = {}
    counts = {name: array("q") for name in run.summary.metrics if name not in excluded}
    for score in run.iter_scores():
        if score.score is None or score.metric not in counts:
            continue
        ones = score.numerator
        units = score.denominator
        if isinstance(ones, int) and isinstance(units, int) and 0 <= ones <= units > 0:
            group = score.sample_id
            if run.cluster_of is not None:
                group = run.cluster_of[score.sample_id]
            number = group_numbers.setdefault(group, len(group_numbers))
            counts[score.metric].extend((number, ones, units))
        else:
            del counts[score.metric]
    rows = {}
    for name, flat in counts.items():
        if flat:
            rows[name] = np.array(flat, dtype=np.int64).reshape(-1, 3)
    return rows
