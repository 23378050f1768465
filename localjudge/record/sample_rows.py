"""The rows of a finished run sample by sample, for whoever reads many runs side by side.

Some samples are read at a time, and no file is open between: of a thousand runs that are read at once, a process may
not hold a thousand files open.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from localjudge.record.evaluation import Evaluation
from localjudge.record.result_files import SCORES, VERDICTS
from localjudge.record.result_rows import SCORE_ROWS, VERDICT_ROWS, ScoreRow, VerdictRow, evaluations_of
from localjudge.record.untrusted import placed_rows

_SAMPLES_AT_ONCE = 16
_Row = TypeVar("_Row", ScoreRow, VerdictRow)


def evaluations_by_sample(directory: Path) -> Iterator[list[Evaluation]]:
    """The evaluations of each sample, in the order of the rows.

    Raises RunDirectoryError for a row that localjudge does not write, and for a verdict that is of no score.
    """
    place_of_score = place_of_verdict = 0
    while True:
        seen: set[str] = set()

        def among_the_first(sample_id: str, seen: set[str] = seen) -> bool:
            seen.add(sample_id)
            return len(seen) <= _SAMPLES_AT_ONCE

        scores, place_of_score = _some(directory / SCORES, SCORE_ROWS, place_of_score, among_the_first)
        if not scores:
            return
        ids = {row.sample_id for row in scores}
        verdicts, place_of_verdict = _some(directory / VERDICTS, VERDICT_ROWS, place_of_verdict, ids.__contains__)
        for _, of_sample in groupby(evaluations_of(scores, verdicts), key=lambda evaluation: evaluation.sample_id):
            yield list(of_sample)


def _some(path: Path, kind: TypeAdapter[_Row], start: int, wanted: Callable[[str], bool]) -> tuple[list[_Row], int]:
    """The rows from a place on as long as their samples are wanted, and the place behind them."""
    rows: list[_Row] = []
    with closing(placed_rows(path, kind, start)) as placed:
        for place, row in placed:
            if not wanted(row.sample_id):
                return rows, place
            rows.append(row)
    return rows, path.stat().st_size
