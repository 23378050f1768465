"""The mean to quote of each metric of a run, and the sentence that says it.

    metric.quoted           corrected by labels, by the judge, or none
    metric.sentence         in an average answer, about 69 % of the sentences are supported by the
                            documents (59 to 78)
    metric.other_means()    by each annotator, by the judge only, by the labels only

The report, the certificate and the tables of `show` take it from here, and the shares of all
statements that are counted once: about 66 % of all 312 sentences are supported (57 to 74).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from localjudge.analysis.breakdowns import PooledShare, Slice
from localjudge.labels.corrected_mean import CorrectedMean, quote_mean
from localjudge.labels.run_labels import RunLabels
from localjudge.metrics import catalog
from localjudge.report.messages import Messages, translate_mean
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.summary import MetricSummary
from localjudge.stats.interval import Basis, Limits, Mean, NoMean
from localjudge.words import percent

_MAX_FINDINGS = 3
Phrasing = Callable[[str, Mean], str]
_COUNTED = ("sentences", "documents", "citations")


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
    def labels_say(self) -> str | None:
        """What the labels say, as a contradiction of the judge if it is one."""
        if self.corrected is None or self.corrected.counts is None:
            return None
        return self.corrected.contradiction or self.corrected.counts.in_words

    @property
    def sentence(self) -> str:
        """The quoted mean in the metric's words, "" without one.

        With too few labels: `0 of 19 labelled statements are supported by the documents (19 labels,
        20 needed)`.
        """
        if isinstance(self.quoted, Mean):
            return state_mean(self.name, self.quoted)
        if self.basis == "judge" or self.labels_say is None:
            return ""
        return f"{self.labels_say} ({self.quoted.based_on})"

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
    corrected: Mapping[str, CorrectedMean] = {}
    if labels is not None:
        corrected = labels.corrected
    return _quote(run.summary.metrics, corrected, withheld)


def quote_slice(part: Slice) -> dict[str, QuotedMetric]:
    """Return the metrics of a slice by name."""
    return {metric.name: metric for metric in _quote(part.metrics, part.corrected)}


def _quote(
    metrics: Mapping[str, MetricSummary],
    corrected: Mapping[str, CorrectedMean],
    withheld: Collection[str] = (),
) -> list[QuotedMetric]:
    """Return the metrics, without a number for those that are withheld."""
    quotes: list[QuotedMetric] = []
    for name, summary in metrics.items():
        mean = corrected.get(name)
        quoted = quote_mean(summary, mean)
        if name in withheld:
            quoted = NoMean()
        quotes.append(QuotedMetric(name, summary, mean, quoted, name in withheld))
    return quotes


def select_findings(metrics: Iterable[QuotedMetric]) -> list[QuotedMetric]:
    """Return the first metrics with a sentence, corrected ones before others."""
    with_sentence = [metric for metric in metrics if metric.sentence]
    with_sentence.sort(key=lambda metric: not metric.labels)
    return with_sentence[:_MAX_FINDINGS]


def state_mean(name: str, mean: Mean) -> str:
    """Return the mean in the metric's words.

    For example, `about 9 % of the answers decline to answer (2 to 22)`.
    """
    return translate_mean(name, mean.mean, mean.ci95, Messages("en"))


def state_pooled_share(name: str, share: Mean) -> str:
    """Return the share in the metric's words.

    For example, `about 66 % of all 312 sentences are supported (57 to 74)`.
    """
    headline = catalog.about(name).headline
    _, is_share, counted = headline.partition("{} of the ")
    if not is_share:
        counted = "units"
    clause = f"about {percent(share.mean)} % of all {share.n:,} {counted}"
    return _with_limits(clause, share.ci95)


def pooled_for_page(name: str, share: Mean) -> str:
    """Return the share in words for the report, below the question of the metric."""
    headline = catalog.about(name).headline
    noun = "units"
    for counted in _COUNTED:
        if counted in headline:
            noun = counted
            break
    clause = f"counting each of the {share.n:,} {noun} once, it is about {percent(share.mean)} %"
    return _with_limits(clause, share.ci95)


def _with_limits(clause: str, ci95: Limits) -> str:
    if not ci95:
        return clause
    low, high = map(percent, ci95)
    return f"{clause} ({low} to {high})"


def pooled_sentence(
    run: RunRecord,
    metric: QuotedMetric,
    pooled: PooledShare | None,
    words: Phrasing = state_pooled_share,
) -> str:
    """Return the sentence on a pooled share, corrected if the mean is.

    Returns "" if the share must equal the mean, or if there are labels, but too few for an
    interval.
    """
    if pooled is None or pooled.units == pooled.samples:
        return ""
    corrected = metric.corrected
    share = pooled.by_judge
    if corrected and corrected.pooled and corrected.pooled.ci95:
        share = corrected.pooled._replace(n=pooled.units)
    elif corrected and corrected.withholds_judge:
        return ""
    sentence = words(metric.name, share)
    if run.sampling.optional_stopping:
        sentence += ", without an interval, because scores stopped the run"
    return sentence
