"""`localjudge run` on data that other tools wrote: how it is to be read, and what is said of it."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import called, suite_here

pytestmark = pytest.mark.engine


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)


def test_a_separator_splits_the_contexts_and_stands_in_the_manifest(capfd: pytest.CaptureFixture[str]) -> None:
    """The split samples are other data: without the option the directory belongs to another run."""
    Path("a.csv").write_text("question,contexts\nWhy?,Because.|So.\n")
    run = ("run", "a.csv", "--metrics", "context_relevancy_chunk", "--quiet")
    suite_here(context_separator="|")
    assert called(capfd, *run, "--out", "split")[0] == 0
    assert [row["source_index"] for row in map(json.loads, Path("split/verdicts.jsonl").read_text().splitlines())] == [
        0,
        1,
    ]
    assert json.loads(Path("split/manifest.json").read_text())["environment"]["settings"]["context_separator"] == "|"
    code, _, errors = called(capfd, *run, "--suite", "none", "--out", "split")
    assert (code, "belongs to another run" in errors) == (1, True)
    assert called(capfd, "verify", "split", "--quiet")[0] == 0


def test_rows_inside_a_file_are_named_by_a_path_which_stands_in_the_manifest(capfd: pytest.CaptureFixture[str]) -> None:
    Path("a.json").write_text(
        '{"experiment": {"items": [{"question": "Why?", "hits": [{"t": "Because."}, {"t": "So."}]}]}}'
    )
    run = (
        "run",
        "a.json",
        "--metrics",
        "context_relevancy_chunk",
        "--map",
        "retrieved_contexts=hits[].t",
        "--out",
        "nested",
    )
    suite_here(rows="experiment.items")
    assert called(capfd, *run, "--quiet")[0] == 0
    assert json.loads(Path("nested/manifest.json").read_text())["environment"]["settings"]["rows"] == "experiment.items"
    code, _, errors = called(capfd, *run, "--suite", "none")
    assert (code, "the columns are experiment" in errors) == (1, True)


def test_metrics_are_named_with_their_options_and_gated_by_that_name(capfd: pytest.CaptureFixture[str]) -> None:
    """By content "Old." is not "New.": 0; by id it is: 1. A comma between options does not end the name."""
    row = {"contexts": [{"id": "a", "text": "Old."}], "reference_contexts": [{"id": "a", "text": "New."}]}
    Path("a.jsonl").write_text("".join(json.dumps({"id": number, **row}) + "\n" for number in range(20)))
    run = ("run", "a.jsonl", "--quiet", "--out", "run")
    names = ("--metrics", "document_mrr(compare_by=id),hit_rate@2(compare_by=id),document_mrr")
    assert called(capfd, *run, *names, "--gate", "document_mrr(compare_by=id)>=0.5")[0] == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert {name: metric["mean"] for name, metric in summary["metrics"].items()} == {
        "document_mrr": 0.0,
        "document_mrr(compare_by=id)": 1.0,
        "hit_rate@2(compare_by=id)": 1.0,
    }
    assert called(capfd, "verify", "run", "--quiet")[0] == 0
    code, _, errors = called(capfd, "run", "a.jsonl", "--metrics", "document_mrr(compare_by=id,k=3),hit_rate@2")
    assert (code, "document_mrr has no option 'k'" in errors) == (1, True)
