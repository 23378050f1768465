"""A run's scores as inspect takes scores that were computed elsewhere: `inspect_ai.scorer.precomputed_scores`.

    {"id": "s1", "value": {"context_recall": 0.5, "faithfulness": NaN}, "explanation": "context_recall: 1/2 = ..."}

(inspect_ai 0.3.) One record for each sample. A metric without a score is NaN, which inspect leaves out of its means and
counts as unscored; a null it would count as 0, and a metric that is not there is an error. A sample that was read from
the log of a later epoch gets its id there, and the epoch.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from localjudge.record.result_rows import ScoreRow
from localjudge.record.results import Run
from localjudge.report.parquet import Row
from localjudge.report.verdicts import outcome_of


def inspect_lines(run: Run) -> Iterator[bytes]:
    """The records as JSON lines. Raises RunDirectoryError for a score of a sample that the run does not hold."""
    for (sample, scores), (_, extras) in zip(run.iter_scored_samples(), run.iter_extras(), strict=True):
        given = {metric: scores.get(metric) for metric in run.summary.metrics}
        record: Row = {
            **_sample_of_log(sample.id, extras),
            "value": {metric: inspect_value(row) for metric, row in given.items()},
            "explanation": "\n".join(f"{metric}: {explained(row)}" for metric, row in given.items()),
        }
        yield f"{json.dumps(record, ensure_ascii=False)}\n".encode()


def _sample_of_log(sample_id: str, extras: Mapping[str, Any]) -> Row:
    epoch = extras.get("epoch")
    if isinstance(epoch, int) and epoch > 1 and sample_id.endswith(ending := f"_epoch_{epoch}"):
        return {"id": sample_id.removesuffix(ending), "epoch": epoch}
    return {"id": sample_id}


def inspect_value(row: ScoreRow | None) -> float:
    """The score, NaN where there is none."""
    return math.nan if row is None or row.score is None else row.score


def explained(row: ScoreRow | None) -> str:
    """What the score was divided from, or why there is none."""
    return "not computed" if row is None else outcome_of(row)
