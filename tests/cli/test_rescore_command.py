"""`localjudge rescore` and `localjudge cache`, with the reference judge."""

import json
from pathlib import Path

import pytest

from localjudge.resources import demo_file
from tests.cli.conftest import called


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state directory of its own, whose cache is off."""
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))


@pytest.fixture
def first(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    code, _, _ = called(capfd, "run", demo_file(), "--metrics", "context_recall", "--out", tmp_path / "first")
    assert code == 0
    return tmp_path / "first"


def test_another_threshold_asks_nothing(first: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, told = called(capfd, "rescore", first, "--threshold", "0.3", "--out", tmp_path / "second", "--json")
    found = json.loads(out)
    assert (code, found["threshold"], found["run"]) == (0, 0.3, str(tmp_path / "second"))
    assert "asked 0 verdicts" in told
    assert f"reused 10 answers of {first}" in told


def test_options_that_are_not_given_are_those_of_the_run(
    first: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    called(capfd, "rescore", first, "--threshold", "0.3", "--out", tmp_path / "second", "--quiet")
    called(capfd, "rescore", tmp_path / "second", "--max-failed", "1", "--out", tmp_path / "third", "--quiet")
    settings = json.loads((tmp_path / "third" / "manifest.json").read_text())["environment"]["settings"]
    assert (settings["threshold"], settings["max_failed"]) == (0.3, 1)


def test_an_option_that_cannot_be_is_refused(first: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, told = called(capfd, "rescore", first, "--threshold", "3")
    assert (code, told) == (1, "localjudge: --threshold must be at most 1, got 3.0\n")


def test_the_cache_is_turned_on_once_and_serves_every_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert called(capfd, "cache")[1].startswith("the cache is off")
    assert called(capfd, "cache", "on")[1].startswith("the cache is on: 0 answers")
    run = ("run", demo_file(), "--metrics", "context_recall")
    assert "asked 10 verdicts" in called(capfd, *run)[2]
    assert "asked 0 verdicts" in called(capfd, *run, "--threshold", "0.3")[2]
    estimated = called(capfd, *run, "--dry-run", "--quiet")[1]
    assert "10 of these questions already (10 in cache); 0 remain" in " ".join(estimated.split())
    assert json.loads(called(capfd, "cache", "--json")[1])["answers"] == 10
    assert called(capfd, "cache", "off")[1].startswith("the cache is off")
    assert "asked 10 verdicts" in called(capfd, *run, "--threshold", "0.4")[2]
