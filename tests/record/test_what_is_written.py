"""What a run writes: into files of its own, never through a link, nothing that could not be read back."""

from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import Run, RunDirectoryError, ScriptedEngine
from localjudge.record.store import Store

ROWS = [{"id": "a", "retrieved_contexts": ["Rain."], "reference": "It rains. It is red."}]


def made(directory: Path) -> Run:
    return localjudge.evaluate(ROWS, out=directory, engine=ScriptedEngine({"It rains.": 0.9}, default=0.3))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Of a run as localjudge leaves it."""
    return made(tmp_path / "run").directory


def test_a_link_under_the_name_of_a_file_being_written_is_not_written_through(directory: Path, tmp_path: Path) -> None:
    """Nor is a link under the name of a result: the run gets files of its own."""
    victim = tmp_path / "victim"
    victim.write_text("important")
    for name in ("scores.jsonl.part", "verdicts.jsonl", "manifest.json.part"):
        (directory / name).unlink(missing_ok=True)
        (directory / name).symlink_to(victim)
    assert made(directory).scores == Run.open(directory).scores
    assert victim.read_text() == "important"


def test_a_store_that_is_a_link_to_nothing_is_not_made_there(tmp_path: Path) -> None:
    (tmp_path / "run.sqlite").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunDirectoryError, match=r"run\.sqlite is a link"):
        Store(tmp_path / "run.sqlite")
    assert not (tmp_path / "elsewhere").exists()


def test_what_differs_from_another_run_is_cut_to_a_line_each(directory: Path) -> None:
    path = directory / "manifest.json"
    text = path.read_text(encoding="utf-8")
    assert '"threshold": 0.5' in text
    path.write_text(text.replace('"threshold": 0.5', f'"threshold": 0.5, "x": "{"y" * 9999}\\n"'), encoding="utf-8")
    with pytest.raises(RunDirectoryError, match="belongs to another run") as caught:
        made(directory)
    assert max(map(len, str(caught.value).splitlines())) < 500


def test_a_sample_that_cannot_be_stored_whole_is_refused(tmp_path: Path) -> None:
    """What would not be read back is not written: 64 MiB to a value."""
    rows: list[Any] = [{"id": "a", "retrieved_contexts": ["x" * (65 << 20)], "reference_contexts": ["x"]}]
    with pytest.raises(RunDirectoryError, match=r"too big\n.*no sample may be larger than 64 MiB"):
        localjudge.evaluate(rows, out=tmp_path, engine=ScriptedEngine({}, default=0.3), metrics=["document_mrr"])
