"""Pooled shares of all units of a run. In the mean over samples a long answer counts only as much as a short one.

    sample   supported      mean over samples    (1/1 + 1/3) / 2 = 0.667
    a        1 of 1         pooled               (1 + 1) / (1 + 3) = 0.500
    b        1 of 3

The interval is the one of a ratio of sums over samples or groups (`localjudge.stats.interval`, W.
G. Cochran (1977), Sampling Techniques, chapter 6).
"""

from array import array

import numpy as np

from localjudge.run_directory.run_record import RunRecord
from localjudge.stats.interval import Counts, share_interval
from localjudge.types import Record


class PooledShare(Record):
    """Share of all `units` of the scored `samples` with its 95 % interval.

    `ci95` is None if all samples are in one group, or if scores decided when to stop.
    """

    share: float
    ci95: tuple[float, float] | None
    units: int
    samples: int


def pooled_shares(run: RunRecord) -> dict[str, PooledShare]:
    """Return the share of each metric whose scores are fractions, unless too many of its samples failed."""
    beyond, groups, numbers = (
        run.summary.failed_beyond(run.max_failed),
        run.cluster_of,
        dict[str, int](),
    )
    counts = {name: array("q") for name in run.summary.metrics if name not in beyond}
    for score in run.iter_scores():
        if score.score is None or score.metric not in counts:
            continue
        ones, units = score.numerator, score.denominator
        if isinstance(ones, int) and isinstance(units, int) and 0 <= ones <= units > 0:
            group = score.sample_id if groups is None else groups[score.sample_id]
            counts[score.metric].extend((numbers.setdefault(group, len(numbers)), ones, units))
        else:
            del counts[score.metric]
    rows = {
        name: np.array(of_metric, dtype=np.int64).reshape(-1, 3)
        for name, of_metric in counts.items()
        if of_metric
    }
    return {name: _pooled(run, *of_metric.T) for name, of_metric in rows.items()}


def _pooled(run: RunRecord, groups: Counts, ones: Counts, units: Counts) -> PooledShare:
    # The size of the largest sample to come is unknown, so that no confidence sequence is valid.
    interval = share_interval(ones, units, np.unique(groups, return_inverse=True)[1])
    limits = None if run.sampling.optional_stopping else interval.limits
    return PooledShare(share=interval.mean, ci95=limits, units=interval.n, samples=len(ones))
