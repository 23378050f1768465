"""The time per verdict on this machine is stored after a run and used for estimates."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import localjudge
from localjudge import ScriptedEngine
from localjudge.engine.protocol import EngineStats
from localjudge.errors import RunDirectoryError
from localjudge.progress import Silence
from localjudge.record.run import Run, seconds_per_verdict
from localjudge.report.tables import estimate_view
from localjudge.run.estimate import Estimate, estimate_plan
from localjudge.run.job import run_plan
from localjudge.run.judges import wrap_engine
from localjudge.run.pace import latest_pace, pace_of
from localjudge.run.plan import plan
from localjudge.run.settings import checked
from localjudge.types import Answer, NoAnswer, VerdictRequest

SHA256 = "ab" * 32
SECONDS, TOKENS = 2.5, 40


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

    def answers(self, requests: Sequence[VerdictRequest]) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Return no answer."""
        for index, _ in enumerate(requests):
            yield index, NoAnswer(error="too long")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": str(n), "retrieved_contexts": [f"Fact {n:04}."], "reference": f"Fact {n:04}."} for n in range(count)]


def run(count: int, out: Path, engine: ScriptedEngine, source: str | None = "model.gguf", **options: Any) -> Run:
    settings = checked({"threads": 2, **options})
    judge = wrap_engine(engine, settings)._replace(source=source)
    return run_plan(plan(rows(count), ["context_recall"], settings), judge=judge, out=out)


def estimated(count: int, engine: ScriptedEngine, **options: Any) -> Estimate:
    settings = checked({"threads": 2, **options})
    judge = wrap_engine(engine, settings)._replace(source="model.gguf")
    return estimate_plan(plan(rows(count), ["context_recall"], settings), judge=judge)  # type: ignore[arg-type]


def test_pace_of_the_last_run_is_stored(tmp_path: Path, home: Path) -> None:
    """20 verdicts in 50 s and 20 x 40 tokens: 2.5 s per verdict, 50 / 800 s per token."""
    run(20, tmp_path / "run", Timed())
    pace = latest_pace(SHA256)
    assert pace is not None
    assert (pace.seconds_per_verdict, pace.seconds_per_token, pace.verdicts) == (2.5, 0.0625, 20)
    [file] = (home / "paces").iterdir()
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("count", "engine", "source"),
    [(15, Timed, "m"), (20, Timed, None), (20, Unknown, "m"), (20, Refusing, "m")],
)
def test_short_and_remote_runs_store_no_pace(
    tmp_path: Path, home: Path, count: int, engine: type[Timed], source: str | None
) -> None:
    run(count, tmp_path / "run", engine(), source)
    assert not (home / "paces").exists()


def test_pace_counts_only_questions_of_this_process(tmp_path: Path) -> None:
    """The engine had 20 earlier answers. 20 of 40 are stored, and the other 20 take 50 s."""
    engine = Timed()
    run(20, tmp_path / "first", engine)
    both = run(40, tmp_path / "both", engine, reuse=(str(tmp_path / "first"),))
    pace = latest_pace(SHA256)
    assert pace is not None
    assert (pace.verdicts, pace.seconds_per_verdict) == (20, 2.5)
    assert both.manifest.environment.as_json["sessions"][0]["effort"]["seconds_total"] == 50
    assert seconds_per_verdict(both) == 2.5
    reused = run(20, tmp_path / "reused", engine, reuse=(str(tmp_path / "both"),))
    assert seconds_per_verdict(reused) is None
    assert latest_pace(SHA256) == pace


class Stop(Silence):
    """End the run after 16 answers."""

    def __init__(self) -> None:
        self.left = 16

    def advance(self) -> None:
        """Count down."""
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_pace_after_a_kill_comes_from_the_resuming_process(tmp_path: Path) -> None:
    """16 of 40 were stored; 24 x 2.5 s. A session without questions does not change it."""
    with pytest.raises(KeyboardInterrupt):
        localjudge.evaluate(rows(40), metrics="context_recall", engine=Timed(), out=tmp_path, progress=Stop())
    resumed = localjudge.evaluate(rows(40), metrics="context_recall", engine=Timed(), out=tmp_path)
    again = localjudge.evaluate(rows(40), metrics="context_recall", engine=Timed(), out=tmp_path)
    asked = [session.asked for session in again.manifest.environment.sessions]
    assert asked == [None, 24, 0]
    assert seconds_per_verdict(resumed) == seconds_per_verdict(again) == 2.5


def test_an_invalid_pace_in_a_manifest_is_refused(tmp_path: Path) -> None:
    run(20, tmp_path / "run", Timed())
    file = tmp_path / "run" / "manifest.json"
    file.write_text(file.read_text().replace('"seconds_total": 50.0', '"seconds_total": "soon"'))
    with pytest.raises(RunDirectoryError, match=r"effort\.seconds_total: "):
        seconds_per_verdict(Run.open(tmp_path / "run"))


def test_the_next_run_announces_its_expected_time(tmp_path: Path) -> None:
    """60 samples, 16 in the first block: about 60 verdicts, and tokens for 60 / 16 blocks, are expected.

    At 0.0625 s per token, where a token is a code point of the prompts.
    """
    first = run(20, tmp_path / "first", Timed())
    assert not any("to ask" in note for note in first.notes)
    engine = Timed()
    second = run(60, tmp_path / "second", engine)
    seconds = engine.distinct_tokens(engine.asked[:16]) / 16 * 60 * 0.0625
    [note] = [note for note in second.notes if "to ask" in note]
    assert note.startswith(f"about 60 verdicts to ask: about {round(seconds / 60)} minutes; last run: 2.5 s")
    one_block = run(16, tmp_path / "third", Timed())
    assert [note.partition(" to ask")[0] for note in one_block.notes if "to ask" in note] == ["16 verdicts"]


def test_a_dry_run_asks_only_an_unknown_judge(tmp_path: Path) -> None:
    tried = Timed()
    unknown = estimated(20, tried)
    assert unknown.pace is None
    assert len(tried.asked) > 0
    run(20, tmp_path / "run", Timed())
    engine = Timed()
    estimate = estimated(30, engine)
    assert engine.asked == ()
    assert estimate.pace == latest_pace(SHA256)
    assert estimate.seconds == pytest.approx(estimate.tokens * 0.0625)
    stream = io.StringIO()
    Console(file=stream, width=1_000).print(estimate_view(estimate))
    assert ", from the last run: 2.5 s per verdict here (20 verdicts on " in stream.getvalue()
    for other in ({"threads": 1}, {"reasons": "before", "profile": "instruct"}):
        assert estimated(30, Timed(), **other).pace is None


@pytest.mark.parametrize("damage", ["", "{}", '{"seconds_per_verdict": -1}'])
def test_a_damaged_pace_file_is_ignored(tmp_path: Path, home: Path, damage: str) -> None:
    run(20, tmp_path / "run", Timed())
    [file] = (home / "paces").iterdir()
    file.write_text(damage)
    settings = checked({"threads": 2})
    assert latest_pace(SHA256) is None
    assert pace_of(wrap_engine(Timed(), settings)._replace(source="m"), settings) is None
