"""Run directories that an earlier version left: opened and verified as what they are, without what they lack."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import localjudge

ScriptedRun = Callable[..., localjudge.Run]
ROWS: list[dict[str, Any]] = [
    {"id": "a", "retrieved_contexts": ["It opened in 1936."], "reference": "One. Two."},
    {"id": "b", "retrieved_contexts": ["It opened in 1936."], "reference": "Three."},
]


def rewrite(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    value = json.loads(file.read_text(encoding="utf-8"))
    change(value)
    file.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@pytest.fixture
def earlier(scripted_run: ScriptedRun) -> localjudge.Run:
    """A run whose summary names no judge, and whose rows have neither legal mass nor position."""
    directory = scripted_run("run", ROWS, {"Two.": 0.2}, min_legal_mass=0).directory
    file = directory / "verdicts.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        del row["legal_mass"], row["position"]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")

    def without_judge(summary: dict[str, Any]) -> None:
        del summary["judge"], summary["verdicts"]

    def without_bound(manifest: dict[str, Any]) -> None:
        del manifest["beside"]["settings"]["min_legal_mass"]

    rewrite(directory / "summary.json", without_judge)
    rewrite(directory / "manifest.json", without_bound)
    return localjudge.Run.open(directory)


def test_it_is_opened(earlier: localjudge.Run) -> None:
    """Its judge is what its manifest says of one."""
    assert earlier.summary.metrics["context_recall"].mean == 0.75
    assert [verdict.p_yes for verdict in earlier.verdicts] == [1.0, 0.2, 1.0]
    assert earlier.judge.name == "scripted"


def test_it_is_verified_against_the_files_of_its_time(earlier: localjudge.Run) -> None:
    engine = localjudge.ScriptedEngine({"Two.": 0.2}, default=1.0)
    found = localjudge.verify(earlier, engine=engine)
    assert (found.result, found.files, found.judge_changes) == ("bit-identical", (), ())
