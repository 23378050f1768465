"""`localjudge run --rescore`, and a run with the cache, with the reference judge."""

import json
from pathlib import Path

import pytest

from localjudge.resources import demo_file
from tests.cli.conftest import called, suite_here

pytestmark = pytest.mark.engine


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
    code, out, told = called(
        capfd, "run", "--rescore", first, "--threshold", "0.3", "--out", tmp_path / "second", "--json"
    )
    found = json.loads(out)
    assert (code, found["threshold"], found["run"]) == (0, 0.3, str(tmp_path / "second"))
    assert "asked 0 verdicts" in told
    assert f"reused 10 answers of {first}" in told


def test_an_option_that_cannot_be_is_refused(first: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, told = called(capfd, "run", "--rescore", first, "--threshold", "3")
    assert (code, told) == (1, "localjudge: --threshold must be at most 1, got 3.0\n")
    code, _, told = called(capfd, "run", "--rescore", first, "--language", "de")
    assert (code, "a run cannot be rescored with another --language" in told) == (1, True)
    code, _, told = called(capfd, "run", "--rescore", first, "--gate", "faithfulness>=0.5")
    assert (code, "'faithfulness', which is not computed" in told) == (1, True)


def test_a_cache_that_the_suite_asks_for_serves_every_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    suite_here(cache=True)
    run = ("run", demo_file(), "--metrics", "context_recall")
    assert "asked 10 verdicts" in called(capfd, *run)[2]
    assert "asked 0 verdicts" in called(capfd, *run, "--threshold", "0.3")[2]
    estimated = called(capfd, *run, "--dry-run", "--quiet")[1]
    assert "10 of these questions already (10 in cache); 0 remain" in " ".join(estimated.split())
    suite_here()
    assert "asked 10 verdicts" in called(capfd, *run, "--threshold", "0.4", "--out", "without")[2]
    assert "cache" not in json.loads(Path("without/manifest.json").read_text())["environment"]["settings"]
