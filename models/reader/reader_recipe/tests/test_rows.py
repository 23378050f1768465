import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from reader_recipe import answers
from reader_recipe.edits import split_sentences
from reader_recipe.rows import Generator, Neighbours, Row, balanced
from reader_recipe.tokens import ANSWER, RELEVANCE

TOWNS = ("Aachen", "Bremen", "Coburg", "Dessau", "Erfurt", "Fulda", "Gotha", "Hameln")


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)


def paragraph(town: str, number: int) -> str:
    return (
        f"The old harbour of {town} was built by Count {town}stein in {1500 + number}. "
        f"About {number + 3},000 people have lived near the walls of {town} since then. "
        f"Most of them worked in the mills, and the market was held on Friday in {town}."
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    texts = [paragraph(town, number) for number, town in enumerate(TOWNS)]
    pairs = [
        {
            "dataset": "fever_nli_binary",
            "context": text,
            "statement": f"{town} has a harbour.",
            "label": n % 2,
        }
        for n, (town, text) in enumerate(zip(TOWNS, texts, strict=True))
    ]
    questions = [
        {
            "context": text,
            "qas": [
                {"question": f"When was the harbour of {town} built?", "answer": str(1500 + n)}
            ],
        }
        for n, (town, text) in enumerate(zip(TOWNS, texts, strict=True))
    ]
    write(tmp_path / "nli" / "sentences.jsonl.gz", pairs)
    write(tmp_path / "nli" / "passages.jsonl.gz", pairs)
    write(tmp_path / "train_qa.jsonl.gz", questions)
    write(tmp_path / "train_prose.jsonl.gz", [{"dataset": "prose", "text": text} for text in texts])
    return tmp_path


def generate(data: Path, seed: int) -> list[Row]:
    shares = {"rules": 0.01, "rule_answers": 0.01, "place_answers": 0.01}
    return Generator(data, seed, joined_rows=40, shares=shares).rows()


def rows_of_kind(data: Path, kind: str, seed: int = 1) -> list[Row]:
    maker = {"sentence": "answer_sentences"}.get(kind, kind)
    return [row for row in Generator(data, seed, joined_rows=40).rows([maker]) if row.kind == kind]


def test_rows_depend_on_the_seed_only(data: Path) -> None:
    assert generate(data, 1) == generate(data, 1)
    assert generate(data, 1) != generate(data, 2)


def test_a_summary_is_supported_only_if_each_of_its_sentences_is_in_the_text(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without rewording, a supported summary is copied from the text sentence by sentence."""
    monkeypatch.setattr("reader_recipe.edits.reword", lambda sentence, rng: sentence)
    towns = [TOWNS[start : start + 3] for start in range(6)]
    long_texts = [" ".join(paragraph(town, 1) for town in three) for three in towns]
    prose = [{"dataset": "prose", "text": text} for text in long_texts]
    write(data / "train_prose.jsonl.gz", prose)
    rows: list[Row] = []
    for seed in range(8):
        rows += Generator(data, seed).rows(["summaries"])
    assert {row.kind for row in rows} == {"summary"}
    assert {row.label for row in rows} == {0, 1}
    for row in rows:
        sentences = split_sentences(row.statement)
        assert len(sentences) in {2, 3, 4}
        assert row.label == all(sentence in " ".join(row.parts) for sentence in sentences)


def test_a_joined_statement_is_supported_only_by_both_passages(data: Path) -> None:
    rows = rows_of_kind(data, "joined")
    assert {row.label for row in rows} == {0, 1}
    for row in rows:
        towns = [town for town in TOWNS if f"{town} has" in row.statement]
        supported = [town for town in towns if TOWNS.index(town) % 2 == 1]
        window = "\n".join(row.parts)
        if row.label == 1:
            assert towns == supported
            assert all(f"harbour of {town} " in window for town in towns)


def test_an_edited_row_is_supported_when_its_sentence_stands_in_the_window(data: Path) -> None:
    """A copied sentence, not reworded, is in the window exactly if the label says so."""
    rows = [row for seed in range(20) for row in rows_of_kind(data, "edited", seed)]
    assert {row.label for row in rows} == {0, 1}
    for row in rows:
        if row.statement in "\n".join(row.parts):
            assert row.label == 1


def test_the_sentence_with_the_answer_is_relevant(data: Path) -> None:
    rows = [row for seed in range(5) for row in rows_of_kind(data, "sentence", seed)]
    assert {row.label for row in rows} == {0, 1}
    for row in rows:
        assert row.task == RELEVANCE
        town = next(town for town in TOWNS if town.lower() in row.statement.lower())
        answer = str(1500 + TOWNS.index(town))
        assert (answer in row.parts[0]) == (row.label == 1)


def test_neighbours_leave_out_the_passage_itself() -> None:
    texts = [paragraph(town, number) for number, town in enumerate(TOWNS)]
    nearest = Neighbours([*texts, texts[0] + " Aachen is a town."]).nearest(texts[0], 3)
    assert texts[0] not in nearest
    assert all("Aachen is" not in passage for passage in nearest)


def test_twins_differ_in_the_statement_or_in_the_text_only(data: Path) -> None:
    generator = Generator(data, 1)
    rows = list(generator.twins())
    assert rows
    for right, wrong in zip(rows[::2], rows[1::2], strict=True):
        assert (right.label, wrong.label) == (1, 0)
        assert (right.statement == wrong.statement) != (right.parts == wrong.parts)


def test_a_negation_in_statement_and_text_is_supported(data: Path) -> None:
    statements = [
        {
            "dataset": "squad_train_statements",
            "context": f"The gate of {town} was red. It is old.",
            "statement": f"The gate of {town} was red.",
            "label": 1,
        }
        for town in TOWNS
    ]
    write(data / "nli" / "passages.jsonl.gz", statements)
    rows = Generator(data, 1).rows(["negated"])
    assert len({(" not " in row.statement, " not " in row.parts[0]) for row in rows}) == 4
    for row in rows:
        assert row.label == ((" not " in row.statement) == (" not " in row.parts[0]))


def test_claims_about_rules_come_in_pairs_of_both_labels(data: Path) -> None:
    rows = list(Generator(data, 1, shares={"rules": 0.02}).rules())
    assert [row.label for row in rows] == [1, 0] * (len(rows) // 2)
    for right, wrong in zip(rows[::2], rows[1::2], strict=True):
        assert (right.statement, right.parts) != (wrong.statement, wrong.parts)


def answer_rows(data: Path) -> list[Row]:
    return [row for seed in range(9) for row in Generator(data, seed).rows(["answers"])]


def test_a_reply_with_the_answer_of_the_question_answers_it(data: Path) -> None:
    rows = answer_rows(data)
    assert {row.label for row in rows} == {0, 1}
    nones = {none.format(t=town) for none in answers.NONE_ANSWERS["en"]["when"] for town in TOWNS}
    for row in rows:
        assert row.task == ANSWER
        town = next(town for town in TOWNS if town.lower() in row.statement.lower())
        has_answer = str(1500 + TOWNS.index(town)) in row.parts[0]
        if row.kind == "answer_wrong":
            assert row.label == 1
            assert re.search(r"15\d\d", row.parts[0])
        else:
            assert row.label == (has_answer or row.parts[0] in nones)


def test_a_wrong_answer_is_an_answer(data: Path) -> None:
    """The other towns' years are answers of like questions."""
    wrong = [row for row in answer_rows(data) if row.kind == "answer_wrong"]
    assert wrong
    for row in wrong:
        town = next(town for town in TOWNS if town.lower() in row.statement.lower())
        assert str(1500 + TOWNS.index(town)) not in row.parts[0]


@pytest.mark.parametrize("maker", ["rule_answers", "place_answers"])
def test_answers_in_other_languages_have_both_labels(data: Path, maker: str) -> None:
    rows = Generator(data, 1, shares={maker: 0.02}).rows([maker])
    assert rows == Generator(data, 1, shares={maker: 0.02}).rows([maker])
    assert {row.label for row in rows} == {0, 1}
    assert not any("{" in row.statement + row.parts[0] for row in rows)


def test_length_and_words_of_the_question_do_not_tell_the_label() -> None:
    """Of each group of alike rows stay at most 1.3 negatives for each positive, and the reverse."""
    long = "The harbour of Ulm was built in 1501, as an old book says."
    rows = [Row(ANSWER, "answer", "When was Ulm built?", ("1501.",), 1)] * 10
    rows += [Row(ANSWER, "answer_vague", "When was Ulm built?", ("Once.",), 0)] * 30
    rows += [Row(ANSWER, "answer", "When was Ulm built?", (long,), 1)] * 5
    chosen = balanced(rows, random.Random(1))
    assert sum(row.label for row in chosen) == 10
    assert len(chosen) == 10 + 13


def test_ratings_that_measure_the_judge_are_left_out(data: Path) -> None:
    row = {"dataset": "mtrag_human", "context": "It rains.", "statement": "It rains.", "label": 1}
    write(data / "nli" / "passages.jsonl.gz", [row])
    assert Generator(data, 1).rows(["passages"]) == []


def test_a_share_of_nothing_makes_no_row(data: Path) -> None:
    names = ["short_pairs", "passages", "edited", "twins", "rules", "answers", "answer_sentences"]
    names += ["rule_answers", "place_answers"]
    generator = Generator(data, 1, shares=dict.fromkeys(names, 0.0))
    assert generator.rows(names) == []
