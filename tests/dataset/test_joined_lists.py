import json
from pathlib import Path
from typing import Any

import pytest

from localjudge.dataset import load
from localjudge.errors import DataError, InputError
from localjudge.types import Context

OWN = ("name", "comments", "source_file", "tools_called", "expected_tools", "additional_metadata")
"""Other columns of DeepEval 4.3.1 files (except token counts), empty here."""
LISTS: dict[str, Any] = {
    "input": "What is it made of?",
    "actual_output": "Iron.",
    "expected_output": "It is made of iron.",
    "retrieval_context": ["It is made of iron.", "Bananas are yellow."],
    "context": ["g1", "g2"],
}


def joined(row: dict[str, Any]) -> dict[str, Any]:
    """Convert the row as `EvaluationDataset.save_as("jsonl")` of DeepEval 4.3.1 does: lists are joined, nulls kept."""
    texts = {name: "|".join(value) if isinstance(value, list) else value for name, value in row.items()}
    return {**texts, **dict.fromkeys([*OWN, "custom_column_key_values"])}


def as_jsonl(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "deepeval.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def as_csv(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "deepeval.csv"
    lines = [",".join(rows[0]), *(",".join(value or "" for value in row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("write", [as_jsonl, as_csv])
@pytest.mark.parametrize("skip_bad_rows", [False, True])
def test_a_joined_list_of_deepeval_is_refused_with_its_place_and_the_option(
    tmp_path: Path, write: Any, skip_bad_rows: bool
) -> None:
    """It is no skippable bad row, because skipping would keep only easy rows."""
    first, second = {**LISTS, "retrieval_context": ["Iron."], "context": None}, {**LISTS, "context": None}
    path = write(tmp_path, joined(first), joined(second))
    with pytest.raises(DataError) as caught:
        load(path, skip_bad_rows=skip_bad_rows)
    line = 2 if write is as_jsonl else 3  # a CSV file begins with its header
    assert f"{path}:{line}: retrieval_context: found one text with '|' in it" in str(caught.value)
    assert "context_separator='|'" in str(caught.value.hint)


@pytest.mark.parametrize("write", [as_jsonl, as_csv])
def test_split_texts_give_the_same_samples_as_lists(tmp_path: Path, write: Any) -> None:
    """Same samples and fingerprint as from JSON."""
    split = load(write(tmp_path, joined(LISTS)), context_separator="|")
    assert split.fingerprint == load([LISTS]).fingerprint
    assert split.samples == load([LISTS]).samples


@pytest.mark.parametrize(
    ("value", "separator", "contexts"),
    [
        ("a|b", "|", ["a", "b"]),
        (" a | b\n", "|", ["a", "b"]),
        ("|a||  |b|", "|", ["a", "b"]),
        ("a", "|", ["a"]),
        ("", "|", []),
        ("||", "|", []),
        (["a|b", "c"], "|", ["a|b", "c"]),
        ('["a|b", "c"]', "|", ["a|b", "c"]),
        ({"text": "a|b"}, "|", ["a|b"]),
        ("a\n---\nb - c", "\n---\n", ["a", "b - c"]),
    ],
)
def test_a_text_is_split_and_trimmed_and_a_list_is_unchanged(value: Any, separator: str, contexts: list[str]) -> None:
    (sample,) = load([{"question": "q", "contexts": value}], context_separator=separator).samples
    assert sample.retrieved_contexts == tuple(Context(text=text) for text in contexts)


def test_an_empty_separator_is_refused() -> None:
    with pytest.raises(InputError, match="the context separator is empty"):
        load([{"contexts": "a"}], context_separator="")


def test_ids_of_contexts_are_split_too() -> None:
    (sample,) = load([{"contexts": "a|b", "retrieved_context_ids": "x| y"}], context_separator="|").samples
    assert sample.retrieved_contexts == (Context(text="a", id="x"), Context(text="b", id="y"))
