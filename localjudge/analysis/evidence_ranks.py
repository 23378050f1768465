"""Where the evidence of a run was: the rank of the context that holds it, by metric.

    context   statements   contexts   without evidence
    1                 60         80                 15
    2                 25         80                 41       15 of the 100 statements have evidence
    nowhere           15                                     in no context

A statement counts where its closest supporting sentence is, of equally close ones the first. Only
statements that were compared with all contexts count: of `context_recall`, `faithfulness` and
`citation_support`. Nothing is estimated: these are counts of the sentences in `evidence.jsonl`.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from localjudge.run_directory.result_rows import VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import unknown_sample
from localjudge.types import Record, Sample

_SEARCHED_EVERYWHERE = (None, "cited")
_SOURCES = ("reference", "response")


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


_Rank = tuple[str, int]
"""A metric, and the rank of a context from 0."""


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
