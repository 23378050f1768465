"""Judges of a panel weighed by labels: fitted, saved, used by a run in place of the mean, and found again by verify."""

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import Calibration, ScriptedEngine
from localjudge.errors import DataError, RunDirectoryError, UsageError

COUNT = 120
_RANDOM = random.Random(4)
TEXTS = [f"Statement {n}." for n in range(COUNT)]
LABELS = [n % 2 for n in range(COUNT)]
CROWDED = {
    text: 0.55 + (0.02 if label else -0.02) + _RANDOM.gauss(0, 0.02) for text, label in zip(TEXTS, LABELS, strict=True)
}
"""Knows something, in probabilities that lie close together."""
LOUD = {text: _RANDOM.uniform(0.02, 0.98) for text in TEXTS}
"""Knows nothing, and says it with conviction."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calibrations and runs of this test alone."""
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def engines() -> list[ScriptedEngine]:
    """The two judges."""
    return [ScriptedEngine(CROWDED), ScriptedEngine(LOUD)]


def calibrated(**options: Any) -> Calibration:
    rows = [
        {"context": f"Passage {n}.", "statement": text, "label": label}
        for n, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))
    ]
    Path("labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return localjudge.calibrate("labels.jsonl", **{"engine": engines(), **options})


def judged(out: str, **options: Any) -> localjudge.Run:
    rows = [{"id": str(n), "retrieved_contexts": ["Passage."], "response": text} for n, text in enumerate(TEXTS[:8])]
    return localjudge.evaluate(rows, metrics=["faithfulness"], out=out, engine=engines(), progress=False, **options)


def test_weights_find_the_judge_that_knows_something() -> None:
    """In the mean the loud one drowns the other: the gain of the weights, held out, is far from 0."""
    found = calibrated(weights=True)
    rule = found.panel_rule
    assert rule is not None
    heard, ignored = sorted(rule.weights.values(), key=abs, reverse=True)
    assert heard > 5
    assert abs(ignored) < 0.5
    gain = found.figures["auc_gain"]
    assert gain.ci95[0] > 0.1
    plain = calibrated()
    assert plain.panel_rule is None
    assert found.figures["auc"].value - plain.figures["auc"].value == pytest.approx(gain.value)


def test_a_run_combines_by_the_weights_and_verify_finds_the_same() -> None:
    """P = 1 / (1 + exp(-(intercept + sum of weight x log odds))), and the signature is another one."""
    found = calibrated(weights=True)
    rule = found.panel_rule
    assert rule is not None
    weighed, mean = judged("weighed", calibration=found), judged("mean")
    assert weighed.summary.signature != mean.summary.signature
    weight = {engine: rule.weights[one.id] for engine, one in zip(("crowded", "loud"), _open(), strict=True)}
    for row in weighed.verdicts:
        odds = [math.log(p / (1 - p)) for p in (CROWDED[row.text], LOUD[row.text])]
        total = rule.intercept + weight["crowded"] * odds[0] + weight["loud"] * odds[1]
        assert row.p_yes == pytest.approx(1 / (1 + math.exp(-total)))
        assert row.label == int((row.p_yes or 0) >= found.threshold)
    assert localjudge.verify(weighed, engine=engines()).result == "bit-identical"
    again = localjudge.rescore(weighed, engine=engines(), threshold=0.9, progress=False)
    assert [row.p_yes for row in again.verdicts] == [row.p_yes for row in mean.verdicts]


def _open() -> list[Any]:
    from localjudge.run.judges import judge_on
    from localjudge.run.settings import RunSettings

    return [judge_on(engine, RunSettings()) for engine in engines()]


def test_an_open_panel_gives_the_numbers_of_the_run() -> None:
    found = calibrated(weights=True)
    rows = [{"id": str(n), "retrieved_contexts": ["Passage."], "response": text} for n, text in enumerate(TEXTS[:8])]
    with localjudge.Judge.open(engine=engines(), calibration=found) as judge:
        assert judge.verdicts(rows, ["faithfulness"]) == list(judged("run", calibration=found).verdicts)


def test_a_probability_that_is_not_that_of_the_weights_is_found() -> None:
    judged("run", calibration=calibrated(weights=True))
    file = Path("run/verdicts.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[0]["p_yes"] = round(rows[0]["p_yes"] + (0.001 if rows[0]["p_yes"] < 0.5 else -0.001), 9)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(RunDirectoryError, match="is not that of its judges"):
        localjudge.Run.open("run")


def test_what_cannot_be_weighed_is_refused() -> None:
    with pytest.raises(UsageError, match="judged by one judge: there is nothing to weigh"):
        calibrated(engine=ScriptedEngine(CROWDED), weights=True)
    with pytest.raises(DataError, match="no weights are best"):
        calibrated(
            engine=[ScriptedEngine(LOUD), ScriptedEngine({text: 1 - p for text, p in LOUD.items()})], weights=True
        )


def test_weights_of_other_judges_are_refused() -> None:
    found = calibrated(weights=True)
    other = [ScriptedEngine(CROWDED), ScriptedEngine({text: 0.5 for text in TEXTS})]
    with pytest.raises(UsageError, match="was made with another judge"):
        localjudge.evaluate(
            [{"retrieved_contexts": ["x"], "response": TEXTS[0]}],
            metrics=["faithfulness"],
            engine=other,
            calibration=found,
            out="run",
        )


def test_a_calibration_of_a_weighted_run_is_of_the_mean_again() -> None:
    """Its labels are held against what the judges gave, and not against what the weights made of it."""
    weights, plain = calibrated(weights=True), calibrated()
    rows = [
        {"id": str(n), "retrieved_contexts": [f"Passage {n}."], "response": text, "label": label}
        for n, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))
    ]
    run = localjudge.evaluate(
        rows, metrics=["faithfulness"], engine=engines(), calibration=weights, out="weighed", progress=False
    )
    label_of = dict(zip(TEXTS, LABELS, strict=True))
    sheet = [{**vars(row), "human": label_of[row.text]} for row in run.iter_verdicts()]
    Path("sheet.jsonl").write_text("".join(json.dumps(row) + "\n" for row in sheet))
    again = localjudge.calibrate("sheet.jsonl", run=run, name="again")
    assert again.figures["auc"].value == pytest.approx(plain.figures["auc"].value)
    assert again.threshold == pytest.approx(plain.threshold)


def test_a_weighted_run_says_which_metrics_are() -> None:
    weighed = judged("weighed", calibration=calibrated(weights=True))
    assert weighed.judge.rule == "mean log odds; faithfulness by weighted log odds"
    assert "faithfulness by weighted log odds" in str(localjudge.Run.open("weighed").judge)
