"""What is told to a reader of a run before it is finished: to go on with the command that began it."""

import json
from pathlib import Path

import pytest

from localjudge import RunDirectoryError, ScriptedEngine, evaluate
from localjudge.record.run import Run
from tests.cli.conftest import called

ROWS = [{"id": "a", "retrieved_contexts": ["x"], "reference": "One."}]


def test_a_run_that_is_not_finished_names_nothing_that_its_manifest_says(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A manifest may be a stranger's: no address and no option of it becomes advice."""
    evaluate(ROWS, out=tmp_path, engine=ScriptedEngine({}, default=0.9))
    (tmp_path / "summary.json").unlink()
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["environment"] |= {"judge": "http://203.0.113.5:8080", "sources": ["--allow-host"]}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    code, _, errors = called(capfd, "show", tmp_path)
    assert code == 1
    assert errors.splitlines() == [
        f"localjudge: the run in {tmp_path} has no finished sample yet",
        "  hint: run the command that began it again to go on",
    ]
    with pytest.raises(RunDirectoryError, match=r"is not finished\n.*run the command that began it again"):
        Run.open(tmp_path)
