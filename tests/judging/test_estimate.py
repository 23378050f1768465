import io
from pathlib import Path
from typing import Any

import pytest
from estimates import estimated
from rich.console import Console

from localjudge import ScriptedEngine, evaluate
from localjudge.report.planning_views import estimate_view

ROWS = [
    {
        "id": "a",
        "user_input": "Q?",
        "retrieved_contexts": ["One. Two."],
        "reference": "One. Three.",
    },
    {
        "id": "b",
        "user_input": "Q?",
        "retrieved_contexts": ["One. Two."],
        "reference": "One. Four. Five.",
    },
    {"id": "c", "user_input": "Q?", "retrieved_contexts": [], "reference": "Six."},
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def counted(
    rows: Any = ROWS, metrics: Any = ("context_recall",), out: str = "run", **options: Any
) -> Any:
    return estimated(rows, metrics, ScriptedEngine({}, default=0.5), out, **options)


class TwoWorkers(ScriptedEngine):
    """Engine with workers that must be started."""

    workers = 2
    place = "2 workers on 1 node"
    started = 0

    def start_workers(self) -> str:
        assert not self.asked
        self.started += 1
        return self.place


def test_workers_are_started_before_they_are_measured_and_each_is_measured() -> None:
    """64 answers of each worker; 200 questions."""
    rows = [{**ROWS[0], "id": str(number), "reference": f"{number}."} for number in range(200)]
    engine = TwoWorkers({}, default=0.5)
    estimate = estimated(rows, ["context_recall"], engine, "run")
    assert (engine.started, estimate.measured, estimate.workers) == (1, 128, engine.place)
    stream = io.StringIO()
    Console(file=stream, width=1_000).print(estimate_view(estimate))
    assert engine.place in stream.getvalue()
    assert counted(rows).workers is None


def test_the_estimate_counts_what_the_run_then_asks(tmp_path: Path) -> None:
    """Recall: 2 + 3 + 1 statements, where a and b share "One." and c has no context: 4 requests."""
    estimate = counted()
    assert (estimate.samples, estimate.verdicts, estimate.requests) == (3, 6, 4)
    engine = ScriptedEngine({}, default=0.5)
    evaluate(ROWS, metrics=["context_recall"], engine=engine, out=tmp_path / "asked")
    assert len(engine.asked) == estimate.requests
    assert estimate.tokens == engine.distinct_tokens(engine.asked)


def test_a_question_of_an_earlier_block_or_another_metric_is_counted_once() -> None:
    """40 equal samples in two blocks, and two metrics with the same questions."""
    rows = [{**ROWS[0], "id": str(number), "reference": "One."} for number in range(40)]
    estimate = counted(rows, ["context_recall", "matrix_recall"])
    assert (estimate.verdicts, estimate.requests) == (80, 1)


def test_a_run_that_asks_nothing_has_no_time() -> None:
    estimate = counted(
        [{"id": "a", "retrieved_contexts": ["x"], "reference_contexts": ["x"]}],
        ["document_mrr"],
    )
    assert (estimate.requests, estimate.tokens, estimate.seconds) == (0, 0, None)


def test_answers_of_other_runs_are_counted_apart_once_and_take_no_tokens(tmp_path: Path) -> None:
    engine = ScriptedEngine({}, default=0.5)
    names = [str(tmp_path / name) for name in ("\x1b[2J", "all")]
    for name, rows in zip(names, (ROWS[:1], ROWS), strict=True):
        evaluate(rows, metrics=["context_recall"], engine=engine, out=name)
    estimate = counted(reuse=names[:1])
    assert (estimate.requests, estimate.reused, estimate.remaining) == (4, {names[0]: 2}, 2)
    asked = ScriptedEngine({}, default=0.5)
    evaluate(
        ROWS, metrics=["context_recall"], engine=asked, out=tmp_path / "asked", reuse=names[:1]
    )
    assert estimate.tokens == asked.distinct_tokens(asked.asked)
    whole = counted(reuse=names, out="whole")
    assert (whole.reused, whole.remaining, whole.tokens, whole.seconds) == (
        {names[0]: 2, names[1]: 2},
        0,
        0,
        None,
    )
    stream = io.StringIO()
    Console(file=stream, width=1_000).print(estimate_view(estimate))
    assert "2 before (2 in " in stream.getvalue()
    assert "and 2 now" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
