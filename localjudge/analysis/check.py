"""Holds a finished run to promises: gates about its means and, with a baseline, about differences from it.

check = localjudge.check(run, gates=["context_recall>=0.8", "faithfulness.delta>=-0.02"], baseline="runs/last-week")
check.kept, check.decisions[0].reason
"""

from collections.abc import Sequence
from pathlib import Path

from localjudge.analysis.comparison import RunComparison, compare
from localjudge.analysis.gates import GateDecision, Undecided, decide_gates, parse_gate, refuse_without_baseline
from localjudge.record.results import Run, as_run
from localjudge.types import Record


class Check(Record):
    """The comparison with the baseline, if there is one, and what became of each gate, in their order."""

    comparison: RunComparison | None
    decisions: tuple[GateDecision, ...]

    @property
    def kept(self) -> bool:
        """Whether no gate counts as missed."""
        return all(decision.kept for decision in self.decisions)


def check(
    run: Run | str | Path,
    *,
    gates: Sequence[str] = (),
    baseline: Run | str | Path | None = None,
    undecided: Undecided = "fail",
) -> Check:
    """Compare a run with a baseline, if one is given, and decide the gates on their 95 % intervals.

    A run is given as such or by its directory. `undecided` is what a gate counts as that so few samples cannot decide.
    Raises UsageError for a gate that is none, that is about a metric which is not there, or about a difference without
    a baseline; RunDirectoryError for a directory that cannot be read.
    """
    wanted = [parse_gate(gate) for gate in ([gates] if isinstance(gates, str) else gates)]
    run, before = as_run(run), None if baseline is None else as_run(baseline)
    refuse_without_baseline(wanted, before)
    comparison = compare(before, run) if before else None
    return Check(comparison=comparison, decisions=decide_gates(wanted, run, comparison, undecided=undecided))
