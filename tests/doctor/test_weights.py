"""Judges of a combined run weighed by labels: fitted, saved, used to combine other runs, and found again by verify."""

import json
import math
import random
from pathlib import Path
from typing import Any, cast

import pytest

import localjudge
from localjudge import Run, ScriptedEngine, combine
from localjudge.errors import DataError, InputError
from localjudge.record.manifest import Calibration, combination_of
from localjudge.run.verify import verify_run as verify

COUNT = 120
_RANDOM = random.Random(4)
TEXTS = [f"Statement {n}." for n in range(COUNT)]
LABELS = [n % 2 for n in range(COUNT)]
CROWDED = {text: 0.53 + 0.04 * label + _RANDOM.gauss(0, 0.02) for text, label in zip(TEXTS, LABELS, strict=True)}
"""Knows something, in probabilities that lie close together."""
LOUD = {text: _RANDOM.uniform(0.02, 0.98) for text in TEXTS}
"""Knows nothing, and says it with conviction."""
SCRIPTS = (CROWDED, LOUD)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calibrations and runs of this test alone, and the labels."""
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    rows = [
        {"context": f"Passage {n}.", "statement": text, "label": label}
        for n, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))
    ]
    Path("labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def measured(labels: Any, **options: Any) -> Calibration:
    [calibration] = cast("list[Calibration]", localjudge.calibrate(labels, **options))
    return calibration


def calibrated(*scripts: Any, weights: bool = True) -> Calibration:
    """Each judge is asked about the labelled texts, and their runs are combined."""
    runs = []
    for n, script in enumerate(scripts or SCRIPTS):
        localjudge.calibrate("labels.jsonl", engine=ScriptedEngine(script), out=f"asked-{n}")
        runs.append(f"asked-{n}")
    both = combine(runs, out="asked")
    return measured(["labels.jsonl", both], weights=weights, name="both")


def combined(out: str, *scripts: Any, **options: Any) -> Run:
    rows = [{"id": str(n), "retrieved_contexts": ["Passage."], "response": text} for n, text in enumerate(TEXTS[:8])]
    runs = [
        localjudge.evaluate(rows, metrics=["faithfulness"], out=f"{out}-{n}", engine=ScriptedEngine(script))
        for n, script in enumerate(scripts or SCRIPTS)
    ]
    return combine(runs, out=out, **options)


def test_weights_find_the_judge_that_knows_something() -> None:
    """In the mean the loud one drowns the other: the gain of the weights, held out, is far from 0."""
    weighed = calibrated()
    assert weighed.combining_rule is not None
    heard, ignored = sorted(weighed.combining_rule.weights.values(), key=abs, reverse=True)
    assert heard > 5
    assert abs(ignored) < 0.5
    gain = weighed.figures["auc_gain"]
    assert gain.ci95[0] > 0.1
    plain = measured(["labels.jsonl", "asked"])
    assert plain.combining_rule is None
    assert weighed.figures["auc"].value - plain.figures["auc"].value == pytest.approx(gain.value)


def test_runs_are_combined_by_the_weights_and_verify_finds_the_same() -> None:
    """P = 1 / (1 + exp(-(intercept + sum of weight x log odds))), and the signature is another one."""
    calibration = calibrated()
    rule = calibration.combining_rule
    assert rule is not None
    weighed, mean = combined("weighed", weights="both"), combined("mean")
    assert weighed.summary.signature != mean.summary.signature
    combination = combination_of(weighed.manifest)
    assert combination is not None
    weight = {run.name: rule.weights[run.judge] for run in combination.runs}
    for row in weighed.verdicts:
        odds = {name: math.log((p or 0) / (1 - (p or 0))) for name, p in (row.judges or {}).items()}
        total = rule.intercept + sum(weight[name] * value for name, value in odds.items())
        assert row.p_yes == pytest.approx(1 / (1 + math.exp(-total)))
        assert row.label == int((row.p_yes or 0) >= calibration.threshold)
    assert verify(weighed).result == "bit-identical"
    assert str(weighed.judge).endswith(" by mean log odds, faithfulness by weighted log odds")


def test_what_cannot_be_weighed_is_refused() -> None:
    with pytest.raises(InputError, match="judged by one judge: there is nothing to weigh"):
        localjudge.calibrate("labels.jsonl", engine=ScriptedEngine(CROWDED), weights=True)
    with pytest.raises(DataError, match="no weights are best"):
        calibrated(LOUD, {text: 1 - p for text, p in LOUD.items()})


def test_weights_of_other_judges_are_refused() -> None:
    calibrated()
    with pytest.raises(InputError, match="was made with another judge"):
        combined("run", CROWDED, dict.fromkeys(TEXTS, 0.5), weights="both")
