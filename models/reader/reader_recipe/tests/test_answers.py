import random

import pytest
from reader_recipe import answers

SEEDS = range(60)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How many people live there?", "how many"),
        ("How much is a ticket?", "how many"),
        ("Why was it built?", "why"),
        ("In which year did it open?", "when"),
        ("Under whom or where did he study?", "where"),
        ("How is it made?", "how"),
        ("Name the river.", "what"),
    ],
)
def test_kinds_of_questions(question: str, expected: str) -> None:
    assert answers.question_type(question) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("1987", "year"),
        ("in 1987", "year"),
        ("19 km", "number"),
        ("Ulm", "name"),
        ("a mill", "words"),
    ],
)
def test_kinds_of_answers(answer: str, expected: str) -> None:
    assert answers.answer_type(answer) == expected


def test_a_topic_is_the_longest_name_or_the_last_words() -> None:
    assert answers.topic("When did the Tower of London open?") == "Tower of London"
    assert answers.topic("how many towns were there in all?") == "were there in all"


def test_a_question_in_a_sentence_has_no_question_mark() -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        assert answers.indirect("When did the tower open?", rng) in {
            "when the tower did open",
            "when did the tower open",
        }
        assert answers.indirect("Is it open?", rng) == "whether it open"


@pytest.mark.parametrize("language", answers.REFUSALS)
def test_an_evasion_has_no_blank_left(language: str) -> None:
    question = "How many towers has Ulm?"
    evasions = {
        answers.evasion(question, "Ulm", language, random.Random(seed)) for seed in range(300)
    }
    assert len(evasions) > 15
    assert not any("{" in evasion for evasion in evasions)
    assert any("Ulm" in evasion for evasion in evasions)


def test_there_is_an_answer_of_none_for_some_questions_only() -> None:
    rng = random.Random(1)
    assert answers.none_answer("Who built it?", rng) in answers.NONE_ANSWERS["who"]
    assert answers.none_answer("What is it?", rng) is None
