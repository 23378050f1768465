"""The first lines of a comparison: what may be said, or what is missing."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import printed_lines

from localjudge import Run, ScriptedEngine, evaluate_pair
from localjudge.analysis.comparison import count_missing_labels
from localjudge.report.messages import Messages, translate_difference
from tests.analysis.conftest import label, label_words
from tests.analysis.labelled_runs import METRIC, make_run
from tests.conftest import LANGUAGES, ScriptedRun
from tests.report.conftest import one_each


def other(number: int) -> str:
    return "All" if number % 3 else "Little"


def said(before: Run, after: Run) -> str:
    """Return the claim about the only metric, behind the names of A and B if there are columns."""
    lines = printed_lines("compare", before, after, width=1_000)
    return next(line for line in lines if line and not line.startswith("A: "))


def next_step(before: Run, after: Run) -> str:
    return printed_lines("compare", before, after, width=1_000)[-1]


def test_labels_decide_and_their_people_are_counted(scripted_run: ScriptedRun) -> None:
    """Labels show a loss in every third sample, the judge none. 20 samples of one sentence have
    another context, so there are 120 + 20 statements.
    """
    before = make_run(scripted_run, "a")
    after = make_run(scripted_run, "b", other)

    def says(text: str) -> bool:
        return int(text.split()[4]) % 3 > 0 and bool(label_words(text))

    label(before, annotator="ann")
    label(after, say=says, annotator="bob")
    line = said(before, after)
    assert line.startswith(f"B is worse in {METRIC}: -")
    assert "140 labels of 2 people" in line
    assert said(after, before).startswith(f"B is better in {METRIC}: +")
    step = f"localjudge report {after.directory} --baseline {before.directory}"
    assert next_step(before, after) == f"next: {step}"


def test_judge_only_claims_no_order_and_names_the_commands_to_label(
    scripted_run: ScriptedRun,
) -> None:
    before = make_run(scripted_run, "a")
    after = make_run(scripted_run, "b", other, surer=0.4)
    line = said(before, after)
    assert line.startswith(f"Judge only in {METRIC}: +")
    assert "better" not in line
    for run in (before, after):
        assert f"`localjudge label {run.directory}`" in line


def test_too_few_labels_say_how_many_are_needed(scripted_run: ScriptedRun) -> None:
    before = make_run(scripted_run, "a")
    after = make_run(scripted_run, "b", other)
    for run in (before, after):
        label(run, n=7)
    line = said(before, after)
    assert line.startswith(f"Not decided in {METRIC}: 7 labels in one run, 20 needed")
    assert "localjudge label" in line


def test_undecided_difference_says_how_many_more_labels_would_decide(
    scripted_run: ScriptedRun,
) -> None:
    before = make_run(scripted_run, "a", samples=200)
    after = make_run(scripted_run, "b", other, samples=200)
    label(before, n=60)
    label(after, n=60, say=lambda text: int(text.split()[4]) % 6 == 0 or bool(label_words(text)))
    change = after.compare(before).metrics[METRIC]
    line = said(before, after)
    assert line.startswith(f"Not decided in {METRIC}: ")
    missing = count_missing_labels(change)
    if missing is None:
        assert "samples would decide it" in line
    else:
        assert f"about {missing:,} more label" in line


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ((-0.00003, 0.29), ("-0.00003", "+0.290")),
        ((-0.29, 0.00003), ("-0.290", "+0.00003")),
        ((0.0, 0.29), ("0.000", "+0.290")),
    ],
)
def test_undecided_interval_visibly_contains_0(
    scripted_run: ScriptedRun, ends: tuple[float, float], shown: tuple[str, str]
) -> None:
    """The first two would both be 0.000 with three digits."""
    before = label(make_run(scripted_run, "a"), n=50)
    after = label(make_run(scripted_run, "b", other), n=50)
    comparison = after.compare(before)
    change = comparison.metrics[METRIC]
    assert change.corrected
    corrected = change.corrected.model_copy(update={"ci95": ends})
    changed = change.model_copy(update={"corrected": corrected})
    comparison = comparison.model_copy(update={"metrics": {METRIC: changed}})
    interval = f"{shown[0]} to {shown[1]}"
    html: str = comparison._repr_html_()
    assert f"<p>Not decided in {METRIC}: " in html
    assert f"({interval})" in html
    assert f">{interval}</td>" in html
    values = json.loads(comparison.model_dump_json())
    assert values["metrics"][METRIC]["corrected"]["ci95"] == [*ends]
    for language in LANGUAGES:
        messages = Messages(language)
        _, interval = translate_difference(0.1, ends, messages)
        assert messages.digits(shown[0]) in interval
        assert messages.digits(shown[1]) in interval


def test_equal_answers_have_no_difference(tmp_path: Path) -> None:
    rows = [
        {"user_input": f"Why {n}?", "retrieved_contexts": ["It rains."], "a": "Rain.", "b": "Rain."}
        for n in range(5)
    ]
    engine = ScriptedEngine({}, default=0.6)
    pair = evaluate_pair(
        rows,
        "a",
        mapping={"response": "b"},
        metrics=["faithfulness"],
        engine=engine,
        out=tmp_path / "cmp",
    )
    assert said(pair.baseline, pair.run).startswith("No difference in faithfulness: ")


def test_comparison_of_two_columns_names_its_directory(tmp_path: Path) -> None:
    rows = [
        {"user_input": f"Why {n}?", "retrieved_contexts": ["It rains."], "a": "Red.", "b": "Rain."}
        for n in range(20)
    ]
    engine = ScriptedEngine({"Rain.": 0.9}, default=0.1)
    out = tmp_path / "cmp"
    how: dict[str, Any] = {
        "mapping": {"response": "b"},
        "metrics": ["faithfulness"],
        "engine": engine,
    }
    pair = evaluate_pair(rows, "a", out=out, **how)
    assert said(pair.baseline, pair.run).endswith(f"`localjudge label {out}`")
    assert next_step(pair.baseline, pair.run) == f"next: localjudge label {out}"


def test_metric_without_a_judge_needs_no_labels(scripted_run: ScriptedRun) -> None:
    def rows(found: str) -> list[dict[str, object]]:
        made: list[dict[str, object]] = []
        for number in range(30):
            contexts = {"retrieved_contexts": [found], "reference_contexts": ["right"]}
            made.append({"id": str(number), "user_input": "Why?", **contexts})
        return made

    metrics = ["document_recall_single_hit"]
    before = scripted_run("before", rows("wrong"), {}, metrics=metrics)
    after = scripted_run("after", rows("right"), {}, metrics=metrics)
    line = said(before, after)
    assert line.startswith("B is better in document_recall_single_hit: +1.000 (")
    assert "30 samples" in line
    assert "label" not in line


def test_other_judges_or_questions_are_not_comparable(scripted_run: ScriptedRun) -> None:
    """Another judge with another threshold: .6 and 0 before, .9 and 1 after."""
    runs: list[Run] = []
    for p_yes, threshold in ((0.6, 0.7), (0.9, 0.5)):
        script = {f"Sentence {number}.": p_yes for number in range(20)}
        runs.append(scripted_run(f"t{p_yes}", one_each(20), script, threshold=threshold))
    line = said(*runs)
    assert line.startswith("Not comparable in context_recall: +0.300")
    assert "threshold" in line
