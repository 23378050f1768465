"""Paired differences between two runs over the same samples, and decisions of gates.

The interval of the mean d of n differences is Student's t with standard deviation s, extended on
the skewed side, and on both sides if nearly all differences are equal:

    low   d - t s / sqrt(n) + min(0, k) - g (1 + d)     k = (1 + 2 t^2) u / (6 n s^2)
    high  d + t s / sqrt(n) + max(0, k) + g (1 - d)     g = (1 - 0.025^(1/n)) / 4^(m n / (n - m))

u is the third central moment, and m pairs differ from the most common difference. With clusters, n
counts clusters, and s and u are of jackknife values. The order of pairs and the names of clusters
do not matter. Exchanging the runs mirrors the interval.

A gate passes if every value of the interval meets it, fails if no value does, and is undecided
otherwise. Sources: N. J. Johnson (1978), J. of the American Statistical Association 73, 536-544; R.
G. Miller (1974), Biometrika 61, 1-15; docs/statistics.md.
"""

import math
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from localjudge.stats.interval import (
    CONFIDENCE,
    Z_CONFIDENCE,
    Z_POWER,
    Draws,
    Floats,
    Mean,
    checked_values,
    exact_mean,
    group_draws,
    two_sided_quantile,
)
from localjudge.stats.repeated_looks import METHOD, look_at, sequence_interval

_SEQUENCE_EXPONENT = 1.6
# A mean of decimal scores may differ from a decimal threshold in its last bits.
_ON_THRESHOLD = 1e-9
_TIE = 1e-9  # scores never change by less
_TIE_DIGITS = 9
_GUARD_DECAY = 4.0

Comparison = Literal[">=", ">", "<=", "<"]
GateOutcome = Literal["pass", "fail", "undecided"]


def decide(interval: Mean, comparison: Comparison, threshold: float) -> GateOutcome:
    """Decide `mean <comparison> threshold` on the interval of a mean or of a paired difference."""
    if comparison in ("<=", "<"):
        mirrored = interval._replace(mean=-interval.mean, ci95=(-interval.high, -interval.low))
        opposite: Comparison = ">=" if comparison == "<=" else ">"
        return decide(mirrored, opposite, -threshold)
    touching_passes = comparison == ">="
    if interval.low > threshold or (touching_passes and interval.low == threshold):
        return "pass"
    if interval.high < threshold or (not touching_passes and interval.high == threshold):
        return "fail"
    return "undecided"


def samples_to_decide(interval: Mean, threshold: float) -> int | None:
    """Return the total sample size that would decide an undecided gate at the same mean.

        n (half width / distance)^2,   or with the exponent 1.6 for a confidence sequence

    None if the mean equals the threshold. Source: W. G. Cochran (1977), Sampling Techniques,
    chapter 4.
    """
    distance = abs(interval.mean - threshold)
    if distance < _ON_THRESHOLD:
        return None
    half_width = _half_width(interval, below=interval.mean > threshold)
    exponent = 2.0
    if interval.method == METHOD:
        exponent = _SEQUENCE_EXPONENT
    return max(interval.n + 1, math.ceil(interval.n * math.pow(half_width / distance, exponent)))


def labels_needed(
    corrected: Mean,
    judge: Mean,
    threshold: float,
    labels: int,
    statements: int,
    planned: int | None = None,
) -> int | None:
    """Return the total number of labels that would decide the gate, or None if no number would.

    With n used labels, the half widths a of the corrected and s of the judge's interval, and the
    normal quantiles c and c' of the looks at n and n' labels, this is the first look n' with

        c'^2 (s^2 / 1.96^2 + (a^2 / c^2 - s^2 / 1.96^2) n / n') < |mean - threshold|^2

    The difference of the variances counts as 0 if it is negative, or if every statement has a
    label.
    """
    normal = NormalDist()

    def variance(half_width: float, confidence: float | None) -> float:
        quantile = normal.inv_cdf((1 + (confidence or CONFIDENCE)) / 2)
        return (half_width / quantile) ** 2

    below = corrected.mean > threshold
    distance = abs(corrected.mean - threshold)
    look = look_at(labels, statements, planned)
    judge_variance = variance(_half_width(judge, below=below), CONFIDENCE)
    whole_variance = variance(_half_width(corrected, below=below), look.confidence)
    variance_of_one_label = max(0.0, whole_variance - judge_variance) * labels
    while look.next is not None:
        look = look_at(look.next, statements, planned)
        label_variance = variance_of_one_label / look.labels
        if look.next is None:  # all statements have a label
            label_variance = 0.0
        if judge_variance + label_variance < variance(distance, look.confidence):
            return look.labels
    return None


def paired_difference(
    before: ArrayLike,
    after: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    max_cluster_size: int | None = None,
) -> Mean:
    """Return the interval of the mean difference of two scores (n,) in [0, 1], after minus before.

    `clusters` (n,) are of any comparable type. `max_cluster_size` is the size of the largest
    cluster of all data if scores determined the sample size; the interval is then a confidence
    sequence. Raises ValueError for no samples, unequal lengths or values out of range.
    """
    differences = _differences(before, after)
    if max_cluster_size:
        return sequence_interval(
            differences,
            clusters=clusters,
            largest=max_cluster_size,
            lowest=-1.0,
        )
    draws = group_draws(differences, clusters, lowest=-1.0)
    mean = exact_mean(differences)
    size = len(differences)
    interval = Mean(mean, None, "one cluster", size, draws.clusters, range=(-1.0, 1.0))
    if interval.one_cluster:
        return interval
    below, above = _half_widths(draws, mean, size)
    method = "skewness-adjusted t" if draws.single else "clustered skewness-adjusted t"
    limits = (max(-1.0, mean - below), min(1.0, mean + above))
    return interval._replace(ci95=limits, method=method)


def count_changes(before: ArrayLike, after: ArrayLike) -> tuple[int, int, int]:
    """Return the numbers of samples with a higher, a lower and the same score (n,) after.

    Raises the errors of `paired_difference`.
    """
    differences = _differences(before, after)
    improved = int((differences > 0).sum())
    worsened = int((differences < 0).sum())
    return improved, worsened, len(differences) - improved - worsened


def smallest_detectable_difference(interval: Mean) -> float:
    """Return the smallest true difference that 80 % of similar samples tell from 0.

        (z_confidence + z_power) h / z_confidence = 1.43 h,   h the larger half width

    Source: J. Cohen (1988), Statistical Power Analysis for the Behavioral Sciences, chapter 2.
    """
    half_width = max(_half_width(interval, below=False), _half_width(interval, below=True))
    return half_width * (1 + Z_POWER / Z_CONFIDENCE)


def _differences(before: ArrayLike, after: ArrayLike) -> Floats:
    old = checked_values(before)
    new = checked_values(after)
    if old.shape != new.shape:
        shapes = f"before has shape {old.shape} and after {new.shape}"
        raise ValueError(f"{shapes}: they need equal lengths")
    differences: Floats = new - old
    differences[np.abs(differences) < _TIE] = 0.0
    return differences


def _half_width(interval: Mean, *, below: bool) -> float:
    """Return the part of the interval below or above its mean."""
    if below:
        return interval.mean - interval.low
    return interval.high - interval.mean


def _half_widths(draws: Draws, mean: float, size: int) -> tuple[float, float]:
    """Return the parts of the interval below and above the mean, by the module's formula."""
    clusters = draws.clusters
    sums = 2 * draws.sums - draws.sizes  # from [0, 1] back to [-1, 1]
    values, numbers = np.unique(np.round(sums / draws.sizes, _TIE_DIGITS), return_inverse=True)
    commonest = float(np.bincount(numbers, weights=draws.counts, minlength=len(values)).max())
    unlike = clusters - commonest
    decay = _GUARD_DECAY ** (-unlike * clusters / commonest)
    guard = (1 - ((1 - CONFIDENCE) / 2) ** (1 / clusters)) * decay
    half = 0.0
    shift = 0.0
    if unlike:
        deviations = (sums - mean * draws.sizes) * (clusters - 1) / (size - draws.sizes)
        t = two_sided_quantile(CONFIDENCE, clusters - 1)
        variance = float((draws.counts * deviations**2).sum()) / (clusters - 1)
        cubes = float((draws.counts * deviations**3).sum())
        third_moment = cubes / (clusters - 1) / max(1, clusters - 2) * clusters
        half = t * math.sqrt(variance / clusters)
        shift = (1 + 2 * t * t) * third_moment / (6 * clusters * variance)
    below = half - min(0.0, shift) + guard * (1 + mean)
    above = half + max(0.0, shift) + guard * (1 - mean)
    return below, above
