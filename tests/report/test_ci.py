"""Gates as JUnit XML, and Markdown for a pull request that escapes every text.

Markdown is parsed by markdown-it: CommonMark plus GitHub's tables.
"""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from command_line import gate_file
from human_labels import answer_all, draw
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from localjudge import Run
from localjudge.cli.gates import GateOptions
from localjudge.run_directory.label_rows import append_labels, stored_labels
from localjudge.words import printable
from tests.conftest import ScriptedRun

HOSTILE = (
    "| a | b |",
    "`", "``` ", "a ``` b",
    "<img src=x onerror=alert(1)>",
    "@everyone #1 https://example.org www.example.org a@b.example",
    "[link](javascript:alert(1)) ![image](x)",
    "\\", "\\|", "\\`", " ", " a ", "&lt;",
    "</details>", "# heading", "- [ ] task", "\n\n```\n# out\n", "\u2028# out", "$x$", "~~~",
)  # fmt: skip
HOSTILE_TEXT = (
    st.text() | st.sampled_from(HOSTILE) | st.lists(st.sampled_from(HOSTILE)).map("".join)
)


def parse_tokens(text: str) -> list[Token]:
    blocks = MarkdownIt("commonmark").enable("table").parse(text)
    return [token for block in blocks for token in (block, *(block.children or ()))]


def parse_tables(text: str) -> list[list[list[str]]]:
    tables: list[list[list[str]]] = []
    for token in parse_tokens(text):
        match token.type:
            case "table_open":
                tables.append([])
            case "tr_open":
                tables[-1].append([])
            case "td_open" | "th_open":
                tables[-1][-1].append("")
            case "text" | "code_inline" if (
                tables and token.level == 0 and tables[-1] and tables[-1][-1]
            ):
                tables[-1][-1][-1] += token.content
    return tables


def parse_code_blocks(text: str) -> list[str]:
    return [token.content for token in parse_tokens(text) if token.type == "code_block"]


@pytest.fixture
def runs(scripted_run: ScriptedRun) -> tuple[Run, Run]:
    """One of two statements of a sample flips: 1/2 before, 2/2 after."""
    rows = [{"id": "a", "reference": "It rains. It is red.", "retrieved_contexts": ["c"]}]
    before = scripted_run("before", rows, {"It is red.": 0.25})
    return before, scripted_run("after", rows, {})


def test_markdown_shows_table_gates_and_changed_samples(runs: tuple[Run, Run]) -> None:
    before, after = runs
    gates = ["context_recall>=0.01", "context_recall>=0.9"]
    text = gate_file("markdown", after, gates, baseline=before)
    summary, decided, compared, counted = parse_tables(text)
    assert text.startswith("## localjudge: 1 of 2 gates failed\n")
    assert summary[0] == ["metric", "mean", "95 % interval", "scored", "undefined", "failed"]
    assert [summary[1][place] for place in (0, 1, 3, 4, 5)] == [
        "context_recall",
        "1.000",
        "1",
        "0",
        "0",
    ]
    assert [row[:2] for row in decided[1:]] == [
        ["✅ pass", "context_recall>=0.01"],
        ["❔ undecided", "context_recall>=0.9"],
    ]
    assert compared[1][:4] == ["context_recall", "0.625", "1.000", "+0.375"], "(1 + .25) / 2"
    assert [cell.strip() for cell in compared[2][:4]] == ["counted", "0.500", "1.000", "+0.500"]
    assert counted[1][1:] == ["1", "0", "0", "0", "1", "0"]
    said, about_both, moved, about_it = parse_code_blocks(text)
    assert said.startswith("Judge only in context_recall: +0.375")
    assert "judge scripted\n" in about_both
    assert moved == "row 1: context_recall 1.000, was 0.500\n"
    assert "judge scripted\n" in about_it
    assert f"signature {after.summary.signature}\n" in about_it


def test_junit_and_markdown_contain_no_text_and_no_id(scripted_run: ScriptedRun) -> None:
    """A sample is named by its row in the data, for `show RUN ROW`."""
    rows = [
        {
            "id": f"case-4711-{name}",
            "reference": f"It rains. {name} is red.",
            "retrieved_contexts": ["c"],
        }
        for name in ("Ada", "Kowalczyk")
    ]
    before = scripted_run("before", rows, {"Kowalczyk is red.": 0.25})
    after = scripted_run("after", rows, {})
    text = gate_file("markdown", after, ["context_recall>=0.01"], baseline=before)
    assert "row 2: context_recall 1.000, was 0.500\n" in text
    assert not re.search("4711|Kowalczyk|rains", text)


def test_passed_gates_differ_from_no_gates(runs: tuple[Run, Run]) -> None:
    _, after = runs
    gates = ["context_recall>=0.9"]
    kept = gate_file("markdown", after, gates, undecided="pass")
    assert kept.startswith("## localjudge: all gates passed (1)\n")
    assert "(counts as passed)" in kept
    assert gate_file("markdown", after).startswith("## localjudge: 1 sample scored\n")


@given(HOSTILE_TEXT)
def test_a_name_in_a_table_is_code_and_one_cell(run: Run, name: str) -> None:
    summary = run.summary.model_copy(
        update={"metrics": {name: run.summary.metrics["context_recall"]}}
    )
    text = gate_file("markdown", Run(run.directory, summary, run.manifest))
    (table,) = parse_tables(text)
    shown = printable(name).replace("|", "\\x7c").replace("`", "\\x60")
    assert table[1][0].strip(" ") == shown.strip(" ")
    columns = 7
    if len(name) > 20:  # without room for the expected mean
        columns = 6
    assert [len(row) for row in table] == [columns, columns]
    assert {token.type for token in parse_tokens(text)} <= HARMLESS


HARMLESS = {
    "heading_open", "heading_close", "inline", "text", "code_inline", "code_block",
    "table_open", "table_close", "thead_open", "thead_close", "tbody_open", "tbody_close",
    "tr_open", "tr_close", "th_open", "th_close", "td_open",
    "td_close",
}  # fmt: skip
"""No link, image, tag, list, emphasis or paragraph."""


@pytest.fixture
def half(scripted_run: ScriptedRun) -> Run:
    """A run of 30 samples: every second one has the score 1, the others 0."""
    rows = [
        {"id": str(n), "reference": f"It is {n}.", "retrieved_contexts": ["c"]} for n in range(30)
    ]
    return scripted_run("half", rows, {f"It is {n}.": 0.1 for n in range(0, 30, 2)})


def suite(content: str) -> ElementTree.Element:
    element = ElementTree.fromstring(content.encode()).find("testsuite")
    assert element is not None
    return element


@pytest.mark.parametrize(
    ("gate", "rule", "outcome", "elements"),
    [
        ("context_recall>=0.1", "fail", "pass", []),
        ("context_recall>=0.9", "fail", "fail", ["failure"]),
        ("context_recall>=0.5", "fail", "undecided", ["failure"]),
        ("context_recall>=0.5", "pass", "undecided", ["skipped"]),
    ],
)
def test_a_gate_is_a_test_case(
    half: Run, gate: str, rule: Any, outcome: str, elements: list[str]
) -> None:
    [decision] = half.check([gate], undecided=rule).decisions
    assert decision.outcome == outcome
    (case,) = suite(gate_file("junit", half, [gate], undecided=rule)).findall("testcase")
    assert (case.get("classname"), case.get("name")) == ("localjudge.gates", gate)
    assert [child.tag for child in case] == elements
    assert [(child.get("type"), child.get("message")) for child in case] == [
        (outcome, decision.reason)
    ] * len(elements)


def test_junit_counts_match_the_cases_and_name_the_run(half: Run) -> None:
    gates = [f"context_recall>={least}" for least in (0.1, 0.9, 0.5)]
    element = suite(gate_file("junit", half, gates, undecided="pass"))
    assert [element.get(name) for name in ("tests", "failures", "errors", "skipped")] == [
        "3",
        "1",
        "0",
        "1",
    ]
    properties = {child.get("name"): child.get("value") for child in element.iter("property")}
    assert properties["run"] == str(half.directory)
    assert properties["signature"] == half.manifest.signature


def test_an_unfinished_run_is_a_junit_error(tmp_path: Path) -> None:
    file = tmp_path / "gates.xml"
    gates = ["context_recall>=0.8", "faithfulness>=0.9"]
    GateOptions({"gates": gates, "junit": file}).begin()
    element = suite(file.read_text(encoding="utf-8"))
    assert [element.get(name) for name in ("tests", "failures", "errors")] == ["2", "0", "2"]
    assert [error.get("message") for error in element.iter("error")] == [
        "the run did not finish"
    ] * 2


def test_a_directory_of_any_name_gives_valid_junit_xml(half: Run) -> None:
    """With control characters, half of a surrogate pair, and what XML cannot represent."""
    letters = [chr(number) for number in range(1, 128) if number != ord("/")]
    name = "".join(letters) + "\x85\u2028\ufffe\uffff\U0001f600\udc80"
    copy = half.directory.rename(half.directory.with_name(name))
    element = suite(gate_file("junit", Run.open(copy), ["context_recall>=0.9"]))
    assert element.get("failures") == "1"


def labelled_by_two(run: Run, names: tuple[str, str]) -> None:
    """Two people label all statements, and differ on the first."""
    answer_all(draw(run, names[0]))
    first, *others = stored_labels(run.directory)
    second = [row.model_copy(update={"annotator": names[1]}) for row in (first, *others)]
    second[0] = second[0].model_copy(update={"human": 0})
    append_labels(run.directory, second)


def test_markdown_names_no_annotator(scripted_run: ScriptedRun) -> None:
    """It is published with a pull request."""
    rows = [
        {"id": str(n), "reference": f"It is {n}.", "retrieved_contexts": ["c"]} for n in range(30)
    ]
    run = scripted_run("run", rows, {})
    labelled_by_two(run, ("Zorro", "Öztürk"))
    text = gate_file("markdown", run, ["context_recall>=0.01"])
    assert "97 % agreement" in text
    assert not re.search("Zorro|Öztürk", text)


def test_labels_of_the_baseline_are_named_as_such(scripted_run: ScriptedRun) -> None:
    """`show` of the run does not use them, and said other numbers."""
    rows = [
        {"id": str(n), "reference": f"It is {n}.", "retrieved_contexts": ["c"]} for n in range(30)
    ]
    before = scripted_run("before", rows, {})
    answer_all(draw(before))
    after = scripted_run("after", rows, {})
    text = gate_file("markdown", after, ["context_recall>=0.01"], baseline=before)
    assert "the labels are those of the baseline" in text
    assert "those of the baseline" not in gate_file("markdown", before)
