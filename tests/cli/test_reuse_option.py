"""`--reuse` takes answers from runs; without DATA also their samples, settings and judge."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import DEMO, Call, config_here, write_rows

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("home")]

FILES = ("scores.jsonl", "verdicts.jsonl", "summary.json")


@pytest.fixture
def first(call: Call) -> Path:
    assert call("run", DEMO, "--metrics", "context_recall", "--out", "first")[0] == 0
    return Path("first")


def results(folder: str) -> list[bytes]:
    return [Path(folder, name).read_bytes() for name in FILES]


def test_another_threshold_asks_no_question(first: Path, call: Call) -> None:
    code, output, errors = call(
        "run", "--reuse", first, "--threshold", "0.3", "--out", "second", "--json"
    )
    summary = json.loads(output)
    assert (code, summary["threshold"], summary["run"]) == (0, 0.3, "second")
    assert "asked 0 questions" in errors
    assert f"reused 10 answers from {first}" in errors


def test_impossible_options_are_refused(first: Path, call: Call) -> None:
    refused = {
        ("--threshold", "3"): "threshold",
        ("--gate", "faithfulness>=0.5"): "faithfulness",
        ("--sample", "2"): "--sample applies to data",
        ("--map", "reference=gold"): "--map applies to data",
        ("--until", "context_recall>=0.5"): "--until applies to data",
    }
    for arguments, words in refused.items():
        code, _, errors = call("run", "--reuse", first, *arguments)
        assert (code, words in errors) == (1, True), errors


def test_a_dry_run_counts_reused_answers(first: Path, call: Call) -> None:
    code, output, _ = call(
        "run", "--reuse", first, "--threshold", "0.3", "--out", "second", "--dry-run", "--json"
    )
    estimate = json.loads(output)
    assert (code, estimate["requests"], estimate["reused"]) == (0, 10, {"first": 10})


def test_settings_of_the_suite_apply(call: Call) -> None:
    row = {"id": "a", "retrieved_contexts": ["word " * 2_000], "reference": "It rains. "}
    write_rows(
        "data.jsonl",
        row | {"reference": "word " * 2_000 + "."},
        row | {"id": "b", "retrieved_contexts": ["x"]},
    )
    config_here(n_ctx=512)
    assert call("run", "data.jsonl", "--metrics", "context_recall", "--out", "first")[0] == 2
    config_here(max_failed=1)
    code, output, errors = call("run", "--reuse", "first", "--out", "second", "--json")
    assert (code, json.loads(output)["metrics"]["context_recall"]["failed"]) == (0, 1), errors
    assert call("run", "--reuse", "first", "--config", "none", "--out", "third")[0] == 2


@pytest.mark.parametrize("lost", [True, False])
def test_several_shards_after_one_option_give_the_whole_run(call: Call, lost: bool) -> None:
    """Also with the data file named, and if it is gone."""
    rows = [
        {"id": str(n), "retrieved_contexts": ["It rains."], "reference": f"It rains {n}."}
        for n in range(9)
    ]
    write_rows("data.jsonl", *rows)
    metrics = ("--metrics", "context_recall", "--quiet")
    for number in (1, 2, 3):
        shard = ("--shard", f"{number}/3", "--out", f"part-{number}")
        assert call("run", "data.jsonl", *metrics, *shard)[0] == 0
    assert call("run", "data.jsonl", *metrics, "--out", "alone")[0] == 0
    parts = ("--reuse", "part-2", "part-1", "part-3")
    if lost:
        Path("data.jsonl").unlink()
    for name, arguments in (
        ("without", (*parts, "--out", "without")),
        ("before", ("data.jsonl", *parts, "--out", "before")),
        ("after", (*parts, "data.jsonl", "--out", "after")),
    ):
        named = () if name == "without" else metrics
        code, _, errors = call("run", *arguments, *named)
        assert code == 0, errors
        assert results(name) == results("alone")
        assert (
            json.loads(Path(name, "manifest.json").read_text())["environment"]["answers"]["asked"]
            == 0
        )


def test_a_missing_file_of_another_name_is_an_error(first: Path, call: Call) -> None:
    code, _, errors = call("run", "other.jsonl", "--reuse", first, "--out", "second")
    assert (code, "other.jsonl cannot be read" in errors) == (1, True)
