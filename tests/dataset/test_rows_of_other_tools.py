"""Rows as other tools write them are the same sample, and names that mean different things are told by the shape."""

from typing import Any

import pytest

from localjudge.dataset import from_rows
from localjudge.errors import DataError
from localjudge.types import Context, Sample

RETRIEVED, TRUTH = (Context(text="one text"), Context(text="two texts")), (Context(text="g"),)
FULL = Sample(
    id="1",
    user_input="q",
    retrieved_contexts=RETRIEVED,
    reference="r",
    response="a",
    reference_contexts=TRUTH,
)


def only(row: dict[str, Any], **mapping: str) -> Sample:
    """The sample that one row becomes, under the id "1" where it has none."""
    data = from_rows([{"id": "1", **row}], mapping=mapping)
    return data.samples[0]


@pytest.mark.parametrize(
    ("tool", "row", "has_truth"),
    [
        (
            "ragas 0.1",
            {"question": "q", "contexts": ["one text", "two texts"], "ground_truth": "r", "answer": "a"},
            False,
        ),
        (
            "older ragas",
            {"question": "q", "contexts": ["one text", "two texts"], "ground_truths": ["r"], "answer": "a"},
            False,
        ),
        (
            "ragas 0.2",
            {
                "user_input": "q",
                "retrieved_contexts": ["one text", "two texts"],
                "reference": "r",
                "response": "a",
                "reference_contexts": ["g"],
            },
            True,
        ),
        (
            "Haystack",
            {
                "questions": "q",
                "retrieved_documents": [{"content": "one text"}, {"content": "two texts"}],
                "ground_truth_answers": "r",
                "predicted_answers": "a",
                "ground_truth_documents": [{"content": "g"}],
            },
            True,
        ),
        (
            "DeepEval",
            {
                "input": "q",
                "retrieval_context": ["one text", "two texts"],
                "expected_output": "r",
                "actual_output": "a",
                "context": ["g"],
            },
            True,
        ),
        (
            "RAGChecker",
            {
                "query": "q",
                "retrieved_context": [{"text": "one text"}, {"text": "two texts"}],
                "gt_answer": "r",
                "response": "a",
            },
            False,
        ),
        (
            "continuous-eval",
            {
                "question": "q",
                "retrieved_context": ["one text", "two texts"],
                "ground_truth_answers": ["r"],
                "answer": "a",
                "ground_truth_context": ["g"],
            },
            True,
        ),
        (
            "promptfoo",
            {
                "vars": {"query": "q", "context": ["one text", "two texts"], "expected": "r"},
                "response": {"output": "a"},
            },
            False,
        ),
        ("autoevals", {"input": "q", "context": ["one text", "two texts"], "expected": "r", "output": "a"}, False),
        ("Opik", {"input": "q", "context": ["one text", "two texts"], "expected_output": "r", "output": "a"}, False),
        (
            "MLflow",
            {
                "inputs": {"question": "q"},
                "outputs": {"response": "a", "documents": ["one text", "two texts"]},
                "expectations": {"expected_response": "r"},
            },
            False,
        ),
        (
            "MLflow, with texts as outputs",
            {
                "inputs": {"query": "q", "context": ["one text", "two texts"]},
                "outputs": "a",
                "expectations": {"expected_response": "r", "guidelines": ["Be kind."]},
            },
            False,
        ),
        (
            "LangSmith",
            {
                "inputs": {"question": "q"},
                "outputs": {"answer": "a", "documents": [{"page_content": "one text"}, {"page_content": "two texts"}]},
                "reference_outputs": {"answer": "r"},
            },
            False,
        ),
        (
            "LangSmith's table",
            {
                "inputs.question": "q",
                "outputs.output": "a",
                "outputs.contexts": ["one text", "two texts"],
                "reference.output": "r",
                "feedback.correct": 1,
            },
            False,
        ),
        (
            "Langfuse",
            {
                "input": {"question": "q"},
                "expectedOutput": "r",
                "output": {"answer": "a"},
                "metadata": {"contexts": ["one text", "two texts"]},
            },
            False,
        ),
        (
            "RAGBench",
            {"question": "q", "documents": ["one text", "two texts"], "response": "a", "ground_truth": "r"},
            False,
        ),
        (
            "SQuAD",
            {
                "question": "q",
                "context": ["one text", "two texts"],
                "answers": {"text": ["r", "r"], "answer_start": [1, 1]},
                "prediction": "a",
            },
            False,
        ),
        (
            "Haystack's GeneratedAnswer",
            {
                "data": "a",
                "query": "q",
                "documents": [{"content": "one text"}, {"content": "two texts"}],
                "reference": "r",
            },
            False,
        ),
        (
            "a pipeline of Haystack",
            {
                "answer_builder": {
                    "answers": [
                        {"data": "a", "query": "q", "documents": [{"content": "one text"}, {"content": "two texts"}]}
                    ]
                },
                "reference": "r",
            },
            False,
        ),
        (
            "LlamaIndex",
            {
                "query": "q",
                "response": "a",
                "reference": "r",
                "source_nodes": [
                    {"node": {"text": "one text", "class_name": "TextNode"}},
                    {"node": {"text": "two texts"}},
                ],
            },
            False,
        ),
    ],
)
def test_a_row_of_another_tool_is_the_same_sample(tool: str, row: dict[str, Any], has_truth: bool) -> None:
    assert only(row) == (FULL if has_truth else FULL.model_copy(update={"reference_contexts": None})), tool


def test_outputs_without_what_was_expected_are_not_taken_and_are_guessed() -> None:
    """An example of LangSmith keeps the right answer in `outputs`, a row of MLflow what was answered."""
    data = from_rows([{"inputs": {"question": "q"}, "outputs": {"answer": "a"}}])
    assert data.mapping == {"user_input": "inputs.question"}
    assert data.guesses["response"] == ["outputs.answer"]


def test_data_is_an_answer_beside_query_and_documents_only() -> None:
    documents = [{"content": "one text"}]
    assert from_rows([{"query": "q", "data": "a", "documents": documents}]).mapping["response"] == "data"
    assert "response" not in from_rows([{"query": "q", "data": "a"}]).mapping


def test_context_is_what_was_retrieved_beside_opiks_output_and_truth_without_it() -> None:
    row = {"input": "q", "context": ["one text"], "expected_output": "r"}
    assert from_rows([row]).mapping["reference_contexts"] == "context"
    assert from_rows([row | {"output": "a"}]).mapping["retrieved_contexts"] == "context"
    assert from_rows([row | {"output": "a", "retrieval_context": []}]).mapping["reference_contexts"] == "context"


def test_references_that_are_all_the_same_are_one() -> None:
    """SQuAD has an answer for each person who was asked."""
    assert only({"question": "q", "answers": {"text": ["r", "r", "r"]}}).reference == "r"
    with pytest.raises(DataError, match=r"answers\.text: found 2 reference answers, expected one"):
        only({"question": "q", "answers": {"text": ["r", "s"]}})


def test_a_list_that_inspects_table_of_samples_holds_as_json_is_a_list() -> None:
    """`samples_df` (inspect_ai 0.3.285), written as Parquet."""
    texts = '["one text", "two texts"]'
    assert only({"input": "q", "metadata_contexts": texts}).retrieved_contexts == RETRIEVED
    assert only({"input": "q", "metadata_contexts": ["one text", "two texts"]}).retrieved_contexts == RETRIEVED
