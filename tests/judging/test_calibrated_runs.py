import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from human_labels import draw
from hypothesis import given
from hypothesis import strategies as st

import localjudge
from localjudge import InputError, Run, RunDirectoryError, ScriptedEngine

ROWS: list[dict[str, Any]] = [
    {
        "id": str(n),
        "user_input": "Why?",
        "retrieved_contexts": [f"Chunk {n}."],
        "response": f"One {n}. Two {n}.",
    }
    for n in range(10)
]
SCRIPT = {
    f"{word} {n}.": p
    for n in range(10)
    for word, p in (("One", 0.6), ("Two", 0.45), ("Chunk", 0.45))
}
METRICS = ["faithfulness", "context_relevancy"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def judged(out: str, metrics: list[Any] | None = None, **options: Any) -> Run:
    options = {"engine": ScriptedEngine(SCRIPT), **options}
    return localjudge.evaluate(ROWS, metrics=metrics or METRICS, out=out, **options)


@pytest.fixture
def calibration() -> Any:
    """Return a calibration with threshold .4, from labels of 1 for both sentences."""
    return calibrated(judged("labelled", ["faithfulness"]), "ours").model_copy(
        update={"threshold": 0.4}
    )


def calibrated(run: Run, name: str) -> Any:
    labelling = draw(run, None)
    while labelling.rows:
        row = labelling.rows[0]
        labelling.answer(1 if row["text"].startswith("One") == (row["sample_id"] != "3") else 0)
    [calibration] = localjudge.calibrate(run, name=name)
    return calibration


def collect_labels(run: Run) -> dict[str, set[object]]:
    labels: dict[str, set[object]] = {}
    for row in run.iter_verdicts():
        labels.setdefault(row.metric, set()).add((row.p_yes, row.label))
    return labels


def test_the_threshold_decides_the_metrics_that_ask_its_question(calibration: Any) -> None:
    """Faithfulness at .4 supports both sentences; context relevancy keeps .5."""
    run = judged("run", calibration=calibration)
    assert collect_labels(run) == {
        "faithfulness": {(0.6, 1), (0.45, 1)},
        "context_relevancy": {(0.45, 0)},
    }
    assert (run["faithfulness"].mean, run["context_relevancy"].mean) == (1, 0)
    assert (run.summary.threshold, run.summary.thresholds) == (0.5, {"faithfulness": 0.4})
    assert run.summary.verdicts is not None
    assert run.summary.verdicts.near_threshold == pytest.approx(20 / 30)


def test_only_a_calibration_changes_the_signature(calibration: Any) -> None:
    plain = judged("plain")
    with_it = judged("with", calibration=calibration)
    other = judged("other", calibration=calibration.model_copy(update={"threshold": 0.41}))
    assert len({run.manifest.signature for run in (plain, with_it, other)}) == 3
    assert not {"thresholds", "calibrations"} & plain.manifest.judge.as_json.keys()
    renamed = judged(
        "renamed", calibration=calibration.model_copy(update={"name": "x", "created": "later"})
    )
    assert renamed.manifest.signature == with_it.manifest.signature


def test_a_calibrated_run_needs_no_other_file(calibration: Any) -> None:
    Path("file.json").write_text(calibration.model_dump_json())
    run = judged("run", calibration="file.json")
    Path("file.json").unlink()
    shutil.rmtree("home")
    assert run.verify(engine=ScriptedEngine(SCRIPT)).result == "bit-identical"
    again = localjudge.evaluate(
        reuse="run", max_failed=1, engine=ScriptedEngine(SCRIPT), out="again"
    )
    assert again.manifest.signature == run.manifest.signature
    assert Path("again/verdicts.jsonl").read_bytes() == Path("run/verdicts.jsonl").read_bytes()


def test_rescoring_accepts_a_calibration_or_a_threshold(calibration: Any) -> None:
    judged("plain", threshold=0.7)
    engine = ScriptedEngine(SCRIPT)
    with_it = localjudge.evaluate(reuse="plain", calibration=calibration, engine=engine, out="with")
    assert (with_it.summary.threshold, with_it.summary.thresholds) == (0.5, {"faithfulness": 0.4})
    without = localjudge.evaluate(reuse=with_it, threshold=0.3, engine=engine, out="without")
    assert (without.summary.threshold, without.summary.thresholds) == (0.3, {})
    other = localjudge.evaluate(
        reuse=with_it, metrics=["context_relevancy"], engine=engine, out="other"
    )
    assert (other.summary.thresholds, other.manifest.environment.settings.calibration) == ({}, ())
    assert engine.asked == ()


def test_a_calibration_of_another_judge_is_refused_by_name(calibration: Any) -> None:
    with pytest.raises(InputError, match=r"ours was made .*\n  engine\.script_sha256: "):
        judged("run", calibration=calibration, engine=ScriptedEngine({}, default=0.5))
    with pytest.raises(InputError, match=r"judge\.reasons: none .*after"):
        judged("run", calibration=calibration, reasons="after")
    assert not Path("run").exists()


def test_calibration_of_a_reworded_criterion_does_not_apply(calibration: Any) -> None:
    first, second = (
        localjudge.Criterion(name="kind", question=f"Is it {word}?", of="sentence")
        for word in ("a", "b")
    )
    calibration_of_first = calibrated(judged("labelled kind", [first]), "kind")
    assert calibration_of_first.question == "kind"
    assert judged("same", [first], calibration="kind").summary.thresholds == {
        "kind": calibration_of_first.threshold
    }
    with pytest.raises(InputError, match=r"another judge:\n  metrics\.kind\.criterion_sha256: "):
        judged("other", [second], calibration="kind")


def test_conflicting_calibration_settings_are_refused(calibration: Any) -> None:
    for metrics, options, problem in (
        (None, {"threshold": 0.4}, "threshold and calibration"),
        (None, {"threshold": 0.5}, "threshold and calibration"),
        (["context_relevancy"], {}, "which no metric of this run asks"),
        (None, {"calibration": "nobody"}, "no calibration or file called 'nobody'"),
    ):
        with pytest.raises(InputError, match=problem):
            judged("run", metrics, **{"calibration": calibration, **options})
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"threshold": 0.4,', '"threshold": 0.3,', "calibrations: "),
        ('"faithfulness": 0.4', '"faithfulness": 0.45', "thresholds: "),
    ],
)
def test_a_calibration_edited_by_hand_is_detected(
    calibration: Any, old: str, new: str, said: str
) -> None:
    judged("run", calibration=calibration)
    manifest = Path("run/manifest.json")
    assert old in manifest.read_text()
    manifest.write_text(manifest.read_text().replace(old, new))
    with pytest.raises(RunDirectoryError, match=said):
        Run.open("run")


@given(
    st.lists(st.recursive(st.none() | st.floats() | st.text(max_size=3), st.lists, max_leaves=3)),
)
def test_any_stored_calibration_is_at_most_an_error(stored: object) -> None:
    """No file named by it is read."""
    if not Path("run").exists():
        judged("run")
    manifest = Path("run/manifest.json")
    values = json.loads(manifest.read_text())
    values["environment"]["settings"]["calibration"] = stored
    manifest.write_text(json.dumps(values))
    if stored == []:
        assert Run.open("run", check=False).manifest.environment.settings.calibration == ()
        return
    with pytest.raises(RunDirectoryError):
        Run.open("run", check=False)


def test_an_open_judge_uses_the_calibrations_that_apply(calibration: Any) -> None:
    """Faithfulness at .4 supports both sentences, relevance keeps .5; a threshold replaces both."""
    with localjudge.Judge.open(engine=ScriptedEngine(SCRIPT), calibration=calibration) as judge:
        for metric, label in (("faithfulness", 1), ("context_relevancy", 0)):
            assert {row.label for row in judge.evaluate(ROWS, [metric]).verdicts} == {label}
        assert (
            judged("open", ["context_relevancy"], judge=judge, engine=None).summary.thresholds == {}
        )
        half = judged("half", ["faithfulness"], judge=judge, engine=None, threshold=0.5)
    assert half["faithfulness"].mean == 0.5
