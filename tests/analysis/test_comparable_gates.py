"""A gate on a difference is decided only for the same questions and the same judge, unless the user
allows others.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from localjudge import InputError, Run, ScriptedEngine
from localjudge.config import read_config
from tests.conftest import ScriptedRun

GATE = "faithfulness.delta>=-0.2"
KITCHEN = {
    "user_input": "How long does rice cook?",
    "response": "Rice cooks 12 minutes.",
    "reference": "12 minutes.",
}
COURT = {
    "user_input": "When does a claim expire?",
    "response": "It expires after 3 years.",
    "reference": "3 years.",
}


def rows(texts: dict[str, str], count: int = 60, **columns: Any) -> list[dict[str, Any]]:
    return [
        {
            "id": str(number),
            "retrieved_contexts": ["A context."],
            **{field: f"{number}: {text}" for field, text in texts.items()},
            **columns,
        }
        for number in range(count)
    ]


def decided(run: Run, baseline: Run, gate: str = GATE, **rules: Any) -> Any:
    [decision] = run.check([gate], baseline=baseline, **rules).decisions
    return decision


def judged(
    scripted_run: ScriptedRun, name: str, texts: dict[str, str] = KITCHEN, **options: Any
) -> Run:
    return scripted_run(name, rows(texts), {}, metrics=["faithfulness"], **options)


def assert_undecided(run: Run, baseline: Run, kind: str, *names: str) -> None:
    """Undecided and failed, also for lenient users, with the reason, unless the kind is allowed."""
    for rules in (
        {},
        {"undecided": "pass"},
        {"allow_different": ["questions" if kind == "judges" else "judges"]},
    ):
        decision = decided(run, baseline, **rules)
        assert (decision.outcome, decision.passed) == ("undecided", False)
        for name in (*names, f"allow_different=['{kind}']"):
            assert name in decision.reason
    assert decided(run, baseline, allow_different=[kind]).outcome == "pass"
    assert decided(run, baseline, allow_different=("judges", "questions")).passed


def test_the_same_questions_and_judge_are_decided(scripted_run: ScriptedRun) -> None:
    before = judged(scripted_run, "before")
    after = judged(scripted_run, "after", {**KITCHEN, "response": "Another response."})
    assert decided(after, before).outcome == "pass"


def test_unrelated_data_with_equal_ids_are_undecided(scripted_run: ScriptedRun) -> None:
    before = judged(scripted_run, "court", COURT)
    after = judged(scripted_run, "kitchen")
    assert_undecided(after, before, "questions", "60 of 60 pairs")


@pytest.mark.parametrize("field", ["user_input", "reference"])
def test_one_changed_question_or_reference_is_enough(scripted_run: ScriptedRun, field: str) -> None:
    before = judged(scripted_run, "before")
    changed = rows(KITCHEN)
    changed[7][field] = "Something else."
    after = scripted_run("after", changed, {}, metrics=["faithfulness"])
    assert_undecided(after, before, "questions", "1 of 60 pairs")


def test_white_space_and_a_missing_reference_are_no_other_question(
    scripted_run: ScriptedRun,
) -> None:
    before = judged(scripted_run, "before")
    spaced = [
        {**row, "user_input": f" {row['user_input'].replace(' ', '  ')}\n"} for row in rows(KITCHEN)
    ]
    without = [
        {name: value for name, value in row.items() if name != "reference"} for row in rows(KITCHEN)
    ]
    for name, data in (("spaced", spaced), ("without", without)):
        assert (
            decided(scripted_run(name, data, {}, metrics=["faithfulness"]), before).outcome
            == "pass"
        )


@pytest.mark.parametrize(
    ("options", "ingredient"),
    [
        ({"threshold": 0.9}, "threshold"),
        ({"profile": "lexical"}, "judge.profile"),
        ({"min_valid_mass": 0.5}, "min_valid_mass"),
        ({"language": "de"}, "segmenter.language"),
        ({"abbreviations": ["approx."]}, "segmenter.abbreviations_sha256"),
        ({"reasons": "before"}, "judge.reasons"),
    ],
)
def test_a_judge_with_other_settings_is_another_judge(
    scripted_run: ScriptedRun, options: dict[str, Any], ingredient: str
) -> None:
    before = judged(scripted_run, "before")
    after = judged(scripted_run, "after", **options)
    assert_undecided(after, before, "judges", ingredient)


class OtherModel(ScriptedEngine):
    """Another model file."""

    @property
    def identity(self) -> dict[str, Any]:
        return {"engine": "scripted", "model_sha256": "ab"}


def test_another_model_is_another_judge(scripted_run: ScriptedRun, tmp_path: Path) -> None:
    from localjudge import evaluate

    before = judged(scripted_run, "before")
    engine = OtherModel({}, default=1.0)
    after = evaluate(rows(KITCHEN), metrics=["faithfulness"], out=tmp_path / "after", engine=engine)
    assert_undecided(after, before, "judges", "engine.model_sha256")


def edited(run: Run, part: str, name: str) -> Run:
    """Return the run as made with another value of this part of its judge."""
    file = run.directory / "manifest.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["judge"][part][name] = "other"
    file.write_text(json.dumps(content), encoding="utf-8")
    return Run.open(run.directory, check=False)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("versions", "numpy"),
        ("versions", "localjudge"),
        ("segmenter", "version"),
        ("engine", "system"),
        ("engine", "llama_cpp"),
    ],
)
def test_other_versions_and_processors_only_round(
    scripted_run: ScriptedRun, part: str, name: str
) -> None:
    before = judged(scripted_run, "before")
    after = edited(judged(scripted_run, "after"), part, name)
    assert decided(after, before).outcome == "pass"


def test_a_metric_that_asks_no_judge_does_not_depend_on_it(scripted_run: ScriptedRun) -> None:
    data = rows(KITCHEN, reference_contexts=["A context."])
    metrics = ["document_recall_single_hit", "faithfulness"]
    before = scripted_run("before", data, {}, metrics=metrics)
    after = scripted_run("after", data, {}, metrics=metrics, threshold=0.9)
    assert decided(after, before).outcome == "undecided"
    assert decided(after, before, "document_recall_single_hit.delta>=-0.2").outcome == "pass"


def test_options_of_other_metrics_do_not_matter(scripted_run: ScriptedRun) -> None:
    before = scripted_run("before", rows(KITCHEN), {}, metrics=["faithfulness"])
    after = scripted_run(
        "after", rows(KITCHEN), {}, metrics=["faithfulness", "context_recall", "refusal"]
    )
    assert decided(after, before).outcome == "pass"


def test_a_gate_on_a_slice_looks_at_its_own_pairs(scripted_run: ScriptedRun) -> None:
    data = rows(KITCHEN, count=120)
    for number, row in enumerate(data):
        row["topic"] = "old" if number % 2 else "new"
    before = scripted_run("before", data, {}, metrics=["faithfulness"])
    changed = [{**row, "user_input": "Another?"} if row["topic"] == "new" else row for row in data]
    after = scripted_run("after", changed, {}, metrics=["faithfulness"])
    outcomes = [
        decided(after, before, f"faithfulness[topic={topic}].delta>=-0.2")
        for topic in ("new", "old")
    ]
    assert [decision.outcome for decision in outcomes] == ["undecided", "pass"]
    assert "60 of 60 pairs" in outcomes[0].reason


def test_gates_on_a_mean_are_decided_beside_another_baseline(scripted_run: ScriptedRun) -> None:
    before = judged(scripted_run, "court", COURT)
    after = judged(scripted_run, "kitchen")
    assert decided(after, before, "faithfulness>=0.8").outcome == "pass"


def test_python_and_suites_take_the_option(scripted_run: ScriptedRun, tmp_path: Path) -> None:
    before = judged(scripted_run, "court", COURT)
    after = judged(scripted_run, "kitchen", threshold=0.9)
    assert not after.check([GATE], baseline=before)
    assert not after.check([GATE], baseline=before, allow_different="questions")
    assert after.check([GATE], baseline=before, allow_different=["questions", "judges"])
    file = tmp_path / "localjudge.toml"
    text = f'gates = ["{GATE}"]\nbaseline = "court"\n'
    for allowed, passes in (('"questions"', False), ('["judges", "questions"]', True)):
        file.write_text(f"{text}allow_different = {allowed}\n", encoding="utf-8")
        assert bool(after.check(**read_config(file).checks)) == passes
    file.write_text(f'{text}allow_different = "people"\n', encoding="utf-8")
    with pytest.raises(InputError, match="allow_different"):
        read_config(file)
    people: Any = ["people"]
    with pytest.raises(InputError, match="allow_different"):
        after.check([GATE], baseline=before, allow_different=people)


def test_a_report_with_allowed_differences_is_verified(scripted_run: ScriptedRun) -> None:
    before = judged(scripted_run, "court", COURT)
    after = judged(scripted_run, "kitchen")
    after.report(baseline=before, gates=[GATE], allow_different=["questions"])
    engine = ScriptedEngine({}, default=1.0)
    assert after.verify(engine=engine).report.problem is None
    assert after.compare(before).obstacles("faithfulness").keys() == {"questions"}
