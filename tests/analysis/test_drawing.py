from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from human_labels import draw
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge import Criterion, InputError, Run
from localjudge.labels.decisions import Decisions
from localjudge.labels.drawing import draw_again, draw_statements, sampling_weights
from localjudge.labels.label_source import LabelSource
from localjudge.labels.matched_labels import labelled_drawings
from localjudge.labels.units import unit_frames
from localjudge.metrics import catalog
from localjudge.run_directory.label_rows import stored_labels
from localjudge.stats.interval import Mean
from tests.analysis.conftest import JudgedRun

ScriptedRun = Callable[..., Run]
ROW: dict[str, Any] = {
    "id": "a",
    "user_input": "Why?",
    "retrieved_contexts": ["First.", "Second."],
    "reference": "The reference.",
    "response": "The response.",
}
_TEXTS = "asks user_input contexts reference response context_ids text source_text"
COLUMNS = f"label_id draw sample_id metric position {_TEXTS} human annotator"


def draw_rows(run: Run, n: int = 1_000, metrics: Any = None, seed: int = 0) -> list[dict[str, Any]]:
    source = LabelSource.of_run(run)
    drawing = draw_statements(source.correctable(metrics), n, seed)
    return source.sheet_rows(drawing, drawing.statements)


def test_a_row_hides_the_verdict_and_names_its_drawing(judged_run: JudgedRun) -> None:
    rows = draw_rows(judged_run(), 20, seed=7)
    assert {tuple(row) for row in rows} == {tuple(COLUMNS.split())}
    assert len({row["label_id"] for row in rows}) == 20
    assert {(row["human"], row["annotator"]) for row in rows} == {(None, None)}
    [name] = {row["draw"] for row in rows}
    assert name.startswith("7: context_recall ")
    again = draw_again(name, unit_frames(judged_run()), 20)
    assert again is not None
    assert [(again.name, drawn.key) for drawn in again.statements] == [
        (name, row["label_id"]) for row in rows
    ]
    assert draw_rows(judged_run("same"), 20, seed=7) == rows
    assert draw_rows(judged_run("same"), 30, seed=7)[:20] == rows
    assert draw_rows(judged_run("same"), 20, seed=8) != rows


@pytest.mark.parametrize(
    "name",
    ["", "x", "1", "x: context_recall 0123abcd", f"{'9' * 5000}: m 0123abcd", "-1: m 0"],
)
def test_an_unknown_drawing_name_draws_nothing(judged_run: JudgedRun, name: str) -> None:
    """Returned sheets and foreign label files may hold any name."""
    assert draw_again(name, unit_frames(judged_run(samples=2)), 1) is None


def test_the_size_of_a_statement_by_hand(scripted_run: ScriptedRun) -> None:
    """Two samples with 1 and 2 statements: weights 1/2, 1/4, 1/4; the judge gives 1, .5 and 0.

    Uncertainties sqrt(.95 .05) = .217945 and .5: sizes .108972, .125 and .054486, in total .288459.
    """
    rows = [{**ROW, "id": "a", "reference": "One."}, {**ROW, "id": "b", "reference": "Two. Three."}]
    run = scripted_run("run", rows, {"Two.": 0.5, "Three.": 0.0}, metrics=["context_recall"])
    drawing = draw_statements(LabelSource.of_run(run).correctable(), 3, 0)
    texts = {row["label_id"]: row["text"] for row in draw_rows(run, 3)}
    shares = {texts[drawn.key]: drawn.size_share for drawn in drawing.statements}
    assert shares == pytest.approx(
        {"One.": 0.377774, "Two.": 0.433338, "Three.": 0.188887}, abs=1e-5
    )


SHARED = [
    {**ROW, "id": f"s{n}", "reference": f"Fact {n} is so. Another.", "response": f"Fact {n} is so."}
    for n in range(12)
]
BOTH = ["context_recall", "faithfulness"]


def test_a_statement_of_two_metrics_is_drawn_once_and_corrects_both(
    scripted_run: ScriptedRun,
) -> None:
    """Twelve statements are in both: size sqrt((1/24)^2 + (1/12)^2); one is in all references."""
    run = scripted_run("run", SHARED, {}, metrics=BOTH)
    drawing = draw_statements(LabelSource.of_run(run).correctable(), 99, 0)
    assert len(drawing.statements) == len({drawn.key for drawn in drawing.statements}) == 13
    labelling = draw(run, "ann", 99)
    while labelling.rows:
        labelling.answer(0 if labelling.rows[0]["text"].startswith("Fact 1 ") else 1)
    recall = run["context_recall"].corrected
    faithfulness = run["faithfulness"].corrected
    assert recall
    assert faithfulness
    assert (recall.mean, faithfulness.mean) == pytest.approx((23 / 24, 11 / 12))
    shares = [(drawn.verdict_id.position, drawn.size_share or 0.0) for drawn in drawing.statements]
    one_third = {share for position, share in shares if position == 0}
    assert max(one_third) == pytest.approx(min(one_third))
    [other] = {share for _, share in shares} - one_third
    # "Another." is in twelve equal samples: twelve times 1/24 is one key of 1/2.
    assert other / max(one_third) == pytest.approx(0.5 / (1 / 24**2 + 1 / 12**2) ** 0.5)


def test_a_drawing_for_one_metric_does_not_cover_another_with_more_statements(
    scripted_run: ScriptedRun,
) -> None:
    """All faithfulness statements are in context_recall, which has as many others."""
    run = scripted_run("run", SHARED, {}, metrics=BOTH)
    labelling = draw(run, "ann", 99, metrics=["faithfulness"])
    while labelling.rows:
        labelling.answer(1)
    decisions = Decisions(stored_labels(run.directory))
    frames = unit_frames(run)
    drawings = labelled_drawings(decisions, frames)
    assert {name: len(sampling_weights(of_metric)) for name, of_metric in drawings.items()} == {
        "context_recall": 0,
        "faithfulness": 12,
    }
    faithfulness = run["faithfulness"].corrected
    assert faithfulness is not None
    assert faithfulness.ci95 is not None
    assert faithfulness.pooled is not None
    assert faithfulness.pooled.based_on == faithfulness.in_words
    recall = run["context_recall"].corrected
    assert (recall.mean, recall.labels) == (None, 0)  # type: ignore[union-attr]
    assert "not drawn" in recall.remark  # type: ignore[union-attr,operator]
    # They were drawn for another metric, so they withhold nothing.
    quoted = run["context_recall"].headline
    assert isinstance(quoted, Mean)
    assert quoted.basis == "judge"


def test_two_runs_of_the_same_data_have_the_same_statements(
    judged_run: JudgedRun, scripted_run: ScriptedRun
) -> None:
    run = judged_run("run", samples=6)
    strict = judged_run("strict", samples=6, threshold=0.7)
    rows = [
        {**row.model_dump(), "retrieved_contexts": [c.text for c in row.retrieved_contexts or ()]}
        for row in run.samples
    ]
    other_judge = scripted_run("other", rows, {}, metrics=["context_recall"])
    drawings = [draw_statements(unit_frames(each), 5, 0) for each in (run, strict, other_judge)]
    assert len({drawing.frame for drawing in drawings}) == 1
    name, name_of_strict, name_of_other = (drawing.name for drawing in drawings)
    assert name == name_of_strict != name_of_other
    keys = [*unit_frames(run)["context_recall"].by_key]
    assert keys == [*unit_frames(other_judge)["context_recall"].by_key]
    rows[0]["retrieved_contexts"] = ["Otherwise."]
    changed = unit_frames(scripted_run("changed", rows, {}, metrics=["context_recall"]))
    first, *others = changed["context_recall"].by_key
    assert (first != keys[0], others) == (True, keys[1:])


@pytest.mark.parametrize("metric", [name for name in catalog.our_names() if "@" not in name])
def test_a_frame_reproduces_the_mean_of_its_metric(scripted_run: ScriptedRun, metric: str) -> None:
    """For samples with zero, one and several statements. Other metrics cannot be corrected."""
    rows = [
        {
            **{"id": f"s{n}", "user_input": f"What {n}?", "reference_contexts": ["x"]},
            "retrieved_contexts": [f"All of {n}.", "More.", f"Third {n}."][: n % 4],
            "reference": " ".join(f"Fact {k} of {n}." for k in range(n % 4)),
            "response": " ".join(f"Answer {k} of {n} [1]." for k in range(n % 3)),
        }
        for n in range(13)
    ]
    script = {}
    for n in range(13):
        for k in range(4):
            p_yes = (7 * n + 3 * k) % 10 / 10
            script[f"Fact {k} of {n}."] = p_yes
            script[f"Answer {k} of {n} [1]."] = p_yes
    run = scripted_run("run", rows, script, metrics=[metric])
    frame = unit_frames(run)[metric]
    if frame.share_of is not None:
        judged = frame.judged if frame.share_of == "ones" else 1 - frame.judged
        assert float((frame.weights * judged).sum()) == pytest.approx(run[metric].mean)
    places = [*map(tuple, frame.verdict_ids)]
    stored = [(row.sample_id, row.metric, row.position) for row in run.verdicts]
    assert [place for place in stored if place in set(places)] == places


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
def test_a_row_shows_the_evidence_of_its_verdict(
    scripted_run: ScriptedRun, metric: str, shown: dict[str, Any]
) -> None:
    row = draw_rows(scripted_run("run", [ROW], {}, metrics=[metric]), 1, [metric])[0]
    assert row["user_input"] == "Why?"
    assert {
        name: row[name] for name in ("contexts", "reference", "response") if row[name] is not None
    } == shown


def test_a_verdict_of_a_table_is_shown_beside_its_own_context(scripted_run: ScriptedRun) -> None:
    table = draw_rows(
        scripted_run("table", [ROW], {}, metrics=["matrix_recall"]), 9, ["matrix_recall"]
    )
    assert sorted((row["position"], *row["contexts"]) for row in table) == [
        (0, "First."),
        (1, "Second."),
    ]


def test_metrics_that_labels_cannot_correct_are_drawn_only_by_name(
    scripted_run: ScriptedRun,
) -> None:
    """Average precision is no share of verdicts; some runs have no verdicts."""
    row = ROW | {"reference_contexts": ["x"]}
    with pytest.raises(InputError, match="no verdicts"):
        draw_rows(scripted_run("unjudged", [row], {}, metrics=["document_map"]))
    metrics = ["context_precision", "faithfulness"]
    run = scripted_run("run", [ROW], {"Second.": 0.1}, metrics=metrics)
    assert {row["metric"] for row in draw_rows(run)} == {"faithfulness"}
    rows = draw_rows(run, metrics=["context_precision"])
    assert {row["metric"] for row in rows} == {"context_precision"}


def test_a_criterion_asks_its_own_question_and_a_rubric_is_not_drawn(
    scripted_run: ScriptedRun,
) -> None:
    kind = Criterion(name="kind", question="Is it kind?")
    tone = Criterion(
        name="tone",
        question="?",
        levels={1: "rude", 2: "curt", 3: "plain", 4: "warm", 5: "courteous"},
    )
    run = scripted_run("run", [ROW], {}, metrics=["faithfulness", kind, tone])
    asks = {row["metric"]: row["asks"] for row in draw_rows(run)}
    assert asks["kind"] == "Is it kind?"
    assert "tone" not in asks
    with pytest.raises(InputError, match="no verdicts of 'tone'"):
        draw_rows(run, metrics=["tone"])


@pytest.fixture
def run(judged_run: JudgedRun) -> Run:
    return judged_run(samples=6)


@settings(
    max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.lists(st.sampled_from("10?su!"), max_size=25))
def test_any_keys_give_the_labels_of_a_plain_list(run: Run, pressed: list[str]) -> None:
    """The model is a dict of answers. `!` kills and restarts the session, which clears undo."""
    Path(run.directory / "labels.jsonl").unlink(missing_ok=True)
    labelling = draw(run, "ann", 5)
    order = [row["label_id"] for row in labelling.rows]
    model = dict[str, Any]()
    opened = [*order]
    passed = list[str]()
    for key in pressed:
        if key == "!":
            labelling = draw(run, "ann", 5)
            opened = [name for name in order if name not in model]
            passed = []
        elif key == "u":
            assert labelling.undo() == bool(passed)
            if passed:
                name = passed.pop()
                model.pop(name, None)
                opened = [name, *(other for other in opened if other != name)]
        elif opened:
            name = opened.pop(0)
            passed.append(name)
            if key == "s":
                labelling.skip()
                opened.append(name)
            else:
                model[name] = "?" if key == "?" else int(key)
                labelling.answer(model[name])
        assert [row["label_id"] for row in labelling.rows] == opened
        assert labelling.labelled == len(model)
    decided = Decisions(stored_labels(run.directory))
    assert decided.human == {name: label for name, label in model.items() if label != "?"}
    assert {name for name, people in decided.answers.items() if people} == model.keys()
    turns = [row.draw_index for row in stored_labels(run.directory)]
    assert all(turns)


def test_a_second_annotator_gets_statements_without_a_label(judged_run: JudgedRun) -> None:
    """Bob gets the statements that ann left undecided, but not those she labelled."""
    run = judged_run()
    ann = draw(run, "ann", 5)
    for label in (1, 0, "?", 1):
        ann.answer(label)
    assert len(draw(run, "bob", 5).rows) == 2
    assert len(draw(run, "ann", 5).rows) == 1
