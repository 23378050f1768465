"""Prediction-powered means: a judge's mean corrected by human labels of some units, and how to draw
these units.

With weights w = 1 / (m N) for the m units of each of N samples, the judge's labels L and the human
labels H:

    truth      theta = E[sum w H]     the human mean for samples from the same population
    corrected  theta = lambda sum w L + sum v (H - lambda L)     v: weights of the labelled units

A labelled unit drawn with probability pi represents w / pi, scaled to the known total of its
stratum. docs/statistics.md derives weights, lambda, variance and drawing. Source: A. N.
Angelopoulos, J. C. Duchi and T. Zrnic (2023), PPI++, arXiv:2311.01453, section 6.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localjudge.errors import DataError
from localjudge.stats.distributions import CONFIDENCE, two_sided_quantile
from localjudge.stats.interval import Floats, Indices

Flags = npt.NDArray[np.bool_]

MIN_CLUSTERS = 10
"""Labelled clusters that an interval needs."""
_MIN_LABELS_OF_STRATUM = 5
STRATA = 5
_DOUBT = 0.1
_ROUNDING = 1e-12
DISAGREEMENT_FACTOR = 2.0
"""Factor of the size of a unit on which judges disagree, if a drawing takes these more often.

Without effect on validity. `scripts/simulations/drawing_disagreements.py` compares it with others.
"""
_GOLDEN = (math.sqrt(5) - 1) / 2
_GAP_DIGITS = 12
_MAX_LOGIT = 700.0  # exp(-700) is not 0
MAX_POINTS = 1 << 22  # in a drawing, enough to hit every unit with a share above 3e-7


class JudgedUnits(NamedTuple):
    """Units of one metric as arrays (units,), some of them labelled.

    The `weights` w have the sum 1. `drawn` is w / pi for a labelled unit and 0 for others. Strata
    and clusters are numbers from 0; adjacent strata are similar. `certain` units, with known
    labels, form the first stratum.
    """

    judged: Floats
    weights: Floats
    human: Floats
    drawn: Floats
    strata: Indices
    clusters: Indices
    certain: Flags

    @property
    def labelled(self) -> Flags:
        return (self.drawn > 0) & ~self.certain


class PredictionPowered(NamedTuple):
    """Corrected mean, limits (None for too few labelled clusters), lambda, labelled clusters."""

    mean: float
    limits: tuple[float, float] | None
    ppi_lambda: float
    clusters: int


class _Estimate(NamedTuple):
    """Mean, lambda, contributions (clusters,), and what their variance needs.

    `clusters` and `strata` are those with labels. `unseen` is the squared weight of an unseen unit.
    """

    mean: float
    ppi_lambda: float
    contributions: Floats
    clusters: int
    unseen: float
    strata: int

    def half_width(self, confidence: float | None) -> float | None:
        if confidence is None or self.clusters < MIN_CLUSTERS:
            return None
        clusters = len(self.contributions)
        squares = float((self.contributions**2).sum())
        variance = squares * clusters / max(1, clusters - 1) + self.unseen / 2
        dof = max(1, self.clusters - self.strata)
        return two_sided_quantile(confidence, dof) * math.sqrt(variance)


def prediction_powered(
    units: JudgedUnits,
    confidence: float | None = CONFIDENCE,
) -> PredictionPowered:
    """Return the corrected mean, with an interval unless `confidence` is None.

    Raises DataError without labels.

    L    1 1 0 0 1 1 0 0, p = .5; the first four have H = 1 0 0 0 and v = 1/4
    lambda = (.75 .5 - .25 .5 + .25 .5 + .25 .5) / 4 / .25 = .5
    theta = .5 .5 + ((1 - .5) + (0 - .5) + 0 + 0) / 4 = .25
    """
    estimate = _estimate(units)
    half_width = estimate.half_width(confidence)
    limits = None
    if half_width is not None:
        least = math.sqrt(estimate.unseen) / 2
        limits = _logit_limits(estimate.mean, half_width, least)
    mean = min(1.0, max(0.0, estimate.mean))
    return PredictionPowered(mean, limits, estimate.ppi_lambda, estimate.clusters)


def labels_alone(units: JudgedUnits, confidence: float | None = CONFIDENCE) -> PredictionPowered:
    """Return the mean of the labels, without the judge. Raises DataError without labels."""
    nothing = np.where(units.certain, units.judged, 0.0)
    strata = np.where(units.certain, 0, units.certain.any())
    return prediction_powered(units._replace(judged=nothing, strata=strata), confidence)


def labels_saved(corrected: PredictionPowered, alone: PredictionPowered, labels: int) -> int | None:
    """Return the extra labels for an interval of the same width without the judge, or None.

    n (width_alone / width)^2 - n
    """
    if corrected.limits is None or alone.limits is None:
        return None
    width = corrected.limits[1] - corrected.limits[0]
    width_alone = alone.limits[1] - alone.limits[0]
    return max(0, round(labels * ((width_alone / width) ** 2 - 1)))


def covering(estimates: Sequence[PredictionPowered]) -> PredictionPowered:
    """Return the smallest interval that covers the intervals of all annotators, and the midpoint of
    their means.
    """
    means = [estimate.mean for estimate in estimates]
    limits = [estimate.limits for estimate in estimates if estimate.limits]
    around = None
    if len(limits) == len(estimates):
        lows, highs = zip(*limits, strict=True)
        around = (min(lows), max(highs))
    return estimates[0]._replace(mean=(min(means) + max(means)) / 2, limits=around)


def corrected_difference(
    before: JudgedUnits, after: JudgedUnits, confidence: float | None = CONFIDENCE
) -> PredictionPowered:
    """Return the corrected mean of `after` minus the corrected mean of `before`.

    Raises DataError if one has no labels.

    Clusters have the same numbers in both, and their contributions are subtracted.
    """
    old = _estimate(before)
    new = _estimate(after)
    size = max(len(old.contributions), len(new.contributions))
    contributions = _padded(new.contributions, size) - _padded(old.contributions, size)
    unseen = 0.0
    if np.abs(contributions).max() > _ROUNDING:
        unseen = new.unseen + old.unseen
    difference = _Estimate(
        mean=new.mean - old.mean,
        ppi_lambda=new.ppi_lambda,
        contributions=contributions,
        clusters=min(new.clusters, old.clusters),
        unseen=unseen,
        strata=max(new.strata, old.strata),
    )
    half_width = difference.half_width(confidence)
    limits = None
    if half_width is not None:
        low = max(-1.0, difference.mean - half_width)
        high = min(1.0, difference.mean + half_width)
        limits = (low, high)
    return PredictionPowered(difference.mean, limits, new.ppi_lambda, difference.clusters)


def _padded(values: Floats, size: int) -> Floats:
    return np.pad(values, (0, size - len(values)))


def _estimate(units: JudgedUnits) -> _Estimate:
    labelled = units.labelled
    if not labelled.any():
        raise DataError("no unit has a label", hint="label some of them")
    strata = _merged_strata(units)
    total = _sums(units.weights, strata)
    drawn = _sums(units.drawn, strata)
    scale = np.divide(total, drawn, out=np.zeros_like(total), where=drawn > 0)
    v = units.drawn * scale[strata]
    human = units.human - _means(units.human, v, strata)
    judged = units.judged - _means(units.judged, v, strata)
    spread = float((v * judged**2).sum())
    ppi_lambda = 1.0
    if spread:
        covariance = float((v * human * judged).sum())
        ppi_lambda = min(1.0, max(0.0, covariance / spread))
    q = units.human - ppi_lambda * units.judged
    return _Estimate(
        mean=ppi_lambda * float((units.weights * units.judged).sum()) + float((v * q).sum()),
        ppi_lambda=ppi_lambda,
        contributions=_contributions(units, strata, v, q, ppi_lambda),
        clusters=len(np.unique(units.clusters[labelled])),
        unseen=float((v[labelled] ** 2).mean()),
        strata=len(np.unique(strata[labelled])),
    )


def _merged_strata(units: JudgedUnits) -> Indices:
    """Number the strata from 0. Those with too few labels join the next, or the last."""
    labels = _sums(units.labelled.astype(np.float64), units.strata)
    first_stratum = int(units.certain.any())
    number = first_stratum
    merged = [0] * first_stratum
    labels_so_far = 0.0
    for count in labels[first_stratum:]:
        if labels_so_far >= _MIN_LABELS_OF_STRATUM:
            number += 1
            labels_so_far = 0.0
        merged.append(number)
        labels_so_far += count
    if labels_so_far < _MIN_LABELS_OF_STRATUM and number > first_stratum:
        merged = [min(stratum, number - 1) for stratum in merged]
    return np.array(merged, dtype=np.intp)[units.strata]


def _contributions(
    units: JudgedUnits,
    strata: Indices,
    v: Floats,
    q: Floats,
    ppi_lambda: float,
) -> Floats:
    """Return the contribution of each cluster to the corrected mean, shape (clusters,)."""
    average = _means(q, v, strata)
    parts = units.weights * (ppi_lambda * units.judged + average)
    parts = parts - parts.sum() * units.weights
    labelled = units.drawn > 0
    counts = _sums(labelled.astype(np.float64), strata)
    # Squares around the mean of k labels are too small by a factor of (k - 1) / k.
    widened = np.sqrt(counts / np.maximum(counts - 1, 1))[strata]
    of_labels = np.where(labelled, widened * (v * (q - average)), 0.0)
    return _sums(parts + of_labels, units.clusters)


def _logit_limits(mean: float, half_width: float, least: float) -> tuple[float, float]:
    """Return limits on the logit scale, clipped to [least, 1 - least]: R. G. Newcombe (2001),
    American Statistician 55, 200-202.
    """
    centre = min(1 - least, max(least, mean))
    logit = math.log(centre / (1 - centre))
    on_logit = half_width / (centre * (1 - centre))
    low = _inverse_logit(logit - on_logit)
    high = _inverse_logit(logit + on_logit)
    return min(low, max(0.0, mean)), max(high, min(1.0, mean))


def _inverse_logit(logit: float) -> float:
    clipped = min(_MAX_LOGIT, max(-_MAX_LOGIT, logit))
    return 1 / (1 + math.exp(-clipped))


def _means(values: Floats, weights: Floats, strata: Indices) -> Floats:
    total = _sums(weights, strata)
    sums = _sums(weights * values, strata)
    means: Floats = np.divide(sums, total, out=np.zeros_like(total), where=total > 0)
    return means[strata]


def _sums(values: Floats, group: Indices) -> Floats:
    return np.bincount(group, weights=values).astype(np.float64)


def strata_by_score(scores: Floats, strata: int = STRATA) -> Indices:
    """Return each score's stratum (units,), ascending.

    Strata have about equal sizes; equal scores share one.
    """
    edges = np.quantile(scores, np.arange(1, strata) / strata)
    numbers = np.searchsorted(edges, scores, side="right")
    return np.unique(numbers, return_inverse=True)[1].reshape(-1)


def uncertainty(p_yes: Floats) -> Floats:
    """Return sqrt(p (1 - p)), with p moved from `p_yes` towards 1/2."""
    p = p_yes + _DOUBT * (0.5 - p_yes)
    return np.sqrt(p * (1 - p))


def drawing_sizes(weights: Floats, p_yes: Floats, divided: Flags | None = None) -> Floats:
    """Return the sizes of units (units,) in a drawing: weight times uncertainty.

    Units on which the judges of a jury are `divided` have `DISAGREEMENT_FACTOR` times this size.
    """
    sizes: Floats = weights * uncertainty(p_yes)
    if divided is None:
        return sizes
    return np.where(divided, DISAGREEMENT_FACTOR * sizes, sizes)


class DrawnUnits(NamedTuple):
    """Indices of the units in drawing order, and the number of points until each was hit."""

    taken: Indices
    turns: Indices


def draw(sizes: Floats, strata: Indices, count: int, seed: int) -> DrawnUnits:
    """Draw `count` units with these positive sizes (units,), or all hit by `MAX_POINTS` points."""
    generator = np.random.Generator(np.random.PCG64(seed))
    start = generator.random()
    size = len(sizes)
    order = np.lexsort((generator.random(size), strata))
    ends = np.cumsum(sizes[order] / sizes.sum())
    number = min(4 * min(count, size), MAX_POINTS)
    while True:
        points = (start + _GOLDEN * np.arange(number)) % 1
        hit = np.minimum(np.searchsorted(ends, points, side="right"), size - 1)
        units, turns = np.unique(hit, return_index=True)
        if len(units) >= min(count, size) or number == MAX_POINTS:
            break
        number = min(2 * number, MAX_POINTS)
    by_turn = np.argsort(turns)[:count]
    return DrawnUnits(order[units[by_turn]], turns[by_turn] + 1)


def inclusion_probabilities(shares: Floats, turns: int) -> Floats:
    """Return the probabilities that `turns` points hit units with shares s (units,) of the total:
    sums of min(s, gap).

    Two points leave gaps of 0.382 and 0.618: a share of 0.2 is hit with 2 x 0.2, one of 0.5 with
    0.382 + 0.5.
    """
    points = np.sort(_GOLDEN * np.arange(turns) % 1)
    between = np.diff(points, append=points[0] + 1)
    gaps, counts = np.unique(np.round(between, _GAP_DIGITS), return_counts=True)
    probabilities: Floats = (np.minimum(shares[:, None], gaps) * counts).sum(axis=1)
    return np.minimum(1.0, probabilities)
