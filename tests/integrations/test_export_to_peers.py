from pathlib import Path

import pytest

import localjudge
from localjudge.report.export import Format
from tests.integrations import peers
from tests.integrations.example import EXAMPLE
from tests.report.whole_files import exported

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs

METRICS = ["context_recall", "faithfulness", "hit_rate@5"]
UNANSWERED = {"user_input": "Why?", "retrieved_contexts": ["So it is."], "reference": "So it is.", "response": None}
TRUTH = {"reference_contexts": ["So it is."]}


@pytest.fixture
def run(tmp_path: Path) -> localjudge.Run:
    """Judge the example and an unanswered sample, for which faithfulness is undefined."""
    engine = localjudge.ScriptedEngine({"It is blue.": 0.1}, default=0.9)
    rows = [row | TRUTH for row in (*EXAMPLE, UNANSWERED)]
    return localjudge.evaluate(rows, engine=engine, metrics=METRICS, out=tmp_path / "run")


def write(run: localjudge.Run, as_format: Format, path: Path) -> Path:
    path.write_bytes(exported(run, as_format))
    return path


def test_ragas_reads_the_table_as_its_samples(run: localjudge.Run, tmp_path: Path) -> None:
    """The ragas reader keeps its own columns and leaves the metrics out."""
    peers.require("ragas")
    from ragas import EvaluationDataset

    data = EvaluationDataset.from_jsonl(write(run, "ragas", tmp_path / "table.jsonl"))
    expected = [row | TRUTH for row in (*EXAMPLE, UNANSWERED)]
    assert [{name: getattr(sample, name) for name in expected[0]} for sample in data] == expected


def test_inspect_computes_the_means_of_the_run_without_unscored_samples(tmp_path: Path) -> None:
    """Inspect first takes the mean of two epochs; the recall of the second sample fails in both."""
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
    means = {score.name: (score.metrics["mean"].value, score.scored_samples) for score in scored.results.scores}
    assert means == {"context_recall": (pytest.approx(1.0), 1), "faithfulness": (pytest.approx(5 / 6), 2)}
