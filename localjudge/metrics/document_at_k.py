"""The first k retrieved documents: did any hit, how many of them did, how many of all were found.

    hit_rate@k  = 1 if any of the first k is a ground-truth document, otherwise 0
    precision@k = ground-truth documents among the first k / k
    recall@k    = ground-truth documents among the first k / ground-truth documents

A ground-truth document that stands among the first k twice counts once, so no score exceeds 1. Precision divides by k
even where fewer were retrieved (as trec_eval does): an empty place is not a hit. Documents with an empty comparison
value keep their rank and match nothing. No ground truth, or nothing retrieved: 0, as in the other document metrics.
"""

from collections.abc import Callable, Sequence

from localjudge.metrics.document_recall import multi_hit, single_hit
from localjudge.metrics.documents import Document, DocumentMetric, DocumentScores, Measure, over_questions
from localjudge.types import Context, Scored


def hit_at(k: int) -> Measure:
    """Whether any of the first k is a hit. Raises ValueError if k is not positive."""
    return _first(k, single_hit)


def recall_at(k: int) -> Measure:
    """Share of the ground truth among the first k. Raises ValueError if k is not positive."""
    return _first(k, multi_hit)


def precision_at(k: int) -> Measure:
    """Share of hits among the first k. Raises ValueError if k is not positive."""
    hits = recall_at(k)

    def measure(truths: Sequence[Context], retrieved: Sequence[Context], compare_by: str) -> Scored:
        found = hits(truths, retrieved, compare_by).numerator or 0
        return Scored(value=found / k, numerator=found, denominator=k)

    return measure


def hit_rate_at_k(
    ground_truth_documents: Sequence[Sequence[Document]],
    retrieved_documents: Sequence[Sequence[Document]],
    k: int,
    *,
    compare_by: str = "content",
) -> DocumentScores:
    """Share of questions with a hit among the first k.

    Raises ValueError for no questions, lists of different lengths, an unknown `compare_by` or a k below 1.
    """
    return over_questions(hit_at(k), ground_truth_documents, retrieved_documents, compare_by)


def precision_at_k(
    ground_truth_documents: Sequence[Sequence[Document]],
    retrieved_documents: Sequence[Sequence[Document]],
    k: int,
    *,
    compare_by: str = "content",
) -> DocumentScores:
    """Mean share of hits among the first k.

    Raises ValueError for no questions, lists of different lengths, an unknown `compare_by` or a k below 1.
    """
    return over_questions(precision_at(k), ground_truth_documents, retrieved_documents, compare_by)


def recall_at_k(
    ground_truth_documents: Sequence[Sequence[Document]],
    retrieved_documents: Sequence[Sequence[Document]],
    k: int,
    *,
    compare_by: str = "content",
) -> DocumentScores:
    """Mean share of the ground truth among the first k.

    Raises ValueError for no questions, lists of different lengths, an unknown `compare_by` or a k below 1.
    """
    return over_questions(recall_at(k), ground_truth_documents, retrieved_documents, compare_by)


def hit_rate(k: int) -> DocumentMetric:
    """The metric `hit_rate@k`."""
    return DocumentMetric(f"hit_rate@{k}", hit_at(k))


def precision(k: int) -> DocumentMetric:
    """The metric `precision@k`."""
    return DocumentMetric(f"precision@{k}", precision_at(k))


def recall(k: int) -> DocumentMetric:
    """The metric `recall@k`."""
    return DocumentMetric(f"recall@{k}", recall_at(k))


def _first(k: int, measure: Callable[[Sequence[Context], Sequence[Context], str], Scored]) -> Measure:
    """The measure on the first k retrieved documents alone."""
    if k < 1:
        raise ValueError(f"k is {k}: give 1 or more")
    return lambda truths, retrieved, compare_by: measure(truths, retrieved[:k], compare_by)
