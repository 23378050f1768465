import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call, config_here, write_rows

pytestmark = pytest.mark.engine


def test_a_separator_splits_the_contexts_and_is_in_the_manifest(call: Call) -> None:
    Path("a.csv").write_text("question,contexts\nWhy?,Because.|So.\n")
    run = ("run", "a.csv", "--metrics", "context_relevancy_chunk", "--quiet")
    config_here(context_separator="|")
    assert call(*run, "--out", "split")[0] == 0
    verdicts = map(json.loads, Path("split/verdicts.jsonl").read_text().splitlines())
    assert [row["source_index"] for row in verdicts] == [0, 1]
    assert (
        json.loads(Path("split/manifest.json").read_text())["environment"]["settings"][
            "context_separator"
        ]
        == "|"
    )
    code, _, errors = call(*run, "--config", "none", "--out", "split")
    assert (code, "belongs to another run" in errors) == (1, True)
    assert call("verify", "split", "--quiet")[0] == 0


def test_gates_name_metrics_with_their_options(call: Call) -> None:
    """By content "Old." is not "New.": 0. By id they are equal: 1. A comma may separate options."""
    row = {
        "contexts": [{"id": "a", "text": "Old."}],
        "reference_contexts": [{"id": "a", "text": "New."}],
    }
    write_rows("a.jsonl", *({"id": number, **row} for number in range(20)))
    run = ("run", "a.jsonl", "--quiet", "--out", "run")
    names = ("--metrics", "document_mrr(compare_by=id),hit_rate@2(compare_by=id),document_mrr")
    assert call(*run, *names, "--gate", "document_mrr(compare_by=id)>=0.5")[0] == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert {name: metric["mean"] for name, metric in summary["metrics"].items()} == {
        "document_mrr": 0.0,
        "document_mrr(compare_by=id)": 1.0,
        "hit_rate@2(compare_by=id)": 1.0,
    }
    assert call("verify", "run", "--quiet")[0] == 0
    code, _, errors = call(
        "run", "a.jsonl", "--metrics", "document_mrr(compare_by=id,k=3),hit_rate@2"
    )
    assert (code, "document_mrr has no option 'k'" in errors) == (1, True)
