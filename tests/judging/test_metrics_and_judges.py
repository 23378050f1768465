"""The default judge with each metric and each pair of metrics, without earlier measurements."""

import shutil
from itertools import combinations
from pathlib import Path

import pytest

import localjudge
from localjudge import InputError, Metric
from localjudge.metrics import Scored, catalog

pytestmark = pytest.mark.engine

ROW = {
    "id": "a",
    "user_input": "Where?",
    "retrieved_contexts": ["It is in Ulm.", "It rains."],
    "reference_contexts": ["It is in Ulm."],
    "reference": "In Ulm.",
    "response": "It is in Ulm [1]. It rains [5].",
}
METRICS = [catalog.example(name) for name in catalog.our_names()]
WITHOUT_JUDGE = [metric.name for metric in METRICS if not catalog.is_judged(metric.name)]
REFUSED = {"context_sufficiency", "refusal", "abstention"}
"""The bundled judges have no words for their questions."""
SCORES = {"document_mrr": 1.0, "hit_rate@1": 1.0, "citation_validity": 0.5}
"""Of ROW: its first context is the right one, and one of its two citations names a context."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """State without remembered scales, and no other default judge."""
    monkeypatch.delenv("LOCALJUDGE_JUDGE", raising=False)
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_the_default_judge_is_ready_for_each_metric_and_each_pair(home: Path) -> None:
    """No scale is measured: the registry has those of questions that bundled judges answer."""
    groups: list[tuple[Metric, ...]] = [(metric,) for metric in METRICS]
    groups += combinations(METRICS, 2)
    with localjudge.Judge.open() as judge:
        assert judge.card.name == "bundled"
        for metrics in groups:
            names = {metric.name for metric in metrics}
            if names & REFUSED:
                with pytest.raises(InputError, match=min(names & REFUSED)):
                    judge.evaluations([ROW], metrics)
                continue
            found = {each.metric: each.outcome for each in judge.evaluations([ROW], metrics)}
            assert found.keys() == names
            assert all(isinstance(outcome, Scored) for outcome in found.values()), names
    assert not (home / "scales").exists()


def test_a_run_without_questions_opens_no_model(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default judge names a file that is not there, so opening it would fail."""
    monkeypatch.setenv("LOCALJUDGE_JUDGE", str(tmp_path / "absent.gguf"))
    run = localjudge.evaluate([ROW], metrics=WITHOUT_JUDGE, out=tmp_path / "all", progress=False)
    for name, score in SCORES.items():
        assert run.summary.metrics[name].mean == score
    assert run.manifest.judge.engine.engine == "none"
    assert localjudge.Run.open(tmp_path / "all").verify().result == "bit-identical"
    again = localjudge.evaluate([ROW], metrics=WITHOUT_JUDGE, out=tmp_path / "all", progress=False)
    assert again.summary == run.summary
    for name in WITHOUT_JUDGE:
        alone = localjudge.evaluate([ROW], metrics=name, out=tmp_path / name, progress=False)
        assert alone.summary.metrics == {name: run.summary.metrics[name]}


def test_metrics_with_and_without_questions_go_together(home: Path, tmp_path: Path) -> None:
    both = ["faithfulness", "citation_validity", "answer_relevancy"]
    run = localjudge.evaluate([ROW], metrics=both, out=tmp_path / "run", progress=False)
    assert run.summary.metrics["citation_validity"].mean == SCORES["citation_validity"]
    assert run.summary.metrics["faithfulness"].scored == 1
    assert run.verify().result == "bit-identical"


def test_runs_with_and_without_a_judge_reuse_each_other(home: Path, tmp_path: Path) -> None:
    free = tmp_path / "free"
    judged = tmp_path / "judged"
    localjudge.evaluate([ROW], metrics="document_mrr", out=free, progress=False)
    run = localjudge.evaluate(reuse=[free], metrics="faithfulness", out=judged, progress=False)
    assert run.summary.judge.name == "bundled"
    shutil.rmtree(free)
    run = localjudge.evaluate(reuse=[judged], metrics="document_mrr", out=free, progress=False)
    assert run.summary.metrics["document_mrr"].mean == SCORES["document_mrr"]
