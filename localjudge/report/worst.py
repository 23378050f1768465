"""The samples to look at first: those that failed, then those that are farthest from the best, each of them once.

   2  albert-einstein  0.500  context_recall  What can you tell me about Albert Einstein?
   1  eiffel-tower     0.667  context_recall  When was the Eiffel Tower built, where is it, and who ...

A sample is as bad as the mean, over the metrics, of how far its scores are from the best that there can be (where lower
is better, that is 0). It is shown with the metric that is farthest, its row in the data and its question.
"""

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from statistics import fmean
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from localjudge.metrics import catalog
from localjudge.record.archive import stored_ids, stored_sample
from localjudge.record.directory import STORE
from localjudge.record.result_rows import ScoreRow
from localjudge.record.results import Run
from localjudge.report.table_layout import Table, line
from localjudge.report.terminal import number, safe, safe_text

_MOST_OF_ID = 24
_FAILED = 1.0


class WorstSample(NamedTuple):
    """A sample, its row in the data from 1 on, its question, and the score that is farthest from the best."""

    row: int
    question: str | None
    score: ScoreRow


def worst_samples(run: Run, metrics: Collection[str], count: int) -> list[WorstSample]:
    """So many samples, the worst first, equals in the order of the data; none that could not be better."""
    found = worst_scores(run.iter_scores(), metrics, count)
    wanted = {score.sample_id for score in found}
    store = run.directory / STORE
    rows = {name: row for row, name in enumerate(stored_ids(store), 1) if name in wanted} if wanted else {}
    samples = ((score, stored_sample(store, score.sample_id)) for score in found)
    return [WorstSample(rows[score.sample_id], sample.user_input, score) for score, sample in samples if sample]


def worst_scores(scores: Iterable[ScoreRow], metrics: Collection[str], count: int) -> list[ScoreRow]:
    """Of each of the worst samples, the score that is farthest from the best. One pass, few rows are held."""
    best = {metric: 0.0 if catalog.lower_is_better(metric) else 1.0 for metric in metrics}

    def distance(score: ScoreRow) -> float:
        return _FAILED if score.score is None else abs(best[score.metric] - score.score)

    def badness(rows: Sequence[ScoreRow]) -> tuple[bool, float]:
        return any(row.status == "failed" for row in rows), fmean(map(distance, rows))

    def candidates() -> Iterator[Sequence[ScoreRow]]:
        for _, rows in groupby(scores, key=lambda row: row.sample_id):
            counted = [row for row in rows if row.metric in best and row.status != "undefined"]
            if any(map(distance, counted)):
                yield counted

    worst = heapq.nlargest(count, candidates(), key=badness)
    return [max(rows, key=lambda row: (row.status == "failed", distance(row))) for rows in worst]


def worst_view(run: Run, *, metric: str | None = None, count: int) -> RenderableType:
    """The worst samples by all metrics, or by one."""
    samples = worst_samples(run, [metric] if metric else list(run.summary.metrics), count)
    if not samples:
        return line("no sample failed, and none could be better")
    width = len(str(max(sample.row for sample in samples)))
    rows = [(*_labels(sample, width, with_metric=metric is None), _question(sample)) for sample in samples]
    return Group(line("worst samples (localjudge show RUN ROW shows one)", "bold"), Table((), rows))


def _labels(sample: WorstSample, width: int, *, with_metric: bool) -> tuple[Text, ...]:
    score = sample.score
    name = safe(score.sample_id)
    value = score.status if score.score is None else number(score.score)
    labels = (
        Text(f"{sample.row:>{width}}"),
        Text(name if len(name) <= _MOST_OF_ID else f"{name[: _MOST_OF_ID - 1]}…"),
        Text(value, style="red" if score.status == "failed" else ""),
    )
    return (*labels, safe_text(score.metric)) if with_metric else labels


def _question(sample: WorstSample) -> Text:
    shown = safe_text(sample.question or "(no question)", style="" if sample.question else "dim")
    shown.no_wrap, shown.overflow = True, "ellipsis"
    return shown
