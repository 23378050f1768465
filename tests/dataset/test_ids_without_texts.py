import io
import json
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import DataError, InputError, Sample, ScriptedEngine
from localjudge.dataset import load
from localjudge.metrics import Context
from localjudge.report.terminal import Lines

RAGAS: list[dict[str, Any]] = [
    {
        "user_input": "Why?",
        "response": "So.",
        "retrieved_context_ids": ["a", "b", "c"],
        "reference_context_ids": ["b"],
    },
    {
        "user_input": "How?",
        "response": "So.",
        "retrieved_context_ids": ["d"],
        "reference_context_ids": ["e", "f"],
    },
]
"""Input of ragas's IDBasedContextPrecision and IDBasedContextRecall (0.4.3): texts or numbers."""

TWO = [{"text": "a", "id": "own"}, "b"]


def contexts(*ids: str) -> tuple[Context, ...]:
    return tuple(Context(id=identifier) for identifier in ids)


def run(out: Path, rows: list[dict[str, Any]], **options: Any) -> localjudge.Run:
    return localjudge.evaluate(rows, out=out, engine=ScriptedEngine({}, default=0.9), **options)


@pytest.mark.parametrize("ids", [["7", "8"], [7, 8]])
def test_an_id_column_gives_contexts_without_texts(ids: list[Any]) -> None:
    data = load([{"question": "q", "retrieved_context_ids": ids}])
    assert data.samples[0].retrieved_contexts == contexts("7", "8")
    assert data.fields == {"user_input", "retrieved_contexts"}
    assert data.table.without_text == {"retrieved_contexts"}


def test_a_skipped_row_gives_the_data_no_texts() -> None:
    """The second row repeats an id, so its text belongs to no sample."""
    rows: list[dict[str, Any]] = [
        {"id": "a", "retrieved_contexts": [{"id": "1"}]},
        {"id": "a", "retrieved_contexts": ["A text."]},
    ]
    data = load(rows, skip_bad_rows=True)
    assert len(data.samples) == 1
    assert data.table.without_text == {"retrieved_contexts"}


def test_a_sample_without_texts_is_stored_and_read_back() -> None:
    sample = Sample(
        id="1", retrieved_contexts=contexts("a"), reference_contexts=(Context(text="t"),)
    )
    assert (
        load([sample]).samples == load([json.loads(sample.model_dump_json())]).samples == (sample,)
    )
    with pytest.raises(InputError, match="a text, an id or both"):
        Context(score=1)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"retrieved_context_ids": ["a", None]}, "retrieved_context_ids[1]: found null"),
        ({"retrieved_context_ids": [" "]}, "retrieved_context_ids[0]: found blank text"),
        ({"retrieved_context_ids": [1.5]}, "retrieved_context_ids[0]: found a number (1.5)"),
        ({"contexts": [], "retrieved_context_ids": ["a"]}, "found 1 for 0 contexts"),
        (
            {"contexts": TWO, "retrieved_context_ids": "x"},
            "_context_ids: found text 'x'",
        ),
        ({"contexts": TWO, "retrieved_context_ids": ["x"]}, "found 1 for 2 contexts"),
        (
            {"contexts": ["t", {"id": "a"}]},
            "contexts[1]: found an id",
        ),
        (
            {"contexts": [{"id": "a", "body": "t"}]},
            "contexts[0]: found an object with the keys id, body",
        ),
    ],
)
def test_incomplete_texts_are_not_taken_for_ids(row: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError) as caught:
        load([row])
    assert said in str(caught.value)


def test_contexts_without_texts_are_compared_by_id_and_not_judged(tmp_path: Path) -> None:
    """Row 1: b of (b), second of three; row 2: none of (e, f). Recall 1/2, reciprocal rank 1/4."""
    stream = io.StringIO()
    result = run(tmp_path, RAGAS, progress=Lines(stream))
    names = ("recall_single_hit", "recall_multi_hit", "mrr", "map", "ndcg")
    assert [*result.summary.metrics] == [
        *(f"document_{name}(compare_by=id)" for name in names),
        "answer_relevancy",
    ]
    assert result.summary.metrics["document_recall_multi_hit(compare_by=id)"].mean == 1 / 2
    assert result.summary.metrics["document_mrr(compare_by=id)"].mean == 1 / 4
    assert {verdict.metric for verdict in result.verdicts} == {"answer_relevancy"}
    assert "compared by id" in stream.getvalue()
    assert result.verify(engine=ScriptedEngine({}, default=0.9)).result == "bit-identical"


def test_judged_metrics_are_undefined_for_contexts_without_texts(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "id": "ids",
            "contexts": None,
            "retrieved_context_ids": ["a"],
            "answer": "So.",
            "question": "Why?",
        },
        {
            "id": "texts",
            "contexts": ["So."],
            "retrieved_context_ids": ["b"],
            "answer": "So.",
            "question": "Why?",
        },
    ]
    stream = io.StringIO()
    result = run(tmp_path, rows, progress=Lines(stream))
    assert "1 samples have contexts without" in stream.getvalue()
    assert {
        (row.sample_id, row.status, row.detail)
        for row in result.scores
        if row.metric == "faithfulness"
    } == {
        ("ids", "undefined", "retrieved_contexts has ids and no texts"),
        ("texts", "scored", None),
    }
    assert result.summary.metrics["faithfulness"].mean == 1
