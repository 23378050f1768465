"""The signature: each ingredient moves its part, and nothing else does."""

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import RunDirectoryError
from localjudge.engine import ScriptedEngine
from localjudge.metrics import catalog
from localjudge.record.manifest import differences, judge_part, signature
from localjudge.types import VerdictRule

ROWS = [
    {"id": "a", "user_input": "Why?", "retrieved_contexts": ["Because."], "reference": "One. Two.", "topic": "x"},
    {"id": "b", "user_input": "How?", "retrieved_contexts": ["So."], "reference": "Three.", "topic": "y"},
]


def parts(out: Path, rows: Any = ROWS, **options: Any) -> tuple[str, str]:
    """Both parts of the signature of a run."""
    options = {"engine": ScriptedEngine({}, default=0.7), "metrics": ["context_recall"], **options}
    judge, data = localjudge.evaluate(rows, out=out, **options).summary.signature.split("|")
    return judge, data


def test_clusters_belong_to_the_data(tmp_path: Path) -> None:
    """They move the intervals."""
    judge, data = parts(tmp_path / "1")
    other_judge, other_data = parts(tmp_path / "2", cluster_by="topic")
    assert (other_judge, other_data != data) == (judge, True)


@pytest.mark.parametrize("package", ["localjudge", "llama-cpp-python", "llguidance", "numpy", "outlines_core", "spacy"])
def test_another_version_of_a_package_moves_the_judge_s_part(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge() -> dict[str, Any]:
        return judge_part({}, {}, {}, [catalog.get("context_recall")], VerdictRule(0.5, 0.01))

    before = judge()
    monkeypatch.setattr(
        "localjudge.record.manifest.version", lambda name: "99" if name == package else metadata.version(name)
    )
    assert [change.ingredient for change in differences(before, judge())] == [f"versions.{package}"]
    assert signature(before, {}) != signature(judge(), {})


def test_host_threads_and_times_are_environment_and_not_signed(tmp_path: Path) -> None:
    parts(tmp_path, threads=1)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert {"host", "sessions", "settings", "sources", "mapping"} <= manifest["environment"].keys()
    assert "threads" not in json.dumps([manifest["judge"], manifest["data"]])


def test_a_directory_of_another_run_is_refused_in_words(tmp_path: Path) -> None:
    """Other data, and a metric that only one of them has: no checksum, no version."""
    out = tmp_path / "run"
    localjudge.evaluate(
        ROWS, out=out, engine=ScriptedEngine({}, default=0.9), metrics=["context_recall", "context_relevancy"]
    )
    with pytest.raises(RunDirectoryError) as refused:
        localjudge.evaluate(ROWS[:1], out=out, engine=ScriptedEngine({}, default=0.9), metrics=["context_recall"])
    lines = [line.strip() for line in refused.value.message.splitlines()[1:]]
    assert lines == ["rows: 2 there, 1 now", "the data differ", "that run has context_relevancy, this one does not"]
