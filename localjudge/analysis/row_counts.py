"""Count rows of a run: the reasons for missing scores, and the ranks of contexts with evidence.

scores.jsonl ──> reasons without numbers, quoted texts and ids ──> groups, the largest first
                                                          what to do <──_ADVICE──┘

    context   statements   contexts   without evidence
    1                 60         80                 15
    2                 25         80                 41       15 of the 100 statements have evidence
    nowhere           15                                     in no context

A statement counts where its closest supporting sentence is, of equally close ones the first. Only
statements that were compared with all contexts count: of `context_recall`, `faithfulness` and
`citation_support`. Nothing is estimated: these are counts of the sentences in `evidence.jsonl`.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import groupby
from typing import Any, Literal

from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.result_rows import VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import unknown_sample
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
