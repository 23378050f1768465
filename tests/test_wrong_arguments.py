"""What is wrong with an argument is said in an error of localjudge, with what to do, and never in one of its inside."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import localjudge
from localjudge import Criterion, Judge, LocaljudgeError, Run, ScriptedEngine

ROW = {"id": "a", "retrieved_contexts": ["Rain."], "response": "It rains."}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run to ask about."""
    return localjudge.evaluate([ROW], metrics=["faithfulness"], engine=rain(), out=tmp_path / "run", progress=False)


def rain(p_yes: Any = 0.9) -> ScriptedEngine:
    return ScriptedEngine({"It rains.": p_yes})


def evaluate(data: object = (ROW,), **arguments: Any) -> object:
    return localjudge.evaluate(data, **{"metrics": ["faithfulness"], "progress": False, **arguments})


def rescore(run: Run, **arguments: Any) -> object:
    return localjudge.rescore(run, **arguments)


def verify(run: Run, **arguments: Any) -> object:
    return localjudge.verify(run, **arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: evaluate(judge=3), "a judge must be a name or a path, got 3"),
        (lambda _: evaluate(judge=None), "a judge must be a name or a path, got None"),
        (lambda _: evaluate(judge=["reference", 3]), "a judge must be a name"),
        (lambda _: Judge.open(3), "a judge must be a name"),  # type: ignore[arg-type]
        (lambda run: verify(run, judge=Judge.open(engine=rain())), "a judge must be a name"),
        (lambda run: rescore(run, judge=Judge.open(engine=rain())), "a judge must be a name"),
        (lambda run: verify(run, engine=rain(), progress="yes"), "progress must be True, False, None"),
        (lambda _: evaluate(engine=rain(), progress="yes"), "progress must be True, False, None"),
        (lambda _: evaluate(pd.Series(["a"]), engine=rain()), r"the data are one column \(a Series\)"),
        (lambda _: evaluate(pl.Series(["a"]), engine=rain()), r"the data are one column \(a Series\)"),
        (lambda _: evaluate('[{"id": "a"}]' * 999, engine=rain()), "names no file: it looks like JSON text"),
        (lambda _: evaluate(metrics=[object()], engine=rain()), "metrics takes names such as 'faithfulness', got <obj"),
        (lambda _: evaluate(metrics=7, engine=rain()), "metrics takes names such as 'faithfulness', got 7"),
        (lambda _: evaluate(metrics=[kind()], engine=rain()), "metrics takes names such as 'faithfulness', got Crit"),
        (lambda _: evaluate(metrics=kind(), engine=rain()), "metrics takes names such as 'faithfulness', got Crit"),
        (lambda run: rescore(run, metrics=[kind()], engine=rain()), "metrics takes names"),
        (lambda _: evaluate(engine=rain(1.5)), "the script answers 1.5 about 'It rains.'"),
        (lambda _: evaluate(engine=rain(None)), "the script answers None about 'It rains.'"),
        (lambda _: Criterion(name="Is it kind?", question="?"), "the criterion cannot be asked: name: a name is made"),
        (lambda _: Criterion(name="kind"), "the criterion cannot be asked: question: Field required"),  # type: ignore[call-arg]
    ],
)
def test_a_wrong_argument_is_an_error_with_a_hint(
    call: Callable[[Run], object], message: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LocaljudgeError, match=message) as raised:
        call(run)
    assert raised.value.hint
    assert len(raised.value.message) < 250


def kind() -> Criterion:
    return Criterion(name="kind", question="Is it kind?")


def test_verify_takes_progress_as_evaluate_does(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert localjudge.verify(run, engine=rain(), progress=False).result == "bit-identical"
    assert not capsys.readouterr().err
    assert localjudge.verify(run, engine=rain(), progress=True).result == "bit-identical"
    assert "judge scripted" in capsys.readouterr().err


def test_a_tilde_is_the_home_directory_wherever_a_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`out="~/run"` made a folder called `~`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    evaluate(engine=rain(), out="~/run")
    again = evaluate(engine=rain(), out=Path("~/again"), reuse="~/run")
    assert isinstance(again, Run)
    assert again.manifest.environment["answers"]["asked"] == 0
    assert Run.open("~/run").directory == tmp_path / "home" / "run"
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
