import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Call, config_here, write_rows

pytestmark = pytest.mark.engine

# The lexical judge supports only text from the context.
TRUE = "It opened in 1889."
FALSE = "Mars is red."


@pytest.fixture(autouse=True)
def data(folder: Path) -> None:
    rows = (
        {"id": str(n), "retrieved_contexts": [TRUE], "reference": FALSE if n % 10 == 3 else TRUE}
        for n in range(60)
    )
    write_rows(str(folder / "data.jsonl"), *rows)


@pytest.mark.parametrize(("gate", "code"), [("context_recall>=0.5", 0), ("context_recall<=0.5", 3)])
def test_the_exit_code_reports_the_outcome(call: Call, gate: str, code: int) -> None:
    ended, printed, errors = call(
        "run", "data.jsonl", "--until", gate, "--out", "run", "--junit", "gates.xml"
    )
    assert ended == code
    count = json.loads(Path("run/summary.json").read_text())["samples"]
    assert 5 < count < 40
    assert f"stopped after {count} of 60 samples" in errors
    assert "omit --until" in errors
    assert gate in printed
    config = ET.parse("gates.xml").getroot()
    assert [case.get("name") for case in config.iter("testcase")] == [gate]


def test_typed_options_override_the_config(call: Call, output: Callable[..., str]) -> None:
    """A budget that covers all samples gives a plain run."""
    config_here(data=["data.jsonl"], until="context_recall>=0.5", out="run")
    early = json.loads(output("run", "--json"))
    assert early["samples"] < 60
    assert [gate["outcome"] for gate in early["gates"]] == ["pass"]
    config_here(data=["data.jsonl"], out="run")
    whole = json.loads(output("run", "--json", "--budget", "1h"))
    assert (whole["samples"], whole["stopped"]) == (60, None)
    assert "identical" in output("verify", "run")
    code, printed, _ = call("run", "--until", "context_recall>=0.5")
    assert (code, "pass" in printed) == (0, True)


def test_a_dry_run_names_samples_and_time(output: Callable[..., str]) -> None:
    printed = output("run", "data.jsonl", "--until", "context_recall>=0.7", "--dry-run")
    assert "to judge  about " in printed
    [time] = json.loads(output("run", "data.jsonl", "--budget", "1h", "--dry-run", "--json"))[
        "until"
    ]
    assert (time["samples"], time["aim"]) == (60, "what fits in 1h")


def test_a_dry_run_keeps_its_answers_for_the_run(call: Call, output: Callable[..., str]) -> None:
    """60 samples with two distinct questions: the dry run asks both, the run none; equal bytes."""
    command = ("run", "data.jsonl", "--until", "context_recall>=0.5")
    output(*command, "--out", "plain")
    code, printed, errors = call(*command, "--dry-run")
    [directory] = Path("runs").iterdir()
    assert code == 0
    assert f"answered  2 now, kept in {directory}, which the run uses; 0 remain" in printed
    assert re.search(r"judge lexical .*30 seconds", errors)
    estimate = json.loads(output(*command, "--dry-run", "--json"))
    assert estimate["reused"] == {str(directory): 2}
    assert "asked 0 questions" in call(*command)[2]
    for name in ("scores.jsonl", "verdicts.jsonl", "summary.json"):
        assert (directory / name).read_bytes() == Path("plain", name).read_bytes()
    code, _, errors = call(
        "run", "data.jsonl", "--threshold", "0.7", "--dry-run", "--out", str(directory)
    )
    assert (code, "belongs to another run" in errors) == (1, True)
