"""Metrics of a run by the values of a column, corrected by labels where a slice has enough."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from pydantic import Field

from localjudge.labels.corrected_mean import CorrectedMean
from localjudge.labels.run_labels import slice_means
from localjudge.run_directory.label_rows import LabelRow
from localjudge.run_directory.result_rows import join_rows
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import column_values, slice_order, unknown_sample
from localjudge.run_directory.summary import MetricSummary, Totals
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
            totals[value] = run.totals(run.summary.metrics, run.summary)
        totals[value].add(evaluations)
    return totals
