"""The whole answer is shown around the statement to label."""

import csv
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run
from localjudge.labels.label_sheet import write_sheet
from localjudge.labels.labelling import Labelling
from localjudge.labels.read_labels import LabelsRead, read_labels
from localjudge.report.labelling_views import row_view
from tests.analysis.conftest import written
from tests.conftest import ScriptedRun
from tests.report.conftest import printed

ANSWER = "😀 It rained in May.\nThis is less than 20 %. Snow fell \x1b[2J too."
ROWS: list[dict[str, Any]] = [
    {
        "id": "three",
        "user_input": "How much?",
        "retrieved_contexts": ["Rain. Snow."],
        "response": ANSWER,
    },
    {
        "id": "one",
        "user_input": "What?",
        "retrieved_contexts": ["Rain."],
        "response": " It rained. ",
    },
]
STATEMENT = "This is less than 20 %."
AROUND = ("response", "😀 It rained in May.\n", STATEMENT, " Snow fell \x1b[2J too.")


def rows_of(run: Run) -> dict[str, dict[str, Any]]:
    return {row["text"]: row for row in Labelling(run, "ann", metrics=list(run)).rows}


def test_a_statement_has_the_answer_around_it(scripted_run: ScriptedRun) -> None:
    """The only sentence of an answer has no text around it."""
    rows = rows_of(scripted_run("run", ROWS, {}, metrics=["faithfulness"]))
    assert rows[STATEMENT]["source_text"] == AROUND
    assert rows["It rained."]["source_text"] is None
    for row in rows.values():
        assert (
            "".join(row["source_text"][1:]) == ANSWER
            if row["source_text"]
            else row["text"] == "It rained."
        )


@pytest.mark.parametrize("metric", ["context_relevancy", "context_relevancy_chunk"])
def test_chunks_and_sentences_of_contexts_have_none(scripted_run: ScriptedRun, metric: str) -> None:
    rows = rows_of(scripted_run("run", ROWS, {}, metrics=[metric]))
    assert [row["source_text"] for row in rows.values()] == [None] * len(rows)


def test_the_sheet_marks_the_statement_and_reading_ignores_it(
    scripted_run: ScriptedRun, tmp_path: Path
) -> None:
    """Also read is a sheet without the column."""
    run = scripted_run("run", ROWS, {}, metrics=["faithfulness"])
    rows = list(rows_of(run).values())
    write_sheet(tmp_path / "sheet.csv", rows)
    with (tmp_path / "sheet.csv").open(encoding="utf-8-sig", newline="") as file:
        sheet = list(csv.DictReader(file))
    assert {row["statement"]: row["answer"] for row in sheet}[STATEMENT] == (
        "😀 It rained in May.\n>>> This is less than 20 %. <<< Snow fell \x1b[2J too."
    )
    changed = [{**row, "answer": "other", "human": 1} for row in sheet]
    assert read_labels(run, written(tmp_path / "new.jsonl", *changed), "ann") == LabelsRead(
        new=len(rows)
    )
    for row in changed:
        del row["answer"]
    assert read_labels(run, written(tmp_path / "old.jsonl", *changed), "ann") == LabelsRead(
        known=len(rows)
    )


def test_the_terminal_marks_the_statement_in_the_answer(scripted_run: ScriptedRun) -> None:
    """Without colours by brackets.

    The answer is shown once, and its control characters are visible.
    """
    row = rows_of(scripted_run("run", ROWS, {}, metrics=["faithfulness"]))[STATEMENT]
    lines = [line.strip() for line in printed(row_view(row, 0, 1)).splitlines()]
    at = lines.index("response    😀 It rained in May.")
    assert lines[at + 1] == "[[This is less than 20 %.]] Snow fell \\x1b[2J too."
    shown = {**row, "response": ANSWER}
    assert printed(row_view(shown, 0, 1)).count("It rained in May.") == 1


def test_the_answer_around_a_statement_is_no_part_of_its_key(scripted_run: ScriptedRun) -> None:
    """Equal statement, question and contexts in two answers are one statement, with one label."""
    rows = [
        {**ROWS[0], "id": str(number), "response": f"{STATEMENT} It was {number}."}
        for number in range(2)
    ]
    run = scripted_run("run", rows, {}, metrics=["faithfulness"])
    assert sorted(row["text"] for row in Labelling(run, "ann").rows) == [
        "It was 0.",
        "It was 1.",
        STATEMENT,
    ]
