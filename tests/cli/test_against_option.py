"""`localjudge run --against`: both columns judged, compared and gated by one command."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call, config_here, write_rows

pytestmark = pytest.mark.engine

RAIN = "It rains in Rome."
KING = "The king lives in Paris."
ARGUMENTS = ("data.jsonl", "--judge", "lexical", "--metrics", "faithfulness", "--threads", "1")
COLUMNS = ("--map", "response=answer_b", "--against", "answer_a")


def row(name: str, before: str | None, after: str | None) -> dict[str, Any]:
    texts = {"user_input": f"Where {name}?", "retrieved_contexts": [RAIN]}
    return {"id": name, **texts, "answer_a": before, "answer_b": after}


@pytest.fixture(autouse=True)
def data() -> None:
    rows = [row(f"q{number}", KING, RAIN) for number in range(8)]
    write_rows("data.jsonl", *rows, row("q8", RAIN, RAIN), row("late", None, RAIN))


def test_one_command_judges_and_compares_both_columns(call: Call) -> None:
    """0 against 1 eight times, and 1 against 1 once: 1/9 against 1."""
    code, output, errors = call("run", *ARGUMENTS, *COLUMNS, "--out", "cmp")
    assert code == 0
    assert "0.111" in output
    assert "1.000" in output
    assert "+0.889" in output
    assert "answer_a" in output
    assert "localjudge label cmp" in output
    assert "1 row left out" in errors
    assert "late" in errors
    code, output, errors = call("run", *ARGUMENTS, *COLUMNS, "--out", "cmp", "--json")
    assert code == 0
    values = json.loads(output)
    assert values["directory"] == "cmp"
    assert values["comparison"]["metrics"]["faithfulness"]["compared"] == 9
    assert values["run"]["skipped_rows"] == values["baseline"]["skipped_rows"] == 1


def test_warning_of_rows_without_one_answer_remains_with_quiet(call: Call) -> None:
    _, _, errors = call("run", *ARGUMENTS, *COLUMNS, "--quiet")
    assert "late" in errors
    assert "9 pairs" not in errors


def test_configuration_file_names_both_columns_and_a_gate(call: Call) -> None:
    config_here(
        data=["data.jsonl"],
        judge="lexical",
        metrics=["faithfulness"],
        against="answer_a",
        out="cmp",
        gates=["faithfulness.delta>=0.99"],
        report=True,
    )
    with Path("localjudge.toml").open("a") as file:
        file.write("[mapping]\nresponse = 'answer_b'\n")
    code, output, _ = call("run", "--junit", "gates.xml", "--markdown", "page.md")
    assert code == 3
    assert "faithfulness.delta>=0.99" in output
    assert Path("cmp/answer_b/report.html").is_file()
    assert "faithfulness.delta" in Path("gates.xml").read_text()
    assert "B - A" in Path("page.md").read_text()


def test_dry_run_estimates_both_columns_for_the_run(call: Call) -> None:
    """The judge does not read the questions, so A has two questions, and B one of them."""
    code, output, _ = call("run", *ARGUMENTS, *COLUMNS, "--out", "cmp", "--dry-run")
    assert code == 0
    assert "answer_a" in output
    assert "answer_b" in output
    assert re.findall(r"answered (.*?); 0 remain", " ".join(output.split())) == [
        "2 now, kept in cmp/answer_a, which the run uses",
        "1 before (1 in cmp/answer_a)",
    ]
    code, output, _ = call("run", *ARGUMENTS, *COLUMNS, "--out", "cmp", "--dry-run", "--json")
    assert {"baseline", "run"} == set(json.loads(output))
    code, _, errors = call("run", *ARGUMENTS, *COLUMNS, "--out", "cmp")
    assert code == 0
    assert "asked 0 questions" in errors


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--baseline", "run"], "--baseline"),
        (["--until", "faithfulness>=0.5"], "--until"),
        (["--metrics", "context_relevancy"], "context_relevancy"),
        (["--against", "answer_b"], "answer_b"),
        (["--against", "answer_c"], "answer_c"),
        (["--against", ""], "--against"),
        (["--out", "data.jsonl"], "--out"),
    ],
)
def test_what_does_not_go_with_two_columns_is_refused(
    call: Call, options: list[str], word: str
) -> None:
    code, _, errors = call("run", *ARGUMENTS, *COLUMNS, *options)
    assert code == 1
    assert word in errors
    assert not Path("runs").exists()


def test_demo_has_one_answer(call: Call) -> None:
    code, _, errors = call("run", "--demo", "--against", "answer_a")
    assert code == 1
    assert "--demo" in errors
