"""The development rows that were written by hand have the shape that their README states."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "development"
LANGUAGES = {"en", "de", "fr", "es"}
GOOD_KINDS = {"short", "full", "restated", "long", "no"}
POOR_KINDS = {"refusal", "evasion", "question_again", "off_point", "other_part", "vague"}
EDITED_KINDS = {"changed_number", "negation", "swapped_values_or_roles", "half_true"}


def read_rows(name: str) -> list[dict[str, Any]]:
    """Read one of the two files."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_answers_have_the_stated_fields_and_kinds() -> None:
    for row in read_rows("answers.jsonl"):
        assert list(row) == ["id", "dataset", "question", "sentence", "label", "kind", "lang"]
        assert row["dataset"] in {"clapnq", "squad2", "qed"}
        assert row["lang"] in LANGUAGES
        expected = GOOD_KINDS if row["label"] == 1 else POOR_KINDS
        assert row["kind"] in expected


def test_each_question_has_a_good_sentence_and_two_poor_ones() -> None:
    labels = defaultdict(list)
    for row in read_rows("answers.jsonl"):
        labels[row["question"]].append(row["label"])
    for question, of_question in labels.items():
        assert of_question.count(1) >= 1, question
        assert of_question.count(0) >= 2, question


def test_there_are_at_least_300_answers_and_60_in_other_languages() -> None:
    languages = Counter(row["lang"] for row in read_rows("answers.jsonl"))
    assert languages.total() >= 300
    assert languages.total() - languages["en"] >= 60


def test_no_row_is_there_twice() -> None:
    answers = Counter((row["question"], row["sentence"]) for row in read_rows("answers.jsonl"))
    kinds = Counter((row["context"], row["statement"]) for row in read_rows("kinds.jsonl"))
    assert max(answers.values()) == 1
    assert max(kinds.values()) == 1


def test_statements_have_the_stated_fields_and_kinds() -> None:
    rows = read_rows("kinds.jsonl")
    assert len(rows) >= 200
    for row in rows:
        assert list(row) == ["source", "context", "statement", "label", "kind", "lang"]
        assert row["label"] in {0, 1}
        if row["kind"] not in EDITED_KINDS:
            assert row["kind"] in {"copied", "paraphrase"}
            assert row["label"] == 1


def test_copied_statements_are_sentences_of_their_passage() -> None:
    for row in read_rows("kinds.jsonl"):
        if row["kind"] == "copied":
            assert row["statement"] in row["context"]


def test_statements_are_in_four_languages() -> None:
    languages = Counter(row["lang"] for row in read_rows("kinds.jsonl"))
    assert languages["en"] >= 120
    assert languages["de"] >= 40
    assert languages["fr"] >= 20
    assert languages["es"] >= 20


def test_edited_kinds_have_about_as_many_twins_as_wrong_rows() -> None:
    counts = Counter((row["kind"], row["label"]) for row in read_rows("kinds.jsonl"))
    for kind in EDITED_KINDS:
        assert counts[kind, 0] >= 18
        assert counts[kind, 0] - 3 <= counts[kind, 1] <= counts[kind, 0]
