"""Our document metrics by hand, and equal to the components of haystack-ai, float for float."""

import os
import random
from collections.abc import Callable, Sequence
from itertools import product
from math import log2
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge import Sample
from localjudge.metrics import Context, Outcome, SampleError, Scored, Undefined, catalog
from localjudge.text import Segmenter

sentences = Segmenter()

SINGLE_HIT = "document_recall_single_hit"
MULTI_HIT = "document_recall_multi_hit"
MRR = "document_mrr"
MAP = "document_map"
NDCG = "document_ndcg"
OF_HAYSTACK = [SINGLE_HIT, MULTI_HIT, MRR, MAP, NDCG]


class DocumentScores(NamedTuple):
    """Scores of a metric over all questions: `score` is the mean of `individual_scores`."""

    score: float
    individual_scores: list[float]


def score_lists(
    metric: str,
    truths: Sequence[Sequence[Context | str]],
    retrieved: Sequence[Sequence[Context | str]],
    *,
    compare_by: str = "content",
) -> DocumentScores:
    """Score every question as a separate sample. A document may be a plain text."""
    samples = [make_sample(*lists) for lists in zip(truths, retrieved, strict=True)]
    outcomes = [compute_outcome(metric, sample, compare_by=compare_by) for sample in samples]
    scores = [outcome.value for outcome in outcomes if isinstance(outcome, Scored)]
    assert len(scores) == len(outcomes)
    return DocumentScores(sum(scores) / len(scores), scores)


def compute_outcome(metric: str, sample: Sample, *, compare_by: str = "content") -> Outcome:
    made = catalog.get(f"{metric}(compare_by={compare_by})")
    with pytest.raises(StopIteration) as finished:
        next(made.steps(sample, sentences))
    return finished.value.value  # type: ignore[no-any-return]


def make_sample(truths: Sequence[Context | str], retrieved: Sequence[Context | str]) -> Sample:
    return Sample(
        id="1", reference_contexts=_documents(truths), retrieved_contexts=_documents(retrieved)
    )


def _documents(documents: Sequence[Context | str]) -> tuple[Context, ...]:
    return tuple(
        Context(text=document) if isinstance(document, str) else document for document in documents
    )


METRICS = [*OF_HAYSTACK, "hit_rate@3", "precision@3", "recall@3"]
TRUTHS = [["a", "b", "c", "d"], ["x"], ["p", "q"]]
RETRIEVED = [["n", "a", "n", "c"], ["x"], ["m", "n"]]
"""Hits at ranks 2 and 4 of four truths; the only truth at rank 1; none of two."""


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (SINGLE_HIT, [1, 1, 0]),
        (MULTI_HIT, [2 / 4, 1, 0]),
        (MRR, [1 / 2, 1, 0]),
        (MAP, [(1 / 2 + 2 / 4) / 4, 1, 0]),
        ("hit_rate@1", [0, 1, 0]),
        ("recall@3", [1 / 4, 1, 0]),
        ("precision@4", [2 / 4, 1 / 4, 0]),
    ],
)
def test_document_metrics_by_hand(metric: str, expected: list[float]) -> None:
    """Average precision divides by all truths, and precision by k even if fewer are retrieved."""
    assert score_lists(metric, TRUTHS, RETRIEVED).individual_scores == expected


def test_ndcg_weighs_by_score_and_counts_every_truth_as_one_without_scores() -> None:
    dcg = 1 / log2(3) + 1 / log2(5)
    ideal = 1 + 1 / log2(3) + 1 / log2(4) + 1 / log2(5)
    assert score_lists(NDCG, TRUTHS, RETRIEVED).individual_scores == pytest.approx(
        [dcg / ideal, 1, 0]
    )
    truths = [Context(text="much", score=3), Context(text="little", score=1)]
    dcg = 1 / log2(2) + 3 / log2(3)
    ideal = 3 / log2(2) + 1 / log2(3)
    assert score_lists(NDCG, [truths], [["little", "much"]]).score == pytest.approx(dcg / ideal)


def test_a_document_that_is_retrieved_twice_is_one_hit() -> None:
    truths = [["a", "b"]]
    retrieved = [["a", "a"]]
    assert score_lists(MULTI_HIT, truths, retrieved).score == 1 / 2
    assert score_lists(MAP, truths, retrieved).score == 1 / 2
    assert score_lists(NDCG, truths, retrieved).score == 1 / (1 + 1 / log2(3))
    assert score_lists("precision@2", truths, retrieved).score == 1 / 2


@pytest.mark.parametrize("metric", METRICS)
def test_documents_are_compared_by_the_chosen_field(metric: str) -> None:
    truth = Context(text="old words", id="1", meta={"source": {"url": "u"}})
    for by, same in (
        ("content", False),
        ("id", True),
        ("meta.source.url", True),
        ("meta.source.page", False),
    ):
        retrieved = Context(text="new words", id="1", meta={"source": {"url": "u"}})
        assert (score_lists(metric, [[truth]], [[retrieved]], compare_by=by).score > 0) == same
    # A comparison value may be a list.
    document = Context(text="a", meta={"pages": [1, 2]})
    assert score_lists(metric, [[document]], [[document]], compare_by="meta.pages").score > 0


@pytest.mark.parametrize("metric", METRICS)
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
def test_a_zero_is_explained(
    metric: str, truths: list[str], retrieved: list[str], reason: str
) -> None:
    outcome = compute_outcome(metric, make_sample(truths, retrieved)).model_dump()
    assert (outcome["value"], outcome["detail"]) == (0, reason)


@pytest.mark.parametrize("metric", METRICS)
def test_a_null_is_undefined(metric: str) -> None:
    assert compute_outcome(metric, Sample(id="1", reference_contexts=())) == Undefined(
        reason="retrieved_contexts is null"
    )
    assert compute_outcome(metric, Sample(id="1", retrieved_contexts=())) == Undefined(
        reason="reference_contexts is null"
    )


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("by", "retrieved", "reason"),
    [
        ("content", Context(id="a"), "no ground-truth document has content"),
        ("id", Context(text="t"), "no retrieved document has id"),
        ("meta.page", Context(id="a"), "no ground-truth document has meta.page"),
    ],
)
def test_incomparable_contexts_are_undefined(
    metric: str, by: str, retrieved: Context, reason: str
) -> None:
    outcome = compute_outcome(metric, make_sample([Context(id="a")], [retrieved]), compare_by=by)
    assert outcome == Undefined(reason=f"{reason}, and of some only the id is known")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("by", "truth", "retrieved", "side"),
    [
        ("id", Context(text="a"), Context(text="a"), "ground-truth"),
        ("id", Context(text="a", id="1"), Context(text="a"), "retrieved"),
        ("id", Context(text="a"), Context(text="a", id="1"), "ground-truth"),
    ],
)
def test_documents_without_ids_are_undefined_and_not_0(
    metric: str, by: str, truth: Context, retrieved: Context, side: str
) -> None:
    outcome = compute_outcome(metric, make_sample([truth], [retrieved]), compare_by=by)
    assert outcome == Undefined(reason=f"no {side} document has an id")


@pytest.mark.parametrize("scores", [(1.0, None), (1.0, -1.0), (1.7e308, 1.7e308)])
def test_invalid_relevances_fail_the_sample(scores: tuple[float | None, ...]) -> None:
    truths = tuple(Context(text=str(index), score=score) for index, score in enumerate(scores))
    with pytest.raises(SampleError, match="sample s7"):
        compute_outcome(NDCG, Sample(id="s7", reference_contexts=truths, retrieved_contexts=truths))
    # Relevances of 0 are not a ground truth.
    outcome = compute_outcome(NDCG, make_sample([Context(text="a", score=0)], ["a"]))
    assert outcome == Scored(value=0, detail="no ground-truth document has a relevance above 0")


os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # read when haystack is imported

Questions = Sequence[Sequence[Context]]

COMPARED_BY = ["content", "id", "meta.a", "meta.a.b", "meta.missing"]


@pytest.fixture(scope="module")
def theirs() -> dict[str, Callable[[str], Any]]:
    evaluators = pytest.importorskip("haystack.components.evaluators")
    return {
        SINGLE_HIT: lambda by: evaluators.DocumentRecallEvaluator("single_hit", by),
        MULTI_HIT: lambda by: evaluators.DocumentRecallEvaluator("multi_hit", by),
        MRR: evaluators.DocumentMRREvaluator,
        MAP: evaluators.DocumentMAPEvaluator,
        NDCG: evaluators.DocumentNDCGEvaluator,
    }


def as_haystack(questions: Questions) -> list[list[Any]]:
    from haystack import Document

    return [
        [Document(content=c.text, id=c.id or "", meta=c.meta, score=c.score) for c in row]
        for row in questions
    ]


def contexts(rng: random.Random, scored: bool) -> list[Context]:
    return [
        Context(
            text=rng.choice(["", "a", "b", "c", "d", "e"]),
            id=rng.choice("1234567"),
            meta=rng.choice(
                [{}, {"a": 1}, {"a": "x"}, {"a": None}, {"a": {"b": 1}}, {"a": {"b": "y"}}]
            ),
            score=rng.choice([0.0, 0.5, 1.0, 2.0, 0.1]) if scored else None,
        )
        for _ in range(rng.randrange(9))
    ]


# A meta value that is an object cannot be hashed: Haystack's recall and NDCG stop at it.
UNHASHABLE = {(SINGLE_HIT, "meta.a"), (MULTI_HIT, "meta.a"), (NDCG, "meta.a")}


# The six questions of Haystack's own tests, with letters for texts, in order of retrieval.
SIX_TRUTHS = [["a"], ["b", "c"], ["d", "e"], ["f", "g"], ["h i j"], ["k", "l"]]
SIX_RETRIEVED = [
    ["a"],
    ["b", "k", "c"],
    ["e", "m", "n"],
    ["o", "g", "f"],
    ["h", "j", "i"],
    ["k", "p", "l", "l"],
]
SIX_WORSE = [["a"], ["k", "b", "c"], ["m", "n", "e"], *SIX_RETRIEVED[3:]]
SIX_FOUR_OF_ONE = [*SIX_TRUTHS[:4], ["h", "i", "j", "h i j"], SIX_TRUTHS[5]]
GRADED = [
    Context(text=text, score=score)
    for text, score in zip("123678", (3, 2, 3, 2, 3, 2), strict=True)
]


@pytest.mark.parametrize(
    ("metric", "truths", "retrieved", "individual", "score"),
    [
        (SINGLE_HIT, SIX_TRUTHS, SIX_RETRIEVED, [1, 1, 1, 1, 0, 1], 0.8333333333333334),
        (MULTI_HIT, SIX_FOUR_OF_ONE, SIX_RETRIEVED, [1, 1, 0.5, 1, 0.75, 1], 0.875),
        (MRR, SIX_TRUTHS, SIX_WORSE, [1, 0.5, 1 / 3, 0.5, 0, 1], 0.5555555555555555),
        (MAP, SIX_TRUTHS, SIX_RETRIEVED, [1, 0.8333333, 0.5, 0.5833333, 0, 0.8333333], 0.625),
        (NDCG, [["a", "b"], GRADED], [["a", "c", "b"], list("12345")], [0.9197, 0.6592], 0.7895),
    ],
)
def test_published_haystack_examples_are_reproduced(
    metric: str,
    truths: list[list[str]],
    retrieved: list[list[str]],
    individual: list[float],
    score: float,
) -> None:
    """Numbers of haystack's `test/components/evaluators`. MAP divides by all truths, as of late."""
    actual = score_lists(metric, truths, retrieved)
    assert [actual.score, *actual.individual_scores] == pytest.approx(
        [score, *individual], abs=1e-4
    )


@pytest.mark.parametrize(
    ("metric", "by"),
    [pair for pair in product(OF_HAYSTACK, COMPARED_BY) if pair not in UNHASHABLE],
)
def test_random_rankings_score_as_in_haystack(
    theirs: dict[str, Callable[[str], Any]],
    metric: str,
    by: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logger = pytest.importorskip("haystack.components.evaluators.document_recall").logger
    monkeypatch.setattr(logger, "warning", lambda *_, **__: None)
    rng = random.Random(f"{metric} {by}")
    evaluator = theirs[metric](by)
    for _ in range(200):
        questions = rng.randrange(1, 7)
        truths = [contexts(rng, scored=bool(index % 2)) for index in range(questions)]
        retrieved = [contexts(rng, scored=False) for _ in range(questions)]
        expected = evaluator.run(
            ground_truth_documents=as_haystack(truths),
            retrieved_documents=as_haystack(retrieved),
        )
        actual = score_lists(metric, truths, retrieved, compare_by=by)
        assert (actual.score, actual.individual_scores) == (
            expected["score"],
            expected["individual_scores"],
        )


def test_mixed_scores_are_refused_as_in_haystack(theirs: dict[str, Callable[[str], Any]]) -> None:
    truths = [[Context(text="a", score=1), Context(text="b")]]
    with pytest.raises(ValueError, match="must have a score"):
        theirs[NDCG]("content").run(
            ground_truth_documents=as_haystack(truths), retrieved_documents=[[]]
        )
    with pytest.raises(SampleError, match="1 of 2 ground-truth documents"):
        score_lists(NDCG, truths, [[]])


def lists_of_documents(score: st.SearchStrategy[float | None]) -> st.SearchStrategy[list[Context]]:
    text = st.sampled_from(["", "a", "b", "c", "d"]) | st.text()
    pages = st.none() | st.integers() | st.lists(st.integers()) | st.text()
    meta = st.dictionaries(st.just("a"), pages, max_size=1)
    identifier = st.none() | st.sampled_from("123")
    return st.lists(
        st.builds(Context, text=text, id=identifier, meta=meta, score=score), max_size=8
    )


UNSCORED = lists_of_documents(st.none())


@given(
    rows=st.lists(
        st.tuples(UNSCORED | lists_of_documents(st.floats(0, 1e300)), UNSCORED),
        min_size=1,
        max_size=4,
    ),
    by=st.sampled_from(["content", "id", "meta.a"]),
    k=st.integers(1, 10),
)
def test_every_score_lies_between_0_and_1(
    rows: list[tuple[list[Context], list[Context]]], by: str, k: int
) -> None:
    for metric in [*OF_HAYSTACK, f"hit_rate@{k}", f"precision@{k}", f"recall@{k}"]:
        for truths, retrieved in rows:
            outcome = compute_outcome(metric, make_sample(truths, retrieved), compare_by=by)
            if isinstance(outcome, Undefined):
                assert by == "id"
            else:
                assert isinstance(outcome, Scored)
                assert 0 <= outcome.value <= 1
