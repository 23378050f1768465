"""Exports: shapes, and cells that a spreadsheet leaves alone."""

import csv
import io
import json
from typing import Any, cast

import pytest

from localjudge import Run
from localjudge.errors import UsageError
from localjudge.report.export import Format, Rows, exported, inert, plain_rows


def lines(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.decode().splitlines()]


def test_ragas_gets_verbatim_statements_with_reason_and_label(run: Run) -> None:
    """One object per sample; a sample without statements has none."""
    first, second, third = lines(exported(run, "ragas"))
    assert first == {
        "id": "good",
        "classifications": [
            {"statement": "It rains.", "reason": "", "attributed": 1},
            {"statement": "It is red.", "reason": "", "attributed": 0},
        ],
    }
    assert "".join(row["statement"] for row in second["classifications"]).startswith("It \x1b[2J")
    assert third == {"id": "none", "classifications": []}


def test_ragas_needs_context_recall(run: Run) -> None:
    metrics = {"context_relevancy": run.summary.metrics["context_relevancy"]}
    other = Run(run.directory, run.summary.model_copy(update={"metrics": metrics}), run.manifest)
    with pytest.raises(UsageError, match="has no context_recall"):
        exported(other, "ragas")


@pytest.mark.parametrize("rows", ["scores", "verdicts", "samples"])
def test_every_format_holds_the_same_rows(run: Run, rows: Rows) -> None:
    """JSON lines and Parquet exactly, CSV as text."""
    from pyarrow import BufferReader, parquet  # type: ignore[import-untyped]

    expected = list(plain_rows(run, rows))
    assert lines(exported(run, "jsonl", rows)) == expected
    assert parquet.read_table(BufferReader(exported(run, "parquet", rows))).to_pylist() == expected
    table = list(csv.DictReader(io.StringIO(exported(run, "csv", rows).decode(), newline="")))
    assert [list(row) for row in table] == [list(row) for row in expected]


def test_one_row_per_sample_has_a_column_for_each_metric(run: Run) -> None:
    first, _, third = plain_rows(run, "samples")
    assert (first["sample_id"], first["context_recall"], first["context_recall_status"]) == ("good", 0.5, "scored")
    assert (third["context_recall"], third["context_recall_status"]) == (None, "undefined")


def test_no_cell_of_a_csv_is_a_formula(run: Run) -> None:
    cells = [cell for row in csv.reader(io.StringIO(exported(run, "csv").decode(), newline="")) for cell in row]
    assert "'=evil\x1b[2J" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", " =1", "\n=1", "＝1"])
def test_what_a_spreadsheet_would_compute_is_made_inert(text: str) -> None:
    assert inert(text) == f"'{text}"


@pytest.mark.parametrize("cell", ["plain", "a = b", "", None, 0.5, -0.5, 3])
def test_everything_else_is_left_as_it_is(cell: Any) -> None:
    assert inert(cell) == cell


@pytest.mark.parametrize("as_format", ["ragas", "jsonl", "csv", "parquet"])
def test_a_run_without_rows_has_an_export(run: Run, as_format: str) -> None:
    """Nothing was judged for it: the file is valid, and empty."""

    class Empty(Run):
        """No scores and no verdicts."""

        scores = ()
        verdicts = ()

    empty = Empty(run.directory, run.summary, run.manifest)
    assert isinstance(exported(empty, cast(Format, as_format)), bytes)
