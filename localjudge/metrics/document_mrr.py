"""Document reciprocal rank: how early the first ground-truth document was retrieved.

    document_mrr = 1 / rank of the first retrieved document that is a ground-truth document, 0 if none is

A document without a comparison value keeps its rank and matches nothing; an empty text is a value like any other.
Source: Haystack's `DocumentMRREvaluator`. No ground truth, or nothing retrieved: 0, as there.
"""

from collections.abc import Sequence

from localjudge.metrics.documents import (
    Document,
    DocumentMetric,
    DocumentScores,
    comparison_values,
    over_questions,
    unique,
)
from localjudge.types import Context, Scored


def reciprocal_rank(truths: Sequence[Context], retrieved: Sequence[Context], compare_by: str) -> Scored:
    """Reciprocal rank of one question's first hit."""
    wanted = unique(comparison_values(truths, compare_by))
    for rank, value in enumerate(comparison_values(retrieved, compare_by), 1):
        if value in wanted:
            return Scored(value=1 / rank)
    return Scored(value=0)


def document_mrr(
    ground_truth_documents: Sequence[Sequence[Document]],
    retrieved_documents: Sequence[Sequence[Document]],
    *,
    compare_by: str = "content",
) -> DocumentScores:
    """Mean reciprocal rank.

    Raises ValueError for no questions, lists of different lengths or an unknown `compare_by`.
    """
    return over_questions(reciprocal_rank, ground_truth_documents, retrieved_documents, compare_by)


DOCUMENT_MRR = DocumentMetric("document_mrr", reciprocal_rank)
