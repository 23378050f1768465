"""What a mean would be if every sample that failed had scored the worst, or the best: no luck can lead outside.

    scored 1, 1, 0, one failed:   mean 2/3   bounds [2/4, 3/4]

The bounds hold for the samples at hand, whatever made some of them fail; an interval speaks of samples not yet seen.

Source: C. F. Manski (1989), Anatomy of the selection problem, Journal of Human Resources 24, 343-360.
"""

from typing import NamedTuple

from localjudge.stats.tally import Tally


class Bounds(NamedTuple):
    """The least and the greatest that a mean can be."""

    low: float
    high: float


def tally_bounds(tally: Tally, failed: int) -> Bounds:
    """Bounds of the mean over all samples: the scored ones, in [0, 1], of the tally and `failed` unknown ones.

    Without failures both are the mean. Raises ValueError where there is nothing at all to take a mean of.
    """
    samples = tally.n + failed
    if samples == 0 or failed < 0:
        raise ValueError(f"no mean of {tally.n} scored and {failed} failed samples")
    return Bounds(tally.total / samples, (tally.total + failed) / samples)
