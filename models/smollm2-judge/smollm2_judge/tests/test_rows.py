import gzip
import json
import random
from pathlib import Path

import pytest
from smollm2_judge.rows import (
    HELD_OUT,
    answer_rows,
    change,
    change_name,
    change_negation,
    change_number,
    change_word,
    kind_of,
    labelled_rows,
    prose_rows,
    to_sentence,
)

PARAGRAPH = (
    "The bridge was opened in 1932 by Jack Lang. It is 1,149 metres long, and most visitors cross it before noon."
)


@pytest.fixture
def rng() -> random.Random:
    return random.Random(0)


@pytest.mark.parametrize(
    ("question", "answer", "sentence"),
    [
        ("Who wrote Emma?", "Jane Austen", "Jane Austen wrote Emma."),
        ("What is the capital of France?", "Paris", "Paris is the capital of France."),
        ("Which country won the cup?", "Uruguay", "Uruguay won the cup."),
        ("What was the ship called?", "Vasa", None),
        ("What is it made of?", "iron", None),
        ("When did the war end?", "1918", None),
    ],
)
def test_only_questions_about_a_subject_become_sentences(question: str, answer: str, sentence: str | None) -> None:
    assert to_sentence(question, answer) == sentence


def test_kinds_of_answers() -> None:
    answers = ["1932", "12 May 1932", "1,149 metres", "Jack Lang", "most visitors"]
    assert [kind_of(answer) for answer in answers] == ["year", "date", "number", "name", "phrase"]


def test_a_wrong_answer_is_of_the_same_kind_and_shares_no_word(rng: random.Random) -> None:
    qas = [
        {"question": "Who opened it?", "answer": "Jack Lang"},
        {"question": "Who closed it?", "answer": "Francis de Groot"},
        {"question": "When was it opened?", "answer": "1932"},
    ]
    rows = list(answer_rows([{"context": PARAGRAPH, "qas": qas}], rng))
    assert sum(row.label for row in rows) == 3
    wrong = [row for row in rows if row.label == 0]
    assert len(wrong) == 2, "no other year is known, so the question about a year has no wrong answer"
    assert all("Lang" in row.statement or "Groot" in row.statement for row in wrong)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (change_number, "It is 1,149 metres long."),
        (change_word, "Visitors cross it before noon."),
        (change_negation, "The bridge was opened."),
        (change_name, "The bridge was opened by Mary."),
    ],
)
def test_a_change_moves_one_part_of_a_sentence(make: object, sentence: str, rng: random.Random) -> None:
    changed = make(sentence, PARAGRAPH, "It was built by Anna in 1900.", rng)  # type: ignore[operator]
    assert changed is not None
    assert changed != sentence
    assert abs(len(changed.split()) - len(sentence.split())) <= 1


def test_a_changed_number_is_not_in_the_text(rng: random.Random) -> None:
    for _ in range(50):
        changed = change_number("It has 12 arches.", "It has 12 arches, 11 towers and 14 gates.", "", rng)
        assert changed is None or not {"11", "14"} & set(changed.split())


def test_a_negation_is_removed_where_there_is_one(rng: random.Random) -> None:
    assert change_negation("It was not opened.", "", "", rng) == "It was opened."


def test_an_unchangeable_sentence_gives_no_row(rng: random.Random) -> None:
    assert change("stones lay around", "stones lay around", "", rng) is None


def test_prose_gives_each_label_once_for_a_sentence(rng: random.Random) -> None:
    rows = list(prose_rows([{"text": PARAGRAPH}], rng))
    assert rows
    assert [row.label for row in rows] == [1, 0] * (len(rows) // 2)


def test_held_out_and_non_commercial_data_sets_are_left_out(tmp_path: Path, rng: random.Random) -> None:
    names = [
        "rte",
        "anli_r1",
        "summedits",
        "wice_oracle",
        "feversym",
        "attributionbench",
        "begin_tc",
        "mc160",
        "multirc",
    ]
    lines = [
        {"dataset": name, "context": "A.", "question": None, "statement": "Question: Who ran? Answer: Al", "label": 1}
        for name in names
    ]
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    assert [row.dataset for row in labelled_rows(path, HELD_OUT, rng)] == ["rte", "mctest", "multirc"]


def test_the_same_seed_gives_the_same_rows() -> None:
    paragraphs = [{"text": PARAGRAPH}] * 5
    assert list(prose_rows(paragraphs, random.Random(3))) == list(prose_rows(paragraphs, random.Random(3)))
