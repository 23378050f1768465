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
from localjudge.stats.intervals import Interval, mean_interval
from localjudge.stats.resampling import RESAMPLES, SEED

# The last bits of a sum depend on the order in which it was taken; no score moves by so little.
_TIE = 1e-9


class PairedDifference(NamedTuple):
    """Interval of the mean difference, after minus before, and how many samples went up, down or nowhere."""

    difference: Interval
    improved: int
    worsened: int
    tied: int
    smallest_detectable: float


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
    first, second = (np.asarray(scores, dtype=np.float64) for scores in (before, after))
    if first.shape != second.shape:
        raise ValueError(f"before has shape {first.shape} and after {second.shape}: they must pair up")
    if not ((first >= 0) & (first <= 1) & (second >= 0) & (second <= 1)).all():
        raise ValueError("values must lie in [0, 1]")
    differences = second - first
    differences[np.abs(differences) < _TIE] = 0.0
    interval = mean_interval(
        differences, clusters=clusters, confidence=confidence, resamples=resamples, seed=seed, lowest=-1.0
    )
    improved, worsened = int((differences > 0).sum()), int((differences < 0).sum())
    return PairedDifference(
        difference=interval,
        improved=improved,
        worsened=worsened,
        tied=interval.n - improved - worsened,
        smallest_detectable=smallest_detectable_difference(interval),
    )


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
