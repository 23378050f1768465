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


def test_a_share_is_what_the_metric_adds_to_those_before_it() -> None:
    """Alone it takes as many tokens as its share where it is the first, and no fewer than its share where it is not."""
    names = ["context_recall", "context_relevancy", "matrix_recall"]
    engine = ScriptedEngine({}, default=0.5)
    together = estimate(ROWS, metrics=names, engine=engine).by_metric
    alone = {name: estimate(ROWS, metrics=[name], engine=engine) for name in names}
    assert alone[names[0]].tokens == together[names[0]].tokens
    for name in names:
        assert together[name].verdicts == alone[name].verdicts
        assert together[name].tokens <= alone[name].tokens


def test_a_question_of_an_earlier_block_belongs_to_the_metric_that_asked_it_first() -> None:
    """40 equal samples in two blocks: one question, whose tokens are counted once."""
    rows = [{**ROWS[0], "id": str(number), "reference": "One."} for number in range(40)]
    found = estimate(rows, metrics=["context_recall", "matrix_recall"], engine=ScriptedEngine({}, default=0.5))
    assert found.requests == 1
    assert [(share.verdicts, share.requests) for share in found.by_metric.values()] == [(40, 1), (40, 0)]
