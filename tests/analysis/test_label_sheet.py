"""Sheets of verdicts to be labelled: what is drawn, what people see, and that the files come back as they were."""

import csv
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge import Criterion, DataError, InputError, Run
from localjudge.analysis.label_sheet import Labelling, default_path, draw_rows, label_sheet
from localjudge.analysis.labels import read_labels, unit_frames
from tests.analysis.conftest import JudgedRun

HOSTILE = '=HYPERLINK("http://x") \x1b[2J is so, \u202ereversed.'


def test_a_sheet_is_blind_and_says_where_it_is_from(judged_run: JudgedRun, tmp_path: Path) -> None:
    run = judged_run()
    path = label_sheet(run, tmp_path / "sheet.jsonl", n=20, seed=7)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 20
    columns = "run seed sample_id metric position asks user_input contexts reference response text"
    assert list(rows[0]) == [*columns.split(), "inclusion_probability", "human"]
    assert {(row["run"], row["seed"], row["human"]) for row in rows} == {(run.summary.signature, 7, None)}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("labels", [1, 3, 5, 20])
def test_the_strata_that_labels_are_corrected_in_are_those_that_they_were_drawn_from(
    judged_run: JudgedRun, labels: int
) -> None:
    """As many strata of p_yes as there are labels, at most five, and each has equally many of them."""
    run, count = judged_run(samples=60), min(labels, 5)
    frame = unit_frames(run, ["context_recall"])["context_recall"]
    edges = np.quantile(frame.p_yes, np.arange(1, count) / count)
    strata = frame.strata(labels).tolist()
    assert strata == np.searchsorted(edges, frame.p_yes, side="right").tolist()
    stratum = dict(zip([verdict.text for verdict in run.verdicts], strata, strict=True))
    drawn = [stratum[row["text"]] for row in draw_rows(run, labels, ["context_recall"], 0)]
    assert np.bincount(drawn).tolist() == [labels // count] * count


def test_inclusion_probabilities_are_in_proportion_to_what_a_verdict_weighs(judged_run: JudgedRun) -> None:
    """The n of them add up to n over all verdicts, and each drawn one stands for about as much as any other."""
    run = judged_run(samples=300)
    frame = unit_frames(run, ["context_recall"])["context_recall"]
    sizes = {row.sample_id: row.denominator or 0 for row in run.scores}
    drawn = draw_rows(run, 50, None, 0)
    stands_for = [1 / (sizes[row["sample_id"]] * 300 * row["inclusion_probability"]) for row in drawn]
    assert sum(stands_for) == pytest.approx(1, abs=0.02)
    assert max(stands_for) / min(stands_for) < 2  # of verdicts that weigh up to three times as much
    assert frame.weights.sum() == pytest.approx(1)


def test_a_csv_comes_back_as_it_was_and_holds_no_formula(scripted_run: Callable[..., Run], tmp_path: Path) -> None:
    """Excel runs what begins with =; the label of such a text finds its verdict all the same."""
    row = {"id": "=1+1", "reference": HOSTILE, "retrieved_contexts": ['a "quote"', "two\nlines; and, commas"]}
    run = scripted_run("run", [row], {})
    path = label_sheet(run, tmp_path / "sheet.csv")
    with path.open(newline="") as file:
        [cells] = csv.DictReader(file)
    assert cells["text"].startswith("'=HYPERLINK")
    assert cells["sample_id"] == "'=1+1"
    assert cells["contexts"] == '[1] a "quote"\n\n[2] two\nlines; and, commas'
    assert read_labels(path).verdicts[0].text == "'" + HOSTILE


ROW: dict[str, Any] = {
    "id": "a",
    "user_input": "Why?",
    "retrieved_contexts": ["First.", "Second."],
    "reference": "The reference.",
    "response": "The response.",
}


@pytest.mark.parametrize(
    ("metric", "shown"),
    [
        ("context_recall", {"contexts": ["First.", "Second."]}),
        ("faithfulness", {"contexts": ["First.", "Second."]}),
        ("context_relevancy", {"contexts": ["First.", "Second."]}),
        ("context_relevancy_chunk", {}),
        ("context_precision", {"reference": "The reference."}),
        ("context_precision(against=response)", {"response": "The response."}),
        ("answer_correctness(mode=precision)", {"reference": "The reference."}),
        ("answer_correctness(mode=recall)", {"response": "The response."}),
        ("answer_relevancy", {"response": "The response."}),
    ],
)
def test_people_see_what_the_verdict_is_held_against(
    scripted_run: Callable[..., Run], metric: str, shown: dict[str, Any]
) -> None:
    row = draw_rows(scripted_run("run", [ROW], {}, metrics=[metric]), 1, None, 0)[0]
    assert row["user_input"] == "Why?"
    assert {name: row[name] for name in ("contexts", "reference", "response") if row[name] is not None} == shown
    # Of a table of verdicts each is shown beside its own context.
    table = draw_rows(scripted_run("table", [ROW], {}, metrics=["matrix_recall"]), 9, None, 0)
    assert sorted((row["position"], *row["contexts"]) for row in table) == [(0, "First."), (1, "Second.")]


def test_what_labels_cannot_correct_is_drawn_only_if_it_is_named(scripted_run: Callable[..., Run]) -> None:
    """Average precision is not a share of its verdicts; a run without a judge has no verdict at all."""
    row = ROW | {"reference_contexts": ["x"]}
    with pytest.raises(InputError, match="has no verdict to label"):
        draw_rows(scripted_run("unjudged", [row], {}, metrics=["document_map"]), 9, None, 0)
    run = scripted_run("run", [ROW], {"Second.": 0.1}, metrics=["context_precision", "faithfulness"])
    assert {row["metric"] for row in draw_rows(run, 9, None, 0)} == {"faithfulness"}
    assert {row["metric"] for row in draw_rows(run, 9, ["context_precision"], 0)} == {"context_precision"}


def test_a_criterion_asks_its_own_question_and_a_rubric_is_not_drawn(scripted_run: Callable[..., Run]) -> None:
    kind = Criterion(name="kind", question="Is it kind?")
    levels = {1: "rude", 2: "curt", 3: "plain", 4: "warm", 5: "courteous"}
    tone = Criterion(name="tone", question="?", levels=levels)
    run = scripted_run("run", [ROW], {}, metrics=["faithfulness", kind, tone])
    asks = {row["metric"]: row["asks"] for row in draw_rows(run, 9, None, 0)}
    assert asks["kind"] == "Is it kind?"
    assert "tone" not in asks
    with pytest.raises(InputError, match="no verdicts of 1 or 0 of 'tone'"):
        draw_rows(run, 9, ["tone"], 0)


@pytest.mark.parametrize(
    ("out", "options", "problem"),
    [
        ("sheet.txt", {}, "is not a sheet"),
        ("there.csv", {}, "is there already"),
        ("sheet.csv", {"n": 0}, "at least 1"),
        ("sheet.csv", {"metrics": ["context_recal"]}, "of 'context_recal' to label\n.*did you mean context_recall"),
        ("none/sheet.csv", {}, "cannot be written"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    judged_run: JudgedRun, tmp_path: Path, out: str, options: dict[str, Any], problem: str
) -> None:
    (tmp_path / "there.csv").write_text("labels of a week")
    with pytest.raises(InputError, match=problem):
        label_sheet(judged_run(samples=3), tmp_path / out, **options)
    assert (tmp_path / "there.csv").read_text() == "labels of a week"


@pytest.fixture
def run(judged_run: JudgedRun) -> Run:
    return judged_run(samples=6)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from("10su!"), max_size=25))
def test_any_keys_leave_what_a_list_would_hold(run: Run, tmp_path: Path, pressed: list[str]) -> None:
    """A list of answers is the model; `!` stands for being killed and begun anew, where skipped rows are open."""
    path = tmp_path / "l.jsonl"
    path.unlink(missing_ok=True)
    labelling = Labelling.begin(path, run, {"n": 5})
    model: dict[int, int | None] = dict.fromkeys(range(5))
    opened, answered = list(range(5)), list[int]()
    for key in pressed:
        match key:
            case "!":
                labelling = Labelling.begin(path, run, {})
                opened = [number for number in range(5) if model[number] is None]
                answered = [number for number in range(5) if model[number] is not None]
            case "u":
                assert labelling.undo() == bool(answered)
                if answered:
                    model[answered[-1]] = None
                    opened.insert(0, answered.pop())
            case _ if opened:
                if key == "s":
                    labelling.skip()
                else:
                    labelling.answer(1 if key == "1" else 0)
                    model[opened[0]] = int(key)
                answered.append(opened.pop(0))
        assert [json.loads(line)["human"] for line in path.read_text().splitlines()] == list(model.values())


def test_a_sheet_that_was_drawn_otherwise_is_not_gone_on_with(run: Run, tmp_path: Path) -> None:
    Labelling.begin(tmp_path / "l.jsonl", run, {"n": 4})
    drawings: list[tuple[dict[str, Any], str]] = [
        ({"n": 5}, "drawn with n 4, not 5"),
        ({"seed": 3}, "seed 0, not 3"),
        ({"metrics": ["faithfulness"]}, "with metrics"),
    ]
    for drawing, problem in drawings:
        with pytest.raises(InputError, match=problem):
            Labelling.begin(tmp_path / "l.jsonl", run, drawing)
    assert len(Labelling.begin(tmp_path / "l.jsonl", run, {"n": 4, "seed": 0})) == 4


def test_a_sheet_of_another_run_and_what_is_not_a_sheet_are_refused(
    run: Run, judged_run: JudgedRun, tmp_path: Path
) -> None:
    Labelling.begin(tmp_path / "l.jsonl", judged_run("other", samples=7), {})
    with pytest.raises(InputError, match="not a sheet of this run"):
        Labelling.begin(tmp_path / "l.jsonl", run, {})
    with pytest.raises(InputError, match=r"ends in \.jsonl"):
        Labelling.begin(tmp_path / "l.csv", run, {})
    (tmp_path / "no.jsonl").write_text("{}\n")
    with pytest.raises(DataError):
        Labelling.begin(tmp_path / "no.jsonl", run, {})
    assert default_path(run) == run.directory.parent / "labels-run.jsonl"
