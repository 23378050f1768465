"""The samples to look at first: those that failed, then those with the lowest scores."""

from collections.abc import Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from localjudge.printable import printable
from localjudge.record.result_rows import ScoreRow
from localjudge.record.results import Run
from localjudge.report.table import number


def worst_scores(scores: Sequence[ScoreRow], metric: str, count: int) -> list[ScoreRow]:
    """So many samples: failed ones first, then the lowest scores below 1; among equals in the order of the data."""
    candidates = [
        score for score in scores if score.metric == metric and score.status != "undefined" and score.score != 1
    ]
    return sorted(candidates, key=lambda score: -1.0 if score.score is None else score.score)[:count]


def worst_view(run: Run, *, metric: str | None = None, count: int) -> RenderableType:
    """The worst samples of each metric, or of one."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("metric", "lowest", "sample", "why"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "lowest" else "left")
    for name in [metric] if metric else list(run.summary.metrics):
        for score in worst_scores(run.scores, name, count):
            value = score.status if score.score is None else number(score.score)
            table.add_row(*(Text(printable(cell)) for cell in (name, value, score.sample_id, _why(score))))
    return table


def _why(score: ScoreRow) -> str:
    if score.score is None or score.numerator is None or score.denominator is None:
        return score.detail or ""
    return f"{score.numerator:g} of {score.denominator:g}"
