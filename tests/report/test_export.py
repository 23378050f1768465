import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import BufferReader, parquet  # type: ignore[import-untyped]

from localjudge import Run, ScriptedEngine, evaluate
from tests.report.whole_files import Format, Rows, exported


def lines(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.decode().splitlines()]


def parquet_rows(content: bytes) -> list[dict[str, Any]]:
    return list(parquet.read_table(BufferReader(content)).to_pylist())


FIELDS = ("user_input", "retrieved_contexts", "reference_contexts", "response", "reference")
VALUES: list[list[Any]] = [
    [
        "a",
        '=1+1, "so"?',
        ['Rain\'s "wet".\nIt falls.', "Ünïcode 😀"],
        ["x"],
        "It rains.",
        "It rains. It is red.",
    ],
    ["b", "How?", [], None, "Two.", None],
    ["c", "What?", ["k"], ["y", "z"], None, "It fails."],
]
ROWS = [dict(zip(("id", *FIELDS), values, strict=True)) for values in VALUES]
SCORES = [(0.5, 1.0), (None, 0.0), (None, None)]


@pytest.fixture(scope="module")
def wide_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Recall: a 1/2, b undefined, c failed. Faithfulness: a 1/1, b 0/1 without context, c none."""
    engine = ScriptedEngine({"It rains.": 0.9, "It fails.": "it does not fit"}, default=0.1)
    metrics = ["context_recall", "faithfulness"]
    return evaluate(ROWS, engine=engine, metrics=metrics, out=tmp_path_factory.mktemp("wide"))


@pytest.mark.parametrize("as_format", ["jsonl", "parquet"])
def test_a_row_per_sample_has_its_texts_and_a_score_per_metric(
    wide_run: Run, as_format: Format
) -> None:
    read = lines if as_format == "jsonl" else parquet_rows
    table = read(exported(wide_run, as_format, "samples", texts=True))
    assert [{name: row[name] for name in FIELDS} for row in table] == [
        dict(list(row.items())[1:]) for row in ROWS
    ]
    assert [(row["context_recall"], row["faithfulness"]) for row in table] == SCORES


@pytest.mark.parametrize("rows", ["scores", "samples"])
def test_a_csv_contains_no_formulas(tmp_path: Path, rows: Rows) -> None:
    row = {
        "id": "=1+1",
        "user_input": "@SUM(A1)",
        "retrieved_contexts": ["=A1"],
        "reference": "+1",
        "response": "-1",
    }
    run = evaluate(
        [row], out=tmp_path, engine=ScriptedEngine({}, default=0.9), metrics=["context_recall"]
    )
    cells = [
        cell
        for line in csv.reader(io.StringIO(exported(run, "csv", rows, texts=True).decode()))
        for cell in line
    ]
    assert [cell for cell in cells if cell[:1] in tuple("=+-@")] == []
    assert {"'=1+1", "'@SUM(A1)"} <= set(cells)


@pytest.mark.parametrize("rows", ["scores", "verdicts", "samples"])
def test_every_format_holds_the_same_rows(run: Run, rows: Rows) -> None:
    expected = lines(exported(run, "jsonl", rows))
    counts = {"scores": run.scores, "verdicts": run.verdicts, "samples": run.samples}
    assert len(expected) == len(counts[rows])
    assert parquet_rows(exported(run, "parquet", rows)) == expected
    table = list(csv.DictReader(io.StringIO(exported(run, "csv", rows).decode(), newline="")))
    assert [list(row) for row in table] == [list(row) for row in expected]


def test_formula_like_cells_are_escaped(tmp_path: Path) -> None:
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", " =1", "\n=1", "＝1"]
    rows = [{"user_input": text, "reference": "", "retrieved_contexts": []} for text in texts]
    run = evaluate(rows, out=tmp_path, engine=ScriptedEngine({}), metrics=["context_recall"])
    content = io.StringIO(exported(run, "csv", "samples", texts=True).decode(), newline="")
    assert [row["user_input"] for row in csv.DictReader(content)] == [f"'{text}" for text in texts]


@pytest.mark.parametrize("rows", ["scores", "verdicts", "samples"])
def test_parquet_row_groups_change_neither_rows_nor_types(
    wide_run: Run, rows: Rows, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = parquet.read_table(BufferReader(exported(wide_run, "parquet", rows)))
    monkeypatch.setattr("localjudge.report.export.GROUP_ROWS", 1)
    file = parquet.ParquetFile(BufferReader(exported(wide_run, "parquet", rows)))
    assert (file.num_row_groups, file.read()) == (len(whole), whole)
    nothing = [{"id": "n", "retrieved_contexts": ["x"], "reference": None, "response": None}]
    metrics = list(wide_run)
    empty = evaluate(nothing, engine=ScriptedEngine({}), metrics=metrics, out=tmp_path / "empty")
    assert parquet.read_schema(BufferReader(exported(empty, "parquet", rows))) == whole.schema


def test_verdicts_against_the_reference_and_against_contexts_share_a_column(tmp_path: Path) -> None:
    """`reference` or the number of a context, in noise sensitivity. JSON keeps it a number."""
    rows = [{"reference": "It rains.", "response": "It snows.", "retrieved_contexts": ["c"]}]
    run = evaluate(
        rows,
        metrics=["noise_sensitivity"],
        engine=ScriptedEngine({}, default=1.0),
        out=tmp_path,
    )
    table = parquet_rows(exported(run, "parquet", "verdicts"))
    assert [row["against"] for row in table] == ["reference", "0", "0"]
    assert [row["against"] for row in lines(exported(run, "jsonl", "verdicts"))] == [
        "reference",
        0,
        0,
    ]


BOTH = {"texts": True, "columns": True}
OWN_ROWS: list[dict[str, Any]] = [
    {
        "id": "a",
        "retrieved_contexts": ["It rains.", "So."],
        "reference": "One. Two.",
        "=topic": "=1+1",
        "score": 7,
        "mixed": 1,
        "tags": ["x", "y"],
        "numbers": 1,
    },
    {"id": "b", "retrieved_contexts": [], "reference": None, "mixed": "text", "numbers": 0.5},
    {"id": "c", "retrieved_contexts": ["Me."], "reference": "Three.", "data.score": "z"},
]
OWN_COLUMNS = ("=topic", "data.score", "mixed", "tags", "numbers", "data.data.score")


@pytest.fixture
def own_run(tmp_path: Path) -> Run:
    engine = ScriptedEngine({}, default=0.9)
    return evaluate(OWN_ROWS, metrics=["context_recall"], out=tmp_path / "run", engine=engine)


def table(own_run: Run, rows: Rows, **added: bool) -> list[dict[str, str]]:
    return list(
        csv.DictReader(io.StringIO(exported(own_run, "csv", rows, **added).decode(), newline="")),
    )


@pytest.mark.parametrize("rows", ["scores", "verdicts", "samples"])
def test_each_row_has_the_data_of_its_own_sample(own_run: Run, rows: Rows) -> None:
    plain = lines(exported(own_run, "jsonl", rows))
    whole = lines(exported(own_run, "jsonl", rows, **BOTH))
    assert [{name: row[name] for name in plain[0]} for row in whole] == plain
    own_rows = {row["id"]: row for row in OWN_ROWS}
    for row in whole:
        assert row["reference"] == own_rows[row["sample_id"]]["reference"]
        assert row["retrieved_contexts"] == own_rows[row["sample_id"]]["retrieved_contexts"]
        assert row["tags"] == own_rows[row["sample_id"]].get("tags")


def test_a_clashing_column_name_is_changed(own_run: Run) -> None:
    """`score` is a result column; `data.score` would then occur twice."""
    first, _, third = lines(exported(own_run, "jsonl", "scores", columns=True))
    assert tuple(first)[-6:] == OWN_COLUMNS
    assert (first["score"], first["data.score"], first["data.data.score"]) == (1.0, 7, None)
    assert (third["data.score"], third["data.data.score"]) == (None, "z")
    assert "reference" not in first


def test_no_cell_or_heading_is_a_formula_in_a_spreadsheet(own_run: Run) -> None:
    first, *_ = table(own_run, "scores", **BOTH)
    assert first["'=topic"] == "'=1+1"
    assert json.loads(first["tags"]) == ["x", "y"]
    assert json.loads(first["retrieved_contexts"]) == ["It rains.", "So."]


def test_a_parquet_column_has_one_type(own_run: Run) -> None:
    table = parquet_rows(exported(own_run, "parquet", "samples", **BOTH))
    assert [row["mixed"] for row in table] == ["1", "text", None]
    assert [row["numbers"] for row in table] == [1.0, 0.5, None]
    assert [row["tags"] for row in table] == ['["x", "y"]', None, None]
    assert table[0]["retrieved_contexts"] == ["It rains.", "So."]
