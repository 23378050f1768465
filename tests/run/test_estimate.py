"""What a run would take, counted and not begun."""

from pathlib import Path

import pytest

from localjudge import ScriptedEngine, evaluate
from localjudge.run.estimate import estimate

ROWS = [
    {"id": "a", "user_input": "Q?", "retrieved_contexts": ["One. Two."], "reference": "One. Three."},
    {"id": "b", "user_input": "Q?", "retrieved_contexts": ["One. Two."], "reference": "One. Four. Five."},
    {"id": "c", "user_input": "Q?", "retrieved_contexts": [], "reference": "Six."},
]


def test_the_estimate_counts_what_the_run_then_asks(tmp_path: Path) -> None:
    """Recall: 2 + 3 + 1 statements, of which "One." is asked once for a and b, and c has no context: 4 requests."""
    planned = estimate(ROWS, metrics=["context_recall"], engine=ScriptedEngine({}, default=0.5))
    assert (planned.samples, planned.verdicts, planned.requests) == (3, 6, 4)
    asked = ScriptedEngine({}, default=0.5)
    evaluate(ROWS, metrics=["context_recall"], engine=asked, out=tmp_path / "run")
    assert len(asked.asked) == planned.requests
    assert planned.tokens == asked.distinct_tokens(asked.asked)


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run leaves no directory."""
    monkeypatch.chdir(tmp_path)
    estimate(ROWS, engine=ScriptedEngine({}, default=0.5))
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_asks_nothing_has_no_time() -> None:
    """Document metrics need no judge."""
    rows = [{"id": "a", "retrieved_contexts": ["x"], "reference_contexts": ["x"]}]
    planned = estimate(rows, metrics=["document_mrr"], engine=ScriptedEngine({}))
    assert (planned.requests, planned.tokens, planned.seconds) == (0, 0, None)
