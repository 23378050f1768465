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
from localjudge.analysis.labels import LabelledSentences, LabelledStatement, VerdictKey, labelled_rows, read_labels
from localjudge.errors import DataError
from tests.analysis.conftest import written

VERDICT: dict[str, Any] = {"sample_id": "s1", "metric": "faithfulness", "position": 0, "text": "It rains.", "human": 1}
STATEMENT = {"context": "It rained all day.", "statement": "It rained.", "label": 1}
PASSAGE = {"question": "Did it rain?", "sentences": ["It did.", "We ate."], "relevant": [1, 0]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "labels.jsonl"


def test_a_verdict_is_named_by_its_key_and_keeps_its_other_columns(file: Path) -> None:
    labels = read_labels(written(file, {**VERDICT, "inclusion_probability": 0.25, "doc": "x"}))
    [verdict] = labels.verdicts
    assert (labels.shape, labels.unlabelled) == ("verdicts", 0)
    assert labels.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert verdict.key == VerdictKey("s1", "faithfulness", 0)
    assert (verdict.text, verdict.human, verdict.inclusion_probability) == ("It rains.", 1, 0.25)
    assert verdict.columns["doc"] == "x"


def test_the_rows_of_a_run_are_a_labels_file_once_they_have_the_column(file: Path, tmp_path: Path) -> None:
    rows = [{"id": str(n), "retrieved_contexts": ["It rains."], "reference": f"A {n}. B {n}."} for n in range(3)]
    run = evaluate(rows, metrics=["context_recall"], engine=ScriptedEngine({}, default=0.9), out=tmp_path / "run")
    lines = (tmp_path / "run" / "verdicts.jsonl").read_text().splitlines()
    labels = read_labels(written(file, *({**json.loads(line), "human": 1} for line in lines)))
    verdicts = labelled_rows(run, {verdict.key: verdict.text for verdict in labels.verdicts})
    assert [verdicts[verdict.key] for verdict in labels.verdicts] == list(run.verdicts)


@pytest.mark.parametrize(
    "rows", [[VERDICT, {**VERDICT, "position": 1, "human": None}], [STATEMENT], [PASSAGE, PASSAGE]]
)
def test_csv_and_jsonl_hold_the_same_labels(file: Path, rows: list[dict[str, Any]]) -> None:
    with file.with_suffix(".csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        cells = ({k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()} for row in rows)
        writer.writerows(cells)
    typed, read_back = read_labels(written(file, *rows)), read_labels(file.with_suffix(".csv"))
    for row, other in zip((*typed.verdicts, *typed.texts), (*read_back.verdicts, *read_back.texts), strict=True):
        assert row.model_dump(exclude={"place", "columns"}) == other.model_dump(exclude={"place", "columns"})
    assert (typed.shape, typed.unlabelled) == (read_back.shape, read_back.unlabelled)


def test_a_table_of_pandas_writes_whole_numbers_as_fractions(tmp_path: Path) -> None:
    """Where a cell of a column is missing, pandas holds the others as floats: 1.0, 0.0 and NaN."""
    rows = [{**VERDICT, "human": 1.0, "position": 3.0}, {**VERDICT, "human": float("nan")}]
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "labels.parquet")
    labels = read_labels(tmp_path / "labels.parquet")
    assert [verdict.human for verdict in labels.verdicts] == [1, None]
    assert labels.verdicts[0].key.position == 3


@pytest.mark.parametrize(
    ("spelling", "label"),
    [(1, 1), (0, 0), ("1", 1), ("0", 0), (True, 1), (False, 0), ("Yes", 1), (" no ", 0), ("TRUE", 1), ("", None)],
)
def test_a_label_is_one_or_zero_in_several_spellings(file: Path, spelling: object, label: int | None) -> None:
    labels = read_labels(written(file, {**VERDICT, "human": spelling}))
    assert (labels.verdicts[0].human, labels.unlabelled) == (label, int(label is None))


@pytest.mark.parametrize(
    ("row", "wrong", "named"),
    [
        *((VERDICT, {"human": label}, "human: found .* expected 1 or 0") for label in (2, 0.5, "maybe", [1], {"a": 1})),
        (VERDICT, {"sample_id": None}, "sample_id: found null, expected text"),
        (VERDICT, {"position": -1}, r"position: found a number \(-1\), expected a whole number"),
        (VERDICT, {"position": 0.5}, "expected a whole number"),
        (VERDICT, {"position": float("inf")}, "expected a whole number"),
        (VERDICT, {"text": 3}, "text: found a number"),
        (VERDICT, {"inclusion_probability": 0}, "expected a probability above 0"),
        (VERDICT, {"inclusion_probability": 1.5}, "expected a probability above 0"),
        (VERDICT, {"inclusion_probability": "much"}, "expected a probability above 0"),
        (VERDICT, {"position": 1}, "found the verdict of .*labels.jsonl:2 again"),
        (STATEMENT, {"context": []}, "contexts: found an empty list, expected texts"),
        (PASSAGE, {"relevant": [1]}, "relevant: found a list of 1, expected 1, 0 or nothing for each sentence"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(file: Path, row: dict[str, Any], wrong: dict[str, Any], named: str) -> None:
    sound = [{**row, "position": 0}, {**row, "position": 1}]
    content = written(file, *sound, {**row, "position": 2, **wrong}).read_text()
    file.write_text(content.replace("Infinity", "1e400"))
    with pytest.raises(DataError, match=rf"1 of 3 labelled rows(?s:.*)labels.jsonl:3: .*{named}"):
        read_labels(file)


def test_texts_without_a_label_are_counted_and_left_out_and_each_sentence_has_its_own(file: Path) -> None:
    rows = [STATEMENT, {**STATEMENT, "label": None}, {**STATEMENT, "contexts": ["a", "b"], "context": None}]
    labels = read_labels(written(file, *rows))
    assert (labels.shape, labels.unlabelled) == ("attribution", 1)
    contexts = [row.contexts for row in labels.texts if isinstance(row, LabelledStatement)]
    assert contexts == [("It rained all day.",), ("a", "b")]
    labels = read_labels(written(file, PASSAGE, {**PASSAGE, "relevant": [None, True]}))
    assert (labels.shape, labels.unlabelled) == ("relevance", 1)
    assert [row.relevant for row in labels.texts if isinstance(row, LabelledSentences)] == [(1, 0), (None, 1)]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ('{"a": 1, "b": 2}\n', r"no labels that are known.*columns: a, b"),
        ("", "has no rows"),
        ("{\n{\n", r"2 of 2 labelled rows cannot be used.*\n.*labels.jsonl:2: found invalid JSON"),
    ],
)
def test_a_file_of_another_kind_is_refused(file: Path, content: str, named: str) -> None:
    file.write_text(content)
    with pytest.raises(DataError, match=named):
        read_labels(file)


CELLS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(alphabet="a1.[\u2028\ud800 ", max_size=3)


@settings(max_examples=50)
@given(st.lists(st.dictionaries(st.sampled_from([*VERDICT]), CELLS), max_size=3))
def test_no_rows_make_it_fall_over(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> None:
    """Whatever the cells hold, there are labels or a DataError."""
    file = written(tmp_path_factory.mktemp("labels") / "labels.jsonl", *({**VERDICT, **row} for row in rows))
    try:
        labels = read_labels(file)
    except DataError:
        return
    assert len(labels.verdicts) == len(rows)
