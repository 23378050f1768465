"""Document reciprocal rank: how early the first ground-truth document was retrieved.

    document_mrr = 1 / rank of the first retrieved document that is a ground-truth document, 0 if none is

A document without a comparison value keeps its rank and matches nothing; an empty text is a value like any other.
Source: Haystack's `DocumentMRREvaluator`. No ground truth, or nothing retrieved: 0, as there.
"""

from collections.abc import Sequence

from localjudge.metrics.documents import RankingMeasure, comparison_values, unique
from localjudge.types import Context, Scored


def reciprocal_rank(truths: Sequence[Context], retrieved: Sequence[Context], compare_by: str) -> Scored:
    """Reciprocal rank of one question's first hit."""
    wanted = unique(comparison_values(truths, compare_by))
    for rank, value in enumerate(comparison_values(retrieved, compare_by), 1):
        if value in wanted:
            return Scored(value=1 / rank)
    return Scored(value=0)


DOCUMENT_MRR = RankingMeasure("document_mrr", reciprocal_rank)
