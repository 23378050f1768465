"""The whole answer is shown around the statement to label."""

import csv
from pathlib import Path
from typing import Any

import pytest
from command_line import printed
from human_labels import answer_all, draw

from localjudge import Run
from localjudge.report.label_views import row_view
from localjudge.report.terminal import show
from tests.analysis.conftest import corrected, effects, written
from tests.conftest import ScriptedRun

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


def map_rows(run: Run) -> dict[str, dict[str, Any]]:
    return {row["text"]: row for row in draw(run, metrics=list(run)).rows}


def test_a_statement_has_the_answer_around_it(scripted_run: ScriptedRun) -> None:
    """The only sentence of an answer has no text around it."""
    rows = map_rows(scripted_run("run", ROWS, {}, metrics=["faithfulness"]))
    assert rows[STATEMENT]["source_text"] == AROUND
    assert rows["It rained."]["source_text"] is None
    for row in rows.values():
        assert (
            "".join(row["source_text"][1:]) == ANSWER
            if row["source_text"]
            else row["text"] == "It rained."
        )


def test_a_sentence_of_the_answer_is_shown_in_the_answer(scripted_run: ScriptedRun) -> None:
    """It was shown in the reference, where "this" is something else, if that has it, too."""
    rows = [{**ROWS[0], "reference": f"It snowed in May. {STATEMENT}"}]
    run = scripted_run("run", rows, {}, metrics=["context_recall", "faithfulness"])
    for metric, field in {"faithfulness": "response", "context_recall": "reference"}.items():
        by_text = {row["text"]: row for row in draw(run, metrics=[metric]).rows}
        assert by_text[STATEMENT]["metric"] == metric
        assert by_text[STATEMENT]["source_text"].field == field


@pytest.mark.parametrize("metric", ["context_relevancy", "context_relevancy_chunk"])
def test_chunks_and_sentences_of_contexts_have_none(scripted_run: ScriptedRun, metric: str) -> None:
    rows = map_rows(scripted_run("run", ROWS, {}, metrics=[metric]))
    assert [row["source_text"] for row in rows.values()] == [None] * len(rows)


def test_the_sheet_marks_the_statement_and_reading_ignores_it(
    scripted_run: ScriptedRun, tmp_path: Path
) -> None:
    """Also read is a sheet without the column."""
    run = scripted_run("run", ROWS, {}, metrics=["faithfulness"])
    with run.label(tmp_path / "sheet.csv").open(encoding="utf-8-sig", newline="") as file:
        next(file)  # the instruction
        sheet = list(csv.DictReader(file))
    assert {row["statement"]: row["answer"] for row in sheet}[STATEMENT] == (
        "😀 It rained in May.\n>>> This is less than 20 %. <<< Snow fell \x1b[2J too."
    )
    changed = [{**row, "answer": "other", "human": 1} for row in sheet]
    assert effects(run, written(tmp_path / "new.jsonl", *changed), "ann") == {"new": len(sheet)}
    for row in changed:
        del row["answer"]
    assert effects(run, written(tmp_path / "old.jsonl", *changed), "ann") == {"known": len(sheet)}


def test_the_terminal_marks_the_statement_in_the_answer(
    scripted_run: ScriptedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without colours by brackets.

    The answer is shown once, and its control characters are visible.
    """
    row = map_rows(scripted_run("run", ROWS, {}, metrics=["faithfulness"]))[STATEMENT]
    show(*row_view(row, 0, 1, {}))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    at = lines.index("response    😀 It rained in May.")
    assert lines[at + 1] == "[[This is less than 20 %.]] Snow fell \\x1b[2J too."
    shown = {**row, "response": ANSWER}
    show(*row_view(shown, 0, 1, {}))
    assert capsys.readouterr().out.count("It rained in May.") == 1


def test_the_answer_around_a_statement_is_no_part_of_its_key(scripted_run: ScriptedRun) -> None:
    """Equal statement, question and contexts in two answers are one statement, with one label."""
    rows = [
        {**ROWS[0], "id": str(number), "response": f"{STATEMENT} It was {number}."}
        for number in range(2)
    ]
    run = scripted_run("run", rows, {}, metrics=["faithfulness"])
    assert sorted(row["text"] for row in draw(run).rows) == [
        "It was 0.",
        "It was 1.",
        STATEMENT,
    ]


# Which statements are one statement

TOWNS = ["Ulm lies on the Danube.", "Linz is in Austria."]
CITING = f"{TOWNS[0]} [2] {TOWNS[1]} [2] {TOWNS[0]} [1]"
CITATIONS = ("faithfulness", "citation_support", "citation_support(of=all)")


def keys_by_text(run: Run, metric: str) -> dict[str, set[str]]:
    keys: dict[str, set[str]] = {}
    for row in draw(run, metrics=[metric]).rows:
        keys.setdefault(row["text"], set()).add(row["label_id"])
    return keys


def cited_towns(scripted_run: ScriptedRun, name: str, response: str) -> Run:
    row = {"id": "towns", "user_input": "Where?", "retrieved_contexts": TOWNS, "response": response}
    return scripted_run(name, [row], {}, metrics=list(CITATIONS))


def test_a_statement_is_another_one_if_it_cites_something_else(scripted_run: ScriptedRun) -> None:
    """Whether the contexts support it, and whether the cited ones do, are two questions."""
    run = cited_towns(scripted_run, "run", CITING)

    supported = keys_by_text(run, "faithfulness")
    cited = keys_by_text(run, "citation_support")
    assert {text: len(keys) for text, keys in supported.items()} == {TOWNS[0]: 1, TOWNS[1]: 1}
    assert {text: len(keys) for text, keys in cited.items()} == {TOWNS[0]: 2, TOWNS[1]: 1}
    all_cited = set[str]().union(*cited.values())
    assert set[str]().union(*supported.values()).isdisjoint(all_cited)
    assert keys_by_text(run, "citation_support(of=all)") == cited


def test_labels_of_faithfulness_do_not_correct_citations(scripted_run: ScriptedRun) -> None:
    run = cited_towns(scripted_run, "run", CITING)
    answer_all(draw(run, metrics=["faithfulness"]))

    assert corrected(run, "faithfulness").own_labels == 2
    assert corrected(run, "citation_support").own_labels == 0


def test_a_label_of_other_citations_is_not_read(scripted_run: ScriptedRun) -> None:
    one = cited_towns(scripted_run, "one", CITING)
    other = cited_towns(scripted_run, "other", CITING.replace("[1]", "[2]"))

    for metric, is_equal in (("faithfulness", True), ("citation_support", False)):
        assert (keys_by_text(one, metric) == keys_by_text(other, metric)) is is_equal


@pytest.mark.parametrize("ids", [("doc-7", "doc-9"), ("2", "1"), (None, "doc-9")])
def test_a_context_is_shown_with_the_id_that_a_citation_names(
    scripted_run: ScriptedRun,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    ids: tuple[str | None, str],
) -> None:
    """Of contexts with the ids 2 and 1, the first one is cited as [2]."""
    contexts: list[Any] = []
    for text, name in zip(TOWNS, ids, strict=True):
        contexts.append(text if name is None else {"id": name, "text": text})
    row = {
        "id": "towns",
        "user_input": "Where?",
        "retrieved_contexts": contexts,
        "response": f"{TOWNS[1]} [{ids[1]}] {TOWNS[0]} [{ids[1]}]",
    }
    run = scripted_run("run", [row], {}, metrics=["faithfulness", "citation_support"])

    supported = draw(run, metrics=["faithfulness"]).rows
    cited = draw(run, metrics=["citation_support"]).rows
    assert [row["context_ids"] for row in (*supported, *cited)] == [None] * 2 + [list(ids)] * 2
    show(*row_view(cited[0], 0, 2, {}))
    assert f"context 2, id {ids[1]}" in capsys.readouterr().out
    sheet = run.label(tmp_path / "sheet.csv", metrics="citation_support")
    assert f"[2, id {ids[1]}] {TOWNS[1]}" in sheet.read_text(encoding="utf-8-sig")
    assert f"(id {ids[1]}) {TOWNS[1]}" in printed("show", run, "towns")


def test_a_label_of_contexts_with_other_ids_is_not_read(scripted_run: ScriptedRun) -> None:
    keys: list[set[str]] = []
    for name, ids in (("one", ("a-1", "a-2")), ("other", ("a-2", "a-1"))):
        contexts = [{"id": ids[0], "text": TOWNS[0]}, {"id": ids[1], "text": TOWNS[1]}]
        response = f"{TOWNS[0]} [a-1]"
        row = {
            "id": "towns",
            "user_input": "Where?",
            "retrieved_contexts": contexts,
            "response": response,
        }
        run = scripted_run(name, [row], {}, metrics=["citation_support"])
        keys += keys_by_text(run, "citation_support").values()

    assert keys[0].isdisjoint(keys[1])
