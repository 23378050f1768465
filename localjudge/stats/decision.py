"""Whether a promise about a mean is kept, broken, or not yet known.

    promise: mean >= 0.8

      0.8
       |  [---+---]     passed     all that the truth may be keeps it
    [--|+----]          undecided  too few samples
    [-+-]  |            missed     nothing that the truth may be keeps it

An undecided gate says how many samples would do. An interval's arm shrinks with the square root of their number, so

    samples needed = n * (arm / |mean - threshold|)^2

where the arm is the part of the interval that crosses the threshold, and the mean stays where it is (W. G. Cochran
(1977), Sampling Techniques, chapter 4: n = (z s / d)^2). Near 0 and 1 arms shrink faster, so fewer may do.
"""

import math
from typing import Literal, NamedTuple

from localjudge.stats.intervals import Interval

# A mean of decimal scores misses a decimal threshold by its last bits.
_ON_THRESHOLD = 1e-9

Comparison = Literal[">=", ">", "<=", "<"]


class Decision(NamedTuple):
    """The outcome; if undecided, how many samples would do in all, None if the mean stands on the threshold itself."""

    outcome: Literal["pass", "fail", "undecided"]
    samples_needed: int | None = None


def decide(interval: Interval, comparison: Comparison, threshold: float) -> Decision:
    """Decide `mean <comparison> threshold` on the interval of a mean or of a paired difference."""
    if comparison in ("<=", "<"):
        mirrored = interval._replace(mean=-interval.mean, low=-interval.high, high=-interval.low)
        return decide(mirrored, ">=" if comparison == "<=" else ">", -threshold)
    touching_passes = comparison == ">="
    if interval.low > threshold or (touching_passes and interval.low == threshold):
        return Decision("pass")
    if interval.high < threshold or (not touching_passes and interval.high == threshold):
        return Decision("fail")
    return Decision("undecided", _samples_needed(interval, threshold))


def _samples_needed(interval: Interval, threshold: float) -> int | None:
    distance = abs(interval.mean - threshold)
    if distance < _ON_THRESHOLD:
        return None
    arm = interval.mean - interval.low if interval.mean > threshold else interval.high - interval.mean
    return max(interval.n + 1, math.ceil(interval.n * (arm / distance) ** 2))
