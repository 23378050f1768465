"""A dry run begins the run: it stops after 30 seconds, and the run uses its answers."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from estimates import estimated
from rich.console import Console

from localjudge import Run, RunDirectoryError, ScriptedEngine, UnfinishedRun, evaluate
from localjudge.report.planning_views import estimate_view
from localjudge.words import roughly

FILES = ("scores.jsonl", "verdicts.jsonl", "summary.json")
METRICS = ["context_recall"]
NEVER_SAME = [2.0, 4.0, 3.0]
"""Seconds of every third answer."""


def rows(count: int) -> list[dict[str, Any]]:
    """Two questions for each sample, of equal length."""
    return [
        {
            "id": str(n),
            "retrieved_contexts": [f"Text {n:03}."],
            "reference": f"One {n:03}. Two {n:03}.",
        }
        for n in range(count)
    ]


def measured(out: Path, engine: ScriptedEngine, count: int = 40, **options: Any) -> Any:
    """Measure with a clock that each answer advances."""

    def clock() -> float:
        return sum(NEVER_SAME[number % 3] for number in range(len(engine.asked)))

    return estimated(rows(count), METRICS, engine, out, clock, **options)


def shown(estimate: Any) -> str:
    stream = io.StringIO()
    Console(file=stream, width=200).print(estimate_view(estimate))
    return stream.getvalue()


def run(out: Path, engine: ScriptedEngine, count: int = 40, **options: Any) -> Run:
    return evaluate(rows(count), metrics=METRICS, engine=engine, out=out, **options)


def results(run: Run) -> list[bytes]:
    return [(run.directory / name).read_bytes() for name in FILES]


def engine() -> ScriptedEngine:
    return ScriptedEngine({f"One {n:03}.": (n % 10) / 10 for n in range(200)}, default=0.75)


def test_a_dry_run_stops_after_30_seconds_and_the_run_asks_only_the_rest(tmp_path: Path) -> None:
    """2 + 4 + 3 + ... = 27 s after 9 answers, 29 s after 10, 33 s after 11. 80 - 11 = 69 remain."""
    whole = run(tmp_path / "whole", engine())
    dry = engine()
    later = engine()
    estimate = measured(tmp_path / "run", dry)
    assert len(dry.asked) == 11
    assert (estimate.measured, estimate.directory) == (11, str(tmp_path / "run"))
    with pytest.raises(UnfinishedRun):
        Run.open(tmp_path / "run")
    resumed = run(tmp_path / "run", later)
    assert len(later.asked) == 69
    assert results(resumed) == results(whole)
    assert resumed.verify(engine=engine())


def test_a_dry_run_stops_after_64_answers_of_a_fast_judge(tmp_path: Path) -> None:
    assert estimated(rows(40), METRICS, engine(), tmp_path).measured == 64


def test_a_second_dry_run_measures_the_next_answers(tmp_path: Path) -> None:
    measured(tmp_path, engine())
    second = engine()
    estimate = measured(tmp_path, second)
    assert (estimate.reused, estimate.remaining, len(second.asked)) == ({str(tmp_path): 11}, 69, 11)


def test_the_estimate_is_measured_seconds_per_token_times_tokens(tmp_path: Path) -> None:
    """1/60 s for each token: no spread, and it stops after 1,800 tokens."""
    dry = engine()

    def clock() -> float:
        return dry.distinct_tokens(dry.asked) / 60

    estimate = estimated(rows(10), METRICS, dry, tmp_path, clock)
    assert estimate.measured == len(dry.asked) < 20
    assert 30 <= clock() < 40
    assert estimate.seconds == pytest.approx(estimate.tokens / 60)
    assert estimate.seconds_ci95 == pytest.approx((estimate.seconds, estimate.seconds))


def test_the_estimate_has_an_interval(tmp_path: Path) -> None:
    """Ten parts of one or two answers of 2, 4 and 3 s spread."""
    estimate = measured(tmp_path, engine())
    assert estimate.seconds is not None
    assert estimate.seconds_ci95 is not None
    low, high = estimate.seconds_ci95
    assert 33 < low < estimate.seconds < high
    assert estimate.seconds - low == pytest.approx(high - estimate.seconds)
    printed = shown(estimate)
    assert f"{roughly(estimate.seconds, (low, high))}: measured on 11 of 80 questions" in printed
    assert f"11 now, kept in {tmp_path}, which the run uses; 69 remain" in printed


def test_an_estimate_from_one_answer_has_no_interval(tmp_path: Path) -> None:
    one = measured(tmp_path, engine(), count=1)
    assert one.seconds_ci95 is not None
    single = [{"id": "a", "retrieved_contexts": ["Text."], "reference": "One."}]
    estimate = estimated(single, METRICS, engine(), tmp_path / "one")
    assert (estimate.measured, estimate.seconds_ci95) == (1, None)
    assert "1 of 1 questions, too few" in shown(estimate)


def other_run(out: Path) -> None:
    run(out, engine(), count=3)


def other_files(out: Path) -> None:
    out.mkdir()
    (out / "notes.txt").touch()


@pytest.mark.parametrize(
    ("occupy", "problem"),
    [(other_run, "belongs to another run"), (other_files, "contains no run")],
)
@pytest.mark.parametrize("made", [measured, run])
def test_a_dry_run_refuses_an_occupied_directory(
    tmp_path: Path, occupy: Callable[[Path], None], problem: str, made: Callable[..., object]
) -> None:
    occupy(tmp_path / "run")
    before = {file: file.read_bytes() for file in (tmp_path / "run").iterdir()}
    with pytest.raises(RunDirectoryError, match=problem):
        made(tmp_path / "run", engine())
    assert {file: file.read_bytes() for file in (tmp_path / "run").iterdir()} == before


def test_a_finished_run_has_nothing_to_measure(tmp_path: Path) -> None:
    run(tmp_path, engine())
    before = (tmp_path / "manifest.json").read_bytes()
    asked = engine()
    estimate = measured(tmp_path, asked)
    assert (estimate.remaining, estimate.seconds, estimate.measured, asked.asked) == (
        0,
        None,
        0,
        (),
    )
    assert (tmp_path / "manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    "options",
    [{"until": "context_recall>=0.2"}, {"until": "context_recall>=0.7"}],
)
def test_a_run_that_stops_early_uses_the_answers_of_its_dry_run(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """The dry run judges in the same random order, no more samples than the run."""
    plain = run(tmp_path / "plain", engine(), **options)
    dry = engine()
    later = engine()
    estimate = estimated(rows(40), METRICS, dry, tmp_path / "run", **options)
    resumed = run(tmp_path / "run", later, **options)
    assert set(dry.asked).isdisjoint(later.asked)
    assert 0 < len(dry.asked) <= 40
    assert results(resumed) == results(plain)
    verified = resumed.verify(engine=engine())
    assert verified
    assert verified.stored_requests == verified.asked_again
    if plain.summary.samples < 20:
        assert [need.samples for need in estimate.until] == [plain.summary.samples]


def test_a_dry_run_for_a_time_budget_uses_the_random_order(tmp_path: Path) -> None:
    estimate = measured(tmp_path, engine(), budget="1h")
    [need] = estimate.until
    assert need.samples == 40
    later = engine()
    assert run(tmp_path, later, budget="1h").summary.samples == 40
    assert len(later.asked) == 69


@pytest.mark.parametrize("budget", ["90s", "1.5m", "0.025h"])
def test_a_time_in_seconds_minutes_or_hours_fits_as_many_samples(
    tmp_path: Path, budget: str
) -> None:
    """All 40 samples take 183 s: 90 / (183 / 40) = 19.7."""
    estimate = measured(tmp_path, engine(), budget=budget)
    assert estimate.seconds == pytest.approx(183, abs=1)
    assert [need.samples for need in estimate.until] == [19]


def test_an_interrupted_dry_run_keeps_its_answers(tmp_path: Path) -> None:
    def clock() -> float:
        if len(dry.asked) == 5:
            raise KeyboardInterrupt
        return 0.0

    dry = engine()
    with pytest.raises(KeyboardInterrupt):
        estimated(rows(40), METRICS, dry, tmp_path / "run", clock)
    later = engine()
    resumed = run(tmp_path / "run", later)
    assert len(later.asked) == 75
    assert results(resumed) == results(run(tmp_path / "whole", engine()))
