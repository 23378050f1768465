"""Which column may be a field that the data lacks: guessed from its name and its values, and never taken."""

from typing import Any

import pytest

from localjudge.dataset import from_rows
from localjudge.dataset.columns import guessed_columns, likely_field, map_option
from localjudge.errors import DataError
from localjudge.words import as_typed


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ("user_input", ["Question", "QUERY", "user_question", "question_text", "prompt", "inputs.question"]),
        ("retrieved_contexts", ["Contexts", "context_1", "retrieved_chunks", "topDocs", "evidence_list", "passage"]),
        ("reference", ["Ground Truth", "gold_standard", "expectedOutput", "answer_gold", "refrence", "correct_answer"]),
        ("reference", ["expectations.expected_response", "reference_outputs.answer", "gt"]),
        ("response", ["model_answer", "Response", "generated_output", "outputs.answer", "llm_reply"]),
        ("reference_contexts", ["gold_documents", "expected_chunks", "true_gt_passages"]),
        (
            None,
            ["id", "doc_id", "question_type", "answer_score", "reference_url", "context_length", "language", "", "Ü"],
        ),
    ],
)
def test_the_last_word_says_what_it_is_and_the_others_whose(field: str | None, names: list[str]) -> None:
    assert {name: likely_field(name) for name in names} == dict.fromkeys(names, field)


def test_a_guess_reads_like_what_it_is_taken_for() -> None:
    """A column of labels, of counts or of ids is none."""
    row = {
        "gold_label_answer": 1,
        "expected_answers": "In 1889.",
        "doc_chunks": ["c1", "c2"],
        "contexts_used": ["A b."],
    }
    assert guessed_columns([{"other": None}, row], set()) == {"reference": ["expected_answers"]}


def test_columns_inside_objects_are_guessed_and_what_is_taken_is_not() -> None:
    row = {"inputs": {"question": "Why?"}, "outputs": {"answer": "So."}, "answer": "So."}
    assert guessed_columns([row], {"answer"}) == {"user_input": ["inputs.question"], "response": ["outputs.answer"]}


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ({"input": "q", "actual_output": "a", "expected_output": "r", "context": ["Some text."]}, "context"),
        ({"input": "q", "output": "a", "reference": "Some text."}, "reference"),
    ],
)
def test_a_name_that_others_mean_otherwise_is_guessed_too(row: dict[str, Any], column: str) -> None:
    """Some write what was retrieved as `context` beside `expected_output`; Phoenix calls it `reference`."""
    assert from_rows([row]).guesses == {"retrieved_contexts": [column]}


def test_the_option_can_be_pasted_and_takes_numbered_columns_together() -> None:
    guessed = {"retrieved_contexts": ["context_1", "context_2"], "reference": ["Ground Truth", "gold"]}
    in_python = "mapping={'retrieved_contexts': 'context_1,context_2', 'reference': 'Ground Truth'}"
    assert map_option(guessed) == in_python
    with as_typed():
        assert map_option(guessed) == "--map retrieved_contexts=context_1,context_2 --map 'reference=Ground Truth'"


def test_data_of_which_nothing_is_known_is_refused_with_what_to_map() -> None:
    with pytest.raises(DataError) as caught:
        from_rows([{"Question": "Why?", "Contexts": ["Some text."], "lang": "en"}])
    assert "none of its columns is known (found: Question, Contexts, lang)" in str(caught.value)
    assert "mapping={'user_input': 'Question', 'retrieved_contexts': 'Contexts'}" in str(caught.value.hint)


def test_a_guess_is_never_taken() -> None:
    data = from_rows([{"question": "q", "gold_standard": "In 1889."}])
    assert data.mapping == {"user_input": "question"}
    assert data.guesses == {"reference": ["gold_standard"]}


def test_the_answers_in_a_csv_of_promptfoo_are_guessed_by_the_provider_in_the_name() -> None:
    row = {"query": "q", "[openai:gpt-5] Say {{query}}": "An answer.", "[1]": "x", "Status": "PASS"}
    assert from_rows([row]).guesses == {"response": ["[openai:gpt-5] Say {{query}}"]}
