"""How the means of a run that scores stopped closed in, from the first sample to the last.

    samples     1                 5                 41
    interval    1.00 [.02, 1]     .80 [.24, .99]    .93 [.81, .98]

Samples come in the order in which they were drawn (`Dataset.draws`), whole groups at once, and the last interval is
that of the run.
"""

import math
from collections import defaultdict
from itertools import accumulate, groupby
from typing import NamedTuple

from localjudge.dataset.samples import id_digest
from localjudge.record.run import Run
from localjudge.stats.interval import Interval
from localjudge.stats.sequence import sequence_interval

_POINTS = 40


class CurvePoint(NamedTuple):
    """The mean of a metric with its confidence sequence, when so many samples were judged."""

    samples: int
    interval: Interval


def curves(run: Run) -> dict[str, list[CurvePoint]]:
    """Of each metric at most 40 points, denser at the beginning; without any where no score says when to stop.

    Raises RunDirectoryError for a row that localjudge does not write.
    """
    if not (largest := run.largest_draw):
        return {}
    seed, groups = run.manifest.environment["settings"].get("seed", 0), run.cluster_of
    by_digest: dict[bytes, list[dict[str, float | None]]] = defaultdict(list)
    for sample_id, rows in groupby(run.iter_scores(), key=lambda row: row.sample_id):
        name = sample_id if groups is None else groups[sample_id]
        by_digest[id_digest(f"{seed}|{name}")].append({row.metric: row.score for row in rows})
    draws = [by_digest[digest] for digest in sorted(by_digest)]
    judged = list(accumulate(map(len, draws)))
    stops = sorted({math.ceil(len(draws) * (place / _POINTS) ** 2) for place in range(1, _POINTS + 1)})
    points: dict[str, list[CurvePoint]] = {}
    for metric in run.summary.metrics:
        scores = [(place, sample.get(metric)) for place, draw in enumerate(draws) for sample in draw]
        points[metric] = []
        for stop in stops:
            scored = [(place, score) for place, score in scores[: judged[stop - 1]] if score is not None]
            if scored:
                places, values = zip(*scored, strict=True)
                interval = sequence_interval(values, clusters=places if groups else None, largest=largest)
                points[metric].append(CurvePoint(judged[stop - 1], interval))
    return points
