"""The samples of a run that failed or scored worst."""

import heapq
from collections.abc import Collection, Iterable
from itertools import groupby
from shlex import quote
from statistics import fmean

from rich.text import Text

from localjudge.metrics import catalog
from localjudge.report.terminal import Table, number, safe_text
from localjudge.run_directory.archive import stored_ids, stored_sample
from localjudge.run_directory.directory import STORE
from localjudge.run_directory.result_rows import ScoreRow
from localjudge.run_directory.run_record import RunRecord

_MOST_OF_ID = 24
_FAILED = 1.0


def worst_view(run: RunRecord, *, metric: str | None = None, count: int) -> Table:
    samples = worst_samples(run, [metric] if metric else list(run.summary.metrics), count)
    if not samples:
        return Table(notes=["no sample failed, and all have the best possible score"])
    rows: list[list[str | Text]] = []
    for row, question, score in samples:
        id_cell = safe_text(score.sample_id)
        id_cell.truncate(_MOST_OF_ID, overflow="ellipsis")
        question_cell = safe_text(question or "(no question)", style="" if question else "dim")
        for text in (id_cell, question_cell):
            text.no_wrap, text.overflow = True, "ellipsis"
        value = Text(score.status, style="red") if score.status == "failed" else number(score.score)
        rows.append([str(row), id_cell, value, *([] if metric else [score.metric]), question_cell])
    return Table(
        rows=rows,
        titles=[f"worst samples (to see one: localjudge show {quote(str(run.directory))} ROW)"],
    )


def worst_samples(
    run: RunRecord, metrics: Collection[str], count: int
) -> list[tuple[int, str | None, ScoreRow]]:
    """Return data row (from 1), question and worst score of the `count` worst samples, without perfect ones."""
    scores = worst_scores(run.iter_scores(), metrics, count)
    store, names = run.directory / STORE, {score.sample_id for score in scores}
    rows = (
        {name: row for row, name in enumerate(stored_ids(store), 1) if name in names}
        if names
        else {}
    )
    samples = ((score, stored_sample(store, score.sample_id)) for score in scores)
    return [
        (rows[score.sample_id], sample.user_input, score) for score, sample in samples if sample
    ]


def worst_scores(
    scores: Iterable[ScoreRow], metrics: Collection[str], count: int
) -> list[ScoreRow]:
    """Return the worst score of each of the worst samples. Holds few rows in memory.

    Samples with failures come first, then those with the largest mean distance from the best
    possible score.
    """
    best = {metric: 0.0 if catalog.lower_is_better(metric) else 1.0 for metric in metrics}

    def distance(score: ScoreRow) -> float:
        return _FAILED if score.score is None else abs(best[score.metric] - score.score)

    of_samples = (
        [row for row in rows if row.metric in best and row.status != "undefined"]
        for _, rows in groupby(scores, key=lambda row: row.sample_id)
    )
    worst = heapq.nlargest(
        count,
        (rows for rows in of_samples if any(map(distance, rows))),
        key=lambda rows: (any(row.status == "failed" for row in rows), fmean(map(distance, rows))),
    )
    return [max(rows, key=lambda row: (row.status == "failed", distance(row))) for rows in worst]
