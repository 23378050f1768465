"""The first k retrieved documents: did any hit, how many of them did, how many of all were found.

    hit_rate@k  = 1 if any of the first k is a ground-truth document, otherwise 0
    precision@k = ground-truth documents among the first k / k
    recall@k    = ground-truth documents among the first k / ground-truth documents

A ground-truth document that stands among the first k twice counts once, so no score exceeds 1. Precision divides by k
even where fewer were retrieved (as trec_eval does): an empty place is not a hit. Documents with an empty comparison
value keep their rank and match nothing. No ground truth, or nothing retrieved: 0, as in the other document metrics.
"""

from collections.abc import Sequence

from localjudge.metrics.document_recall import DOCUMENTS_FOUND, multi_hit, single_hit
from localjudge.metrics.documents import RankingMeasure, ScoreRanking
from localjudge.types import Context, Scored


def hit_rate_at(k: int) -> RankingMeasure:
    """Whether any of the first k is a hit. Raises ValueError if k is not positive."""
    return RankingMeasure(f"hit_rate@{k}", _first(k, single_hit))


def recall_at(k: int) -> RankingMeasure:
    """Share of the ground truth among the first k. Raises ValueError if k is not positive."""
    return RankingMeasure(f"recall@{k}", _first(k, multi_hit), DOCUMENTS_FOUND)


def precision_at(k: int) -> RankingMeasure:
    """Share of hits among the first k. Raises ValueError if k is not positive."""

    def score(truths: Sequence[Context], retrieved: Sequence[Context], compare_by: str) -> Scored:
        hits = multi_hit(truths, retrieved, compare_by).numerator or 0
        return Scored(value=hits / k, numerator=hits, denominator=k)

    return RankingMeasure(f"precision@{k}", _first(k, score), "places held by a ground-truth document")


def _first(k: int, score: ScoreRanking) -> ScoreRanking:
    """The same score of the first k retrieved documents alone."""
    if k < 1:
        raise ValueError(f"k is {k}: give 1 or more")
    return lambda truths, retrieved, compare_by: score(truths, retrieved[:k], compare_by)
