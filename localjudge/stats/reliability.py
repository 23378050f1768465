"""Does 0.8 mean eight of ten? The rows in bins of their score, with the share of 1s that each holds.

    mean score   0.12   0.48   0.91
    share of 1   0.20   0.35   0.80      a calibrated judge: both rows alike

What a bin holds is a matter of its own scores: rows that were drawn by their score, as a labelling sheet does, need no
weights here.

Source: A. H. Murphy and R. L. Winkler (1977), Reliability of subjective probability forecasts of precipitation and
temperature, Applied Statistics 26, 41-47.
"""

from typing import NamedTuple

import numpy as np

from localjudge.stats.agreement import equal_mass_bins
from localjudge.stats.intervals import Interval, LabelledScores, mean_interval


class ReliabilityBin(NamedTuple):
    """Scores from `low` to `high`: their mean, and the share of rows labelled 1 with its interval."""

    low: float
    high: float
    mean_score: float
    share: Interval


def reliability(rows: LabelledScores) -> list[ReliabilityBin]:
    """At most ten bins of about equal numbers of rows, at least ten, in the order of their scores."""
    labels, scores = np.asarray(rows.labels, dtype=np.float64), np.asarray(rows.scores, dtype=np.float64)
    clusters = None if rows.clusters is None else np.asarray(rows.clusters)
    group = equal_mass_bins(scores)
    found = []
    for number in range(group.max() + 1):
        ours = group == number
        share = mean_interval(labels[ours], clusters=None if clusters is None else clusters[ours])
        given = np.sort(scores[ours])  # added up in one order, whatever that of the rows
        found.append(ReliabilityBin(float(given.min()), float(given.max()), float(given.mean()), share))
    return found
