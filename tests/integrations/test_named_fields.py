"""DeepEval's names of fields in the words in which a judge is shown them."""

from typing import Any

import pytest

from localjudge.integrations.conversion import as_sample

FIELDS: dict[str, Any] = {
    "input": "Why?",
    "retrieval_context": ["Rain."],
    "expected_output": "It rains.",
    "actual_output": "It rained.",
    "tools_called": [],
}


@pytest.mark.parametrize(
    ("words", "said", "row"),
    [
        (
            "Is `actual_output` like `expected_output`?",
            "Is the response like the reference?",
            {"response": "It rained.", "reference": "It rains."},
        ),
        (
            "Is `expected_output` in `retrieval_context`, for `input`?",
            "Is the response in the contexts, for the question?",
            {"response": "It rains.", "retrieved_contexts": ["Rain."], "user_input": "Why?"},
        ),
    ],
)
def test_the_named_fields_alone_are_shown(words: str, said: str, row: dict[str, Any]) -> None:
    """What is judged is the answer; where it is not named, the expected one is."""
    assert as_sample(words, FIELDS) == (said, row)


@pytest.mark.parametrize(
    "words", ["Is it kind?", "Is `retrieval_context` for `input`?", "Is `actual_output` of `tools_called`?"]
)
def test_words_that_name_no_answer_or_another_field_are_left(words: str) -> None:
    assert as_sample(words, FIELDS) is None


def test_fields_that_are_not_there_or_no_texts_are_left() -> None:
    assert as_sample("Is `actual_output` in `retrieval_context`?", {"actual_output": "It rains."}) is None
    assert as_sample("Is `actual_output` kind?", {"actual_output": ["It rains."]}) is None
    assert as_sample("Is `actual_output` in `retrieval_context`?", FIELDS | {"retrieval_context": [{"a": 1}]}) is None
