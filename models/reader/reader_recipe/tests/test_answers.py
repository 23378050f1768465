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
        ("How long is it?", "how many"),
        ("Is it open?", "yes or no"),
        ("Is it known why it closed?", "why"),
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


@pytest.mark.parametrize(
    ("question", "language", "expected"),
    [
        ("Welche Kündigungsfrist gilt für Keller?", "de", "how many"),
        ("Welcher Turm ist das?", "de", "what"),
        ("Darf ich hinein?", "de", "yes or no"),
        ("À quelle heure ouvre le musée ?", "fr", "when"),
        ("Est-ce que la tour est ouverte ?", "fr", "yes or no"),
        ("¿A qué hora abre la piscina?", "es", "when"),
        ("¿Puedo entrar?", "es", "yes or no"),
    ],
)
def test_kinds_of_questions_in_other_languages(question: str, language: str, expected: str) -> None:
    assert answers.question_type(question, language) == expected


def test_a_topic_is_the_longest_name_or_the_last_words() -> None:
    assert answers.topic("When did the Tower of London open?") == "Tower of London"
    assert answers.topic("how many towns were there in all?") == "towns there in all"


def test_a_question_in_a_sentence_has_no_question_mark() -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        assert answers.indirect("When did the tower open?", rng) in {
            "when the tower did open",
            "when did the tower open",
        }
        assert answers.indirect("Is it open?", rng) == "whether it is open"


@pytest.mark.parametrize("language", answers.REFUSALS)
def test_an_evasion_has_no_blank_left(language: str) -> None:
    question = "How many towers has Ulm?"
    evasions = {
        answers.evasion(question, "Ulm", language, random.Random(seed)) for seed in range(300)
    }
    assert len(evasions) > 15
    assert not any("{" in evasion for evasion in evasions)
    assert any("Ulm" in evasion for evasion in evasions)


def test_an_answer_of_none_fits_the_question() -> None:
    rng = random.Random(1)
    said = {answers.none_answer("Who built it?", "Ulm", rng) for _ in range(90)}
    assert "Nobody." in said
    assert "Never." not in said


@pytest.mark.parametrize(
    ("sentence", "question", "answer"),
    [
        ("The mill was built in 1987.", "When was the mill built?", "1987"),
        ("Anna Muster built the mill.", "Who built the mill?", "Anna Muster"),
        ("The mill stands by the Rhine.", "Which river does the mill stand by?", "Rhine"),
        ("It grew because the mill was new.", "Why did it grow?", "the mill was new"),
    ],
)
def test_a_vague_version_lacks_the_answer(sentence: str, question: str, answer: str) -> None:
    for seed in SEEDS:
        vague = answers.vague_version(sentence, question, answer, random.Random(seed))
        assert vague is not None
        assert vague != sentence
        assert answer not in vague


def test_a_part_of_a_sentence_has_the_answer_or_not() -> None:
    sentence = "The mill is old, and it was built in 1987."
    assert answers.shortened(sentence, "1987") == "It was built in 1987."
    assert answers.without_answer(sentence, "1987") == "The mill is old."
    assert answers.without_answer(sentence, "old") is None


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("When was the mill built?", "1987", "The mill was built in 1987."),
        ("Who closed the mill?", "a baker", "A baker closed the mill."),
        ("What is the name of the mill?", "Ulm", "The name of the mill is Ulm."),
        ("How was the mill built?", "Ulm", None),
    ],
)
def test_a_question_as_a_statement(question: str, answer: str, expected: str | None) -> None:
    assert answers.answered_stem(question, answer) == expected
