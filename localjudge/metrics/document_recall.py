"""Document recall: which of the ground-truth documents were retrieved.

    document_recall_single_hit = 1 if any ground-truth document was retrieved, otherwise 0
    document_recall_multi_hit  = ground-truth documents that were retrieved / ground-truth documents

Documents are counted once, however often they stand in a list, and those with an empty comparison value not at all.
Source: Haystack's `DocumentRecallEvaluator`. No ground truth, or nothing retrieved: 0, as there.
"""

from collections.abc import Sequence

from localjudge.metrics.documents import RankingMeasure, comparison_values, unique
from localjudge.types import Context, Scored

_EMPTY = (None, "")
DOCUMENTS_FOUND = "ground-truth documents retrieved"


def multi_hit(truths: Sequence[Context], retrieved: Sequence[Context], compare_by: str) -> Scored:
    """Share of one question's ground-truth documents that were retrieved."""
    wanted = unique(comparison_values(truths, compare_by), ignored=_EMPTY)
    given = unique(comparison_values(retrieved, compare_by), ignored=_EMPTY)
    if not wanted:
        return Scored(value=0)
    found = sum(value in given for value in wanted)
    return Scored(value=found / len(wanted), numerator=found, denominator=len(wanted))


def single_hit(truths: Sequence[Context], retrieved: Sequence[Context], compare_by: str) -> Scored:
    """Whether any of one question's ground-truth documents was retrieved."""
    return Scored(value=float(multi_hit(truths, retrieved, compare_by).value > 0))


DOCUMENT_RECALL_SINGLE_HIT = RankingMeasure("document_recall_single_hit", single_hit)
DOCUMENT_RECALL_MULTI_HIT = RankingMeasure("document_recall_multi_hit", multi_hit, DOCUMENTS_FOUND)
