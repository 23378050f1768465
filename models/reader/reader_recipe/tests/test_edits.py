import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_recipe import edits

SENTENCE = "In 1990, the river Elbe was crossed by 1,200 people from Dresden in March."
CONTEXT = SENTENCE + " Later the city of Meissen counted 1,800 people, and the bridge was closed."


def test_sentences_end_at_full_stops_but_not_at_abbreviations() -> None:
    text = "Dr. Smith met J. Doe. They talked (a lot.) Then he left! Why?"
    assert edits.split_sentences(text) == [
        "Dr. Smith met J. Doe.",
        "They talked (a lot.)",
        "Then he left!",
        "Why?",
    ]


@given(st.text(max_size=300))
def test_splitting_loses_only_white_space(text: str) -> None:
    assert "".join("".join(edits.split_sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize("seed", range(40))
def test_a_change_says_something_that_the_text_does_not(seed: int) -> None:
    changed = edits.change(SENTENCE, CONTEXT, random.Random(seed))
    assert changed is not None
    assert changed != SENTENCE
    assert changed not in CONTEXT


def test_a_changed_number_is_another_number() -> None:
    changed = {edits.change_number(SENTENCE, CONTEXT, random.Random(seed)) for seed in range(40)}
    assert SENTENCE not in changed
    assert len(changed) > 3


def test_negation_is_added_or_removed() -> None:
    rng = random.Random(0)
    assert edits.negate("It was red.", "", rng) == "It was not red."
    removed = {edits.negate("It was not red.", "", random.Random(seed)) for seed in range(20)}
    assert "It was red." in removed


def test_names_are_swapped_across_a_verb_only() -> None:
    rng = random.Random(0)
    swapped = edits.swap_names("the town of Bonn is north of Rome.", "", rng)
    assert swapped == "the town of Rome is north of Bonn."
    assert edits.swap_names("the towns of Bonn, Rome.", "", rng) is None


def test_rewording_keeps_the_content() -> None:
    rng = random.Random(0)
    assert edits.move_time("In 1990, it closed.", rng) == "It closed in 1990."
    assert edits.drop_part("The dam (built in 1900) broke.", rng) == "The dam broke."
    assert edits.write_differently("It has 1,200 rooms.", rng) == "It has 1200 rooms."


@given(st.text(max_size=200), st.integers(0, 1000))
def test_edits_accept_any_text(text: str, seed: int) -> None:
    rng = random.Random(seed)
    edits.change(text, text, rng)
    assert isinstance(edits.reword(text, rng), str)


def test_numbers_of_a_sentence_change_places() -> None:
    rng = random.Random(0)
    assert edits.swap_numbers("Of 12 men, 7 left.", "", rng) == "Of 7 men, 12 left."
    assert edits.swap_numbers("It took 12 days.", "", rng) is None
    assert edits.swap_numbers("It took 12 of 12 days.", "", rng) is None


def test_a_number_is_taken_from_the_text_if_it_has_the_same_length() -> None:
    rng = random.Random(0)
    text = "It took 12 days. In 1990 there were 37 men."
    assert edits.take_number("It took 12 days.", text, rng) == "It took 37 days."
    assert edits.take_number("In 1990 it closed.", text, rng) is None
