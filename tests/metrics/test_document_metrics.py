from math import log2

import pytest

from localjudge.errors import SampleError
from localjudge.metrics import Context, Sample, Scored, Undefined
from localjudge.metrics.documents import (
    RankingMeasure,
    hit_rate_at,
    precision_at,
    recall_at,
)
from tests.metrics.conftest import OURS, outcome_of, sample_of, score_lists

MEASURES = [*OURS.values(), hit_rate_at(3), precision_at(3), recall_at(3)]
TRUTHS = [["a", "b", "c", "d"], ["x"], ["p", "q"]]
RETRIEVED = [["n", "a", "n", "c"], ["x"], ["m", "n"]]
"""Hits at ranks 2 and 4 of four truths; the only truth at rank 1; none of two."""


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (OURS["single_hit"], [1, 1, 0]),
        (OURS["multi_hit"], [2 / 4, 1, 0]),
        (OURS["mrr"], [1 / 2, 1, 0]),
        (OURS["map"], [(1 / 2 + 2 / 4) / 4, 1, 0]),
        (hit_rate_at(1), [0, 1, 0]),
        (recall_at(3), [1 / 4, 1, 0]),
        (precision_at(4), [2 / 4, 1 / 4, 0]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_document_metrics_by_hand(measure: RankingMeasure, expected: list[float]) -> None:
    """Average precision divides by all truths, and precision by k even if fewer documents were retrieved."""
    assert score_lists(measure, TRUTHS, RETRIEVED).individual_scores == expected


def test_ndcg_weighs_by_score_and_counts_every_truth_as_one_without_scores() -> None:
    dcg = 1 / log2(3) + 1 / log2(5)
    ideal = 1 + 1 / log2(3) + 1 / log2(4) + 1 / log2(5)
    assert score_lists(OURS["ndcg"], TRUTHS, RETRIEVED).individual_scores == pytest.approx([dcg / ideal, 1, 0])
    truths = [Context(text="much", score=3), Context(text="little", score=1)]
    dcg, ideal = 1 / log2(2) + 3 / log2(3), 3 / log2(2) + 1 / log2(3)
    assert score_lists(OURS["ndcg"], [truths], [["little", "much"]]).score == pytest.approx(dcg / ideal)


def test_a_document_that_is_retrieved_twice_is_one_hit() -> None:
    truths, retrieved = [["a", "b"]], [["a", "a"]]
    assert score_lists(OURS["multi_hit"], truths, retrieved).score == 1 / 2
    assert score_lists(OURS["map"], truths, retrieved).score == 1 / 2
    assert score_lists(OURS["ndcg"], truths, retrieved).score == 1 / (1 + 1 / log2(3))
    assert score_lists(precision_at(2), truths, retrieved).score == 1 / 2


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_documents_are_compared_by_the_chosen_field(measure: RankingMeasure) -> None:
    truth = Context(text="old words", id="1", meta={"source": {"url": "u"}})
    for by, same in (("content", False), ("id", True), ("meta.source.url", True), ("meta.source.page", False)):
        retrieved = Context(text="new words", id="1", meta={"source": {"url": "u"}})
        assert (score_lists(measure, [[truth]], [[retrieved]], compare_by=by).score > 0) == same
    # A comparison value may be a list.
    document = Context(text="a", meta={"pages": [1, 2]})
    assert score_lists(measure, [[document]], [[document]], compare_by="meta.pages").score > 0


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
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
def test_a_zero_without_ground_truth_is_explained(
    measure: RankingMeasure, truths: list[str], retrieved: list[str], reason: str | None
) -> None:
    outcome = outcome_of(measure, sample_of(truths, retrieved)).model_dump()
    assert (outcome["value"], outcome["detail"]) == (0, reason)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_a_null_is_undefined(measure: RankingMeasure) -> None:
    assert outcome_of(measure, Sample(id="1", reference_contexts=())) == Undefined(reason="retrieved_contexts is null")
    assert outcome_of(measure, Sample(id="1", retrieved_contexts=())) == Undefined(reason="reference_contexts is null")


@pytest.mark.parametrize("scores", [(1.0, None), (1.0, -1.0), (1.7e308, 1.7e308)])
def test_invalid_relevances_fail_the_sample(scores: tuple[float | None, ...]) -> None:
    truths = tuple(Context(text=str(index), score=score) for index, score in enumerate(scores))
    with pytest.raises(SampleError, match="sample s7"):
        outcome_of(OURS["ndcg"], Sample(id="s7", reference_contexts=truths, retrieved_contexts=truths))
    # Relevances of 0 are not a ground truth.
    outcome = outcome_of(OURS["ndcg"], sample_of([Context(text="a", score=0)], ["a"]))
    assert outcome == Scored(value=0, detail="no ground-truth document has a relevance above 0")
