"""The samples of a run that failed or scored worst."""

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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

_ID_WIDTH = 24
_DISTANCE_OF_FAILURE = 1.0


def worst_view(run: RunRecord, *, metric: str | None = None, count: int) -> Table:
    """Return the worst samples of a run, or by one metric: row, id, score and question."""
    metrics = list(run.summary.metrics)
    if metric:
        metrics = [metric]
    samples = worst_samples(run, metrics, count)
    if not samples:
        return Table(notes=["no sample failed, and all have the best possible score"])
    rows: list[list[str | Text]] = []
    for row, question, score in samples:
        id_cell = _on_one_line(safe_text(score.sample_id))
        id_cell.truncate(_ID_WIDTH, overflow="ellipsis")
        if score.status == "failed":
            score_cell: str | Text = Text(score.status, style="red")
        else:
            score_cell = Text(number(score.score))
            if score.expected is not None and score.expected != score.score:
                score_cell.append(f"  expected {number(score.expected)}", style="dim")
        cells: list[str | Text] = [str(row), id_cell, score_cell]
        if not metric:
            cells.append(score.metric)
        if question:
            question_cell = _on_one_line(safe_text(question))
        else:
            question_cell = _on_one_line(safe_text("(no question)", style="dim"))
        cells.append(question_cell)
        rows.append(cells)
    command = f"localjudge show {quote(str(run.directory))} ROW"
    return Table(rows=rows, titles=[f"worst samples (to see one: {command})"])


def _on_one_line(cell: Text) -> Text:
    cell.no_wrap = True
    cell.overflow = "ellipsis"
    return cell


WorstSample = tuple[int, str | None, ScoreRow]
"""Row of the data from 1, question, and worst score."""


def worst_samples(run: RunRecord, metrics: Collection[str], count: int) -> list[WorstSample]:
    """Return the `count` worst samples, without perfect ones.

    Each has its row in the data (from 1), its question, and its worst score.
    """
    scores = worst_scores(run.iter_scores(), metrics, count)
    if not scores:
        return []
    store = run.directory / STORE
    ids = {score.sample_id for score in scores}
    rows = {name: row for row, name in enumerate(stored_ids(store), start=1) if name in ids}
    worst: list[WorstSample] = []
    for score in scores:
        sample = stored_sample(store, score.sample_id)
        if sample:
            worst.append((rows[score.sample_id], sample.user_input, score))
    return worst


def worst_scores(
    scores: Iterable[ScoreRow], metrics: Collection[str], count: int
) -> list[ScoreRow]:
    """Return the worst score of each of the worst samples. Holds few rows in memory.

    Samples with failures come first, then those with the largest mean distance of the expected
    scores from the best possible one.
    """
    best: dict[str, float] = {}
    for metric in metrics:
        best[metric] = float(not catalog.lower_is_better(metric))

    def score_badness(row: ScoreRow) -> tuple[bool, bool, float]:
        is_imperfect = _distance(row, best) > 0
        return row.status == "failed", is_imperfect, _expected_distance(row, best)

    def sample_badness(rows: Sequence[ScoreRow]) -> tuple[bool, float]:
        failures = [row.status == "failed" for row in rows]
        return any(failures), fmean(_expected_distance(row, best) for row in rows)

    worst = heapq.nlargest(count, _imperfect_samples(scores, best), key=sample_badness)
    return [max(rows, key=score_badness) for rows in worst]


def _imperfect_samples(
    scores: Iterable[ScoreRow], best: Mapping[str, float]
) -> Iterator[list[ScoreRow]]:
    """Yield the scored and failed rows of each sample that is not perfect."""
    for _, sample_rows in groupby(scores, key=lambda row: row.sample_id):
        rows: list[ScoreRow] = []
        for row in sample_rows:
            if row.metric in best and row.status != "undefined":
                rows.append(row)
        if any(_distance(row, best) for row in rows):
            yield rows


def _distance(score: ScoreRow, best: Mapping[str, float]) -> float:
    """Return the distance of a score from the best possible one of its metric."""
    if score.score is None:
        return _DISTANCE_OF_FAILURE
    return abs(best[score.metric] - score.score)


def _expected_distance(score: ScoreRow, best: Mapping[str, float]) -> float:
    """Return the distance of an expected score from the best possible one, which ties less."""
    if score.expected is None:
        return _DISTANCE_OF_FAILURE
    return abs(best[score.metric] - score.expected)
