"""A run knows the seconds per verdict of its judge."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import RunDirectoryError, ScriptedEngine
from localjudge.engine.protocol import EngineStats
from localjudge.judging.estimate import Estimate, estimate_plan
from localjudge.judging.job import open_job
from localjudge.judging.judges import wrap_engine
from localjudge.judging.jury import Jury
from localjudge.judging.plan import plan
from localjudge.judging.settings import checked
from localjudge.progress import Progress
from localjudge.run_directory.run_record import RunRecord, seconds_per_verdict
from localjudge.types import Answer, NoAnswer, VerdictRequest

SHA256 = "ab" * 32
SECONDS = 2.5
TOKENS = 40


class Timed(ScriptedEngine):
    """Take 2.5 s and 40 tokens per verdict, like an engine on a local model."""

    known = True

    def __init__(self) -> None:
        super().__init__({}, default=0.7)

    @property
    def identity(self) -> dict[str, Any]:
        """Return an identity with a model."""
        model = {"model_sha256": SHA256, "gpu_layers": 0, "self_check": "bit-identical"}
        return {**super().identity, **(model if self.known else {})}

    @property
    def stats(self) -> EngineStats:
        """Return figures by the number of requests."""
        count = len(self.asked)
        return EngineStats(unique_tokens=TOKENS * count, seconds_total=SECONDS * count)


class Unknown(Timed):
    """An engine with an unknown model."""

    known = False


class Refusing(Timed):
    """An engine that refuses every question at once."""

    def answers(
        self, requests: Sequence[VerdictRequest]
    ) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Return no answer."""
        for index, _ in enumerate(requests):
            yield index, NoAnswer(error="too long")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def rows(count: int) -> list[dict[str, Any]]:
    return [
        {"id": str(n), "retrieved_contexts": [f"Fact {n:04}."], "reference": f"Fact {n:04}."}
        for n in range(count)
    ]


def run(
    count: int,
    out: Path,
    engine: ScriptedEngine,
    source: str | None = "model.gguf",
    **options: Any,
) -> RunRecord:
    settings = checked({"threads": 2, **options})
    judge = Jury([replace(wrap_engine(engine, settings), source=source)], settings)
    planned = plan(rows(count), ["context_recall"], settings)
    with open_job(planned, judge=judge, out=out) as job:
        return job.run()


def estimated(count: int, engine: ScriptedEngine, **options: Any) -> Estimate:
    settings = checked({"threads": 2, **options})
    judge: Any = Jury([replace(wrap_engine(engine, settings), source="model.gguf")], settings)
    return estimate_plan(plan(rows(count), ["context_recall"], settings), judge=judge)


def test_seconds_per_verdict_count_only_questions_of_this_run(tmp_path: Path) -> None:
    """The engine had 20 earlier answers. 20 of 40 are stored, and the other 20 take 50 s."""
    engine = Timed()
    run(20, tmp_path / "first", engine)
    both = run(40, tmp_path / "both", engine, reuse=(str(tmp_path / "first"),))
    assert both.manifest.environment.as_json["sessions"][0]["effort"]["seconds_total"] == 50
    assert seconds_per_verdict(both) == 2.5
    reused = run(20, tmp_path / "reused", engine, reuse=(str(tmp_path / "both"),))
    assert seconds_per_verdict(reused) is None


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
        localjudge.evaluate(
            rows(40), metrics="context_recall", engine=Timed(), out=tmp_path, progress=Stop()
        )
    resumed = localjudge.evaluate(rows(40), metrics="context_recall", engine=Timed(), out=tmp_path)
    again = localjudge.evaluate(rows(40), metrics="context_recall", engine=Timed(), out=tmp_path)
    asked = [session.asked for session in again.manifest.environment.sessions]
    assert asked == [None, 24, 0]
    assert seconds_per_verdict(resumed) == seconds_per_verdict(again) == 2.5


def test_invalid_seconds_in_a_manifest_are_refused(tmp_path: Path) -> None:
    run(20, tmp_path / "run", Timed())
    file = tmp_path / "run" / "manifest.json"
    file.write_text(file.read_text().replace('"seconds_total": 50.0', '"seconds_total": "soon"'))
    with pytest.raises(RunDirectoryError, match=r"effort\.seconds_total: "):
        seconds_per_verdict(RunRecord.open(tmp_path / "run"))


def test_a_dry_run_measures_also_a_judge_that_has_judged_before(tmp_path: Path, home: Path) -> None:
    """The speed of an earlier run says little about now: another load, other texts."""
    run(20, tmp_path / "run", Timed())
    engine = Timed()
    estimate = estimated(30, engine)
    assert 0 < estimate.measured == len(engine.asked)
    assert not (home / "paces").exists()
