"""Our document metrics equal the components of haystack-ai, float for float."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge.errors import SampleError
from localjudge.metrics import Context
from localjudge.metrics.documents import (
    hit_rate_at,
    precision_at,
    recall_at,
)
from tests.metrics.conftest import OURS, score_lists

if TYPE_CHECKING:
    from haystack import Document

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # read when haystack is imported

Questions = Sequence[Sequence[Context]]

COMPARED_BY = ["content", "id", "meta.a", "meta.a.b", "meta.missing"]


@pytest.fixture(scope="module")
def theirs() -> dict[str, Callable[[str], Any]]:
    evaluators = pytest.importorskip("haystack.components.evaluators")
    return {
        "single_hit": lambda by: evaluators.DocumentRecallEvaluator("single_hit", by),
        "multi_hit": lambda by: evaluators.DocumentRecallEvaluator("multi_hit", by),
        "mrr": evaluators.DocumentMRREvaluator,
        "map": evaluators.DocumentMAPEvaluator,
        "ndcg": evaluators.DocumentNDCGEvaluator,
    }


def as_haystack(questions: Questions) -> list[list[Document]]:
    from haystack import Document

    return [[Document(content=c.text, id=c.id or "", meta=c.meta, score=c.score) for c in row] for row in questions]


def contexts(rng: random.Random, scored: bool) -> list[Context]:
    """Up to eight documents with few values, which gives hits, repetitions, empty texts and missing meta."""
    return [
        Context(
            text=rng.choice(["", "a", "b", "c", "d", "e"]),
            id=rng.choice("1234567"),
            meta=rng.choice([{}, {"a": 1}, {"a": "x"}, {"a": None}, {"a": {"b": 1}}, {"a": {"b": "y"}}]),
            score=rng.choice([0.0, 0.5, 1.0, 2.0, 0.1]) if scored else None,
        )
        for _ in range(rng.randrange(9))
    ]


# A meta value that is an object cannot be hashed: Haystack's recall and NDCG stop at it.
UNHASHABLE = {("single_hit", "meta.a"), ("multi_hit", "meta.a"), ("ndcg", "meta.a")}


# The six questions of Haystack's own tests, letters for their texts, in the order in which each test retrieves them.
SIX_TRUTHS = [["a"], ["b", "c"], ["d", "e"], ["f", "g"], ["h i j"], ["k", "l"]]
SIX_RETRIEVED = [["a"], ["b", "k", "c"], ["e", "m", "n"], ["o", "g", "f"], ["h", "j", "i"], ["k", "p", "l", "l"]]
SIX_WORSE = [["a"], ["k", "b", "c"], ["m", "n", "e"], *SIX_RETRIEVED[3:]]
SIX_FOUR_OF_ONE = [*SIX_TRUTHS[:4], ["h", "i", "j", "h i j"], SIX_TRUTHS[5]]
GRADED = [Context(text=text, score=score) for text, score in zip("123678", (3, 2, 3, 2, 3, 2), strict=True)]


@pytest.mark.parametrize(
    ("name", "truths", "retrieved", "individual", "score"),
    [
        ("single_hit", SIX_TRUTHS, SIX_RETRIEVED, [1, 1, 1, 1, 0, 1], 0.8333333333333334),
        ("multi_hit", SIX_FOUR_OF_ONE, SIX_RETRIEVED, [1, 1, 0.5, 1, 0.75, 1], 0.875),
        ("mrr", SIX_TRUTHS, SIX_WORSE, [1, 0.5, 1 / 3, 0.5, 0, 1], 0.5555555555555555),
        ("map", SIX_TRUTHS, SIX_RETRIEVED, [1, 0.8333333, 0.5, 0.5833333, 0, 0.8333333], 0.625),
        ("ndcg", [["a", "b"], GRADED], [["a", "c", "b"], list("12345")], [0.9197, 0.6592], 0.7895),
    ],
)
def test_published_haystack_examples_are_reproduced(
    name: str, truths: list[list[str]], retrieved: list[list[str]], individual: list[float], score: float
) -> None:
    """Numbers of haystack's `test/components/evaluators`. MAP divides by the number of truths, as newer versions do."""
    actual = score_lists(OURS[name], truths, retrieved)
    assert [actual.score, *actual.individual_scores] == pytest.approx([score, *individual], abs=1e-4)


@pytest.mark.parametrize(
    ("name", "by"), [(name, by) for name in OURS for by in COMPARED_BY if (name, by) not in UNHASHABLE]
)
def test_random_rankings_score_as_in_haystack(
    theirs: dict[str, Callable[[str], Any]], name: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 sets of one to six questions for each metric and comparison value: 22 * 200 = 4,400 comparisons."""
    logger = pytest.importorskip("haystack.components.evaluators.document_recall").logger
    monkeypatch.setattr(logger, "warning", lambda *_, **__: None)
    rng = random.Random(f"{name} {by}")
    evaluator = theirs[name](by)
    for _ in range(200):
        questions = rng.randrange(1, 7)
        truths = [contexts(rng, scored=bool(index % 2)) for index in range(questions)]
        retrieved = [contexts(rng, scored=False) for _ in range(questions)]
        expected = evaluator.run(ground_truth_documents=as_haystack(truths), retrieved_documents=as_haystack(retrieved))
        actual = score_lists(OURS[name], truths, retrieved, compare_by=by)
        assert (actual.score, actual.individual_scores) == (expected["score"], expected["individual_scores"])


def test_mixed_scores_are_refused_as_in_haystack(theirs: dict[str, Callable[[str], Any]]) -> None:
    truths = [[Context(text="a", score=1), Context(text="b")]]
    with pytest.raises(ValueError, match="must have a score"):
        theirs["ndcg"]("content").run(ground_truth_documents=as_haystack(truths), retrieved_documents=[[]])
    with pytest.raises(SampleError, match="1 of 2 ground-truth documents have a score"):
        score_lists(OURS["ndcg"], truths, [[]])


def documents(score: st.SearchStrategy[float | None]) -> st.SearchStrategy[list[Context]]:
    text = st.sampled_from(["", "a", "b", "c", "d"]) | st.text()
    pages = st.none() | st.integers() | st.lists(st.integers()) | st.text()
    meta = st.dictionaries(st.just("a"), pages, max_size=1)
    identifier = st.none() | st.sampled_from("123")
    return st.lists(st.builds(Context, text=text, id=identifier, meta=meta, score=score), max_size=8)


@settings(deadline=None)
@given(
    rows=st.lists(
        st.tuples(documents(st.none()) | documents(st.floats(0, 1e300)), documents(st.none())), min_size=1, max_size=4
    ),
    by=st.sampled_from(["content", "id", "meta.a"]),
    k=st.integers(1, 10),
)
def test_every_score_lies_between_0_and_1(rows: list[tuple[list[Context], list[Context]]], by: str, k: int) -> None:
    truths, retrieved = [row[0] for row in rows], [row[1] for row in rows]
    measures = [*OURS.values(), hit_rate_at(k), precision_at(k), recall_at(k)]
    results = [score_lists(measure, truths, retrieved, compare_by=by) for measure in measures]
    assert all(0 <= score <= 1 for result in results for score in (result.score, *result.individual_scores))
