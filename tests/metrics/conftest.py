from collections.abc import Sequence
from typing import NamedTuple

import pytest

from localjudge.metrics import Context, Outcome, Sample, Scored
from localjudge.metrics.documents import WHOLE_RANKING, DocumentMetric, RankingMeasure
from localjudge.text import sentences

OURS = dict(zip(("single_hit", "multi_hit", "mrr", "map", "ndcg"), WHOLE_RANKING, strict=True))


class DocumentScores(NamedTuple):
    """Scores of a metric over all questions: `score` is the mean of `individual_scores`."""

    score: float
    individual_scores: list[float]


def score_lists(
    measure: RankingMeasure,
    truths: Sequence[Sequence[Context | str]],
    retrieved: Sequence[Sequence[Context | str]],
    *,
    compare_by: str = "content",
) -> DocumentScores:
    """Score every question as a separate sample. A document may be a plain text."""
    samples = [sample_of(*lists) for lists in zip(truths, retrieved, strict=True)]
    outcomes = [outcome_of(measure, sample, compare_by=compare_by) for sample in samples]
    scores = [outcome.value for outcome in outcomes if isinstance(outcome, Scored)]
    assert len(scores) == len(outcomes)
    return DocumentScores(sum(scores) / len(scores), scores)


def outcome_of(measure: RankingMeasure, sample: Sample, *, compare_by: str = "content") -> Outcome:
    """Return the outcome of a metric without questions."""
    with pytest.raises(StopIteration) as finished:
        next(DocumentMetric(measure, compare_by=compare_by).steps(sample, sentences))
    return finished.value.value  # type: ignore[no-any-return]


def sample_of(truths: Sequence[Context | str], retrieved: Sequence[Context | str]) -> Sample:
    return Sample(id="1", reference_contexts=_documents(truths), retrieved_contexts=_documents(retrieved))


def _documents(documents: Sequence[Context | str]) -> tuple[Context, ...]:
    return tuple(Context(text=document) if isinstance(document, str) else document for document in documents)
