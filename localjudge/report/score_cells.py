"""Scores of two runs and their difference, as the cells of a row: 0.775, 0.950, +0.175, +0.041 to +0.288."""

from localjudge.analysis.gates import signed
from localjudge.analysis.score_changes import ScoreChanges
from localjudge.report.terminal import number

SCORE_HEADINGS = ("A", "B", "B - A", "95 % interval")


def score_cells(scores: ScoreChanges | None) -> tuple[str, ...]:
    """What stands under the `SCORE_HEADINGS`; a dash for what there is not."""
    if scores is None:
        return ("-",) * len(SCORE_HEADINGS)
    interval = " to ".join(map(signed, scores.ci95)) if scores.ci95 else "-"
    return number(scores.before), number(scores.after), signed(scores.difference), interval
