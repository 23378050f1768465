"""The gates of a run with their outcomes and reasons."""

from collections.abc import Sequence

from rich.text import Text

from localjudge.analysis.gate_decisions import GateDecision
from localjudge.report.terminal import Table

_STYLE = {"pass": "green", "fail": "red", "undecided": "yellow"}


def gates_view(decisions: Sequence[GateDecision]) -> Table:
    """Return a row for each gate: outcome, gate, and reason."""
    rows: list[tuple[Text, str, str]] = []
    for decision in decisions:
        outcome = Text(decision.outcome, style=_STYLE[decision.outcome])
        rows.append((outcome, decision.gate, explain_decision(decision)))
    return Table(("outcome", "gate", "why"), rows, names=3)


def explain_decision(decision: GateDecision) -> str:
    """Return the reason, and for an undecided gate whether it counts as passed."""
    if decision.outcome != "undecided":
        return decision.reason
    if decision.passed:
        return f"{decision.reason} (counts as passed)"
    return f"{decision.reason} (counts as failed)"
