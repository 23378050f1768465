"""`localjudge report`, and a run whose suite asks for one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run
from tests.cli.conftest import called, suite_here

ScriptedRun = Callable[..., Run]
ROW: dict[str, Any] = {"id": "a", "reference": "It rains.", "retrieved_contexts": ["It rains."]}


@pytest.fixture
def folder(scripted_run: ScriptedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the runs `old`, where nothing is attributed, and `new`, where all is."""
    scripted_run("old", [ROW], {"It rains.": 0.0})
    scripted_run("new", [ROW], {})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_report_is_written_into_the_run(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, output, errors = called(capfd, "report", "new")
    assert (code, output.split(), errors) == (0, ["report", "new/report.html"], "")
    assert (folder / "new" / "report.html").read_text().startswith("<!doctype html>")


def test_it_is_compared_held_to_gates_and_written_elsewhere(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """1 against 0 on one sample: the difference is at least -1 whatever it is, and not surely above 0.9."""
    given = ("report", "new", "--baseline", "old", "--out", "page.html", "--gate", "context_recall.delta>=-1")
    code, output, _ = called(capfd, *given)
    assert code == 0
    assert "a: context_recall 0.000 -> 1.000" in output
    code, output, _ = called(capfd, *given, "--gate", "context_recall.delta>=0.9", "--json")
    said = json.loads(output)
    assert code == 3
    assert (said["file"], said["bytes"]) == ("page.html", (folder / "page.html").stat().st_size)
    assert [decision["outcome"] for decision in said["gates"]] == ["pass", "undecided"]
    assert said["comparison"]["samples"]["by_id"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none",), "none holds no run"),
        (("new", "--out", "data.jsonl"), "data.jsonl is not a report of localjudge"),
        (("new", "--out", "old"), "old is a directory"),
        (("new", "--gate", "faithfulness>=0.5"), "which is not computed"),
        (("new", "--gate", "context_recall.delta>=0"), "needs a baseline"),
        (("new", "--baseline", "none"), "none holds no run"),
    ],
)
def test_what_cannot_be_written_is_refused(
    folder: Path, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    (folder / "data.jsonl").write_text("{}")
    code, output, errors = called(capfd, "report", *arguments)
    assert (code, output) == (1, "")
    assert said in errors
    assert (folder / "data.jsonl").read_text() == "{}"
    assert not (folder / "new" / "report.html").exists()


def test_the_path_of_a_report_cannot_act_on_the_terminal(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, output, _ = called(capfd, "report", "new", "--out", "a\x1b[2J.html")
    assert output.strip() == "report a\\x1b[2J.html"


@pytest.mark.engine
def test_run_writes_its_report_at_once(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "data.jsonl").write_text(json.dumps(ROW))
    arguments = ("run", "data.jsonl", "--metrics", "context_recall", "--quiet", "--threads", "1", "--out", "run")
    assert called(capfd, *arguments)[1].rstrip().endswith("run run")
    suite_here(report=True)
    code, output, _ = called(capfd, *arguments, "--gate", "context_recall>=0.01")
    assert code == 0
    assert output.rstrip().endswith("report run/report.html")
    assert "context_recall&gt;=0.01" in (folder / "run" / "report.html").read_text()
    assert json.loads(called(capfd, *arguments, "--json")[1])["report"] == "run/report.html"
