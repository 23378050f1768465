"""The mean to quote of each metric of a run, with what is said about it.

    metric.quoted           corrected by labels, by the judge, or none
    metric.sentence         in an average answer, about 69 % of the sentences are supported ...
    metric.other_means()    by each annotator, by the judge only, by the labels only

The report, the certificate and the table of `show` take it from here.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from localjudge.labels.corrected_mean import CorrectedMean, quote_mean
from localjudge.labels.run_labels import RunLabels, find_corrected
from localjudge.metrics import catalog
from localjudge.report.sentences import state_quoted
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.summary import MetricSummary
from localjudge.stats.interval import Basis, Mean, NoMean

_MAX_FINDINGS = 3


class OtherMean(NamedTuple):
    """A mean next to the quoted one: by an annotator, by the judge only, or by labels only."""

    by: Literal["annotator", "judge", "labels"]
    mean: Mean | MetricSummary
    annotator: str = ""


class QuotedMetric(NamedTuple):
    """A metric with the mean to quote, which has no number if none may be quoted.

    `is_withheld`: too many samples failed for a mean.
    """

    name: str
    summary: MetricSummary
    corrected: CorrectedMean | None
    quoted: Mean | NoMean
    is_withheld: bool

    @property
    def basis(self) -> Basis:
        return self.quoted.basis

    @property
    def is_by_judge(self) -> bool:
        return catalog.is_judged(self.name) and self.basis == "judge"

    @property
    def labels(self) -> int:
        """The number of labels that correct the quoted mean, or 0."""
        if self.corrected is None or self.basis != "labels":
            return 0
        return self.corrected.labels

    @property
    def needed(self) -> int | None:
        """The number of labels that are missing for an interval."""
        return self.corrected.needed if self.corrected else None

    @property
    def sentence(self) -> str:
        """The quoted mean in the metric's words, "" without one."""
        return state_quoted(self.name, self.quoted, self.corrected)

    def other_means(self) -> Iterator[OtherMean]:
        """Yield the other means if labels correct the quoted one, or are too few to do so."""
        if self.corrected is None or self.basis == "judge":
            return
        for annotator, mean in (self.corrected.by_annotator or {}).items():
            yield OtherMean("annotator", mean, annotator)
        yield OtherMean("judge", self.summary)
        if self.corrected.labels_alone:
            yield OtherMean("labels", self.corrected.labels_alone)


def quote_metrics(run: RunRecord, labels: RunLabels | None) -> list[QuotedMetric]:
    """Return the metrics of a run. `labels` are all of the run."""
    withheld = run.summary.failed_beyond(run.max_failed)
    metrics: list[QuotedMetric] = []
    for name, summary in run.summary.metrics.items():
        corrected = find_corrected(labels, name)
        quoted = quote_mean(summary, corrected)
        if name in withheld:
            quoted = NoMean()
        metrics.append(QuotedMetric(name, summary, corrected, quoted, name in withheld))
    return metrics


def select_findings(metrics: Iterable[QuotedMetric]) -> list[QuotedMetric]:
    """Return the first metrics with a sentence, corrected ones before others."""
    with_sentence = [metric for metric in metrics if metric.sentence]
    with_sentence.sort(key=lambda metric: not metric.labels)
    return with_sentence[:_MAX_FINDINGS]
