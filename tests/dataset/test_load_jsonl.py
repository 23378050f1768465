"""JSONL with ragas's old and new column names."""

import json
from pathlib import Path

import pytest

from localjudge.dataset import load
from localjudge.errors import DataError
from localjudge.resources import demo_file
from localjudge.types import Context, context_texts

NEW = {"user_input": "q", "retrieved_contexts": ["a", "b"], "reference": "r", "response": "s"}
OLD = {"question": "q", "contexts": ["a", "b"], "ground_truth": "r", "answer": "s"}


def written(folder: Path, *rows: object) -> Path:
    path = folder / "data.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_old_and_new_names_of_ragas_give_the_same_samples(tmp_path: Path) -> None:
    old, new = load(written(tmp_path, OLD)), load(written(tmp_path, NEW))
    assert old.samples == new.samples
    assert old.samples[0].retrieved_contexts == (Context(text="a"), Context(text="b"))
    assert old.mapping == {
        "user_input": "question",
        "retrieved_contexts": "contexts",
        "reference": "ground_truth",
        "response": "answer",
    }


def test_a_null_is_a_null_and_its_column_is_there(tmp_path: Path) -> None:
    data = load(written(tmp_path, {"question": "q", "ground_truth": None}))
    assert data.samples[0].reference is None
    assert data.fields == {"user_input", "reference"}


def test_the_demo_shows_samples_of_several_contexts_and_sentences() -> None:
    """And a response each, so that all metrics that ask a judge have something to ask."""
    data = load(demo_file())
    assert [sample.id for sample in data.samples] == ["eiffel-tower", "penicillin", "danube", "moon-landing"]
    assert data.fields == {"user_input", "retrieved_contexts", "reference", "response"}
    for sample in data.samples:
        contexts = context_texts(sample.retrieved_contexts)
        assert len(contexts) >= 2
        for text in (sample.reference, sample.response, " ".join(contexts)):
            assert len((text or "").split(". ")) >= 2


def test_every_problem_is_named_with_its_line_field_and_what_was_expected(tmp_path: Path) -> None:
    path = written(tmp_path, NEW, {**NEW, "reference": 42, "retrieved_contexts": [1]})
    with pytest.raises(DataError) as caught:
        load(path)
    assert f"{path}:2: reference: found a number (42), expected text or null" in str(caught.value)
    assert f"{path}:2: retrieved_contexts[0]: found a number (1), expected text" in str(caught.value)
