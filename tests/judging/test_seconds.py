"""A run knows the seconds per question of its judge."""

from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import RunDirectoryError, ScriptedEngine
from localjudge.engine.protocol import EngineStats
from localjudge.progress import Progress


class Timed(ScriptedEngine):
    """Take 2.5 s and 40 tokens per question, like an engine on a local model."""

    def __init__(self) -> None:
        super().__init__({}, default=0.7)

    @property
    def stats(self) -> EngineStats:
        """Return figures by the number of requests."""
        count = len(self.asked)
        return EngineStats(unique_tokens=40 * count, seconds_total=2.5 * count)


def run(count: int, out: Path, engine: ScriptedEngine, **options: Any) -> localjudge.Run:
    rows = [
        {"id": str(n), "retrieved_contexts": [f"Fact {n:04}."], "reference": f"Fact {n:04}."}
        for n in range(count)
    ]
    return localjudge.evaluate(rows, metrics="context_recall", engine=engine, out=out, **options)


def seconds(judged: localjudge.Run) -> float | None:
    return judged.manifest.environment.seconds_per_question


def test_seconds_per_question_count_only_questions_of_this_run(tmp_path: Path) -> None:
    """The engine had 20 earlier answers. 20 of 40 are stored, and the other 20 take 50 s."""
    engine = Timed()
    first = run(20, tmp_path / "first", engine)
    both = run(40, tmp_path / "both", engine, reuse=first)
    assert both.manifest.environment.as_json["sessions"][0]["effort"]["seconds_total"] == 50
    assert seconds(both) == 2.5
    assert seconds(run(20, tmp_path / "reused", engine, reuse=both)) is None


class Stop(Progress):
    """End the run after 16 answers."""

    def __init__(self) -> None:
        self.left = 16

    def advance(self) -> None:
        """Count down."""
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_seconds_after_a_kill_come_from_the_resuming_process(tmp_path: Path) -> None:
    """16 of 40 were stored; 24 x 2.5 s. A session without questions does not change it."""
    with pytest.raises(KeyboardInterrupt):
        run(40, tmp_path, Timed(), progress=Stop())
    resumed = run(40, tmp_path, Timed())
    again = run(40, tmp_path, Timed())
    asked = [session.asked for session in again.manifest.environment.sessions]
    assert asked == [None, 24, 0]
    assert seconds(resumed) == seconds(again) == 2.5


def test_invalid_seconds_in_a_manifest_are_refused(tmp_path: Path) -> None:
    run(20, tmp_path / "run", Timed())
    file = tmp_path / "run" / "manifest.json"
    file.write_text(file.read_text().replace('"seconds_total": 50.0', '"seconds_total": "soon"'))
    with pytest.raises(RunDirectoryError, match=r"effort\.seconds_total: "):
        localjudge.Run.open(tmp_path / "run")
