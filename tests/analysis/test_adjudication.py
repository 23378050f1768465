"""Disputed statements, and the labels that settle them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import printed_lines
from human_labels import answer_all, draw_disputed

from localjudge import DataError, InputError, Run, calibrate
from localjudge.labels.decisions import Decisions
from localjudge.run_directory.label_rows import append_labels, stored_labels
from tests.analysis.conftest import JudgedRun, effects, expect, label, label_words, written
from tests.analysis.labelled_runs import METRIC


def contradicted(run: Run, n: int = 30) -> Run:
    """Ann labels n statements, and bob the same ones the other way round."""
    return label(label(run, n=n), lambda words: 1 - label_words(words), n, "bob", again=True)


def settled(run: Run, annotator: str = "carol", say: Any = label_words) -> Run:
    answer_all(draw_disputed(run, annotator), say)
    return run


def labels(run: Run) -> Any:
    found = run.labels
    assert found is not None
    return found


def labelled_texts(run: Run) -> dict[str, tuple[Any, str]]:
    """Return the label that counts and the annotators of each labelled text, as exported."""
    exported = run.export(run.directory.parent / "verdicts.jsonl", rows="verdicts", texts=True)
    rows = map(json.loads, exported.read_text(encoding="utf-8").splitlines())
    return {row["text"]: (row["human"], row["annotators"]) for row in rows if row["annotators"]}


def test_adjudicated_labels_replace_the_disputed_ones(judged_run: JudgedRun) -> None:
    """Carol decides all 30 disputes as ann does, so the mean is ann's. The agreement stays 0."""
    run = contradicted(judged_run())
    ann = label(judged_run("ann"), n=30)
    expect(labels(run).corrected[METRIC], mean=None, unsettled=30)
    found = labels(settled(run))
    alone = labels(ann).corrected[METRIC]
    mean = found.corrected[METRIC]
    assert (mean.mean, mean.ci95, mean.by_annotator) == (alone.mean, alone.ci95, None)
    assert (found.statements, found.annotators, mean.unsettled) == (30, {"ann": 30, "bob": 30}, 0)
    assert found.agreement is not None
    assert (found.agreement.share, found.agreement.disputed, found.agreement.settled) == (0, 30, 30)
    assert found.agreement.lines[-1].startswith("30 of 30 disputed statements")
    unsettled = labels(contradicted(judged_run("open"))).agreement
    assert unsettled
    assert found.agreement == unsettled.model_copy(update={"settled": 30})


def test_the_latest_adjudication_counts_until_it_is_withdrawn(judged_run: JudgedRun) -> None:
    """Ann says 1 and bob 0.

    Each may also adjudicate; carol's later decision counts until she cannot tell.
    """
    run = label(label(judged_run(), lambda _: 1, 1), lambda _: 0, 1, "bob", again=True)
    rows = stored_labels(run.directory)
    for name, human, counting in (
        ("ann", 0, 0),
        ("carol", 1, 1),
        ("carol", "?", 0),
        ("ann", None, 0.5),
    ):
        rows.append(
            rows[0].model_copy(update={"annotator": name, "human": human, "adjudicated": True})
        )
        decisions = Decisions(row.model_copy(update={"when": rows[0].when}) for row in rows)
        assert decisions.human == {rows[0].key: counting}
        assert decisions.labels == {rows[0].key: {"ann": 1, "bob": 0}}
        assert decisions.disputed == [rows[0].key]


def test_undo_in_the_terminal_reopens_the_dispute(judged_run: JudgedRun) -> None:
    run = contradicted(judged_run(), 2)
    labelling = draw_disputed(run)
    labelling.answer(1)
    assert len(draw_disputed(run, None).rows) == 1
    assert labelling.undo()
    assert len(draw_disputed(run, None).rows) == 2


def test_a_sheet_settles_disputes_and_an_emptied_cell_reopens_them(judged_run: JudgedRun) -> None:
    run = contradicted(judged_run(), 6)
    rows = draw_disputed(run).rows_to_send()
    assert {row["draw"] for row in rows} == {"disputed"}
    assert not any(
        "ann" in str(cell) or "bob" in str(cell) for row in rows for cell in row.values()
    )
    sheet = run.directory.parent / "sheet.jsonl"
    for humans, counts, open_disputes in (
        ([1] * 4 + [None] * 2, {"new": 4, "unlabelled": 2}, 2),
        ([1] * 6, {"new": 2, "known": 4}, 0),
        ([0, None, *[1] * 4], {"changed": 1, "withdrawn": 1, "known": 4}, 1),
    ):
        filled = [{**row, "human": human} for row, human in zip(rows, humans, strict=True)]
        assert effects(run, written(sheet, *filled), "carol") == counts
        assert len(draw_disputed(run, None).rows) == open_disputes
    assert labels(run).annotators == {"ann": 6, "bob": 6}


def test_statements_show_all_answers_and_the_label_that_counts(judged_run: JudgedRun) -> None:
    """Of three statements ann and bob agree on one; carol settles one of the other two."""
    run = label(judged_run(), lambda _: 1, 3)
    texts = [row.text for row in stored_labels(run.directory)]
    label(run, lambda words: int(words == texts[0]), 3, "bob", again=True)
    carol = draw_disputed(run)
    first = carol.rows[0]["text"]
    carol.answer(0)
    assert labelled_texts(run) == {
        texts[0]: (1, "ann, bob"),
        **{words: (None, "ann, bob") for words in texts[1:] if words != first},
        first: (0, "ann, bob, carol"),
    }
    lines = printed_lines("show", run, "--labels", width=200)
    disputes = [line for line in lines if "ann 1, bob 0" in line]
    assert sorted(re.findall("bob 0 +(no|0 by carol)", " ".join(disputes))) == ["0 by carol", "no"]


def test_adjudicated_labels_go_to_a_run_with_the_same_statements(judged_run: JudgedRun) -> None:
    run = settled(contradicted(judged_run(), 5))
    other = judged_run("other")
    assert other.read_labels(run.directory).new == 15
    assert labels(other).corrected == labels(run).corrected
    assert draw_disputed(other, None).rows == []


def test_an_adjudicated_label_is_not_carried_over_to_a_drawing(judged_run: JudgedRun) -> None:
    """Ann has also settled the disputes. A second drawing counts each annotator's label."""
    run = label(settled(contradicted(judged_run(), 8), "ann", lambda _: 1), seed=1)
    assert {row.adjudicated for row in stored_labels(run.directory) if row.draw} == {False}
    assert labels(run).undrawn == 0


@pytest.mark.parametrize("options", [{"sample": 5}, {"by": "topic"}, {"seed": 3}], ids=str)
def test_disputes_are_not_drawn(judged_run: JudgedRun, options: dict[str, Any]) -> None:
    run = judged_run(samples=3)
    with pytest.raises(
        InputError, match=f"disputed.*{next(iter(options))}|{next(iter(options))}.*disputed"
    ):
        run.label("sheet.csv", disputed=True, **options)
    with pytest.raises(InputError, match="no disputed statement remains"):
        run.label("sheet.csv", disputed=True)


@pytest.mark.parametrize("withdrawn", [None, "?"])
def test_an_adjudicated_label_counts_where_the_first_labels_were_withdrawn(
    judged_run: JudgedRun, withdrawn: Any
) -> None:
    """Carol settles the disputes of ann and bob, who then withdraw their labels."""
    run = settled(contradicted(judged_run()), say=lambda _: 0)
    rows = [row for row in stored_labels(run.directory) if not row.adjudicated]
    append_labels(run.directory, [row.model_copy(update={"human": withdrawn}) for row in rows])
    found = labels(run)
    mean = found.corrected[METRIC]
    assert (found.statements, found.annotators, found.unsure) == (30, {"carol": 30}, 0)
    assert mean.counts is not None
    assert mean.counts.supported == 0
    assert mean.mean is not None
    [decision] = run.check([f"{METRIC}>=0.95"]).decisions
    assert (decision.outcome, decision.corrected) == ("fail", True)


def test_labels_of_a_sheet_with_disputed_as_its_drawing_are_not_ignored(
    judged_run: JudgedRun, tmp_path: Path
) -> None:
    run = judged_run()
    rows = stored_labels(label(judged_run("other"), lambda _: 0, n=50).directory)
    undrawn = {"draw": None, "frame": None, "size_share": None, "draw_index": None}
    update = {**undrawn, "adjudicated": True}
    append_labels(run.directory, [row.model_copy(update=update) for row in rows])
    assert labels(run).statements == 50
    assert labels(run).corrected[METRIC].contradiction
    [decision] = run.check([f"{METRIC}>=0.2"]).decisions
    assert (decision.outcome, decision.value) == ("undecided", None)
    assert set(labelled_texts(run).values()) == {(0, "ann")}
    assert run.report().exists()
    assert run.certificate(tmp_path / "certificate.html").file.exists()
    with pytest.raises(DataError, match="all labels"):
        calibrate(run)
