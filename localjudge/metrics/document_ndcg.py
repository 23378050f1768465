"""Document NDCG: how early the most relevant ground-truth documents were retrieved.

    document_ndcg = DCG / DCG of the ideal ranking        DCG = sum over hits of relevance / log2(rank + 1)

The relevance of a ground-truth document is its `score`; where none has a score, each counts 1. Of one that stands in
the ground truth more than once the highest counts, and only its first retrieval is a hit.
Source: Haystack's `DocumentNDCGEvaluator`. No ground truth, or nothing retrieved: 0, as there. Scores for some
ground-truth documents of a question and not for others are an error, as there; so is a negative score.
"""

from collections.abc import Sequence
from math import isfinite, log2

from localjudge.metrics.documents import RankingMeasure, comparison_values, unique
from localjudge.types import Context, Scored


def normalized_gain(truths: Sequence[Context], retrieved: Sequence[Context], compare_by: str) -> Scored:
    """NDCG of one question's ranking. Raises ValueError for relevance scores that cannot be used."""
    _check_scores(truths)
    wanted = unique(comparison_values(truths, compare_by))
    relevances = _relevances(wanted, truths, compare_by)
    ideal = _discounted(sorted(relevances, reverse=True))
    if not isfinite(ideal):
        raise ValueError("the ground truth's scores are too large to be added")
    if ideal == 0:
        return Scored(value=0, detail="no ground-truth document has a relevance above 0" if wanted else None)
    gains = []
    for value in comparison_values(retrieved, compare_by):
        gains.append(0.0)
        if value in wanted:
            position = wanted.index(value)
            wanted.pop(position)
            gains[-1] = relevances.pop(position)
    # Where scores differ in their last digit only, rounding can put another order above the ideal one.
    return Scored(value=min(_discounted(gains) / ideal, 1))


DOCUMENT_NDCG = RankingMeasure("document_ndcg", normalized_gain)


def _check_scores(truths: Sequence[Context]) -> None:
    scores = [document.score for document in truths if document.score is not None]
    if scores and len(scores) < len(truths):
        raise ValueError(
            f"{len(scores)} of {len(truths)} ground-truth documents have a score: give one to all of them or to none"
        )
    if any(score < 0 for score in scores):
        raise ValueError(f"a ground-truth document has the negative score {min(scores)}: a relevance is 0 or more")


def _relevances(wanted: Sequence[object], truths: Sequence[Context], compare_by: str) -> list[float]:
    """Relevance of each wanted value: shape (wanted,)."""
    relevances = [0.0] * len(wanted)
    for document, value in zip(truths, comparison_values(truths, compare_by), strict=True):
        if value in wanted:
            position = wanted.index(value)
            relevances[position] = max(relevances[position], 1.0 if document.score is None else document.score)
    return relevances


def _discounted(gains: Sequence[float]) -> float:
    total = 0.0
    for rank, gain in enumerate(gains, 1):
        total += gain / log2(rank + 1)  # not sum(), which rounds differently from Python 3.12 on, and from Haystack
    return total
