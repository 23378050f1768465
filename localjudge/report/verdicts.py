"""The units of a sample with what was found: the sentence, the label, the probability.

eiffel-tower: context_recall 2/3 = 0.667
  1  0.981  The Eiffel Tower was built in 1889.
  0  0.031  Gustave Eiffel designed it.
"""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from localjudge.record.result_rows import ScoreRow, VerdictRow
from localjudge.record.results import Run
from localjudge.report.terminal import number, safe, safe_text

_TEXTS = {"reference": "the reference", "response": "the response", "cited": "what it cites"}
_LABEL_STYLE = {0: "red", 1: "green", None: "yellow"}


def verdicts_view(run: Run, *, metric: str | None = None, sample_id: str | None = None) -> RenderableType:
    """Score and units of each sample, or of one, for all metrics, or for one."""
    scores, verdicts = (
        (run.iter_scores(), run.iter_verdicts())
        if sample_id is None
        else (run.scores_of(sample_id), run.verdicts_of(sample_id))
    )
    units: dict[tuple[str, str], list[VerdictRow]] = {}
    for verdict in verdicts:
        if metric in (None, verdict.metric):
            units.setdefault((verdict.sample_id, verdict.metric), []).append(verdict)
    wanted = [score for score in scores if metric in (None, score.metric)]
    return Group(*(scored_units(score, units.get((score.sample_id, score.metric), [])) for score in wanted))


def scored_units(score: ScoreRow, verdicts: Sequence[VerdictRow]) -> RenderableType:
    """One score, and the units that it rests on."""
    grid = Table.grid(padding=(0, 1))
    for column in ("label", "p_yes"):
        grid.add_column(column, justify="right", no_wrap=True)
    grid.add_column("text", overflow="fold")
    for verdict in verdicts:
        label = "?" if verdict.label is None else str(verdict.label)
        text = safe_text(verdict.text)
        if remark := _remark(verdict):
            text.append(f"  ({safe(remark)})", style="dim")
        probability = "" if verdict.p_yes is None else number(verdict.p_yes)
        grid.add_row(Text(label, style=_LABEL_STYLE[verdict.label]), Text(probability), text)
    heading = safe_text(f"{score.sample_id}: {score.metric} {_outcome(score)}", style="bold")
    return Group(Padding(heading, (0, 1), expand=False), Padding(grid, (0, 1, 1, 3), expand=False))


def _outcome(score: ScoreRow) -> str:
    if score.score is None:
        return f"{score.status}: {score.detail}"
    if score.numerator is None or score.denominator is None:
        return number(score.score)
    return f"{score.numerator:g}/{score.denominator:g} = {number(score.score)}"


def _remark(verdict: VerdictRow) -> str | None:
    if verdict.error is not None:
        return verdict.error
    context = f"context {verdict.against}" if isinstance(verdict.against, int) else _TEXTS.get(verdict.against or "")
    parts = [
        f"against {context}" if verdict.against is not None else "",
        f"window {verdict.window}" if verdict.window is not None else "",
        verdict.reason or "",
    ]
    return ", ".join(part for part in parts if part) or None
