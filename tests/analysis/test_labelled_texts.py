import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge import DataError, ScriptedEngine, calibrate, evaluate
from localjudge.dataset.sources import Source
from localjudge.labels.calibration_labels import read_labelled_texts
from tests.analysis.conftest import JudgedRun, label, written

STATEMENT: dict[str, Any] = {"context": "It rained all day.", "statement": "It rained.", "label": 1}
PASSAGE: dict[str, Any] = {
    "question": "Did it rain?",
    "sentences": ["It did.", "We ate."],
    "relevant": [1, 0],
}


def read_file(file: Path) -> tuple[list[Any], int]:
    with Source(str(file)) as source:
        return read_labelled_texts(source)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "labels.jsonl"


def test_a_statement_keeps_its_other_columns(file: Path) -> None:
    [row], unlabelled = read_file(written(file, {**STATEMENT, "doc": "x"}))
    assert (row.shape, unlabelled) == ("attribution", 0)
    assert (row.statement, row.texts) == ("It rained.", ("It rained all day.",))
    assert (row.labels, row.columns["doc"]) == ((1,), "x")


@pytest.mark.parametrize("rows", [[STATEMENT, {**STATEMENT, "label": 0}], [PASSAGE, PASSAGE]])
def test_csv_and_jsonl_hold_the_same_labels(file: Path, rows: list[dict[str, Any]]) -> None:
    with file.with_suffix(".csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        cells = (
            {k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()} for row in rows
        )
        writer.writerows(cells)
    typed, unlabelled = read_file(written(file, *rows))
    read_back, unlabelled_of_csv = read_file(file.with_suffix(".csv"))
    for row, other in zip(typed, read_back, strict=True):
        assert row[2:] == other[2:]  # all but place and columns
    assert unlabelled == unlabelled_of_csv


@pytest.mark.parametrize(
    ("row", "wrong", "named"),
    [
        *(
            (STATEMENT, {"label": label}, "label: found .* expected 1 or 0")
            for label in (2, 0.5, "maybe", [1], {"a": 1})
        ),
        (STATEMENT, {"statement": 3}, "statement: found a number"),
        (STATEMENT, {"statement": None}, "statement: found null"),
        (STATEMENT, {"context": []}, "contexts: found an empty list"),
        (PASSAGE, {"relevant": [1]}, "relevant: found a list of 1"),
    ],
)
def test_an_unusable_row_is_named(
    file: Path, row: dict[str, Any], wrong: dict[str, Any], named: str
) -> None:
    with pytest.raises(DataError, match=rf"1 of 3 labelled rows(?s:.*)labels.jsonl:3: .*{named}"):
        read_file(written(file, row, row, {**row, **wrong}))


def test_texts_without_a_label_are_counted_and_left_out_and_each_sentence_has_its_own(
    file: Path,
) -> None:
    rows = [
        STATEMENT,
        {**STATEMENT, "label": None},
        {**STATEMENT, "contexts": ["a", "b"], "context": None},
    ]
    texts, unlabelled = read_file(written(file, *rows))
    assert (texts[0].shape, unlabelled) == ("attribution", 1)
    contexts = [row.texts for row in texts]
    assert contexts == [("It rained all day.",), ("a", "b")]
    texts, unlabelled = read_file(written(file, PASSAGE, {**PASSAGE, "relevant": [None, True]}))
    assert (texts[0].shape, unlabelled) == ("relevance", 1)
    assert [row.labels for row in texts] == [(1, 0), (None, 1)]


@pytest.mark.parametrize(
    "row", [{**STATEMENT, "label": None}, {**PASSAGE, "relevant": [None, None]}]
)
def test_a_file_without_any_label_is_refused(file: Path, row: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="no labels"):
        read_file(written(file, row, row))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ('{"a": 1, "b": 2}\n', r"no labelled texts .*columns: a, b"),
        (
            '{"sample_id": "a", "human": 1}\n',
            r"no labelled texts (?s:.*)localjudge label RUN --read FILE",
        ),
        ("", "has no rows"),
        ("{\n{\n", r"2 of 2 labelled rows .*\n.*labels.jsonl:2: found invalid JSON"),
    ],
)
def test_a_file_of_another_kind_is_refused(file: Path, content: str, named: str) -> None:
    file.write_text(content)
    with pytest.raises(DataError, match=named):
        read_file(file)


CELLS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(alphabet="a1.[\u2028\ud800 ", max_size=3)
)


@settings(max_examples=50)
@given(st.lists(st.dictionaries(st.sampled_from([*STATEMENT]), CELLS), max_size=3))
def test_any_rows_give_labels_or_a_data_error(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    file = written(
        tmp_path_factory.mktemp("labels") / "labels.jsonl",
        *({**STATEMENT, **row} for row in rows),
    )
    try:
        texts, unlabelled = read_file(file)
    except DataError:
        return
    assert len(texts) + unlabelled == len(rows)


def test_runs_that_share_one_labelled_statement_are_not_compared(
    judged_run: JudgedRun,
) -> None:
    """Two runs with other samples, 20 labels each; both have the statements of sample 0."""
    first = judged_run("first", samples=30)
    rows = [sample.model_dump(exclude_none=True) for sample in first.samples]
    for row in rows[1:]:
        row["reference"] = row["reference"].replace("Fact", "Another fact")
    second = evaluate(
        rows,
        metrics=["context_recall"],
        engine=ScriptedEngine({}, default=0.7),
        out=first.directory.parent / "second",
        progress=False,
    )
    for run in (first, second):
        label(run, lambda text: len(text) % 2)
    with pytest.raises(DataError, match=r"only 1 of 119 labelled statements .* 2 runs"):
        calibrate([first, second])
