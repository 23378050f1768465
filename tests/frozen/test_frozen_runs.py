"""Runs from before a change of the code: they open, show, verify and repeat as they did.

Keys may be added to results, never change their meaning. So each frozen value must be there again.
"""

import csv
import io
import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import RunDirectoryError
from tests.cli.conftest import Call, call
from tests.frozen.frozen_runs import MAKERS, MODELS, NAMES, RESULTS, look, read_views, unpack

__all__ = ["call"]

_TABLES = ("export", "sheet")
_LAST_BITS = 1e-14
"""How much a number computed for a view may differ, relatively: NumPy rounds some sums otherwise
with AVX-512. Files of results are equal bit for bit.
"""


def _names(*chosen: str) -> list[Any]:
    names: list[Any] = []
    for name in chosen:
        marks = []
        if name in MODELS:
            marks.append(pytest.mark.engine)
        names.append(pytest.param(name, marks=marks))
    return names


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parametrize("name", _names(*NAMES))
def test_a_frozen_run_is_shown_and_verified_as_before(name: str, folder: Path) -> None:
    unpack(name, folder)
    before = read_views(name)
    after = look(name, folder)
    del before["gates"]["output"]["bytes"]  # the page may say more
    if after["verify"]["judge_changes"]:
        # Another processor or package: equal bits are not promised, and equal verdicts are.
        assert not [row for row in after["verify"]["rows"] if row["before"] != row["after"]]
        del before["verify"]
    for view, frozen in before.items():
        shown = _parse(view, after[view])
        assert _lacking(_parse(view, frozen), shown, view, tolerance=_LAST_BITS) == []


@pytest.mark.parametrize("name", _names(*MAKERS))
def test_a_frozen_run_is_repeated_with_the_same_results(name: str, folder: Path) -> None:
    frozen = unpack(name, folder / "frozen")
    MAKERS[name](folder)
    made = folder / name
    before = _read_identity(frozen)
    after = _read_identity(made)
    if name in MODELS and before != after:
        pytest.skip("another processor or package: equal bits are not promised")
    assert _lacking(before, after, "manifest.json") == []
    for file in RESULTS:
        if (frozen / file).exists():
            values_before = _read_values(frozen / file)
            values_after = _read_values(made / file)
            assert _lacking(values_before, values_after, file) == []


def _read_identity(folder: Path) -> dict[str, Any]:
    """Return what a run's signature is made of.

    Leaves out the versions of packages, metrics and sentence rules, and the time of a calibration.
    """
    manifest = localjudge.Run.open(folder).manifest
    judge = manifest.judge.as_json
    judge.pop("versions")
    judge.pop("calibrations", None)
    for metric in judge["metrics"].values():
        metric.pop("version", None)
    for name in ("version", "rules"):
        judge["segmenter"].pop(name)
    return {"judge": judge, "data": manifest.data.as_json}


@pytest.mark.engine
def test_a_run_of_an_earlier_judge_is_not_called_altered(folder: Path, call: Call) -> None:
    """The lexical judge read whole texts then, so that it is asked otherwise today."""
    code, printed, _ = call("verify", unpack("lexical", folder))
    assert code == 3
    words = " ".join(printed.split())
    assert "stored requests are not what this judge is asked" in words
    assert "scores.jsonl differs from what this judge gives" in words
    assert "judge.nearest.letters: None then, 600 now" in words
    assert "was changed" not in words


@pytest.mark.parametrize(
    "name", _names("single", "lexical-nearest", "jury-nearest", "resumed", "criterion")
)
def test_a_frozen_run_is_judged_again_by_its_stored_answers(name: str, folder: Path) -> None:
    """No question is asked again, and the results are the same."""
    frozen = unpack(name, folder / "frozen")
    shutil.copytree(frozen, folder / name)
    try:
        MAKERS[name](folder)
    except RunDirectoryError as error:
        other = [line.strip() for line in str(error).splitlines()[1:] if ": " in line]
        of_engine = [line for line in other if re.match(r"(jury\.[\w-]+\.)?engine\.|hint:", line)]
        if name not in MODELS or other != of_engine:
            raise
        pytest.skip("another processor or package: stored answers are of another engine")
    for file in RESULTS:
        if (frozen / file).exists():
            before = _read_values(frozen / file)
            assert _lacking(before, _read_values(folder / name / file), file) == []
    sessions = localjudge.Run.open(folder / name).manifest.environment.sessions
    assert sessions[-1].asked == 0


def _read_values(file: Path) -> Any:
    """Return the values of a file of JSON without its signature, or of JSON lines."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        values = json.loads(text)
        values.pop("signature")
        return values
    return [json.loads(line) for line in text.splitlines()]


def _parse(view: str, value: Any) -> Any:
    """Return a table as rows, in which columns may be added."""
    if view in _TABLES:
        lines = value.splitlines(keepends=True)
        if view == "sheet":
            lines = lines[1:]  # the instruction for annotators
        return list(csv.DictReader(io.StringIO("".join(lines))))
    if view == "scores":
        return [json.loads(line) for line in value.splitlines()]
    return value


def _lacking(before: Any, after: Any, place: str, tolerance: float = 0.0) -> list[str]:
    """Return the places at which a value differs or is gone. Added keys are no difference.

    Numbers with a fraction may differ by the relative `tolerance`.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        lacking: list[str] = []
        for key, value in before.items():
            if key not in after:
                lacking.append(f"{place}.{key} is gone")
            else:
                lacking += _lacking(value, after[key], f"{place}.{key}", tolerance)
        return lacking
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        lacking = []
        for number, (value, other) in enumerate(zip(before, after, strict=True)):
            lacking += _lacking(value, other, f"{place}[{number}]", tolerance)
        return lacking
    are_floats = isinstance(before, float) and isinstance(after, float)
    if are_floats and math.isclose(before, after, rel_tol=tolerance):
        return []
    if before != after:
        return [f"{place}: {before!r:.200} became {after!r:.200}"]
    return []
