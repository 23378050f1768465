"""`localjudge run` on data that other tools wrote: how it is to be read, and what is said of it."""

import json
from pathlib import Path

import pytest

from localjudge.cli.main import main


def called(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    """Exit code, output and errors."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code, *capfd.readouterr()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)


def test_a_separator_splits_the_contexts_and_stands_in_the_manifest(capfd: pytest.CaptureFixture[str]) -> None:
    """The split samples are other data: without the option the directory belongs to another run."""
    Path("a.csv").write_text("question,contexts\nWhy?,Because.|So.\n")
    run = ("run", "a.csv", "--metrics", "context_relevancy_chunk", "--quiet")
    assert called(capfd, *run, "--context-separator", "|", "--out", "split")[0] == 0
    assert [row["source_index"] for row in map(json.loads, Path("split/verdicts.jsonl").read_text().splitlines())] == [
        0,
        1,
    ]
    assert json.loads(Path("split/manifest.json").read_text())["beside"]["settings"]["context_separator"] == "|"
    code, _, errors = called(capfd, *run, "--out", "split")
    assert (code, "belongs to another run" in errors) == (1, True)
    assert called(capfd, "verify", "split", "--quiet")[0] == 0
