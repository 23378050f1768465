"""What changed between two runs over the same samples.

    before  1.0  0.5  0.0  1.0
    after   1.0  1.0  0.5  0.0        differences 0, +0.5, +0.5, -1: two improved, one worsened, one tied

A sample's difficulty cancels in its difference, so the interval is that of one mean, over values in [-1, 1]. Exchanging
the runs turns the differences round; limits then agree up to the error of random resampling.
"""

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localjudge.stats.binomial import binomial_cdf
from localjudge.stats.intervals import Interval, tally_interval
from localjudge.stats.resampling import RESAMPLES, SEED, cluster_numbers
from localjudge.stats.tally import Tally

# The last bits of a sum depend on the order in which it was taken; no score moves by so little.
_TIE = 1e-9


class PairedDifference(NamedTuple):
    """Interval of the mean difference, after minus before, and how many samples went up, down or nowhere."""

    difference: Interval
    improved: int
    worsened: int
    tied: int
    smallest_detectable: float


class PairedTally:
    """Pairs of scores in [0, 1], added in blocks; either all blocks name clusters or none does."""

    def __init__(self) -> None:
        self.before, self.after = Tally(), Tally()
        self._differences = Tally(lowest=-1.0)
        self._improved = self._worsened = 0

    def add(self, before: npt.ArrayLike, after: npt.ArrayLike, clusters: npt.ArrayLike | None = None) -> None:
        """Add the scores of some samples, (k,) each, and where they belong together the numbers of their clusters.

        Raises ValueError for unequal lengths or values out of range.
        """
        first, second = (np.asarray(scores, dtype=np.float64) for scores in (before, after))
        if first.shape != second.shape:
            raise ValueError(f"before has shape {first.shape} and after {second.shape}: they must pair up")
        self.before.add(first)
        self.after.add(second)
        differences = second - first
        differences[np.abs(differences) < _TIE] = 0.0
        self._differences.add(differences, clusters)
        self._improved += int((differences > 0).sum())
        self._worsened += int((differences < 0).sum())

    def difference(self, *, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = SEED) -> PairedDifference:
        """The difference over all pairs; see `mean_interval` for the rest. Raises ValueError for no samples."""
        interval = tally_interval(self._differences, confidence=confidence, resamples=resamples, seed=seed)
        return PairedDifference(
            difference=interval,
            improved=self._improved,
            worsened=self._worsened,
            tied=interval.n - self._improved - self._worsened,
            smallest_detectable=smallest_detectable_difference(interval),
        )


def paired_difference(
    before: npt.ArrayLike,
    after: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> PairedDifference:
    """Compare two scores per sample, (n,) each in [0, 1] and in the same order; see `mean_interval` for the rest.

    Raises ValueError for no samples, unequal lengths or values out of range.
    """
    tally = PairedTally()
    tally.add(before, after, None if clusters is None else cluster_numbers(clusters, len(np.asarray(before))))
    return tally.difference(confidence=confidence, resamples=resamples, seed=seed)


def smallest_detectable_difference(interval: Interval, power: float = 0.8) -> float:
    """Smallest true difference whose interval would leave out 0 with probability `power`, for samples like these.

        (1 + z_power / z_confidence) * h,   h = the longer arm of the interval;   1.43 h for 95 % and 80 %

    This is (z_confidence + z_power) * standard error of J. Cohen (1988), Statistical Power Analysis for the Behavioral
    Sciences, chapter 2, and E. Miller (2024), Adding error bars to evals, arXiv:2411.00640, with h / z_confidence for
    the standard error: so it follows the clusters, and stays above 0 where no sample moved. Above 1 means that so few
    samples could not have shown any difference.
    """
    arm = max(interval.high - interval.mean, interval.mean - interval.low)
    normal = NormalDist()
    return arm * (1 + normal.inv_cdf(power) / normal.inv_cdf((1 + interval.confidence) / 2))


def mcnemar(improved: int, worsened: int) -> float:
    """Two-sided p-value that as many verdicts flip up as down: the exact test, for any counts.

        min(1, 2 P(X <= min(improved, worsened))),   X ~ Binomial(improved + worsened, 1/2)

    Only for one independent verdict per sample; otherwise the clustered interval decides. Sources: Q. McNemar (1947),
    Psychometrika 12, 153-157; the exact form: M. W. Fagerland, S. Lydersen and P. Laake (2013), BMC Medical Research
    Methodology 13, 91, who show that it errs on the side of seeing nothing.
    """
    flips = improved + worsened
    return min(1.0, 2 * binomial_cdf(min(improved, worsened), flips, 0.5)) if flips else 1.0
