"""A stopped run asks only the missing questions and leaves the files of an uninterrupted one."""

import os
import random
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.engine.scripted import unit_text
from localjudge.labels.label_source import LabelSource
from localjudge.labels.labelling import Labelling
from localjudge.run_directory.label_rows import append_labels, stored_labels
from localjudge.types import NoAnswer, VerdictRequest

FILES = ("scores.jsonl", "verdicts.jsonl", "evidence.jsonl", "summary.json")
METRICS = ["context_recall", "faithfulness", "document_recall_single_hit"]
SAMPLES = 120


class Stopped(Exception):
    """The engine was stopped on purpose."""


class Engine(ScriptedEngine):
    """Answer by the text of the unit, and stop after `most` answers."""

    def __init__(self, most: int = 1_000_000, failing: Collection[str] = ()) -> None:
        def said(request: VerdictRequest) -> float | NoAnswer:
            nonlocal most
            most -= 1
            if most < 0:
                raise Stopped
            if unit_text(request) in failing:
                return NoAnswer(error="a logit is not a number")
            return (sum(map(ord, unit_text(request))) % 97) / 96

        super().__init__(said)


def rows(count: int = SAMPLES) -> list[dict[str, Any]]:
    """Two questions per sample: the statement for context recall, the answer for faithfulness."""
    return [
        {
            "id": str(number),
            "topic": str(number % 7),
            "retrieved_contexts": [f"Context {number}.", "Another."],
            "reference": f"Statement {number}." if number % 10 else "",
            "response": f"Answer {number}.",
            "reference_contexts": [f"Context {number}."],
        }
        for number in range(count)
    ]


def judged(out: Path, engine: ScriptedEngine, data: Any = None, **options: Any) -> Run:
    if data is None:
        data = rows()
    return evaluate(data, metrics=METRICS, out=out, engine=engine, **options)


def results(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in FILES}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("whole") / "run"
    judged(out, Engine())
    return results(out)


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A run stopped at the 220th of 228 questions, with the rows of 112 samples written."""
    with pytest.raises(Stopped):
        judged(tmp_path / "run", Engine(most=219))
    return tmp_path / "run"


def test_resuming_asks_only_unanswered_questions(stopped: Path, whole: dict[str, bytes]) -> None:
    engine = Engine()
    judged(stopped, engine)
    assert results(stopped) == whole
    assert len(engine.asked) == 9
    assert {path.name for path in stopped.iterdir()} == {
        *FILES,
        "manifest.json",
        "run.lock",
        "run.sqlite",
    }


@pytest.mark.parametrize("move", [shutil.move, shutil.copytree])
def test_a_run_in_another_place_resumes(
    stopped: Path, tmp_path: Path, whole: dict[str, bytes], move: Callable[[Path, Path], object]
) -> None:
    """A moved or copied directory, with files from tomorrow."""
    target = tmp_path / "another folder" / "größer"
    target.parent.mkdir()
    move(stopped, target)
    for file in target.iterdir():
        status = file.stat()
        os.utime(file, (status.st_atime + 86_400, status.st_mtime + 86_400))
    engine = Engine()
    run = judged(target, engine)
    assert results(target) == whole
    assert len(engine.asked) == 9
    assert run.directory == target
    assert judged(target, Engine(most=0)).summary == run.summary


def test_resume_after_a_stop_in_any_block(tmp_path: Path, whole: dict[str, bytes]) -> None:
    out = tmp_path / "run"
    starts = 0
    for most in [1, 20, 30, 1, 60, 2, 100, 1_000]:
        starts += 1
        try:
            judged(out, Engine(most=most))
            break
        except Stopped:
            continue
    assert starts == 8
    assert results(out) == whole


def symbolic_link(out: Path) -> None:
    (out / "scores.jsonl.part").rename(out.parent / "of another")
    (out / "scores.jsonl.part").symlink_to(out.parent / "of another")


def pipe(out: Path) -> None:
    (out / "scores.jsonl.part").unlink()
    os.mkfifo(out / "scores.jsonl.part")


def answers_lost(out: Path) -> None:
    for file in out.glob("run.sqlite*"):
        file.unlink()


def clock_set_back(out: Path) -> None:
    for file in out.iterdir():
        os.utime(file, (file.stat().st_atime + 86_400, file.stat().st_mtime + 86_400))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "shortened": lambda out: os.truncate(out / "scores.jsonl.part", 1_000),
    "hard link": lambda out: os.link(out / "scores.jsonl.part", out.parent / "of another"),
    "symbolic link": symbolic_link,
    "pipe": pipe,
    "half of what is shown": lambda out: os.truncate(out / "so-far.json", 10),
    "answers lost": answers_lost,
    "clock set back": clock_set_back,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_resuming_after_any_partial_rows_gives_identical_files(
    stopped: Path, whole: dict[str, bytes], damage: Callable[[Path], object]
) -> None:
    """A file that is only linked stays unchanged."""
    before = (stopped / "scores.jsonl.part").read_bytes()
    damage(stopped)
    judged(stopped, Engine())
    assert results(stopped) == whole
    if (stopped.parent / "of another").exists():
        assert (stopped.parent / "of another").read_bytes() == before


def test_resuming_with_reordered_data_writes_the_new_order(stopped: Path, tmp_path: Path) -> None:
    """The same samples are the same run in any order; rows follow the order of the last start."""
    shuffled = rows()
    random.Random(4).shuffle(shuffled)
    judged(tmp_path / "other", Engine(), shuffled)
    engine = Engine()
    judged(stopped, engine, shuffled)
    assert results(stopped) == results(tmp_path / "other")
    assert len(engine.asked) == 9


def test_a_resumed_run_counts_groups_and_failures_correctly(tmp_path: Path) -> None:
    """Clusters by topic; every tenth statement fails."""
    failing = {f"Statement {number}." for number in range(5, SAMPLES, 10)}
    options = {"cluster_by": "topic", "max_failed": SAMPLES}
    judged(tmp_path / "whole", Engine(failing=failing), **options)
    with pytest.raises(Stopped):
        judged(tmp_path / "run", Engine(most=200, failing=failing), **options)
    run = judged(tmp_path / "run", Engine(failing=failing), **options)
    assert results(tmp_path / "run") == results(tmp_path / "whole")
    recall = run.summary.metrics["context_recall"]
    assert (recall.failed, recall.undefined, recall.clusters) == (12, 12, 7)


def test_changed_allowed_failures_apply_when_resuming(tmp_path: Path) -> None:
    failing = {"Statement 5."}
    for allowed, scored in ((0, False), (1, True), (0, False)):
        run = judged(tmp_path / "run", Engine(failing=failing), max_failed=allowed)
        judged(tmp_path / f"fresh{allowed}", Engine(failing=failing), max_failed=allowed)
        assert (run["context_recall"].mean is not None) == scored
        assert results(tmp_path / "run") == results(tmp_path / f"fresh{allowed}")


def test_labels_of_one_annotator_in_two_spellings_are_counted_together(tmp_path: Path) -> None:
    """Names are compared as readers see them: without case."""
    run = judged(tmp_path / "run", Engine())
    Labelling(LabelSource.of_run(run), "Ann").answer(1)
    [row] = stored_labels(run.directory)
    append_labels(
        run.directory, [row.model_copy(update={"annotator": name}) for name in ("ann", "ANN")]
    )
    judged(tmp_path / "run", Engine())
    origins = [
        (origin.count, origin.name)
        for origin in Run.open(tmp_path / "run").origins
        if origin.kind == "labels"
    ]
    assert origins == [(3, "Ann")]
