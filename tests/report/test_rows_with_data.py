"""Exports with the texts and the other columns of the data."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.errors import InputError, RunDirectoryError
from localjudge.report.export import Added, Format, Rows, exported

BOTH = Added(texts=True, columns=True)
ROWS: list[dict[str, Any]] = [
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
COLUMNS = ("=topic", "data.score", "mixed", "tags", "numbers", "data.data.score")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    engine = ScriptedEngine({}, default=0.9)
    return evaluate(ROWS, metrics=["context_recall"], out=tmp_path / "run", engine=engine)


def lines(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.decode().splitlines()]


def table(run: Run, rows: Rows, added: Added) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(exported(run, "csv", rows, added).decode(), newline="")))


@pytest.mark.parametrize("rows", ["scores", "verdicts", "samples"])
def test_each_row_has_the_data_of_its_own_sample(run: Run, rows: Rows) -> None:
    """Behind what it has without; b has no verdict, so its data is left over."""
    plain, found = lines(exported(run, "jsonl", rows)), lines(exported(run, "jsonl", rows, BOTH))
    assert [{name: row[name] for name in plain[0]} for row in found] == plain
    given = {row["id"]: row for row in ROWS}
    for row in found:
        assert row["reference"] == given[row["sample_id"]]["reference"]
        assert row["retrieved_contexts"] == given[row["sample_id"]]["retrieved_contexts"]
        assert row["tags"] == given[row["sample_id"]].get("tags")


def test_a_name_that_is_taken_gets_another(run: Run) -> None:
    """`score` is ours; `data.score` would then be theirs twice."""
    first, _, third = lines(exported(run, "jsonl", "scores", Added(columns=True)))
    assert tuple(first)[-6:] == COLUMNS
    assert (first["score"], first["data.score"], first["data.data.score"]) == (1.0, 7, None)
    assert (third["data.score"], third["data.data.score"]) == (None, "z")
    assert "reference" not in first


def test_a_spreadsheet_takes_neither_cells_nor_headings_for_formulas(run: Run) -> None:
    first, *_ = table(run, "scores", BOTH)
    assert first["'=topic"] == "'=1+1"
    assert json.loads(first["tags"]) == ["x", "y"]
    assert json.loads(first["retrieved_contexts"]) == ["It rains.", "So."]


def test_a_parquet_column_is_of_one_kind(run: Run) -> None:
    from pyarrow import BufferReader, parquet  # type: ignore[import-untyped]

    found = parquet.read_table(BufferReader(exported(run, "parquet", "samples", BOTH))).to_pylist()
    assert [row["mixed"] for row in found] == ["1", "text", None]
    assert [row["numbers"] for row in found] == [1.0, 0.5, None]
    assert [row["tags"] for row in found] == ['["x", "y"]', None, None]
    assert found[0]["retrieved_contexts"] == ["It rains.", "So."]


@pytest.mark.parametrize("tool", ["ragas", "inspect"])
def test_formats_of_a_tool_have_its_own_columns(run: Run, tool: Format) -> None:
    with pytest.raises(InputError, match="has columns of its own"):
        exported(run, tool, "scores", Added(texts=True))


def test_data_of_another_order_is_not_put_beside_the_wrong_rows(run: Run) -> None:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(run.directory / "run.sqlite")) as store, store:
        store.execute("UPDATE sample SET position = 2 - position")
    with pytest.raises(RunDirectoryError, match="in another order than their scores"):
        exported(run, "jsonl", "scores", BOTH)
