"""Questions of DeepEval as questions of yes or no: the words, and the arithmetic by hand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.integrations.conversion import (
    as_sample,
    decisiveness,
    level_probabilities,
    of_each_level,
    of_each_option,
    option_probabilities,
    record,
    whether,
    words_and_item,
)

PROBABILITIES = st.lists(st.floats(0, 1), min_size=1, max_size=9)


def test_options_share_what_their_questions_got() -> None:
    """.6, .3 and .3 sum to 1.2: .5, .25, .25."""
    assert option_probabilities(["a", "b", "c"], [0.6, 0.3, 0.3]) == pytest.approx({"a": 0.5, "b": 0.25, "c": 0.25})


def test_a_level_has_what_the_next_one_no_longer_has() -> None:
    """At least 1: .9, at least 2: .6, at least 3: .7, which cannot be more than .6. So .1, .3, 0, .6."""
    found = level_probabilities([0.9, 0.6, 0.7])
    assert found == pytest.approx({0: 0.1, 1: 0.3, 2: 0.0, 3: 0.6})
    assert sum(level * share for level, share in found.items()) == pytest.approx(0.9 + 0.6 + 0.6)


@given(PROBABILITIES)
def test_levels_are_a_distribution(found: list[float]) -> None:
    probabilities = level_probabilities(found).values()
    assert len(probabilities) == len(found) + 1
    assert min(probabilities) >= 0
    assert sum(probabilities) == pytest.approx(1)


@given(st.integers(2, 9), st.integers(0, 9))
def test_sure_levels_are_themselves(levels: int, level: int) -> None:
    level %= levels
    found = level_probabilities([1.0] * level + [0.0] * (levels - 1 - level))
    assert found[level] == 1
    assert decisiveness(found.values()) == 1


def test_how_decided_an_answer_is() -> None:
    """(3 * .5 - 1) / 2 = .25; equally likely ones 0, and for yes and no |2p - 1|: .6 of .8."""
    assert decisiveness([0.5, 0.25, 0.25]) == 0.25
    assert decisiveness([0.25] * 4) == 0
    assert decisiveness([0.8, 0.2]) == pytest.approx(0.6)
    assert decisiveness([1.0]) == 1


def test_the_lowest_level_is_not_asked_about() -> None:
    asked = of_each_level("How much?", ["none", "some", "all"])
    assert [words.rpartition("\n")[2] for words in asked] == [
        "Is it level 1 (some) or a higher one?",
        "Is it level 2 (all) or a higher one?",
    ]
    assert all("\n0. none\n1. some\n2. all\n" in words for words in asked)


def test_each_option_is_asked_about_with_all_in_view() -> None:
    asked = of_each_option("Which?", {"red": None, "blue": {"like": "the sky"}})
    assert asked[1] == 'Which?\nThe possible answers:\n- red\n- blue: {"like": "the sky"}\nIs \'blue\' the right one?'


def test_a_statement_is_asked_whether_it_is_true() -> None:
    assert whether("It rains.") == "Is this true? It rains."
    assert whether("Does it rain? Say no if it snows.", no="snow") == (
        "Does it rain? Say no if it snows.\nThe answer is no if: snow"
    )


def test_the_item_stands_beside_its_words() -> None:
    assert words_and_item({"claim": "It rains.", "question": "Is `claim` so?"}) == (
        "Is `claim` so?",
        {"claim": "It rains."},
    )
    assert words_and_item("Is it so?") == ("Is it so?", {})
    assert words_and_item(["a", "é"]) == ('["a", "é"]', {})


def test_a_record_names_its_fields() -> None:
    assert record({"input": "Why?", "contexts": ["a"]}) == 'input:\nWhy?\n\ncontexts:\n["a"]'


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
