"""A run that was stopped goes on behind the rows that it had written, and trusts none that are not as it left them."""

import json
import os
import random
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.engine.scripted import unit_text
from localjudge.types import NoAnswer, VerdictRequest

FILES = ("scores.jsonl", "verdicts.jsonl", "summary.json")
METRICS = ["context_recall", "faithfulness", "document_recall_single_hit"]
SAMPLES = 120
IN_BLOCKS = 112
"""Blocks are of 16, 32, 64, ... samples: the third ends here."""


class Stopped(Exception):
    """The engine was stopped on purpose."""


class Engine(ScriptedEngine):
    """Answers by the text of the unit, and stops when it has answered `most`; counts what was worded for it."""

    def __init__(self, most: int = 1_000_000, failing: Collection[str] = ()) -> None:
        self.worded = 0

        def said(request: VerdictRequest) -> float | NoAnswer:
            nonlocal most
            most -= 1
            if most < 0:
                raise Stopped
            if unit_text(request) in failing:
                return NoAnswer(error="a logit is not a number")
            return (sum(map(ord, unit_text(request))) % 97) / 96

        super().__init__(said)

    @property
    def capacity(self) -> int:
        """Looked at for each question that is worded."""
        self.worded += 1
        return super().capacity


def rows(count: int = SAMPLES) -> list[dict[str, Any]]:
    """Two questions a sample: its statement for context recall, its answer for faithfulness; some scores undefined."""
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
    return evaluate(rows() if data is None else data, metrics=METRICS, out=out, engine=engine, **options)


def results(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in FILES}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a run that nobody stops leaves."""
    out = tmp_path_factory.mktemp("whole") / "run"
    judged(out, Engine())
    return results(out)


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A run that was stopped at the 220th of 228 questions, when the rows of 112 samples were written."""
    with pytest.raises(Stopped):
        judged(tmp_path / "run", Engine(most=219))
    assert json.loads((tmp_path / "run" / "resume.json").read_text())["samples"] == IN_BLOCKS
    return tmp_path / "run"


def test_samples_whose_rows_are_written_are_not_worded_again(stopped: Path, whole: dict[str, bytes]) -> None:
    """The last 8 samples have 16 questions to word, of which 9 are to ask: 228 - 219."""
    engine = Engine()
    judged(stopped, engine)
    assert results(stopped) == whole
    assert (engine.worded, len(engine.asked)) == (16, 9)
    assert sorted(path.name for path in stopped.iterdir()) == [
        "manifest.json",
        "run.lock",
        "run.sqlite",
        "scores.jsonl",
        "summary.json",
        "verdicts.jsonl",
    ]


def test_stopped_at_every_block_and_between(tmp_path: Path, whole: dict[str, bytes]) -> None:
    out, starts = tmp_path / "run", 0
    for most in [1, 20, 30, 1, 60, 2, 100, 1_000]:
        starts += 1
        try:
            judged(out, Engine(most=most))
            break
        except Stopped:
            continue
    assert starts == 8
    assert results(out) == whole


def changed_byte(out: Path) -> None:
    part = out / "verdicts.jsonl.part"
    content = bytearray(part.read_bytes())
    content[content.index(b'"p_yes": 0.') + 11] ^= 1
    part.write_bytes(content)


def symbolic_link(out: Path) -> None:
    (out / "scores.jsonl.part").rename(out.parent / "of another")
    (out / "scores.jsonl.part").symlink_to(out.parent / "of another")


def pipe(out: Path) -> None:
    (out / "scores.jsonl.part").unlink()
    os.mkfifo(out / "scores.jsonl.part")


def answers_lost(out: Path) -> None:
    """As after a power failure that took the last commits: here all of them."""
    for file in out.glob("run.sqlite*"):
        file.unlink()


def other_samples(out: Path) -> None:
    """A point that speaks of fewer samples than there are rows."""
    point = json.loads((out / "resume.json").read_text())
    (out / "resume.json").write_text(json.dumps({**point, "samples": 48}))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "changed byte": changed_byte,
    "shortened": lambda out: os.truncate(out / "scores.jsonl.part", 1_000),
    "hard link": lambda out: os.link(out / "scores.jsonl.part", out.parent / "of another"),
    "symbolic link": symbolic_link,
    "pipe": pipe,
    "one part gone": lambda out: (out / "verdicts.jsonl.part").unlink(),
    "no resume point": lambda out: (out / "resume.json").unlink(),
    "half a resume point": lambda out: os.truncate(out / "resume.json", 40),
    "answers lost": answers_lost,
    "other samples": other_samples,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_rows_that_are_not_as_they_were_left_are_worked_out_again(
    stopped: Path, whole: dict[str, bytes], damage: Callable[[Path], object]
) -> None:
    """All 228 questions are worded again, and what another's file holds stays as it is."""
    before = (stopped / "scores.jsonl.part").read_bytes()
    damage(stopped)
    engine = Engine()
    judged(stopped, engine)
    assert results(stopped) == whole
    assert engine.worded == 228
    if (stopped.parent / "of another").exists():
        assert (stopped.parent / "of another").read_bytes() == before


def test_a_row_cut_in_the_middle_behind_the_resume_point_is_written_anew(
    stopped: Path, whole: dict[str, bytes]
) -> None:
    with (stopped / "scores.jsonl.part").open("ab") as part:
        part.write(b'{"sample_id": "112", "metr')
    engine = Engine()
    judged(stopped, engine)
    assert results(stopped) == whole
    assert engine.worded == 16


def test_data_in_another_order_are_written_in_that_order(stopped: Path, tmp_path: Path) -> None:
    """The same samples are the same run, whatever their order; the rows stand in the order of the last start."""
    shuffled = rows()
    random.Random(4).shuffle(shuffled)
    judged(tmp_path / "other", Engine(), shuffled)
    engine = Engine()
    judged(stopped, engine, shuffled)
    assert results(stopped) == results(tmp_path / "other")
    assert len(engine.asked) == 9


def test_a_directory_that_was_moved_goes_on_though_the_clock_was_set_back(
    stopped: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    """Its files are of tomorrow. Nothing is asked again but what was not answered."""
    moved = stopped.rename(tmp_path / "elsewhere")
    for file in moved.iterdir():
        os.utime(file, (file.stat().st_atime + 86_400, file.stat().st_mtime + 86_400))
    engine = Engine()
    judged(moved, engine)
    assert (results(moved), len(engine.asked)) == (whole, 9)


def test_groups_and_failures_are_counted_as_in_a_run_of_one_piece(tmp_path: Path) -> None:
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
