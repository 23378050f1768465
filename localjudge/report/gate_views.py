"""The gates of a run with their outcomes and reasons."""

from collections.abc import Sequence

from rich.text import Text

from localjudge.analysis.check import GateDecision
from localjudge.report.terminal import Table

_STYLE = {"pass": "green", "fail": "red", "undecided": "yellow"}


def gates_view(decisions: Sequence[GateDecision]) -> Table:
    rows = [
        (Text(gate.outcome, style=_STYLE[gate.outcome]), gate.gate, explain_decision(gate))
        for gate in decisions
    ]
    return Table(("outcome", "gate", "why"), rows, names=3)


def explain_decision(decision: GateDecision) -> str:
    """Return the reason, and for an undecided gate whether it counts as passed."""
    counts_as = (
        f" (counts as {'passed' if decision.passed else 'failed'})"
        if decision.outcome == "undecided"
        else ""
    )
    return f"{decision.reason}{counts_as}"
