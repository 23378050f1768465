"""What the command line decides about a finished run, the library decides too."""

from typing import Any

import pytest

import localjudge
from localjudge.analysis.check import check
from localjudge.errors import UsageError
from tests.conftest import ScriptedRun

ROWS: list[dict[str, Any]] = [
    {"id": str(number), "retrieved_contexts": ["It opened in 1936."], "reference": f"Sentence {number}."}
    for number in range(40)
]


def test_a_gate_is_decided_on_the_interval(scripted_run: ScriptedRun) -> None:
    """40 of 40: the interval is .912 to 1 (Clopper-Pearson: .025 ** (1 / 40) = .9119), so .9 is kept and 1 is not."""
    run = scripted_run("run", ROWS, {})
    kept, undecided = check(run, gates=["context_recall>=0.9", "context_recall>=0.95"]).decisions
    assert (kept.outcome, kept.kept) == ("pass", True)
    assert (undecided.outcome, undecided.kept) == ("undecided", False)
    assert check(run, gates=["context_recall>=0.95"], undecided="pass").kept
    assert not check(run.directory, gates="context_recall<0.5").kept


def test_a_difference_is_decided_against_a_baseline(scripted_run: ScriptedRun) -> None:
    """Half of the sentences fall: the mean falls by .5."""
    before = scripted_run("before", ROWS, {})
    after = scripted_run("after", ROWS, {f"Sentence {number}.": 0.0 for number in range(20)})
    checked = check(after, gates=["context_recall.delta>=-0.1"], baseline=before.directory)
    assert checked.decisions[0].outcome == "fail"
    assert checked.comparison is not None
    assert checked.comparison.metrics["context_recall"].compared == 40


def test_a_run_without_gates_keeps_all_of_them(scripted_run: ScriptedRun) -> None:
    assert check(scripted_run("run", ROWS[:1], {})) == check(
        localjudge.Run.open(scripted_run("same", ROWS[:1], {}).directory)
    )


@pytest.mark.parametrize(
    ("gate", "message"), [("faithfulness>=0.5", "is not computed"), ("context_recall.delta>=0", "needs a baseline")]
)
def test_a_gate_that_cannot_be_decided_is_refused(scripted_run: ScriptedRun, gate: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check(scripted_run("run", ROWS[:1], {}), gates=[gate])


def test_a_run_takes_no_gates(scripted_run: ScriptedRun) -> None:
    """They were taken, and decided nothing."""
    with pytest.raises(UsageError, match=r"run\.check"):
        scripted_run("run", ROWS[:1], {}, gates=["context_recall>=0.99"])
