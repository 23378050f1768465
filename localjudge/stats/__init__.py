"""Arrays in, numbers out: what a mean, a difference, a gate or a judge's agreement with people is worth."""

from localjudge.stats.bounds import Bounds, tally_bounds
from localjudge.stats.decision import Comparison, Decision, decide
from localjudge.stats.intervals import Interval, mean_interval, statistic_interval, tally_interval
from localjudge.stats.paired import (
    PairedDifference,
    PairedTally,
    mcnemar,
    paired_difference,
    smallest_detectable_difference,
)
from localjudge.stats.tally import Tally

__all__ = [
    "Bounds",
    "Comparison",
    "Decision",
    "Interval",
    "PairedDifference",
    "PairedTally",
    "Tally",
    "decide",
    "mcnemar",
    "mean_interval",
    "paired_difference",
    "smallest_detectable_difference",
    "statistic_interval",
    "tally_bounds",
    "tally_interval",
]
