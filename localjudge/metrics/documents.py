"""Document metrics: which ground-truth documents were retrieved, and where in the list?

They need no judge.

    document_recall_single_hit = 1 if any ground-truth document was retrieved, otherwise 0
    document_recall_multi_hit  = ground-truth documents that were retrieved / ground-truth documents
    document_map  = sum over hits of (hits so far / rank of the hit)  /  ground-truth documents
    document_mrr  = 1 / rank of the first hit, 0 if there is none
    document_ndcg = DCG / DCG of the ideal ranking     DCG = sum of relevance / log2(rank + 1)
    hit_rate@k    = 1 if any of the first k is a ground-truth document, otherwise 0
    precision@k   = ground-truth documents among the first k / k
    recall@k      = ground-truth documents among the first k / ground-truth documents

A hit is the first retrieval of a ground-truth document, so no score exceeds 1. Documents match if
they have the same *comparison value*: text (`content`), `id`, or a value of the meta (`meta.a.b`
reaches into objects). A document without the value keeps its rank but never matches; for recall and
the metrics at k, neither does an empty text. The relevance of a ground-truth document is its
`score` (the highest if it is repeated), or 1 if none has a score.

Source: Haystack's evaluators (haystack-ai, `haystack.components.evaluators`), with equal scores to
the last bit: a test runs both. Two differences: a comparison value may be a list for every metric,
and a negative relevance is an error. Precision divides by k even if fewer were retrieved, as in
trec_eval.

Empty cases: 0 without ground truth or retrieved documents; `Undefined` if documents cannot be
compared, because some have only an id, or because no ground-truth document, or no retrieved
document, has one.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import isfinite, log2
from typing import Any, NamedTuple

from localjudge.errors import InputError, SampleError
from localjudge.metrics.metric import (
    About,
    BuiltIn,
    Metric,
    Steps,
    name_with_option,
)
from localjudge.types import CONTEXT_FIELDS, Context, FieldName, Sample, Scored, Undefined

_EMPTY = (None, "")


class Ranking(NamedTuple):
    """The comparison values of ground-truth and retrieved documents of a question, None if missing.

    `relevances` are the scores of the ground-truth documents.
    """

    truths: list[Any]
    relevances: list[float | None]
    retrieved: list[Any]


ScoreRanking = Callable[[Ranking], Scored]
"""Scores a question. Raises ValueError for relevances that cannot be used."""


def document_metric(
    base: str,
    score: ScoreRanking,
    headline: str,
    counted: str = "",
    *,
    compare_by: str = "content",
) -> BuiltIn:
    """Return a metric of the ranking. Raises InputError for an unknown comparison value."""
    if compare_by not in {"content", "id"} and not compare_by.startswith("meta."):
        raise InputError(
            f"documents cannot be compared by {compare_by!r}: use content, id or meta.KEY",
            hint="meta.a.b reaches the value of b in the object a of the meta",
        )
    return BuiltIn(
        name_with_option(base, "compare_by", compare_by, default="content"),
        lambda sample, _: _steps(sample, score, compare_by),
        options={"compare_by": compare_by},
        required_fields=frozenset({"retrieved_contexts", "reference_contexts"}),
        about=About(
            question="retrieved against ground-truth documents: which were found, and how early?",
            unit="none",
            headline=headline,
            counted=counted,
            source="Haystack's document evaluators",
        ),
    )


def get_compared_value(metric: Metric) -> str | None:
    """Return by what a document metric compares documents, or None for another metric."""
    if not isinstance(metric, BuiltIn):
        return None
    return metric.options.get("compare_by")


def _steps(sample: Sample, score: ScoreRanking, compare_by: str) -> Steps:
    """Score without a judge.

    A 0 from missing documents has a detail. Raises SampleError from `score`.
    """
    yield from ()
    truths = sample.reference_contexts
    if truths is None:
        return Undefined(reason="reference_contexts is null")
    retrieved = sample.retrieved_contexts
    if retrieved is None:
        return Undefined(reason="retrieved_contexts is null")
    relevances = [document.score for document in truths]
    ranking = Ranking(_values(truths, compare_by), relevances, _values(retrieved, compare_by))
    missing = _find_missing(ranking, compare_by)
    if truths and retrieved:
        problem = _why_not_comparable(truths, retrieved, compare_by, missing)
        if problem:
            return Undefined(reason=problem)
    try:
        scored = score(ranking)
    except ValueError as error:
        raise SampleError(f"sample {sample.id}: {error}") from error
    if scored.value or scored.detail:
        return scored
    return scored.model_copy(update={"detail": missing})


def _find_missing(ranking: Ranking, compare_by: str) -> str | None:
    """Return which side has no documents or no comparison value, or None."""
    if not ranking.truths:
        return "there is no ground truth"
    if not _unique(ranking.truths, ignored=_EMPTY):
        return f"no ground-truth document has {compare_by}"
    if not ranking.retrieved:
        return "nothing was retrieved"
    if not _unique(ranking.retrieved, ignored=_EMPTY):
        return f"no retrieved document has {compare_by}"
    return None


def _why_not_comparable(
    truths: Sequence[Context],
    retrieved: Sequence[Context],
    compare_by: str,
    missing: str | None,
) -> str | None:
    if missing and any(document.text is None for document in (*truths, *retrieved)):
        return f"{missing}, and of some only the id is known"
    if compare_by != "id":
        return None
    if all(document.id is None for document in truths):
        return "no ground-truth document has an id"
    if all(document.id is None for document in retrieved):
        return "no retrieved document has an id"
    return None


def field_without_values(samples: Iterable[Sample], compare_by: str) -> FieldName | None:
    """Return the field with documents of which none in the data has the comparison value."""
    is_empty = dict.fromkeys(CONTEXT_FIELDS, True)
    without_value = set(CONTEXT_FIELDS)
    for sample in samples:
        for field in tuple(without_value):
            documents = getattr(sample, field) or ()
            is_empty[field] = is_empty[field] and not documents
            if any(value is not None for value in _values(documents, compare_by)):
                without_value.remove(field)
        if not without_value:
            return None
    for field in CONTEXT_FIELDS:
        if field in without_value and not is_empty[field]:
            return field
    return None


def average_precision(ranking: Ranking) -> Scored:
    missed = _unique(ranking.truths)
    total = len(missed)
    precisions = 0.0
    for rank, value in enumerate(ranking.retrieved, 1):
        if value in missed:
            missed.remove(value)
            precisions += (total - len(missed)) / rank
    if total == 0:
        return Scored(value=0)
    return Scored(value=precisions / total)


def reciprocal_rank(ranking: Ranking) -> Scored:
    relevant = _unique(ranking.truths)
    for rank, value in enumerate(ranking.retrieved, 1):
        if value in relevant:
            return Scored(value=1 / rank)
    return Scored(value=0)


def normalized_gain(ranking: Ranking) -> Scored:
    """NDCG. Raises ValueError for relevances that cannot be used."""
    relevant = _unique(ranking.truths)
    relevances = [0.0] * len(relevant)
    for relevance, value in zip(_checked(ranking.relevances), ranking.truths, strict=True):
        if value in relevant:
            position = relevant.index(value)
            relevances[position] = max(relevances[position], relevance)
    ideal = _discounted(sorted(relevances, reverse=True))
    if not isfinite(ideal):
        raise ValueError("the ground truth's scores are too large to be added")
    if not relevant:
        return Scored(value=0)
    if ideal == 0:
        return Scored(value=0, detail="no ground-truth document has a relevance above 0")
    gains = []
    for value in ranking.retrieved:
        gain = 0.0
        if value in relevant:
            position = relevant.index(value)
            relevant.pop(position)
            gain = relevances.pop(position)
        gains.append(gain)
    # If scores differ only in the last digit, rounding can put another order above the ideal one.
    return Scored(value=min(_discounted(gains) / ideal, 1))


def multi_hit(ranking: Ranking) -> Scored:
    relevant = _unique(ranking.truths, ignored=_EMPTY)
    if not relevant:
        return Scored(value=0)
    hits = sum(truth in ranking.retrieved for truth in relevant)
    return Scored(value=hits / len(relevant), numerator=hits, denominator=len(relevant))


def single_hit(ranking: Ranking) -> Scored:
    return Scored(value=float(multi_hit(ranking).value > 0))


_SHARE = "ground-truth documents retrieved"
_RANKS = "100 % for a right document in first place, 50 % in second and 33 % in third"
_ORDER = "with 100 % {}, the order of the documents reaches {{}} in an average sample"
_HIT = "{} of the questions have a right document among the "
_FOUND = "in an average sample, {} of the right documents "
MakeDocumentMetric = Callable[..., BuiltIn]
"""Makes a document metric, with the option `compare_by`."""
WHOLE_RANKING: tuple[MakeDocumentMetric, ...] = (
    partial(
        document_metric,
        "document_recall_single_hit",
        single_hit,
        f"{_HIT}documents found",
    ),
    partial(
        document_metric,
        "document_recall_multi_hit",
        multi_hit,
        f"{_FOUND}were found",
        _SHARE,
    ),
    partial(
        document_metric,
        "document_mrr",
        reciprocal_rank,
        f"with {_RANKS}, an average sample reaches {{}}",
    ),
    partial(
        document_metric,
        "document_map",
        average_precision,
        _ORDER.format("if all right documents come first"),
    ),
    partial(
        document_metric,
        "document_ndcg",
        normalized_gain,
        _ORDER.format("for the best order"),
    ),
)


def hit_rate_at(k: int) -> MakeDocumentMetric:

    def score(ranking: Ranking) -> Scored:
        return single_hit(_first(k, ranking))

    return partial(document_metric, f"hit_rate@{k}", score, f"{_HIT}first {k}")


def recall_at(k: int) -> MakeDocumentMetric:

    def score(ranking: Ranking) -> Scored:
        return multi_hit(_first(k, ranking))

    headline = f"{_FOUND}are among the first {k}"
    return partial(document_metric, f"recall@{k}", score, headline, _SHARE)


def precision_at(k: int) -> MakeDocumentMetric:

    def score(ranking: Ranking) -> Scored:
        hits = multi_hit(_first(k, ranking)).numerator or 0
        return Scored(value=hits / k, numerator=hits, denominator=k)

    headline = f"in an average sample, {{}} of the first {k} documents are right ones"
    counted = "places held by a ground-truth document"
    return partial(document_metric, f"precision@{k}", score, headline, counted)


def _first(k: int, ranking: Ranking) -> Ranking:
    return ranking._replace(retrieved=ranking.retrieved[:k])


def _values(documents: Sequence[Context], compare_by: str) -> list[Any]:
    """Return the comparison value of each document, shape (documents,), None if missing."""
    if compare_by == "content":
        return [document.text for document in documents]
    if compare_by == "id":
        return [document.id for document in documents]
    values: list[Any] = []
    for document in documents:
        value: Any = document.meta
        for key in compare_by.removeprefix("meta.").split("."):
            value = value.get(key) if isinstance(value, dict) else None
        values.append(value)
    return values


def _unique(values: Sequence[Any], *, ignored: tuple[Any, ...] = (None,)) -> list[Any]:
    """Return the distinct comparison values in order. They need not be hashable."""
    distinct: list[Any] = []
    for value in values:
        if value not in ignored and value not in distinct:
            distinct.append(value)
    return distinct


def _checked(relevances: Sequence[float | None]) -> list[float]:
    """Return the relevance of each ground-truth document: its score, or 1 if none has a score.

    Raises ValueError if only some have a score, or if one is negative.
    """
    scores = [score for score in relevances if score is not None]
    if not scores:
        return [1.0] * len(relevances)
    if len(scores) < len(relevances):
        counts = f"{len(scores)} of {len(relevances)} ground-truth documents have a score"
        raise ValueError(f"{counts}: give one to all of them or to none")
    if any(score < 0 for score in scores):
        problem = f"a ground-truth document has the negative score {min(scores)}"
        raise ValueError(f"{problem}: a relevance is 0 or more")
    return scores


def _discounted(gains: Sequence[float]) -> float:
    total = 0.0
    for rank, gain in enumerate(gains, 1):
        # Not sum(), which rounds differently from Python 3.12 on, and from Haystack.
        total += gain / log2(rank + 1)
    return total
