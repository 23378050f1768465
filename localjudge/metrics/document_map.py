"""Document average precision: how early all ground-truth documents were retrieved.

    document_map = sum over hits of (hits so far / rank of the hit)  /  ground-truth documents

A hit is the first retrieval of a ground-truth document; retrieving it again is not one. A document without a comparison
value keeps its rank and matches nothing; an empty text is a value like any other.
Source: Haystack's `DocumentMAPEvaluator`. No ground truth, or nothing retrieved: 0, as there.
"""

from collections.abc import Sequence

from localjudge.metrics.documents import RankingMeasure, comparison_values, unique
from localjudge.types import Context, Scored


def average_precision(truths: Sequence[Context], retrieved: Sequence[Context], compare_by: str) -> Scored:
    """Average precision of one question's ranking."""
    missed = unique(comparison_values(truths, compare_by))
    total, hits, precisions = len(missed), 0, 0.0
    for rank, value in enumerate(comparison_values(retrieved, compare_by), 1):
        if value in missed:
            missed.remove(value)
            hits += 1
            precisions += hits / rank
    return Scored(value=precisions / total if total else 0)


DOCUMENT_MAP = RankingMeasure("document_map", average_precision)
