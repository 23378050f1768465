import json
from pathlib import Path

import pytest

from localjudge.resources import demo_file
from tests.cli.conftest import Call, suite_here, write_rows

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("home")]


@pytest.fixture
def first(call: Call) -> Path:
    assert call("run", demo_file(), "--metrics", "context_recall", "--out", "first")[0] == 0
    return Path("first")


def test_another_threshold_needs_no_judge(first: Path, call: Call) -> None:
    code, output, errors = call("run", "--rescore", first, "--threshold", "0.3", "--out", "second", "--json")
    summary = json.loads(output)
    assert (code, summary["threshold"], summary["run"]) == (0, 0.3, "second")
    assert "asked 0 verdicts" in errors
    assert f"reused 10 answers from {first}" in errors


def test_impossible_options_are_refused(first: Path, call: Call) -> None:
    for option, value in (("--threshold", "3"), ("--language", "de"), ("--gate", "faithfulness>=0.5")):
        code, _, errors = call("run", "--rescore", first, option, value)
        assert (code, option.strip("-") in errors or "faithfulness" in errors) == (1, True)


def test_rescore_takes_max_failed_from_the_suite(call: Call) -> None:
    """Other keys of the suite do not apply."""
    row = {"id": "a", "retrieved_contexts": ["word " * 2_000], "reference": "It rains. "}
    write_rows("data.jsonl", row | {"reference": "word " * 2_000 + "."}, row | {"id": "b", "retrieved_contexts": ["x"]})
    suite_here(n_ctx=512)
    assert call("run", "data.jsonl", "--metrics", "context_recall", "--out", "first")[0] == 2
    suite_here(max_failed=1, gates=["faithfulness>=0.9"], out="elsewhere")
    code, output, errors = call("run", "--rescore", "first", "--out", "second", "--json")
    assert (code, json.loads(output)["metrics"]["context_recall"]["failed"]) == (0, 1), errors
    assert call("run", "--rescore", "first", "--suite", "none", "--out", "third")[0] == 2
