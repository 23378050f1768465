"""A run cuts with the user's abbreviations, keeps them, and can be gone on with and verified without their file."""

from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import Run, ScriptedEngine
from localjudge.run.verify import verify_run as verify

ROWS = [{"id": "a", "reference": "Seen by Exkmt. The rest is clear.", "retrieved_contexts": ["Rain."]}]


def engine() -> ScriptedEngine:
    return ScriptedEngine({}, default=1.0)


def run(out: Path, **options: Any) -> Run:
    return localjudge.evaluate(ROWS, out=out, metrics=["context_recall"], engine=engine(), **options)


def statements(found: Run) -> list[str]:
    return [verdict.text for verdict in found.verdicts]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "own.txt"
    file.write_text("Exkmt.\nPat\n")
    return file


def test_a_file_and_a_list_cut_alike(tmp_path: Path, file: Path) -> None:
    """Two statements without the abbreviation, one with it; the path is no part of the signature, the words are."""
    plain, read = run(tmp_path / "plain"), run(tmp_path / "read", abbreviations=file)
    named = run(tmp_path / "named", abbreviations=["Pat.", "Exkmt"])
    other = run(tmp_path / "other", abbreviations=["Exkmt"])
    assert [len(statements(found)) for found in (plain, read, named)] == [2, 1, 1]
    assert read.summary.signature == named.summary.signature
    assert len({found.summary.signature for found in (plain, read, other)}) == 3


def test_a_run_is_verified_without_the_file(tmp_path: Path, file: Path) -> None:
    kept = run(tmp_path / "run", abbreviations=file).manifest.environment["settings"]["abbreviations"]
    assert kept == ["Exkmt", "Pat"]
    file.unlink()
    found = verify(Run.open(tmp_path / "run"), engine=engine())
    assert (found.result, found.judge_changes, found.files) == ("bit-identical", (), {})
