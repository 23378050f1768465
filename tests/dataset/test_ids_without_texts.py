"""Contexts of which nothing but the id is known: read as such, compared by id, and never judged."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge.dataset import load
from localjudge.engine import ScriptedEngine
from localjudge.errors import DataError, InputError
from localjudge.metrics import catalog
from localjudge.report.export import Added, exported
from localjudge.report.terminal import Lines
from localjudge.run.verify import verify_run as verify
from localjudge.text import sentences
from localjudge.types import Context, Outcome, Sample, Scored, Undefined

RAGAS: list[dict[str, Any]] = [
    {"user_input": "Why?", "response": "So.", "retrieved_context_ids": ["a", "b", "c"], "reference_context_ids": ["b"]},
    {"user_input": "How?", "response": "So.", "retrieved_context_ids": ["d"], "reference_context_ids": ["e", "f"]},
]
"""What ragas's IDBasedContextPrecision and IDBasedContextRecall (0.4.3) take: ids, texts or whole numbers."""


def contexts(*ids: str) -> tuple[Context, ...]:
    return tuple(Context(id=identifier) for identifier in ids)


def run(out: Path, rows: list[dict[str, Any]], **options: Any) -> localjudge.Run:
    return localjudge.evaluate(rows, out=out, engine=ScriptedEngine({}, default=0.9), **options)


def outcome_of(name: str, sample: Sample) -> Outcome:
    """The outcome of a metric that asks nothing."""
    with pytest.raises(StopIteration) as finished:
        next(catalog.get(name).steps(sample, sentences))
    return finished.value.value  # type: ignore[no-any-return]


@pytest.mark.parametrize("ids", [["7", "8"], [7, 8]])
def test_ids_in_a_column_of_their_own_are_contexts_without_texts(ids: list[Any]) -> None:
    data = load([{"question": "q", "retrieved_context_ids": ids}])
    assert data.samples[0].retrieved_contexts == contexts("7", "8")
    assert data.fields == {"user_input", "retrieved_contexts"}
    assert data.table.without_text == {"retrieved_contexts"}


def test_ids_in_csv_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('question,retrieved_context_ids\nq,"[7, 8]"\nr,\n')
    assert [sample.retrieved_contexts for sample in load(tmp_path / "a.csv").samples] == [contexts("7", "8"), None]


def test_objects_with_ids_and_scores_alone_are_contexts_without_texts() -> None:
    data = load([{"reference_contexts": [{"id": "a", "score": 1, "text": None}, {"doc_id": "b", "score": 2}]}])
    assert data.samples[0].reference_contexts == (Context(id="a", score=1), Context(id="b", score=2))


def test_a_sample_without_texts_is_a_row_like_any_other() -> None:
    sample = Sample(id="1", retrieved_contexts=contexts("a"), reference_contexts=(Context(text="t"),))
    assert load([sample]).samples == (sample,)
    assert load([json.loads(sample.model_dump_json())]).samples == (sample,)


def test_another_id_is_another_sample_and_no_text_is_not_an_empty_text() -> None:
    rows = [{"id": "1", "contexts": [given]} for given in ({"id": "a"}, {"id": "b"}, {"id": "a", "text": ""})]
    assert len({load([row]).fingerprint for row in rows}) == 3


def test_a_context_without_text_and_id_is_nothing() -> None:
    with pytest.raises(InputError, match="a context has a text, an id or both"):
        Context(score=1)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"retrieved_context_ids": ["a", None]}, "retrieved_context_ids[1]: found null, expected an id"),
        ({"retrieved_context_ids": [" "]}, "retrieved_context_ids[0]: found blank text, expected an id"),
        ({"retrieved_context_ids": [1.5]}, "retrieved_context_ids[0]: found a number (1.5), expected text or a whole"),
        ({"contexts": [], "retrieved_context_ids": ["a"]}, "found 1 for 0 contexts, expected one id for each context"),
        ({"contexts": ["t", {"id": "a"}]}, "contexts[1]: found an id without a text, unlike the others"),
        ({"contexts": [{"id": "a", "body": "t"}]}, "contexts[0]: found an object with the keys id, body, expected"),
    ],
)
def test_what_is_not_ids_alone_is_named(row: dict[str, Any], said: str) -> None:
    """A text that was lost among others, or that stands under a name of its own, is not taken for a mere id."""
    with pytest.raises(DataError) as caught:
        load([row])
    assert said in str(caught.value)


def test_ids_alone_are_compared_by_id_and_no_context_is_judged(tmp_path: Path) -> None:
    """Row 1: b of (b) found, second of three; row 2: none of (e, f). Mean recall 1/2, mean reciprocal rank 1/4."""
    stream = io.StringIO()
    result = run(tmp_path, RAGAS, progress=Lines(stream))
    assert list(result.summary.metrics) == [
        "document_recall_single_hit(compare_by=id)",
        "document_recall_multi_hit(compare_by=id)",
        "document_mrr(compare_by=id)",
        "document_map(compare_by=id)",
        "document_ndcg(compare_by=id)",
        "answer_relevancy",
    ]
    assert result.summary.metrics["document_recall_multi_hit(compare_by=id)"].mean == 1 / 2
    assert result.summary.metrics["document_mrr(compare_by=id)"].mean == 1 / 4
    assert {verdict.metric for verdict in result.verdicts} == {"answer_relevancy"}
    assert "reference_contexts, retrieved_contexts: ids and no texts, documents are compared by id" in stream.getvalue()
    assert result.manifest.judge["metrics"]["document_mrr(compare_by=id)"] == {"version": 1, "compare_by": "id"}
    assert verify(result, engine=ScriptedEngine({}, default=0.9)).result == "bit-identical"


def test_what_ids_alone_are_compared_by_may_be_asked_for(tmp_path: Path) -> None:
    """`document_map` of ids alone compares ids; what is asked for by name is computed once, and as it was asked for."""
    stream = io.StringIO()
    names = ["document_mrr", "document_mrr(compare_by=id)", "document_map(compare_by=meta.page)"]
    result = run(tmp_path, RAGAS, metrics=names, progress=Lines(stream))
    assert list(result.summary.metrics) == ["document_mrr(compare_by=id)", "document_map(compare_by=meta.page)"]
    assert "ids and no texts, documents are compared by id, meta.page" in stream.getvalue()


def test_a_judged_metric_of_ids_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"faithfulness needs .*, and the data has no texts of retrieved_contexts"):
        run(tmp_path / "run", RAGAS, metrics=["faithfulness"])


def test_a_sample_of_ids_alone_among_others_is_undefined_for_what_is_judged(tmp_path: Path) -> None:
    """The other sample is judged: 1 of 1 at p = 0.9. With its ids alone the first would have been 0 of 1."""
    rows: list[dict[str, Any]] = [
        {"id": "ids", "contexts": None, "retrieved_context_ids": ["a"], "answer": "So.", "question": "Why?"},
        {"id": "texts", "contexts": ["So."], "retrieved_context_ids": ["b"], "answer": "So.", "question": "Why?"},
    ]
    stream = io.StringIO()
    result = run(tmp_path, rows, progress=Lines(stream))
    assert "1 samples have contexts with ids and no texts: what reads texts is undefined for them" in stream.getvalue()
    assert {(row.sample_id, row.status, row.detail) for row in result.scores if row.metric == "faithfulness"} == {
        ("ids", "undefined", "retrieved_contexts has ids and no texts"),
        ("texts", "scored", None),
    }
    assert result.summary.metrics["faithfulness"].mean == 1


@pytest.mark.parametrize(("as_format", "missing"), [("ragas", "null"), ("jsonl", "null"), ("ragas-csv", ",,")])
def test_contexts_of_ids_alone_are_missing_in_exports_as_in_frames(
    tmp_path: Path, as_format: Any, missing: str
) -> None:
    result = run(tmp_path, RAGAS)
    added = Added() if as_format.startswith("ragas") else Added(texts=True)
    written = exported(result, as_format, "samples", added).decode()
    assert missing in written
    assert '""' not in written
    assert "['" not in written
    assert list(result.to_pandas()["retrieved_contexts"]) == [None, None]


def test_references_that_are_ids_alone_are_compared_by_id_with_texts_that_have_ids(tmp_path: Path) -> None:
    """By content nothing could match; a judged metric, which needs the retrieved texts alone, is computed."""
    row = {"question": "Why?", "contexts": ["t", "u"], "retrieved_context_ids": [1, 2], "reference_context_ids": [2, 3]}
    result = run(tmp_path, [{**row, "answer": "So."}])
    assert result.summary.metrics["document_recall_multi_hit(compare_by=id)"].mean == 1 / 2
    assert "faithfulness" in result.summary.metrics


DOCUMENT_METRICS = [name for name in catalog.our_names() if name.startswith("document_")] + ["precision@1"]


@pytest.mark.parametrize("name", DOCUMENT_METRICS)
@pytest.mark.parametrize(
    ("compare_by", "retrieved", "reason"),
    [
        ("content", contexts("a"), "no ground-truth document has content, and of some only the id is known"),
        ("id", (Context(text="t"),), "no retrieved document has id, and of some only the id is known"),
        ("meta.page", contexts("a"), "no ground-truth document has meta.page, and of some only the id is known"),
    ],
)
def test_what_cannot_be_compared_is_undefined_and_no_0_nor_1(
    name: str, compare_by: str, retrieved: tuple[Context, ...], reason: str
) -> None:
    """Two documents without texts do not have the same text."""
    sample = Sample(id="1", retrieved_contexts=retrieved, reference_contexts=contexts("a"))
    assert outcome_of(f"{name}(compare_by={compare_by})", sample) == Undefined(reason=reason)


@pytest.mark.parametrize("name", DOCUMENT_METRICS)
def test_ids_that_differ_and_nothing_retrieved_score_0(name: str) -> None:
    """As for texts: there is something to compare, and it is not the same."""
    for retrieved in (contexts("b"), ()):
        sample = Sample(id="1", retrieved_contexts=retrieved, reference_contexts=contexts("a"))
        outcome = outcome_of(f"{name}(compare_by=id)", sample)
        assert isinstance(outcome, Scored)
        assert outcome.value == 0
