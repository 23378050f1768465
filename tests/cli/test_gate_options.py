import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Call, config_here, write_rows

pytestmark = pytest.mark.engine

ARGUMENTS = ("--metrics", "context_recall", "--quiet", "--threads", "1")
ROWS: list[dict[str, Any]] = [
    {"id": "rome", "reference": "It rains in Rome.", "retrieved_contexts": ["It rains in Rome."]},
    {
        "id": "mars",
        "reference": "The king lives in Paris.",
        "retrieved_contexts": ["Water boils at sea level."],
    },
]


@pytest.fixture(autouse=True)
def data() -> None:
    write_rows("data.jsonl", *ROWS)


def test_every_outcome_of_a_gate_with_its_exit_code_and_test_case(call: Call) -> None:
    """1 of 2: the exact interval is 0.013 to 0.987."""
    gates = (
        "--gate",
        "context_recall>=0.01",
        "--gate",
        "context_recall>=0.4",
        "--gate",
        "context_recall>0.99",
    )
    code, output, _ = call(
        "run", "data.jsonl", *ARGUMENTS, *gates, "--junit", "gates.xml", "--json"
    )
    decided = json.loads(output)["gates"]
    assert code == 3
    assert [(gate["gate"], gate["outcome"], gate["passed"]) for gate in decided] == [
        ("context_recall>=0.01", "pass", True),
        ("context_recall>=0.4", "undecided", False),
        ("context_recall>0.99", "fail", False),
    ]
    cases = ElementTree.parse("gates.xml").getroot().iter("testcase")
    assert [[child.tag for child in case] for case in cases] == [[], ["failure"], ["failure"]]


def test_a_run_is_compared_with_its_baseline(call: Call) -> None:
    """Half of 16 rows were recalled; now all or none."""
    rows = [{**ROWS[n % 2], "id": f"{ROWS[n % 2]['id']}-{n}"} for n in range(16)]
    write_rows("data.jsonl", *rows)
    assert call("run", "data.jsonl", *ARGUMENTS, "--out", "old")[0] == 0
    for now, outcome, code in (
        ("The king lives in Paris.", "pass", 0),
        ("Water boils.", "fail", 3),
    ):
        texts = [now] if outcome == "fail" else ["It rains in Rome.", now]
        write_rows("now.jsonl", *({**row, "retrieved_contexts": texts} for row in rows))
        gate = ("--gate", "context_recall.delta>=-0.1")
        arguments = ("run", "now.jsonl", *ARGUMENTS, "--baseline", "old", *gate)
        ended, output, _ = call(*arguments)
        assert (ended, f"{outcome} context_recall.delta>=-0.1" in " ".join(output.split())) == (
            code,
            True,
        )
        printed = json.loads(call(*arguments, "--json")[1])
        difference = 0.5 if outcome == "pass" else -0.5
        assert (
            printed["comparison"]["metrics"]["context_recall"]["scores"]["difference"] == difference
        )
        expected = printed["comparison"]["metrics"]["context_recall"]["expected"]["difference"]
        assert printed["gates"][0]["value"] == expected
        assert (expected > 0) == (difference > 0)


def test_a_gate_on_a_difference_needs_the_same_judge_or_a_typed_permission(call: Call) -> None:
    """A threshold changes no verdict here, but the judge. Exit code 3, also if undecided passes."""
    rows = [{**ROWS[0], "id": str(n)} for n in range(16)]
    write_rows("data.jsonl", *rows)
    assert call("run", "data.jsonl", *ARGUMENTS, "--out", "old")[0] == 0
    gate = ("--baseline", "old", "--gate", "context_recall.delta>=-0.5")
    arguments = ("run", "data.jsonl", *ARGUMENTS, "--threshold", "0.4", *gate)
    config_here(undecided="pass")
    for allowed, ended in (
        ((), 3),
        (("--allow-different", "questions"), 3),
        (("--allow-different", "judges"), 0),
    ):
        code, output, errors = call(*arguments, *allowed)
        words = " ".join(output.split())
        assert code == ended, errors
        assert ("--allow-different judges" in words) == (code == 3)
    config_here(allow_different=["judges", "questions"])
    assert call(*arguments)[0] == 0
    assert (
        call("report", "old", "--baseline", "old", "--gate", "context_recall.delta>=-0.5")[0] == 0
    )
    code, _, errors = call(*arguments, "--allow-different", "judges,people")
    assert (code, "'people'" in errors) == (1, True)


def test_a_permission_without_a_baseline_is_refused_if_typed(call: Call) -> None:
    """In a configuration file it is a default, which then has no effect."""
    config_here(allow_different=["judges"])
    assert call("run", "data.jsonl", *ARGUMENTS, "--out", "run")[0] == 0
    for command in (("run", "data.jsonl", *ARGUMENTS, "--out", "other"), ("report", "run")):
        code, _, errors = call(*command, "--allow-different", "judges")
        assert (code, "--baseline" in errors) == (1, True)
    assert not Path("other").exists()


def test_a_missed_gate_has_priority_over_failed_samples(call: Call) -> None:
    long = {**ROWS[0], "id": "long", "reference": "word " * 3000}
    write_rows("data.jsonl", *ROWS, long)
    config_here(n_ctx=512)
    arguments = ("run", "data.jsonl", *ARGUMENTS)
    assert call(*arguments)[0] == 2
    code, output, _ = call(*arguments, "--gate", "context_recall>=0")
    assert (code, "failed samples: 1, more than allowed (0)" in " ".join(output.split())) == (
        3,
        True,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gate", "faithfulness>=0.8"], "'faithfulness', which"),
        (["--baseline", "nowhere"], "nowhere contains no run"),
        (["--baseline", "nowhere", "--dry-run"], "nowhere contains no run"),
        (["--junit", "gates.xml"], "--junit writes"),
        (["--gate", "context_recall>=0.8", "--junit", "no/such/folder.xml"], "cannot be written"),
    ],
)
def test_undecidable_gates_are_refused_before_judging(
    call: Call, arguments: list[str], said: str
) -> None:
    code, output, errors = call("run", "data.jsonl", *ARGUMENTS, *arguments)
    assert (code, output, Path("runs").exists()) == (1, "", False)
    assert said in errors


def test_a_refused_run_removes_the_old_junit_file(call: Call) -> None:
    """CI would take it for the result of this run. A dry run writes none."""
    gate = ("--gate", "context_recall>=0", "--junit", "gates.xml", "--markdown", "ci.md")
    assert call("run", "data.jsonl", *ARGUMENTS, *gate, "--dry-run")[0] == 0
    assert not Path("gates.xml").exists()
    assert call("run", "data.jsonl", *ARGUMENTS, *gate)[0] == 0
    assert call("run", "missing.jsonl", *ARGUMENTS, *gate)[0] == 1
    config = ElementTree.parse("gates.xml").getroot()
    assert (config.get("errors"), config.get("tests")) == ("1", "1")
    assert Path("ci.md").read_text() == "## localjudge: the run did not finish\n"


def test_a_baseline_of_other_metrics_is_refused_before_judging(call: Call) -> None:
    assert call("run", "data.jsonl", *ARGUMENTS, "--out", "old")[0] == 0
    rows = [{**row, "user_input": "Where does it rain?"} for row in ROWS]
    write_rows("data.jsonl", *rows)
    others = ("--metrics", "context_relevancy", "--baseline", "old", "--out", "new")
    code, output, errors = call("run", "data.jsonl", "--quiet", *others)
    assert (code, output, Path("new").exists()) == (1, "", False)
    assert "no metric in common" in " ".join(errors.split())
