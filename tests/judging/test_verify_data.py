"""`verify` compares a data file with the samples that a run stores."""

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, ScriptedEngine, evaluate, evaluate_pair
from localjudge.report.verification_views import verification_view
from tests.run_directory.conftest import edited

FIELDS = ("question", "contexts", "old", "answer", "topic")


def engine() -> ScriptedEngine:
    return ScriptedEngine({}, default=0.6)


def row(number: int) -> dict[str, str]:
    texts = {"question": f"Why {number}?", "contexts": f"Because {number}."}
    return {**texts, "old": f"Old {number}.", "answer": f"New {number}.", "topic": str(number % 2)}


def write_csv(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "data.csv", [row(number) for number in range(6)])


def judge(file: Path, **how: Any) -> Run:
    out = file.parent / "run"
    return evaluate(file, metrics=["faithfulness"], engine=engine(), out=out, **how)


def judge_pair(file: Path) -> Run:
    how: dict[str, Any] = {"metrics": ["faithfulness"], "engine": engine()}
    return evaluate_pair(file, "old", out=file.parent / "cmp", **how).baseline


def test_manifest_and_certificate_have_the_sha256_of_the_file(file: Path) -> None:
    run = judge(file)
    checksum = hashlib.sha256(file.read_bytes()).hexdigest()
    assert run.manifest.environment.source_sha256 == (checksum,)
    page = run.certificate(file.parent / "page.html").file.read_text()
    assert f"sha256 of data.csv <code>{checksum}</code>" in page
    edited("manifest.json", "source_sha256", "source_sha1")(run.directory)
    assert Run.open(run.directory).verify(engine=engine(), data=file)


@pytest.mark.parametrize("how", [{}, {"sample": 3}, {"limit": 2}, {"shard": "1/2"}])
def test_same_file_gives_the_samples(file: Path, how: dict[str, Any]) -> None:
    run = judge(file, **how)
    verification = run.verify(engine=engine(), data=file)
    assert verification
    assert verification.data_file is not None
    assert verification.data_file.has_same_bytes
    assert "data.csv" in " ".join(map(str, verification_view(verification).notes))
    rows = [{**row(number), "contexts": [f"Because {number}."]} for number in (5, 4, 3, 2, 1, 0)]
    other = file.with_suffix(".jsonl")
    other.write_text("\n".join(map(json.dumps, rows)))
    verification = run.verify(engine=engine(), data=other)
    assert verification
    assert verification.data_file is not None
    assert not verification.data_file.has_same_bytes


@pytest.mark.parametrize("column", ["question", "contexts", "answer", "topic"])
def test_changed_cell_is_noticed(file: Path, column: str) -> None:
    """The run itself is unchanged, so its result and its stored verification are good."""
    run = judge(file)
    rows = [row(number) for number in range(6)]
    rows[2][column] = "Another."
    verification = run.verify(engine=engine(), data=write_csv(file, rows))
    assert not verification
    assert verification.result == "bit-identical"
    assert verification.data_file is not None
    assert verification.data_file.missing == 1
    assert not verification.data_file.has_same_bytes
    assert not run.certificate(file.parent / "page.html").problems


def test_more_and_fewer_rows_are_noticed(file: Path) -> None:
    run = judge(file)
    for count in (5, 7):
        write_csv(file, [row(number) for number in range(count)])
        found = run.verify(engine=engine(), data=file).data_file
        assert found is not None
        assert (found.missing, found.rows - found.rows_read) == (max(0, 6 - count), count - 6)
        assert not found


@pytest.mark.parametrize("place", ["baseline", "run"])
def test_columns_of_two_answers_are_read_as_they_were(file: Path, place: str) -> None:
    """Ids are made without the answers, and a row without one of them is left out of both."""
    rows = [row(number) for number in range(6)]
    rows[1]["old"] = ""
    baseline = judge_pair(write_csv(file, rows))
    run = baseline
    if place == "run":
        run = Run.open(baseline.directory.parent / "answer")
    assert run.verify(engine=engine(), data=file)
    rows[3]["old" if place == "baseline" else "answer"] = "Another."
    verification = run.verify(engine=engine(), data=write_csv(file, rows))
    assert verification.data_file is not None
    assert verification.data_file.missing == 1
