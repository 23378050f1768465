from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.integrations.conversion import (
    as_sample,
    ask_each_level,
    ask_each_option,
    ask_whether,
    decisiveness,
    describe_fields,
    level_probabilities,
    option_probabilities,
    split_instructions,
)


@pytest.mark.parametrize(
    ("p_yes", "levels"),
    [
        # At least 1: .9, at least 2: .6, at least 3: .7, which cannot be more than .6.
        ([0.9, 0.6, 0.7], {0: 0.1, 1: 0.3, 2: 0.0, 3: 0.6}),
        ([1.0, 1.0, 0.0], {0: 0, 1: 0, 2: 1, 3: 0}),
        ([0.0], {0: 1, 1: 0}),
    ],
)
def test_level_probabilities_are_differences_of_cumulative_ones(
    p_yes: list[float], levels: dict[int, float]
) -> None:
    assert level_probabilities(p_yes) == pytest.approx(levels)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_levels_are_a_distribution(p_yes: list[float]) -> None:
    probabilities = level_probabilities(p_yes).values()
    assert len(probabilities) == len(p_yes) + 1
    assert sum(probabilities) == pytest.approx(1)
    assert min(probabilities) >= 0


@pytest.mark.parametrize(
    ("probabilities", "decided"),
    [
        ([0.5, 0.25, 0.25], 0.25),  # (3 * .5 - 1) / 2
        ([0.25] * 4, 0),
        ([0.8, 0.2], 0.6),  # |2p - 1|
        ([0.0, 1.0, 0.0], 1),
        ([1.0], 1),
    ],
)
def test_certainty_of_an_answer_by_hand(probabilities: list[float], decided: float) -> None:
    """Options share the probability of their questions: .6, .3 and .3 sum to 1.2."""
    assert decisiveness(probabilities) == pytest.approx(decided)
    assert option_probabilities(["a", "b", "c"], [0.6, 0.3, 0.3]) == pytest.approx(
        {"a": 0.5, "b": 0.25, "c": 0.25}
    )


def test_words_of_questions() -> None:
    assert ask_each_level("How much?", ["none", "some", "all"]) == [
        "How much?\nThe levels, from the lowest:\n0. none\n1. some\n2. all\n"
        f"Is it level {level} or a higher one?"
        for level in ("1 (some)", "2 (all)")
    ]
    assert ask_each_option("Which?", {"red": None, "blue": {"like": "the sky"}})[1] == (
        "Which?\nThe possible answers:\n"
        '- red\n- blue: {"like": "the sky"}\n'
        "Is 'blue' the right one?"
    )
    assert ask_whether("It rains.") == "Is this true? It rains."
    assert ask_whether("Does it rain?", no="snow") == "Does it rain?\nThe answer is no if: snow"
    assert split_instructions({"claim": "A.", "question": "Is `claim` so?"}) == (
        "Is `claim` so?",
        {"claim": "A."},
    )
    assert split_instructions(["a", "é"]) == ('["a", "é"]', {})
    assert (
        describe_fields({"input": "Why?", "contexts": ["a"]}) == 'input:\nWhy?\n\ncontexts:\n["a"]'
    )


FIELDS: dict[str, Any] = {
    "input": "Why?",
    "retrieval_context": ["Rain."],
    "expected_output": "It rains.",
    "actual_output": "It rained.",
    "tools_called": [],
}


@pytest.mark.parametrize(
    ("words", "sample"),
    [
        (
            "Is `actual_output` like `expected_output`?",
            {"response": "It rained.", "reference": "It rains."},
        ),
        (
            "Is `expected_output` in `retrieval_context`?",
            {"response": "It rains.", "retrieved_contexts": ["Rain."]},
        ),
        ("Is it kind?", None),
        ("Is `retrieval_context` for `input`?", None),
        ("Is `actual_output` of `tools_called`?", None),
    ],
)
def test_prompts_show_only_the_named_fields(words: str, sample: Any) -> None:
    """The response is judged, or the reference if only it is named; without both, none is."""
    asked, shown = as_sample(words, FIELDS) or ("Is the response", None)
    assert (asked.startswith("Is the response"), shown) == (True, sample)
    # Fields that are missing or not texts are left too.
    wrong: list[dict[str, Any]] = [{"actual_output": ["It rains."]}, {"retrieval_context": [{}]}]
    for fields in ({"actual_output": "It rains."}, *(FIELDS | field for field in wrong)):
        assert as_sample("Is `actual_output` in `retrieval_context`?", fields) is None
