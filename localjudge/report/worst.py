"""The samples to look at first: those that failed, then those with the lowest scores.

Where lower is better, those with the highest.
"""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table

from localjudge.metrics import catalog
from localjudge.record.result_rows import ScoreRow
from localjudge.record.results import Run
from localjudge.report.terminal import number, safe_text
from localjudge.report.why import in_counts

_SPARE = 1000


def worst_of_each(scores: Iterable[ScoreRow], metrics: Sequence[str], count: int) -> dict[str, list[ScoreRow]]:
    """So many samples of each metric: failed ones, then those farthest from the best; equals in the order of the data.

    One pass over the rows, of which few more than are wanted are held.
    """
    best = {metric: 0.0 if catalog.lower_is_better(metric) else 1.0 for metric in metrics}
    worst: dict[str, list[ScoreRow]] = {metric: [] for metric in metrics}
    for score in scores:
        if score.metric in worst and score.status != "undefined" and score.score != best[score.metric]:
            found = worst[score.metric]
            found.append(score)
            if len(found) > 2 * count + _SPARE:
                found[:] = _worst_first(found, best[score.metric])[:count]
    return {metric: _worst_first(found, best[metric])[:count] for metric, found in worst.items()}


def _worst_first(scores: Iterable[ScoreRow], best: float) -> list[ScoreRow]:
    """Failed ones, then those that are farthest from the best that there can be."""
    return sorted(scores, key=lambda score: -2.0 if score.score is None else -abs(best - score.score))


def worst_view(run: Run, *, metric: str | None = None, count: int) -> RenderableType:
    """The worst samples of each metric, or of one."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("metric", "worst", "sample", "why"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "worst" else "left")
    names = [metric] if metric else list(run.summary.metrics)
    for name, scores in worst_of_each(run.iter_scores(), names, count).items():
        for score in scores:
            value = score.status if score.score is None else number(score.score)
            table.add_row(*(safe_text(cell) for cell in (name, value, score.sample_id, in_counts(score))))
    return table
