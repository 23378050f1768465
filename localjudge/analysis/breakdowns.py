"""What lies behind the means of a run: slices, all units, missing scores, and where evidence was.

slices           the means by the values of a column, corrected by labels if there are enough
pooled_shares    the share of all units: in a mean over samples a long answer counts only as much
                 as a short one

    sample   supported      mean over samples    (1/1 + 1/3) / 2 = 0.667
    a        1 of 1         pooled               (1 + 1) / (1 + 3) = 0.500
    b        1 of 3

missing_scores   reasons without numbers, quoted texts and ids, the most frequent first, with advice
evidence_ranks   how many statements have their evidence in the first, second, ... context

    context   statements   contexts   without evidence
    1                 60         80                 15
    2                 25         80                 41       15 of the 100 statements have evidence
    nowhere           15                                     in no context

The interval of a pooled share is the one of a ratio of sums over samples or groups
(`localjudge.stats.interval`, W. G. Cochran (1977), Sampling Techniques, chapter 6).

A statement counts where its closest supporting sentence is, of equally close ones the first. Only
statements that were compared with all contexts count: of `context_recall`, `faithfulness` and
`citation_support`. Nothing is estimated: these are counts of the sentences in `evidence.jsonl`.
"""

import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

import numpy as np
from pydantic import Field

from localjudge.labels.corrected_mean import CorrectedMean
from localjudge.labels.run_labels import slice_means
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.label_rows import LabelRow
from localjudge.run_directory.result_rows import VerdictRow, join_rows
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import column_values, slice_order, unknown_sample
from localjudge.run_directory.summary import MetricSummary, Totals
from localjudge.stats.interval import Counts, Mean, share_interval
from localjudge.types import FIELDS, Record, Sample
from localjudge.words import option

_VARIES = re.compile(r"""(?<!\w)(?:'[^']*'|"[^"]*")(?!\w)|[0-9][0-9.,]*""")
_FIELD = f"(?P<field>{'|'.join(FIELDS)})"
_MAP = "fill it in, or name its column with {column}"
_ADVICE = {
    rf"\b{_FIELD} is (null|blank)": _MAP,
    r"there is no (?P<field>question)": _MAP,
    rf"there is no {_FIELD}": _MAP,
    rf"the {_FIELD} has no sentence": _MAP,
    rf"{_FIELD} has ids and no texts": "store the texts, too, or name their column with {column}",
    r"contexts have no|no context text": "check why the retriever found no text",
    r"the response cites nothing": "ask your system to cite its contexts, such as [1]",
    r"the model did not answer": "test the judge with localjudge doctor, or name another",
    r"control token|does not give this text back": "remove these characters, or name another judge",
    r"lone surrogate": "repair the encoding of the text",
    r"logits that are not numbers": "copy the model file again, and run localjudge doctor",
}
"""Advice by a regular expression for the reason. Other reasons include a hint or need no advice."""
_Group = tuple[str, Any, str]
"""Metric, status, and the reason without what varies between samples."""
_SEARCHED_EVERYWHERE = (None, "cited")
_SOURCES = ("reference", "response")
_Rank = tuple[str, int]
"""A metric, and the rank of a context from 0."""


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


class MissingScores(Record):
    """Samples without a score of one metric for one reason, quoted from the first of them."""

    metric: str
    status: Literal["undefined", "failed"]
    count: int
    reason: str
    advice: str | None

    def __str__(self) -> str:
        words = f"{self.metric}: {self.count:,} {self.status}: {excerpt(self.reason)}"
        if self.advice:
            return f"{words} ({self.advice})"
        return words


def missing_scores(run: RunRecord, metrics: Collection[str] | None = None) -> list[MissingScores]:
    """Return a group for each metric and reason, the largest first.

    Reasons that differ only in numbers or quoted texts share a group.
    """
    names: Collection[str] = run.summary.metrics.keys()
    if metrics is not None:
        names = metrics
    missing_of = 0
    for name, summary in run.summary.metrics.items():
        if name in names:
            missing_of += summary.undefined + summary.failed
    if not missing_of:
        return []
    counts: Counter[_Group] = Counter()
    examples: dict[_Group, str] = {}
    for row in run.iter_scores():
        if row.metric in names and row.status != "scored":
            reason = (row.detail or "").removeprefix(f"sample {row.sample_id}: ")
            group = (row.metric, row.status, _VARIES.sub("#", reason))
            counts[group] += 1
            examples.setdefault(group, reason)
    groups = []
    for group, count in counts.most_common():
        metric, status, _ = group
        reason = examples[group]
        missing = MissingScores(
            metric=metric, status=status, count=count, reason=reason, advice=_find_advice(reason)
        )
        groups.append(missing)
    return groups


def _find_advice(reason: str) -> str | None:
    for pattern, advice in _ADVICE.items():
        if match := re.search(pattern, reason):
            field = match.groupdict().get("field") or ""
            if field == "question":
                field = "user_input"
            return advice.format(column=option("mapping", {field: "COLUMN"}))
    return None


class RankCounts(Record):
    """Counts at one rank of the retrieved contexts, from 1.

    `statements` have their closest supporting sentence here. Of the `contexts` of this rank,
    `without_evidence` have no sentence that supports a statement, neither as the first nor as the
    second one of a statement.
    """

    rank: int
    statements: int
    contexts: int
    without_evidence: int


class EvidenceRanks(Record):
    """Where the evidence of a metric's judged `statements` was. `nowhere`: no evidence."""

    metric: str
    statements: int
    nowhere: int
    ranks: tuple[RankCounts, ...]

    @property
    def contexts(self) -> int:
        return sum(rank.contexts for rank in self.ranks)

    @property
    def contexts_without(self) -> int:
        return sum(rank.without_evidence for rank in self.ranks)


def evidence_ranks(run: RunRecord) -> dict[str, EvidenceRanks]:
    """Return the ranks by metric; none for a run without evidence, or for other metrics."""
    if not run.has_evidence:
        return {}
    statements: Counter[str] = Counter()
    closest: Counter[_Rank] = Counter()
    contexts: Counter[_Rank] = Counter()
    with_evidence: Counter[_Rank] = Counter()
    for sample, verdicts in _statements_by_sample(run):
        count = len(sample.retrieved_contexts or ())
        for metric, of_metric in groupby(verdicts, key=lambda verdict: verdict.metric):
            supporting: set[int] = set()
            for verdict in of_metric:
                statements[metric] += 1
                # The closest sentence comes first.
                found = [row.context for row in verdict.evidence if row.supports]
                ranks_of_verdict = [rank for rank in found if rank is not None]
                closest.update((metric, rank) for rank in ranks_of_verdict[:1])
                supporting.update(ranks_of_verdict)
            contexts.update((metric, rank) for rank in range(count))
            with_evidence.update((metric, rank) for rank in supporting)
    evidence = {}
    for metric in run.summary.metrics:
        if metric in statements:
            ranks = _list_ranks(metric, closest, contexts, with_evidence)
            evidence[metric] = EvidenceRanks(
                metric=metric,
                statements=statements[metric],
                nowhere=statements[metric] - sum(rank.statements for rank in ranks),
                ranks=tuple(ranks),
            )
    return evidence


def _list_ranks(
    metric: str,
    closest: Counter[_Rank],
    contexts: Counter[_Rank],
    with_evidence: Counter[_Rank],
) -> list[RankCounts]:
    ranks: list[RankCounts] = []
    rank = (metric, 0)
    while contexts[rank]:
        counts = RankCounts(
            rank=len(ranks) + 1,
            statements=closest[rank],
            contexts=contexts[rank],
            without_evidence=contexts[rank] - with_evidence[rank],
        )
        ranks.append(counts)
        rank = (metric, len(ranks))
    return ranks


def _statements_by_sample(run: RunRecord) -> Iterator[tuple[Sample, Iterator[VerdictRow]]]:
    """Yield the judged statements that were compared with all contexts, sample by sample.

    Raises RunDirectoryError for statements of a sample that is not stored, or in another order.
    """
    statements = (
        verdict
        for verdict in run.iter_verdicts_with_evidence()
        if verdict.unit == "statement"
        and verdict.source in _SOURCES
        and verdict.against in _SEARCHED_EVERYWHERE
        and verdict.label is not None
    )
    samples = run.iter_samples()
    for sample_id, of_sample in groupby(statements, key=lambda verdict: verdict.sample_id):
        sample = next((sample for sample in samples if sample.id == sample_id), None)
        if sample is None:
            raise unknown_sample(run, sample_id)
        yield sample, of_sample
