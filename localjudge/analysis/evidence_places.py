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
from collections.abc import Iterable, Iterator
from itertools import groupby

from localjudge.run_directory.result_rows import VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import Record, Sample

_SEARCHED_EVERYWHERE = (None, "cited")
_SOURCES = ("reference", "response")


class PlaceCounts(Record):
    """Counts at one rank of the retrieved contexts, from 1.

    `statements` have their closest supporting sentence here. Of the `contexts` of this rank,
    `without_evidence` have no sentence that supports a statement, neither as the first nor as the
    second one of a statement.
    """

    rank: int
    statements: int
    contexts: int
    without_evidence: int


class EvidencePlaces(Record):
    """The places of the evidence of a metric's judged `statements`. `nowhere`: no evidence."""

    metric: str
    statements: int
    nowhere: int
    ranks: tuple[PlaceCounts, ...]

    @property
    def contexts(self) -> int:
        return sum(place.contexts for place in self.ranks)

    @property
    def contexts_without(self) -> int:
        return sum(place.without_evidence for place in self.ranks)


def evidence_places(run: RunRecord) -> dict[str, EvidencePlaces]:
    """Return the places by metric; none for a run without evidence, or for other metrics."""
    counts: dict[str, _Counts] = {}
    if not run.has_evidence:
        return {}
    for sample, verdicts in _statements_by_sample(run):
        by_metric = groupby(verdicts, key=lambda verdict: verdict.metric)
        for metric, of_metric in by_metric:
            counts.setdefault(metric, _Counts()).add(sample, of_metric)
    return {
        metric: counts[metric].places(metric) for metric in run.summary.metrics if metric in counts
    }


def _statements_by_sample(run: RunRecord) -> Iterator[tuple[Sample, Iterator[VerdictRow]]]:
    """Yield the judged statements that were compared with all contexts, sample by sample."""
    statements = filter(_is_counted, run.iter_verdicts_with_evidence())
    samples = run.iter_samples()
    for sample_id, of_sample in groupby(statements, key=lambda verdict: verdict.sample_id):
        sample = next(sample for sample in samples if sample.id == sample_id)
        yield sample, of_sample


def _is_counted(verdict: VerdictRow) -> bool:
    is_statement = verdict.unit == "statement" and verdict.source in _SOURCES
    return is_statement and verdict.against in _SEARCHED_EVERYWHERE and verdict.label is not None


class _Counts:
    """The counts of one metric so far, by the place of a context from 0."""

    def __init__(self) -> None:
        self._statements = 0
        self._at = Counter[int]()
        self._contexts = Counter[int]()
        self._with_evidence = Counter[int]()

    def add(self, sample: Sample, verdicts: Iterable[VerdictRow]) -> None:
        used: set[int] = set()
        for verdict in verdicts:
            self._statements += 1
            supporting = [row.context for row in verdict.evidence if row.supports]
            places = [context for context in supporting if context is not None]
            self._at.update(places[:1])
            used.update(places)
        self._contexts.update(range(len(sample.retrieved_contexts or ())))
        self._with_evidence.update(used)

    def places(self, metric: str) -> EvidencePlaces:
        ranks: list[PlaceCounts] = []
        for place in range(max(self._contexts, default=-1) + 1):
            counts = PlaceCounts(
                rank=place + 1,
                statements=self._at[place],
                contexts=self._contexts[place],
                without_evidence=self._contexts[place] - self._with_evidence[place],
            )
            ranks.append(counts)
        return EvidencePlaces(
            metric=metric,
            statements=self._statements,
            nowhere=self._statements - self._at.total(),
            ranks=tuple(ranks),
        )
