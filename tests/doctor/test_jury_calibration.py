"""Juries fitted on labels: the lexical judge and a random model, through the product."""

import json
from pathlib import Path
from typing import Any

import pytest
import random_model

import localjudge
from localjudge import InputError
from localjudge.run_directory.verdict_rule import combine
from tests.engine.conftest import ModelMaker, make_model
from tests.judging.test_juries import renamed, verdicts

__all__ = ["make_model"]

pytestmark = pytest.mark.engine


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))


@pytest.fixture
def small(make_model: ModelMaker, tmp_path: Path) -> str:
    shape = random_model.Shape(context=1024)
    return renamed(make_model(vocabulary="pieces", shape=shape), tmp_path / "small.gguf")


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """Every second statement is in its context."""
    rows = []
    for number in range(24):
        context = f"The bridge opened in {1900 + number}. It is painted red."
        statement = (
            context.partition(".")[0] + "." if number % 2 else "A king lives on Mars with his dog."
        )
        rows.append({"context": context, "statement": statement, "label": number % 2})
    file = tmp_path / "labels.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return file


def test_a_jury_is_fitted_compared_and_used_by_name(
    small: str, labels: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"threads": 1, "min_valid_mass": 0, "progress": False}
    calibrations = localjudge.calibrate(labels, judge=["lexical", small], **options)
    juries = [calibration for calibration in calibrations if calibration.weights]
    assert [sorted(jury.weights) for jury in juries] == [["lexical", "small"]]
    assert len(calibrations) == 3
    jury = juries[0]
    assert all(weight >= 0 for weight in jury.weights.values())
    assert jury.figures["auc"].value >= 0.95
    assert any("smallest" in remark and "lexical" in remark for remark in jury.remarks)
    rows = [json.loads(line) for line in labels.read_text(encoding="utf-8").splitlines()]
    data = [
        {
            "id": str(number),
            "response": row["statement"],
            "retrieved_contexts": [row["context"], "Other."],
        }
        for number, row in enumerate(rows[:4])
    ]
    how = {"metrics": "faithfulness", "calibration": jury.name, "out": tmp_path / "run", **options}
    run = localjudge.evaluate(data, judge=[small, "lexical"], **how)
    combination = run.manifest.judge.combinations["faithfulness"]
    assert combination.weights == jury.weights
    for verdict in verdicts(tmp_path / "run"):
        assert verdict["p_yes"] == combine(verdict["judges"], combination)
        assert verdict["label"] == int(verdict["p_yes"] >= jury.threshold)
    assert not any("measuring the scale" in note for note in run.notes)
    assert run.verify().result == "bit-identical"
    with pytest.raises(InputError):
        localjudge.evaluate(data, judge="lexical", **{**how, "out": tmp_path / "alone"})
