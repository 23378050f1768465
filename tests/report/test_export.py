"""Exports: shapes, and cells that a spreadsheet leaves alone."""

import ast
import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.errors import InputError
from localjudge.report.export import Format, Rows, exported, plain_rows
from localjudge.words import inert


def lines(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.decode().splitlines()]


def test_the_classifications_hold_verbatim_statements_with_reason_and_label(run: Run) -> None:
    """One object per sample; a sample without statements has none."""
    first, second, third = lines(exported(run, "ragas-classifications"))
    assert first == {
        "id": "good",
        "classifications": [
            {"statement": "It rains.", "reason": "", "attributed": 1},
            {"statement": "It is red.", "reason": "", "attributed": 0},
        ],
    }
    assert "".join(row["statement"] for row in second["classifications"]).startswith("It \x1b[2J")
    assert third == {"id": "none", "classifications": []}


def test_the_classifications_need_context_recall(run: Run) -> None:
    metrics = {"context_relevancy": run.summary.metrics["context_relevancy"]}
    other = Run(run.directory, run.summary.model_copy(update={"metrics": metrics}), run.manifest)
    with pytest.raises(InputError, match="has no context_recall"):
        exported(other, "ragas-classifications")


RAGAS_ROWS: list[dict[str, Any]] = [
    {
        "id": "a",
        "user_input": '=1+1, "so"?',
        "retrieved_contexts": ['Rain\'s "wet".\nIt falls.', "Ünïcode 😀"],
        "reference": "It rains. It is red.",
        "response": "It rains.",
        "reference_contexts": ["x"],
    },
    {
        "id": "b",
        "user_input": "How?",
        "retrieved_contexts": [],
        "reference": None,
        "response": "Two.",
        "reference_contexts": None,
    },
    {
        "id": "c",
        "user_input": "What?",
        "retrieved_contexts": ["k"],
        "reference": "It fails.",
        "response": None,
        "reference_contexts": ["y", "z"],
    },
]


@pytest.fixture(scope="module")
def ragas_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Recall: a 1/2, b undefined, c failed. Faithfulness: a 1/1, b 0/1 without a context, c undefined."""
    engine = ScriptedEngine({"It rains.": 0.9, "It fails.": "it does not fit"}, default=0.1)
    metrics = ["context_recall", "faithfulness"]
    return evaluate(RAGAS_ROWS, engine=engine, metrics=metrics, out=tmp_path_factory.mktemp("ragas"))


RAGAS_COLUMNS = [
    "user_input",
    "retrieved_contexts",
    "reference_contexts",
    "response",
    "reference",
    "context_recall",
    "faithfulness",
]
RAGAS_SCORES = [(0.5, 1.0), (None, 0.0), (None, None)]


def test_ragas_gets_the_wide_table_that_its_users_hold(ragas_run: Run) -> None:
    """Texts under ragas's names, in the order of its `EvaluationResult.to_pandas`; no score is null, not a number.

    Checked with ragas 0.4.3: `EvaluationDataset.from_jsonl(file).to_list()` gives the three samples back, each without
    its fields that are null.
    """
    table = lines(exported(ragas_run, "ragas"))
    assert [list(row) for row in table] == [RAGAS_COLUMNS] * 3
    fields = RAGAS_COLUMNS[:5]
    assert [{name: row[name] for name in fields} for row in table] == [
        {name: row[name] for name in fields} for row in RAGAS_ROWS
    ]
    assert [(row["context_recall"], row["faithfulness"]) for row in table] == RAGAS_SCORES


def test_ragas_reads_the_lists_of_the_csv(ragas_run: Run) -> None:
    """Lists stand as Python prints them, a missing value and a missing score are empty, and texts are verbatim, but for
    an apostrophe before what a spreadsheet would take for a formula.

    Checked with ragas 0.4.3, which has no `from_csv`: the text columns are byte for byte those of its own
    `EvaluationDataset.to_csv`, and `EvaluationDataset.from_pandas` of the file, lists read by `ast.literal_eval`, gives
    the three samples back.
    """
    table = list(csv.DictReader(io.StringIO(exported(ragas_run, "ragas-csv").decode(), newline="")))
    assert [list(row) for row in table] == [RAGAS_COLUMNS] * 3
    for row, given, scores in zip(table, RAGAS_ROWS, RAGAS_SCORES, strict=True):
        for name in ("retrieved_contexts", "reference_contexts"):
            assert (ast.literal_eval(row[name]) if row[name] else None) == given[name]
        assert [row[name] for name in ("user_input", "response", "reference")] == [
            inert(given[name] or "") for name in ("user_input", "response", "reference")
        ]
        assert [row["context_recall"], row["faithfulness"]] == ["" if score is None else str(score) for score in scores]


def test_ragas_reads_the_parquet(ragas_run: Run) -> None:
    """The same rows. Checked with ragas 0.4.3: `EvaluationDataset.from_list(rows)` gives the samples back."""
    from pyarrow import BufferReader, parquet  # type: ignore[import-untyped]

    rows = parquet.read_table(BufferReader(exported(ragas_run, "ragas-parquet"))).to_pylist()
    assert rows == lines(exported(ragas_run, "ragas"))


@pytest.mark.parametrize("as_format", ["csv", "ragas-csv"])
def test_a_csv_for_any_tool_is_safe_from_formulas(tmp_path: Path, as_format: Format) -> None:
    row = {"id": "=1+1", "user_input": "@SUM(A1)", "retrieved_contexts": ["=A1"], "reference": "+1", "response": "-1"}
    run = evaluate([row], out=tmp_path, engine=ScriptedEngine({}, default=0.9), metrics=["context_recall"])
    cells = [cell for line in csv.reader(io.StringIO(exported(run, as_format).decode())) for cell in line]
    assert [cell for cell in cells if cell[:1] in tuple("=+-@")] == []
    assert {"'=1+1", "'@SUM(A1)"} & set(cells)


@pytest.mark.parametrize("rows", ["scores", "verdicts", "samples"])
def test_every_format_holds_the_same_rows(run: Run, rows: Rows) -> None:
    """JSON lines and Parquet exactly, CSV as text."""
    from pyarrow import BufferReader, parquet

    expected = list(plain_rows(run, rows))
    assert lines(exported(run, "jsonl", rows)) == expected
    assert parquet.read_table(BufferReader(exported(run, "parquet", rows))).to_pylist() == expected
    table = list(csv.DictReader(io.StringIO(exported(run, "csv", rows).decode(), newline="")))
    assert [list(row) for row in table] == [list(row) for row in expected]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", " =1", "\n=1", "＝1"])
def test_what_a_spreadsheet_would_compute_is_made_inert(text: str) -> None:
    assert inert(text) == f"'{text}"


@pytest.mark.parametrize("rows", ["scores", "verdicts", "samples"])
def test_parquet_in_row_groups_holds_the_same_and_its_types_do_not_depend_on_it(
    ragas_run: Run, rows: Rows, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from pyarrow import BufferReader, parquet

    whole = parquet.read_table(BufferReader(exported(ragas_run, "parquet", rows)))
    monkeypatch.setattr("localjudge.report.export.ROWS_OF_GROUP", 1)
    file = parquet.ParquetFile(BufferReader(exported(ragas_run, "parquet", rows)))
    assert (file.num_row_groups, file.read()) == (len(whole), whole)
    nothing = [{"id": "n", "retrieved_contexts": ["x"], "reference": None, "response": None}]
    metrics = list(ragas_run)
    empty = evaluate(nothing, engine=ScriptedEngine({}), metrics=metrics, out=tmp_path / "empty")
    assert parquet.read_schema(BufferReader(exported(empty, "parquet", rows))) == whole.schema


def test_verdicts_against_the_reference_and_against_contexts_share_a_column(tmp_path: Path) -> None:
    """Of noise sensitivity: `reference`, or the number of a context. In JSON a number stays a number."""
    from pyarrow import BufferReader, parquet

    rows = [{"reference": "It rains.", "response": "It snows.", "retrieved_contexts": ["c"]}]
    run = evaluate(rows, metrics=["noise_sensitivity"], engine=ScriptedEngine({}, default=1.0), out=tmp_path)
    found = parquet.read_table(BufferReader(exported(run, "parquet", "verdicts"))).to_pylist()
    assert [row["against"] for row in found] == ["reference", "0", "0"]
    assert [row["against"] for row in lines(exported(run, "jsonl", "verdicts"))] == ["reference", 0, 0]


def test_scores_for_inspect_have_every_metric_and_none_that_is_missing_is_a_number(ragas_run: Run) -> None:
    """A null would be counted as 0 there, so what was not scored is NaN; recall is 1 of 2 for `a`."""
    first, second, third = lines(exported(ragas_run, "inspect"))
    assert first == {
        "id": "a",
        "value": {"context_recall": 0.5, "faithfulness": 1.0},
        "explanation": "context_recall: 1/2 = 0.500\nfaithfulness: 1/1 = 1.000",
    }
    assert math.isnan(second["value"]["context_recall"])
    assert second["value"]["faithfulness"] == 0
    assert second["explanation"].startswith("context_recall: undefined: ")
    assert math.isnan(third["value"]["context_recall"])
    assert third["explanation"].startswith("context_recall: failed: ")


def test_a_sample_of_a_later_epoch_of_inspect_gets_its_id_and_the_epoch(tmp_path: Path) -> None:
    """Only where the data say the epoch, too: an id may end so by itself."""
    rows = [
        {"id": name, "response": "It rains.", "contexts": ["x"], "epoch": epoch}
        for name, epoch in (("s", 1), ("s_epoch_2", 2), ("t_epoch_2", 1), ("u_epoch_2", None))
    ]
    run = evaluate(rows, engine=ScriptedEngine({}, default=0.9), metrics=["faithfulness"], out=tmp_path / "run")
    named = [(row["id"], row.get("epoch")) for row in lines(exported(run, "inspect"))]
    assert named == [("s", None), ("s", 2), ("t_epoch_2", None), ("u_epoch_2", None)]
