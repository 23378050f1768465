"""What is exported for other packages, read by their own readers."""

import ast
import csv
from pathlib import Path

import pytest

import localjudge
from localjudge.report.export import Format, exported
from tests.integrations import peers
from tests.integrations.example import EXAMPLE

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs

METRICS = ["context_recall", "faithfulness", "hit_rate@5"]
UNANSWERED = {"user_input": "Why?", "retrieved_contexts": ["So it is."], "reference": "So it is.", "response": None}
TRUTH = {"reference_contexts": ["So it is."]}


@pytest.fixture
def run(tmp_path: Path) -> localjudge.Run:
    """The example and a sample that was not answered: faithfulness is undefined for it."""
    engine = localjudge.ScriptedEngine({"It is blue.": 0.1}, default=0.9)
    rows = [row | TRUTH for row in (*EXAMPLE, UNANSWERED)]
    return localjudge.evaluate(rows, engine=engine, metrics=METRICS, out=tmp_path / "run")


def write(run: localjudge.Run, as_format: Format, path: Path) -> Path:
    path.write_bytes(exported(run, as_format))
    return path


def test_ragas_reads_the_table_as_its_samples(run: localjudge.Run, tmp_path: Path) -> None:
    """Its reader keeps the columns that are its own and leaves the metrics out."""
    peers.require("ragas")
    from ragas import EvaluationDataset

    data = EvaluationDataset.from_jsonl(write(run, "ragas", tmp_path / "table.jsonl"))
    expected = [row | TRUTH for row in (*EXAMPLE, UNANSWERED)]
    assert [{name: getattr(sample, name) for name in expected[0]} for sample in data] == expected


def test_the_table_has_the_columns_of_ragas_own_table_then_the_metrics(run: localjudge.Run, tmp_path: Path) -> None:
    """Of `EvaluationResult.to_pandas`: the samples' columns, then one for each metric, empty without a score."""
    peers.require("ragas")
    pandas = pytest.importorskip("pandas")
    from ragas import EvaluationDataset
    from ragas.dataset_schema import EvaluationResult

    table = pandas.read_json(write(run, "ragas", tmp_path / "table.jsonl"), lines=True)
    data = EvaluationDataset.from_jsonl(tmp_path / "table.jsonl")
    scores = [{metric: row[metric] for metric in METRICS} for row in table.to_dict("records")]
    result = object.__new__(EvaluationResult)  # its own constructor wants the traces of a judge that was called
    result.scores, result.dataset = scores, data
    theirs = result.to_pandas()
    assert [*table.columns] == [*theirs.columns]
    pandas.testing.assert_frame_equal(
        pandas.read_parquet(write(run, "ragas-parquet", tmp_path / "table.parquet")), theirs, check_dtype=False
    )
    theirs.to_csv(tmp_path / "theirs.csv", index=False)
    ours = [*csv.DictReader(exported(run, "ragas-csv").decode().splitlines())]
    with (tmp_path / "theirs.csv").open(newline="") as file:
        for row, other in zip(ours, csv.DictReader(file), strict=True):
            assert {name: cell for name, cell in row.items() if name not in METRICS} == {
                name: cell for name, cell in other.items() if name not in METRICS
            }
            assert isinstance(ast.literal_eval(row["retrieved_contexts"]), list)
            assert [float(row[metric] or "nan") for metric in METRICS] == pytest.approx(
                [float(other[metric] or "nan") for metric in METRICS], nan_ok=True
            )


def test_inspect_gives_the_means_of_the_run_with_what_was_not_scored_left_out(tmp_path: Path) -> None:
    """Two samples in two epochs, of which inspect takes the mean first; the recall of the second fails in both."""
    peers.require("inspect_ai")
    from inspect_ai import score
    from inspect_ai.log import read_eval_log
    from inspect_ai.scorer import mean, precomputed_scores

    log = read_eval_log(str(peers.inspect_log(tmp_path, epochs=2)))
    engine = localjudge.ScriptedEngine({"It is blue.": 0.1, "It flows through ten countries.": "no"}, default=0.9)
    metrics = ["context_recall", "faithfulness"]
    run = localjudge.evaluate(log, engine=engine, metrics=metrics, out=tmp_path / "run")
    assert [run[metric].mean for metric in metrics] == pytest.approx([1.0, 5 / 6])
    path = write(run, "inspect", tmp_path / "scores.jsonl")
    scored = score(log, precomputed_scores(str(path), on_missing="error", metrics={"*": [mean()]}), display="none")
    found = {one.name: (one.metrics["mean"].value, one.scored_samples) for one in scored.results.scores}
    assert found == {"context_recall": (pytest.approx(1.0), 1), "faithfulness": (pytest.approx(5 / 6), 2)}
