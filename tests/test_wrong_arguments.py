from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import localjudge
from localjudge import Criterion, Judge, LocaljudgeError, Run, Sample, ScriptedEngine, errors

open_judge: Any = Judge.open
open_run: Any = Run.open
calibrate: Any = localjudge.calibrate
criterion: Any = Criterion
sample: Any = Sample
script: Any = ScriptedEngine
"""The same functions without types, to be called wrongly."""

ROW = {"id": "a", "retrieved_contexts": ["Rain."], "response": "It rains."}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return localjudge.evaluate(
        [ROW], metrics=["faithfulness"], engine=rain(), out=tmp_path / "run", progress=False
    )


def rain(p_yes: Any = 0.9) -> ScriptedEngine:
    return ScriptedEngine({"It rains.": p_yes})


def evaluate(data: Any = (ROW,), **arguments: Any) -> object:
    return localjudge.evaluate(
        data, **{"metrics": ["faithfulness"], "engine": rain(), "progress": False, **arguments}
    )


def kind(**words: Any) -> Criterion:
    return Criterion(**{"name": "kind", "question": "Is it kind?", **words})


class Half:
    """Part of a metric."""

    name = "half"

    def steps(self) -> None:
        """Do not use the judge."""


class Own(Half):
    """Metric with wrong parts."""

    def __init__(self, **parts: Any) -> None:
        vars(self).update(
            {"name": "own", "version": 1, "required_fields": frozenset[str](), **parts}
        )


class Whole(Half):
    """Metric with the name of a bundled one."""

    name = "faithfulness"
    version = 1
    required_fields = frozenset[str]()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda _: evaluate(judge=3, engine=None),
            "judge must be .*got 3",
        ),
        (
            lambda _: evaluate(judge=Judge.open(engine=rain())),
            "open judge already has",
        ),
        (lambda _: open_judge(3), "judge must be .*got 3"),
        (
            lambda run: run.verify(judge=Judge.open(engine=rain())),
            "a judge must be .*got <Judge scripted>",
        ),
        (
            lambda run: run.verify(engine=rain(), progress="yes"),
            "progress cannot be 'yes'\n  hint: it takes a localjudge.progress.Progress, ",
        ),
        (lambda run: run.verify(engine=rain(), sample=-1), "sample must be"),
        (lambda run: run.verify(engine=rain(), thread=1), "there is no option 'thread'"),
        (
            lambda run: run.compare(3),
            "baseline cannot be 3\n  hint: it takes a run",
        ),
        (lambda run: run.check([3]), "gates must be a list"),
        (
            lambda run: run.check(["a>=0.5"], undecided="Pass"),
            "undecided .*\n  hint: it takes 'pass' or 'fail'",
        ),
        (lambda run: run.export("scores.txt"), r"scores\.txt .*format"),
        (lambda run: run.compare(run, by=["a"]), "by cannot be"),
        (lambda run: run.compare(run, moved=-1), "moved must .*got -1"),
        (lambda _: open_run(None), "directory cannot be None"),
        (lambda run: run.label("x.csv", sample="9"), "sample cannot be '9'"),
        (lambda run: run.label("x.docx"), r"x\.docx is not"),
        (lambda run: run.read_labels(pd.DataFrame()), "file cannot be"),
        (lambda _: calibrate(3), "runs must be a list .*got 3"),
        (lambda _: calibrate([{}]), "runs must be a list"),
        (lambda _: evaluate(engine=3), "engine cannot be 3"),
        (lambda _: evaluate(out="a\0b"), "'a.x00b' is not"),
        (lambda _: evaluate(out=""), "'' is not the name of a directory"),
        (
            lambda _: evaluate(cluster_by="retrieved_contexts"),
            "no column .*\n  hint: .*id, response$",
        ),
        (
            lambda _: evaluate(metrics="faithfulness,refusal"),
            r"hint: metrics=\['faithfulness', 'refusal'\]",
        ),
        (
            lambda _: evaluate(metrics=[Own(required_fields=["response"])]),
            "required_fields .*frozenset",
        ),
        (
            lambda _: evaluate(metrics=[Own(name="Bad Name!")]),
            "one word, got 'Bad Name!'",
        ),
        (lambda _: script([1]), "a script maps texts"),
        (
            lambda _: evaluate(engine=ScriptedEngine({})),
            "script .*'It rains.'",
        ),
        (lambda _: open_judge(foo=1), "hint: .*judge, engine"),
        (lambda run: run.to_pandas("rows"), "rows cannot be 'rows'"),
        (lambda _: localjudge.evaluate(), r"no data were named\n.*reuse="),
        (lambda run: localjudge.evaluate(reuse=run, limit=1), "limit applies to data"),
        (
            lambda _: evaluate(out=3),
            "out cannot be 3\n  hint: .*False or None",
        ),
        (lambda _: evaluate(thresold=0.5), "there is no option 'thresold'"),
        (lambda _: evaluate(pd.Series(["a"])), r"one column \(a Series\)"),
        (lambda _: evaluate('[{"id": "a"}]' * 999), "cannot be read"),
        (lambda _: evaluate(metrics=[object()]), "metrics takes names .*'faithfulness'"),
        (lambda _: evaluate(metrics=[Half()]), "it lacks version, required_fields"),
        (lambda _: evaluate(metrics=[Whole()]), "'faithfulness' is a built-in metric"),
        (lambda _: evaluate(metrics=[kind(name="refusal")]), "'refusal' is a built-in metric"),
        (
            lambda _: evaluate(metrics=[kind(), kind(good="no")]),
            "two different metrics .*'kind'",
        ),
        (lambda _: evaluate(metrics=["none.toml"]), "the criterion none.toml cannot be read"),
        (lambda _: evaluate(engine=rain(1.5)), "the script answers 1.5 about 'It rains.'"),
        (
            lambda _: kind(name="Is it kind?"),
            "Criterion cannot be made: name: ",
        ),
        (lambda _: criterion(name="kind"), "Criterion cannot be made: question: "),
        (
            lambda _: kind(examples=[{"text": "", "answer": "yes"}]),
            r"Criterion cannot be made: examples\.0\.text: ",
        ),
        (lambda _: sample(), "Sample cannot be made: id: "),
        (lambda _: sample(id="a", retrieved_contexts=["Rain."]), "hint: .*{'text': "),
        (
            lambda _: sample(id="a", retrieved_contexts=[{}]),
            r"Sample .*: retrieved_contexts\.0",
        ),
    ],
)
def test_a_wrong_argument_is_an_error_with_a_hint(
    call: Callable[[Any], object],
    message: str,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LocaljudgeError, match=message) as raised:
        call(run)
    assert isinstance(raised.value, ValueError | TypeError | localjudge.DataError)
    assert raised.value.hint
    assert len(raised.value.message) < 250


def test_errors_derive_from_builtin_errors(run: Any, tmp_path: Path) -> None:
    calls: list[tuple[Callable[[], object], type[Exception]]] = [
        (lambda: evaluate(thresold=0.5), TypeError),
        (lambda: run.compare(run, moved="5"), TypeError),
        (lambda: evaluate(budget="soon"), ValueError),
        (lambda: evaluate(until="faithfulness"), ValueError),
        (lambda: run.check(["faithfulness"]), ValueError),
        (sample, ValueError),
        (lambda: Run.open(tmp_path / "none"), FileNotFoundError),
        (lambda: run.compare(tmp_path), FileNotFoundError),
        (lambda: evaluate(reuse=str(tmp_path)), localjudge.MissingRun),
    ]
    for call, error in calls:
        with pytest.raises(error, match="\n  hint: ") as raised:
            call()
        assert isinstance(raised.value, localjudge.InputError)


def test_every_error_to_catch_is_exported() -> None:
    """Argument errors can be caught as built-in errors or InputError, a changed file as
    RunDirectoryError; metrics raise SampleError.
    """
    defined = {name for name, error in vars(errors).items() if isinstance(error, type)}
    others = {"Path", "ArgumentTypeError", "ArgumentValueError", "ChangedFile", "SampleError"}
    assert defined - others <= {*localjudge.__all__}


def test_a_tilde_in_a_run_path_is_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    evaluate(out="~/run")
    again = evaluate(out=Path("~/again"), reuse="~/run")
    assert isinstance(again, Run)
    assert again.manifest.environment.as_json["answers"]["asked"] == 0
    assert Run.open("~/run").directory == tmp_path / "home" / "run"
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
