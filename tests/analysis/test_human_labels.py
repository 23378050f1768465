"""Labels of people are read from any format, in three shapes; what is wrong with a row is named."""

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge import ScriptedEngine, evaluate
from localjudge.analysis.labels import VerdictKey, labelled_rows, read_labels
from localjudge.errors import DataError

VERDICT: dict[str, Any] = {
    "sample_id": "s1",
    "metric": "faithfulness",
    "position": 0,
    "text": "It rains.",
    "human": 1,
}
STATEMENT = {"context": "It rained all day.", "statement": "It rained.", "label": 1}
PASSAGE = {"question": "Did it rain?", "sentences": ["It did.", "We ate."], "relevant": [1, 0]}


def written(folder: Path, *rows: dict[str, Any], name: str = "labels.jsonl") -> Path:
    file = folder / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def as_csv(folder: Path, *rows: dict[str, Any]) -> Path:
    file = folder / "labels.csv"
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        cells = ({k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()} for row in rows)
        writer.writerows(cells)
    return file


def test_a_verdict_is_found_by_its_key_and_keeps_its_other_columns(tmp_path: Path) -> None:
    row = {**VERDICT, "inclusion_probability": 0.25, "doc": "x"}
    labels = read_labels(written(tmp_path, row))
    [verdict] = labels.verdicts
    assert (labels.shape, labels.unlabelled) == ("verdicts", 0)
    assert verdict.key == VerdictKey("s1", "faithfulness", 0)
    assert (verdict.text, verdict.human, verdict.inclusion_probability) == ("It rains.", 1, 0.25)
    assert verdict.columns["doc"] == "x"


def test_the_rows_of_a_run_are_a_labels_file_once_they_have_the_column(tmp_path: Path) -> None:
    rows = [{"id": str(n), "retrieved_contexts": ["It rains."], "reference": f"A {n}. B {n}."} for n in range(3)]
    run = evaluate(rows, metrics=["context_recall"], engine=ScriptedEngine({}, default=0.9), out=tmp_path / "run")
    there = [json.loads(line) for line in (tmp_path / "run" / "verdicts.jsonl").read_text().splitlines()]
    labels = read_labels(written(tmp_path, *({**row, "human": 1} for row in there)))
    verdicts = labelled_rows(run, {verdict.key for verdict in labels.verdicts})
    assert [verdicts[verdict.key] for verdict in labels.verdicts] == list(run.verdicts)


def test_csv_and_jsonl_hold_the_same_labels(tmp_path: Path) -> None:
    for rows in ([VERDICT, {**VERDICT, "position": 1, "human": None}], [STATEMENT], [PASSAGE, PASSAGE]):
        typed, cells = read_labels(written(tmp_path, *rows)), read_labels(as_csv(tmp_path, *rows))
        for one, other in zip(
            (*typed.verdicts, *typed.statements, *typed.passages),
            (*cells.verdicts, *cells.statements, *cells.passages),
            strict=True,
        ):
            assert one[2:] == other[2:]  # all but the place and the columns as they were read
        assert (typed.shape, typed.unlabelled) == (cells.shape, cells.unlabelled)


def test_a_table_of_pandas_writes_whole_numbers_as_fractions(tmp_path: Path) -> None:
    """Where a cell of a column is missing, pandas holds the others as floats: 1.0, 0.0 and NaN."""
    rows = [{**VERDICT, "human": 1.0, "position": 3.0}, {**VERDICT, "human": float("nan")}]
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "labels.parquet")
    labels = read_labels(tmp_path / "labels.parquet")
    assert [verdict.human for verdict in labels.verdicts] == [1, None]
    assert labels.verdicts[0].key.position == 3


@pytest.mark.parametrize(
    ("given_label", "label"),
    [(1, 1), (0, 0), ("1", 1), ("0", 0), (True, 1), (False, 0), ("Yes", 1), (" no ", 0), ("TRUE", 1), ("", None)],
)
def test_a_label_is_one_or_zero_in_several_spellings(tmp_path: Path, given_label: object, label: int | None) -> None:
    labels = read_labels(written(tmp_path, {**VERDICT, "human": given_label}))
    assert (labels.verdicts[0].human, labels.unlabelled) == (label, int(label is None))


@pytest.mark.parametrize("label", [2, 0.5, "maybe", [1], {"a": 1}, -1])
def test_anything_else_is_an_error_that_names_the_row(tmp_path: Path, label: object) -> None:
    with pytest.raises(DataError, match=r"labels.jsonl:2: human: found .* expected 1 or 0"):
        read_labels(written(tmp_path, VERDICT, {**VERDICT, "position": 1, "human": label}))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"sample_id": None}, "sample_id: found null, expected text"),
        ({"position": -1}, r"position: found a number \(-1\), expected a whole number"),
        ({"position": 0.5}, "expected a whole number"),
        ({"position": 1e400}, "expected a whole number"),
        ({"text": 3}, "text: found a number"),
        ({"inclusion_probability": 0}, "expected a probability above 0"),
        ({"inclusion_probability": 1.5}, "expected a probability above 0"),
        ({"inclusion_probability": "much"}, "expected a probability above 0"),
    ],
)
def test_a_verdict_that_is_not_sound_is_named(tmp_path: Path, wrong: dict[str, Any], named: str) -> None:
    file = tmp_path / "labels.jsonl"
    file.write_text(json.dumps({**VERDICT, **wrong}).replace("Infinity", "1e400") + "\n" + json.dumps(VERDICT) + "\n")
    with pytest.raises(DataError, match=named):
        read_labels(file)


def test_one_verdict_labelled_twice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"labels.jsonl:2: found the verdict of .*labels.jsonl:1 again"):
        read_labels(written(tmp_path, VERDICT, {**VERDICT, "human": 0}))


def test_statements_without_a_label_are_counted_and_left_out(tmp_path: Path) -> None:
    rows = [STATEMENT, {**STATEMENT, "label": None}, {**STATEMENT, "contexts": ["a", "b"], "context": None}]
    labels = read_labels(written(tmp_path, *rows))
    assert (labels.shape, len(labels.statements), labels.unlabelled) == ("attribution", 2, 1)
    assert [row.contexts for row in labels.statements] == [("It rained all day.",), ("a", "b")]


def test_each_sentence_has_its_label(tmp_path: Path) -> None:
    labels = read_labels(written(tmp_path, PASSAGE, {**PASSAGE, "relevant": [None, True]}))
    assert (labels.shape, labels.unlabelled) == ("relevance", 1)
    assert [row.relevant for row in labels.passages] == [(1, 0), (None, 1)]
    with pytest.raises(DataError, match="found 1 labels for 2 sentences"):
        read_labels(written(tmp_path, PASSAGE, {**PASSAGE, "relevant": [1]}))


def test_a_file_of_another_kind_is_told_what_labels_look_like(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no labels that are known.*columns: a, b") as raised:
        read_labels(written(tmp_path, {"a": 1, "b": 2}))
    assert "column 'human'" in str(raised.value)
    with pytest.raises(DataError, match="has no rows"):
        read_labels(written(tmp_path))
    (tmp_path / "broken.jsonl").write_text("{\n{\n")
    with pytest.raises(DataError, match=r"2 of 2 labelled rows cannot be used.*\n.*broken.jsonl:2: found invalid JSON"):
        read_labels(tmp_path / "broken.jsonl")


def test_the_sum_is_that_of_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, STATEMENT)
    assert read_labels(file).sha256 == hashlib.sha256(file.read_bytes()).hexdigest()


CELLS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(alphabet="a1.[\u2028\ud800 ", max_size=3)


@settings(max_examples=50)
@given(st.lists(st.dictionaries(st.sampled_from([*VERDICT]), CELLS), max_size=3))
def test_no_rows_make_it_fall_over(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> None:
    """Whatever the cells hold, there are labels or a DataError."""
    file = written(tmp_path_factory.mktemp("labels"), *({**VERDICT, **row} for row in rows))
    try:
        labels = read_labels(file)
    except DataError:
        return
    assert len(labels.verdicts) == len(rows)
