"""Gates as a person reads them.

pass        context_recall>=0.8    0.912, 95 % interval 0.861 to 0.949, 120 samples
undecided   faithfulness>=0.9      0.925, 95 % interval 0.871 to 0.961, 120 samples: too few samples to decide; if the
                                   mean stays at 0.925, about 560 would decide it (pass)
"""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from localjudge.analysis.gates import GateDecision
from localjudge.report.table_layout import LabelledText, LabelledTexts
from localjudge.report.terminal import safe_text

_STYLE = {"pass": "green", "fail": "red", "undecided": "yellow"}


def gates_view(decisions: Sequence[GateDecision]) -> RenderableType:
    """One row for each gate: outcome, gate, reason; an undecided gate with what it counts as."""
    return LabelledTexts([_row(decision) for decision in decisions])


def reason_of(decision: GateDecision) -> str:
    """Why it was decided so; of an undecided gate also what it counts as."""
    counts_as = f" (counts as {'kept' if decision.kept else 'missed'})" if decision.outcome == "undecided" else ""
    return f"{decision.reason}{counts_as}"


def _row(decision: GateDecision) -> LabelledText:
    labels = (Text(decision.outcome, style=_STYLE[decision.outcome]), safe_text(decision.gate))
    return LabelledText(labels, safe_text(reason_of(decision)))
