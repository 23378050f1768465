"""Arrays in, numbers out: what a mean, a difference, a gate or a judge's agreement with people is worth."""

from localjudge.stats.interval import Interval, mean_bounds, mean_interval, statistic_interval
from localjudge.stats.paired import (
    Comparison,
    Decision,
    PairedDifference,
    decide,
    mcnemar,
    paired_difference,
    smallest_detectable_difference,
)

__all__ = [
    "Comparison",
    "Decision",
    "Interval",
    "PairedDifference",
    "decide",
    "mcnemar",
    "mean_bounds",
    "mean_interval",
    "paired_difference",
    "smallest_detectable_difference",
    "statistic_interval",
]
