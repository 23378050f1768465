"""`localjudge compare`: two directories in, what changed out."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import called
from tests.conftest import ScriptedRun

ROWS: list[dict[str, Any]] = [
    {"id": "a", "reference": "One. Two.", "retrieved_contexts": ["c"]},
    {"id": "b", "reference": "Three.", "retrieved_contexts": ["c"]},
]


@pytest.fixture
def runs(scripted_run: ScriptedRun, tmp_path: Path) -> tuple[Path, Path]:
    """Recall 0.5 and 1, then 1 and 1."""
    scripted_run("old", ROWS, {"Two.": 0.25})
    scripted_run("new", ROWS, {})
    return tmp_path / "old", tmp_path / "new"


def test_json_holds_the_whole_comparison(runs: tuple[Path, Path], capfd: pytest.CaptureFixture[str]) -> None:
    code, output, errors = called(capfd, "compare", *runs, "--json", "--moved", "0")
    found = json.loads(output)
    assert (code, errors, found["schema_version"]) == (0, "", 1)
    assert found["metrics"]["context_recall"]["scores"]["difference"] == 0.25
    assert found["metrics"]["context_recall"]["moved"] == []
    assert [change["ingredient"] for change in found["judge_changes"]] == ["engine.script_sha256"]
