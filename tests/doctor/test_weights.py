"""Judges of a combined run weighed by labels: fitted, saved, used to combine other runs, and found again by verify."""

import math
import random
import shutil
from pathlib import Path
from typing import Any, cast

import pytest

import localjudge
from localjudge import Run, ScriptedEngine, combine
from localjudge.analysis.labelling import Labelling
from localjudge.errors import DataError, InputError
from localjudge.record.label_rows import LABELS as LABELS_FILE
from localjudge.record.label_rows import append_labels, stored_labels
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
    """Calibrations and runs of this test alone."""
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def calibrated(*scripts: Any, weights: bool = True) -> Calibration:
    """People label what the judges say together: each statement of a sample of its own."""
    rows = [{"id": text, "retrieved_contexts": ["Passage."], "response": text} for text in TEXTS]
    runs = [
        localjudge.evaluate(rows, metrics=["faithfulness"], out=f"asked-{n}", engine=ScriptedEngine(script))
        for n, script in enumerate(scripts or SCRIPTS)
    ]
    labelling = Labelling(combine(runs, out="asked"), n=COUNT)
    while row := labelling.current:
        labelling.answer(1 if LABELS[TEXTS.index(row["text"])] else 0)
    return cast("Calibration", localjudge.calibrate("asked", weights=weights, name="both"))


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
    plain = cast("Calibration", localjudge.calibrate("asked"))
    assert plain.combining_rule is None
    assert weighed.figures["auc"].value - plain.figures["auc"].value == pytest.approx(gain.value)


def test_weights_are_fitted_to_drawn_labels_too() -> None:
    """Two thirds of the statements, likelier those that the judges are unsure of: near the weights by all of them."""
    everything = calibrated().combining_rule
    rows = [row for row in stored_labels(Path("asked")) if (row.turn or 0) <= COUNT]
    Path("asked", LABELS_FILE).unlink()
    append_labels(Path("asked"), rows[: 2 * COUNT // 3])
    some = cast("Calibration", localjudge.calibrate("asked", weights=True, name="some"))
    assert some.labels.weighted
    assert everything is not None
    assert some.combining_rule is not None
    heard = [max(rule.weights.values(), key=abs) for rule in (everything, some.combining_rule)]
    assert heard[1] == pytest.approx(heard[0], rel=0.3)
    assert some.figures["auc_gain"].ci95[0] > 0.1


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
    calibrated()
    append_labels(Path("asked-0"), stored_labels(Path("asked")))
    with pytest.raises(InputError, match="judged by one judge: there is nothing to weigh"):
        localjudge.calibrate("asked-0", weights=True)
    for name in ("asked-0", "asked-1", "asked"):
        shutil.rmtree(name)
    with pytest.raises(DataError, match="no weights are best"):
        calibrated(LOUD, {text: 1 - p for text, p in LOUD.items()})


def test_weights_of_other_judges_are_refused() -> None:
    calibrated()
    with pytest.raises(InputError, match="was made with another judge"):
        combined("run", CROWDED, dict.fromkeys(TEXTS, 0.5), weights="both")
