"""The document metrics on small rankings, worked by hand."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import log2

import pytest

from localjudge.errors import SampleError, UsageError
from localjudge.metrics.document_at_k import hit_rate, hit_rate_at_k, precision, precision_at_k, recall, recall_at_k
from localjudge.metrics.document_map import DOCUMENT_MAP, document_map
from localjudge.metrics.document_mrr import DOCUMENT_MRR, document_mrr
from localjudge.metrics.document_ndcg import DOCUMENT_NDCG, document_ndcg
from localjudge.metrics.document_recall import (
    DOCUMENT_RECALL_MULTI_HIT,
    DOCUMENT_RECALL_SINGLE_HIT,
    document_recall_multi_hit,
    document_recall_single_hit,
)
from localjudge.metrics.documents import DocumentMetric, DocumentScores
from localjudge.types import Context, Sample, Scored, Undefined

LISTS: list[Callable[..., DocumentScores]] = [
    document_recall_single_hit,
    document_recall_multi_hit,
    document_mrr,
    document_map,
    document_ndcg,
    partial(hit_rate_at_k, k=3),
    partial(precision_at_k, k=3),
    partial(recall_at_k, k=3),
]
FOR_SAMPLES = [
    DOCUMENT_RECALL_SINGLE_HIT,
    DOCUMENT_RECALL_MULTI_HIT,
    DOCUMENT_MRR,
    DOCUMENT_MAP,
    DOCUMENT_NDCG,
    hit_rate(3),
    precision(3),
    recall(3),
]
TRUTHS = [["a", "b", "c", "d"], ["x"], ["p", "q"]]
RETRIEVED = [["n", "a", "n", "c"], ["x"], ["m", "n"]]
"""Hits at ranks 2 and 4 of four truths; the only truth at rank 1; none of two."""


def test_single_hit_asks_whether_any_document_was_found() -> None:
    assert document_recall_single_hit(TRUTHS, RETRIEVED) == (2 / 3, [1, 1, 0])


def test_multi_hit_is_the_share_that_was_found() -> None:
    assert document_recall_multi_hit(TRUTHS, RETRIEVED) == (0.5, [2 / 4, 1, 0])  # (.5 + 1 + 0) / 3


def test_reciprocal_rank_is_that_of_the_first_hit() -> None:
    assert document_mrr(TRUTHS, RETRIEVED) == (0.5, [1 / 2, 1, 0])


def test_average_precision_divides_by_all_truths() -> None:
    assert document_map(TRUTHS, RETRIEVED).individual_scores == [(1 / 2 + 2 / 4) / 4, 1, 0]


def test_ndcg_without_scores_counts_every_truth_as_one() -> None:
    dcg = 1 / log2(3) + 1 / log2(5)
    ideal = 1 + 1 / log2(3) + 1 / log2(4) + 1 / log2(5)
    assert document_ndcg(TRUTHS, RETRIEVED).individual_scores == pytest.approx([dcg / ideal, 1, 0])


def test_ndcg_weighs_by_score() -> None:
    truths = [Context(text="much", score=3), Context(text="little", score=1)]
    dcg, ideal = 1 / log2(2) + 3 / log2(3), 3 / log2(2) + 1 / log2(3)
    assert document_ndcg([truths], [["little", "much"]]).score == pytest.approx(dcg / ideal)


def test_at_k_looks_at_the_first_k_only() -> None:
    assert hit_rate_at_k(TRUTHS, RETRIEVED, 1).individual_scores == [0, 1, 0]
    assert recall_at_k(TRUTHS, RETRIEVED, 3).individual_scores == [1 / 4, 1, 0]


def test_precision_at_k_divides_by_k_even_where_fewer_were_retrieved() -> None:
    assert precision_at_k(TRUTHS, RETRIEVED, 4).individual_scores == [2 / 4, 1 / 4, 0]


def test_a_document_that_is_retrieved_twice_is_one_hit() -> None:
    truths, retrieved = [["a", "b"]], [["a", "a"]]
    assert document_recall_multi_hit(truths, retrieved).score == 1 / 2
    assert document_map(truths, retrieved).score == 1 / 2
    assert document_ndcg(truths, retrieved).score == 1 / (1 + 1 / log2(3))
    assert precision_at_k(truths, retrieved, 2).score == 1 / 2


@pytest.mark.parametrize("metric", LISTS)
def test_nothing_to_compare_scores_0(metric: Callable[..., DocumentScores]) -> None:
    assert metric([[], ["a"]], [["a"], []]) == (0, [0, 0])


@pytest.mark.parametrize("metric", LISTS)
def test_lists_of_different_lengths_are_a_value_error(metric: Callable[..., DocumentScores]) -> None:
    with pytest.raises(ValueError, match="as many of each"):
        metric([["a"]], [["a"], ["b"]])


@pytest.mark.parametrize("metric", LISTS)
def test_no_questions_are_a_value_error(metric: Callable[..., DocumentScores]) -> None:
    with pytest.raises(ValueError, match="there are no questions"):
        metric([], [])


@pytest.mark.parametrize("metric", LISTS)
def test_an_unknown_comparison_value_is_a_value_error(metric: Callable[..., DocumentScores]) -> None:
    with pytest.raises(ValueError, match="use content, id or meta"):
        metric([["a"]], [["a"]], compare_by="title")


@pytest.mark.parametrize("metric", LISTS)
def test_documents_are_compared_by_what_is_asked_for(metric: Callable[..., DocumentScores]) -> None:
    truth = Context(text="old words", id="1", meta={"source": {"url": "u"}})
    for by, found in (("content", False), ("id", True), ("meta.source.url", True), ("meta.source.page", False)):
        retrieved = Context(text="new words", id="1", meta={"source": {"url": "u"}})
        assert (metric([[truth]], [[retrieved]], compare_by=by).score > 0) == found


@pytest.mark.parametrize("metric", LISTS)
def test_a_comparison_value_may_be_a_list(metric: Callable[..., DocumentScores]) -> None:
    document = Context(text="a", meta={"pages": [1, 2]})
    assert metric([[document]], [[document]], compare_by="meta.pages").score > 0


@pytest.mark.parametrize("metric", FOR_SAMPLES, ids=lambda metric: metric.name)
def test_a_sample_scores_as_its_lists_do(metric: DocumentMetric) -> None:
    of_lists = LISTS[FOR_SAMPLES.index(metric)]
    for truths, retrieved in zip(TRUTHS, RETRIEVED, strict=True):
        outcome = metric.score(sample_of(truths, retrieved))
        assert isinstance(outcome, Scored)
        assert outcome.value == of_lists([truths], [retrieved]).score


@pytest.mark.parametrize("metric", FOR_SAMPLES, ids=lambda metric: metric.name)
@pytest.mark.parametrize(
    ("truths", "retrieved", "reason"),
    [
        ([], ["a"], "there is no ground truth"),
        (["a"], [], "nothing was retrieved"),
        ([""], ["a"], "no ground-truth document has content"),
        (["a"], [""], "no retrieved document has content"),
        (["a"], ["b"], None),
    ],
)
def test_a_0_that_means_nothing_to_compare_says_so(
    metric: DocumentMetric, truths: list[str], retrieved: list[str], reason: str | None
) -> None:
    outcome = metric.score(sample_of(truths, retrieved))
    assert isinstance(outcome, Scored)
    assert (outcome.value, outcome.detail) == (0, reason)


@pytest.mark.parametrize("metric", FOR_SAMPLES, ids=lambda metric: metric.name)
def test_a_null_is_undefined(metric: DocumentMetric) -> None:
    assert metric.score(Sample(id="1", reference_contexts=())) == Undefined(reason="retrieved_contexts is null")
    assert metric.score(Sample(id="1", retrieved_contexts=())) == Undefined(reason="reference_contexts is null")


def test_recall_says_what_was_divided_by_what() -> None:
    outcome = DOCUMENT_RECALL_MULTI_HIT.score(sample_of(TRUTHS[0], RETRIEVED[0]))
    assert outcome == Scored(value=0.5, numerator=2, denominator=4)


@pytest.mark.parametrize("scores", [(1.0, None), (1.0, -1.0), (1.7e308, 1.7e308)])
def test_relevances_that_cannot_be_used_fail_the_sample(scores: tuple[float | None, ...]) -> None:
    truths = tuple(Context(text=str(index), score=score) for index, score in enumerate(scores))
    with pytest.raises(SampleError, match="sample s7"):
        DOCUMENT_NDCG.score(Sample(id="s7", reference_contexts=truths, retrieved_contexts=truths))


def test_relevances_of_0_are_no_ground_truth() -> None:
    truths = (Context(text="a", score=0),)
    outcome = DOCUMENT_NDCG.score(Sample(id="1", reference_contexts=truths, retrieved_contexts=truths))
    assert outcome == Scored(value=0, detail="no ground-truth document has a relevance above 0")


def test_a_name_holds_its_k() -> None:
    assert [metric(5).name for metric in (hit_rate, precision, recall)] == [
        "hit_rate@5",
        "precision@5",
        "recall@5",
    ]


def test_a_metric_that_cannot_work_is_refused_before_any_sample() -> None:
    with pytest.raises(UsageError, match="use content, id or meta"):
        replace(DOCUMENT_MAP, compare_by="title")
    with pytest.raises(ValueError, match="give 1 or more"):
        recall(0)
    with pytest.raises(ValueError, match="give 1 or more"):
        recall_at_k(TRUTHS, RETRIEVED, 0)


def sample_of(truths: list[str], retrieved: list[str]) -> Sample:
    return Sample(
        id="1",
        reference_contexts=tuple(Context(text=text) for text in truths),
        retrieved_contexts=tuple(Context(text=text) for text in retrieved),
    )
