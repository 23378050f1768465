"""What a run would take, counted and not begun."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from localjudge import ScriptedEngine, evaluate
from localjudge.report.tables import estimate_view
from localjudge.run.estimate import Estimate, estimate

ROWS = [
    {"id": "a", "user_input": "Q?", "retrieved_contexts": ["One. Two."], "reference": "One. Three."},
    {"id": "b", "user_input": "Q?", "retrieved_contexts": ["One. Two."], "reference": "One. Four. Five."},
    {"id": "c", "user_input": "Q?", "retrieved_contexts": [], "reference": "Six."},
]


def test_the_estimate_counts_what_the_run_then_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recall: 2 + 3 + 1 statements, of which "One." is asked once for a and b, and c has no context: 4 requests."""
    monkeypatch.chdir(tmp_path)
    planned = estimate(ROWS, metrics=["context_recall"], engine=ScriptedEngine({}, default=0.5))
    assert (planned.samples, planned.verdicts, planned.requests) == (3, 6, 4)
    assert list(tmp_path.iterdir()) == []
    asked = ScriptedEngine({}, default=0.5)
    evaluate(ROWS, metrics=["context_recall"], engine=asked, out=tmp_path / "run")
    assert len(asked.asked) == planned.requests
    assert planned.tokens == asked.distinct_tokens(asked.asked)


def test_a_run_that_asks_nothing_has_no_time() -> None:
    """Document metrics need no judge."""
    rows = [{"id": "a", "retrieved_contexts": ["x"], "reference_contexts": ["x"]}]
    planned = estimate(rows, metrics=["document_mrr"], engine=ScriptedEngine({}))
    assert (planned.requests, planned.tokens, planned.seconds) == (0, 0, None)


def test_shares_of_metrics_sum_up_to_the_whole(tmp_path: Path) -> None:
    """matrix_recall asks nothing that matrix_precision does not: the second adds verdicts, and no request or token."""
    names = ["context_recall", "context_relevancy", "matrix_recall", "matrix_precision"]
    found = estimate(ROWS, metrics=names, engine=ScriptedEngine({}, default=0.5))
    shares = found.by_metric
    assert list(shares) == names == list(found.metrics)
    assert sum(share.verdicts for share in shares.values()) == found.verdicts
    assert sum(share.requests for share in shares.values()) == found.requests
    assert sum(share.tokens for share in shares.values()) == found.tokens
    assert sum(share.seconds or 0 for share in shares.values()) == pytest.approx(found.seconds)
    assert shares["matrix_recall"].verdicts == shares["matrix_precision"].verdicts > 0
    assert (shares["matrix_precision"].requests, shares["matrix_precision"].tokens) == (0, 0)


def test_a_question_of_an_earlier_block_belongs_to_the_metric_that_asked_it_first() -> None:
    """40 equal samples in two blocks: one question, whose tokens are counted once."""
    rows = [{**ROWS[0], "id": str(number), "reference": "One."} for number in range(40)]
    found = estimate(rows, metrics=["context_recall", "matrix_recall"], engine=ScriptedEngine({}, default=0.5))
    assert found.requests == 1
    assert [(share.verdicts, share.requests) for share in found.by_metric.values()] == [(40, 1), (40, 0)]


def test_answers_of_another_run_are_counted_apart_and_take_no_tokens(tmp_path: Path) -> None:
    """Recall asks 4 questions; a run on the first row has two, "One." and "Three."; "Four." and "Five." remain."""
    engine = ScriptedEngine({}, default=0.5)
    first = evaluate(ROWS[:1], metrics=["context_recall"], engine=engine, out=tmp_path / "first")
    options: dict[str, Any] = {"metrics": ["context_recall"], "reuse": [str(first.directory)]}
    planned = estimate(ROWS, engine=engine, **options)
    assert (planned.requests, planned.reused, planned.remaining) == (4, {str(first.directory): 2}, 2)
    assert (planned.by_metric["context_recall"].requests, planned.by_metric["context_recall"].answered) == (4, 2)
    asked = ScriptedEngine({}, default=0.5)
    evaluate(ROWS, engine=asked, out=tmp_path / "run", **options)
    assert len(asked.asked) == planned.remaining
    assert planned.tokens == asked.distinct_tokens(asked.asked)


def test_a_question_that_two_runs_have_answered_is_counted_once(tmp_path: Path) -> None:
    """As a run takes it: from the first that has it. When nothing remains there is no time."""
    engine = ScriptedEngine({}, default=0.5)
    names = [str(tmp_path / name) for name in ("part", "all")]
    for name, rows in zip(names, (ROWS[:1], ROWS), strict=True):
        evaluate(rows, metrics=["context_recall"], engine=engine, out=name)
    planned = estimate(ROWS, metrics=["context_recall", "matrix_recall"], engine=engine, reuse=names)
    assert planned.reused == {names[0]: 2, names[1]: 2}
    assert sum(share.answered for share in planned.by_metric.values()) == 4
    alone = estimate(ROWS, metrics=["context_recall"], engine=engine, reuse=names)
    assert (alone.remaining, alone.tokens, alone.seconds) == (0, 0, None)


def test_what_is_answered_is_shown(tmp_path: Path) -> None:
    """Where there is no answer to be taken, nothing is said of any; a hostile name acts on no terminal."""
    out = tmp_path / "\x1b[2J"
    engine = ScriptedEngine({}, default=0.5)
    evaluate(ROWS[:1], metrics=["context_recall"], engine=engine, out=out)
    said = shown_as_text(estimate(ROWS, metrics=["context_recall"], engine=engine, reuse=[str(out)]))
    assert "2 of these questions already (2 in" in said
    assert said.count("2 remain") == 1
    assert "\x1b" not in said
    assert "remain" not in shown_as_text(estimate(ROWS, metrics=["context_recall"], engine=engine))


def shown_as_text(found: Estimate) -> str:
    stream = io.StringIO()
    Console(file=stream, width=1_000).print(estimate_view(found))
    return stream.getvalue()
