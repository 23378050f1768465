import copy
import pickle
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import InputError, Judge, ScriptedEngine
from localjudge.judging import jury
from localjudge.types import VerdictRequest

ROWS: list[dict[str, Any]] = [
    {"id": "a", "retrieved_contexts": ["Rain."], "reference": "It rains. It is red."},
    {"id": "b", "retrieved_contexts": ["Sun."], "reference": "The sun shines."},
]
SCRIPT = {"It rains.": 0.9, "It is red.": 0.2, "The sun shines.": 0.7}


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine(SCRIPT)


@pytest.fixture
def judge(engine: ScriptedEngine) -> Iterator[Judge]:
    with Judge.open(engine=engine) as opened:
        yield opened


def test_scores_equal_a_run_with_directory(judge: Judge, tmp_path: Path) -> None:
    """Scores 1/2 and 1/1, with equal verdicts."""
    run = localjudge.evaluate(
        ROWS,
        metrics=["context_recall"],
        engine=ScriptedEngine(SCRIPT),
        out=tmp_path / "run",
        progress=False,
    )
    again = judge.evaluate(ROWS, ["context_recall"], out=False)
    assert (again.scores, again.verdicts, again.summary) == (run.scores, run.verdicts, run.summary)
    assert [row.score for row in run.scores] == [0.5, 1]


def test_both_ways_to_evaluate_write_to_the_same_place(
    judge: Judge, engine: ScriptedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = localjudge.evaluate(ROWS, metrics=["context_recall"], engine=engine, progress=False)
    second = judge.evaluate(ROWS, ["context_recall"])
    assert first.directory == second.directory
    assert [path.parent for path in tmp_path.rglob("manifest.json")] == [tmp_path / first.directory]


def test_answers_are_reused_and_temporary_files_removed(
    judge: Judge, engine: ScriptedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run = judge.evaluate(ROWS, "context_recall", out=False)
    judge.evaluate(ROWS, "context_recall", out=False)
    assert len(engine.asked) == 3
    assert [path.parent for path in tmp_path.rglob("run")] == [run.directory.parent]
    del run
    assert list(tmp_path.iterdir()) == []


def test_a_run_reuses_the_answers_of_the_open_judge_and_says_so(
    judge: Judge, engine: ScriptedEngine, tmp_path: Path
) -> None:
    judge.evaluate(ROWS[:1], ["context_recall"], out=False)
    run = localjudge.evaluate(
        ROWS, judge=judge, metrics=["context_recall"], out=tmp_path / "run", progress=False
    )
    assert len(engine.asked) == 3
    assert run.manifest.environment.as_json["answers"] == {
        "asked": 1,
        "reused": {"an open judge": 2},
    }
    assert run.verify(engine=ScriptedEngine(SCRIPT)).result == "bit-identical"


def test_a_run_may_override_settings_of_the_open_judge(
    engine: ScriptedEngine, tmp_path: Path
) -> None:
    """The judge opens with threshold .8; one run overrides it with .1."""
    with Judge.open(engine=engine, threshold=0.8) as judge:
        assert [
            row.score for row in judge.evaluate(ROWS, ["context_recall"], out=False).scores
        ] == [0.5, 0]
        how: dict[str, Any] = {"judge": judge, "metrics": ["context_recall"], "progress": False}
        strict = localjudge.evaluate(ROWS, out=tmp_path / "strict", **how)
        mild = localjudge.evaluate(ROWS, out=tmp_path / "mild", threshold=0.1, **how)
    assert (strict.summary.threshold, mild.summary.threshold) == (0.8, 0.1)
    assert [row.score for row in mild.scores] == [1, 1]


@pytest.mark.parametrize("option", [{"n_ctx": 512}, {"profile": "qwen3-reranker"}])
def test_options_of_loading_cannot_change_while_the_judge_is_open(
    judge: Judge, option: dict[str, Any]
) -> None:
    """The profile determines the begin token, which is set on opening."""
    with pytest.raises(InputError, match=f"{next(iter(option))} cannot be changed"):
        localjudge.evaluate(ROWS, judge=judge, out=False, **option)


def test_a_closed_judge_raises_an_error(engine: ScriptedEngine) -> None:
    judge = Judge.open(engine=engine)
    judge.close()
    judge.close()
    assert repr(judge).endswith(", closed>")
    with pytest.raises(InputError, match="the judge is closed"):
        judge.evaluate(ROWS, ["context_recall"], out=False)


def test_failures_are_rows_and_not_errors(judge: Judge) -> None:
    """A null field is undefined; a failed sentence is judged again next time."""
    [undefined] = judge.evaluate(
        [{"id": "n", "retrieved_contexts": ["x"], "reference": None}],
        ["context_recall"],
        out=False,
    ).scores
    assert (undefined.status, undefined.score) == ("undefined", None)
    failing = ScriptedEngine({"It rains.": "the context is full"})
    with Judge.open(engine=failing) as other:
        rows = [{"id": "a", "retrieved_contexts": ["Rain."], "reference": "It rains."}]
        for _ in range(2):
            [row] = other.evaluate(rows, ["context_recall"], out=False).scores
            assert (row.status, row.score) == ("failed", None)
    assert len(failing.asked) == 2


def test_closing_waits_for_a_run_that_uses_the_judge(tmp_path: Path) -> None:
    """The run finishes; later calls are refused."""
    asked = threading.Event()
    go_on = threading.Event()

    def answer(_: VerdictRequest) -> float:
        asked.set()
        assert go_on.wait(10)
        return 1.0

    judge = Judge.open(engine=ScriptedEngine(answer))
    means: list[float | None] = []

    def evaluate() -> None:
        run = localjudge.evaluate(
            ROWS, judge=judge, metrics=["context_recall"], out=tmp_path / "run", progress=False
        )
        means.append(run["context_recall"].mean)

    running = threading.Thread(target=evaluate)
    closing = threading.Thread(target=judge.close)
    running.start()
    assert asked.wait(10)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    go_on.set()
    running.join()
    closing.join()
    assert means == [1.0]
    with pytest.raises(InputError, match="the judge is closed"):
        localjudge.evaluate(ROWS, judge=judge, metrics=["context_recall"], out=tmp_path / "other")


@pytest.mark.parametrize(
    "use",
    [
        lambda judge: judge.evaluate(ROWS, ["context_recall"], out=False).scores,
        lambda judge: localjudge.evaluate(ROWS, judge=judge, metrics=["context_recall"]),
        lambda judge: judge.close(),
    ],
    ids=["scores", "evaluate", "close"],
)
def test_an_engine_that_uses_its_own_judge_gets_an_error(use: Callable[[Judge], object]) -> None:
    def answer(_: VerdictRequest) -> float:
        use(reentrant)
        return 1.0

    reentrant = Judge.open(engine=ScriptedEngine(answer))
    with pytest.raises(InputError, match="already in use"):
        reentrant.evaluate(ROWS, ["context_recall"], out=False)


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy], ids=["pickle", "deepcopy"])
def test_an_open_judge_cannot_be_pickled(judge: Judge, copied: Callable[[Judge], object]) -> None:
    with pytest.raises(InputError, match="cannot be pickled"):
        copied(judge)


def test_remembered_answers_are_bounded(
    engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for two answers, the first of three is judged again."""
    monkeypatch.setattr(jury, "MAX_ANSWERS", 2)
    with Judge.open(engine=engine) as judge:
        judge.evaluate(ROWS, ["context_recall"], out=False)
        judge.evaluate(ROWS[1:], ["context_recall"], out=False)
        assert len(engine.asked) == 3
        judge.evaluate(ROWS, ["context_recall"], out=False)
    assert len(engine.asked) > 3
