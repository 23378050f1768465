"""Draw units for human labels, and correct a judge's mean by these labels (prediction-powered).

With weights w = 1 / (m N) for the m units of each of N samples, the judge's labels L and the human
labels H:

    truth      theta = E[sum w H]     the human mean for samples from the same population
    corrected  theta = lambda sum w L + sum v (H - lambda L)     v: weights of the labelled units

A labelled unit drawn with probability pi represents w / pi, scaled to the known total of its
stratum. docs/statistics.md derives weights, lambda and variance. Source: A. N.
Angelopoulos, J. C. Duchi and T. Zrnic (2023), PPI++, arXiv:2311.01453, section 6.

Units are drawn in strata and with known probabilities:

    unit     1          2     3             units in random order within their strata,
    arc      |----------|-----|--------|    as long as their sizes, on a circle of length 1
    point          x         x      x       start + 0.618 k, for k = 0, 1, 2 ...

`start` is random. A unit is drawn when a point hits its arc. The gaps between points have few
different lengths, so the probability of a hit is known: the share of starts for which one of the
points lies on the arc. docs/statistics.md explains the sizes.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from localjudge.errors import DataError
from localjudge.stats.interval import CONFIDENCE, Flags, Floats, Indices, Mean, two_sided_quantile
from localjudge.types import sigmoid

STRATA = 5
MAX_POINTS = 1 << 22
"""Most points of a drawing: enough to hit every unit with a share above 3e-7."""
_DOUBT = 0.1  # share of the way from a probability to 1/2
_GOLDEN = (math.sqrt(5) - 1) / 2
_GAP_DIGITS = 12
MIN_CLUSTERS = 10
"""Labelled clusters that an interval needs."""
_MIN_LABELS_OF_STRATUM = 5
_FLOAT_ERROR = 1e-12


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


def prediction_powered(
    units: JudgedUnits,
    confidence: float | None = CONFIDENCE,
) -> Mean:
    """Return the corrected mean, with an interval unless `confidence` is None.

        L        1 1 0 0 1 1 0 0    the first four have H = 1 0 0 0 and v = 1/4
        lambda   covariance of L and H / variance of L = .125 / .25 = .5, among the labelled
        theta    .5 x .5 + ((1 - .5) + (0 - .5) + 0 + 0) / 4 = .25

    Raises DataError without labels.
    """
    estimate = _estimate(units)
    quantile = estimate.quantile(confidence)
    ci95 = None
    if quantile is not None:
        half_width = quantile * math.sqrt(estimate.variance + estimate.unseen / 2)
        least = math.sqrt(estimate.unseen) / 2
        # On the logit scale: R. G. Newcombe (2001), American Statistician 55, 200-202.
        centre = min(1 - least, max(least, estimate.mean))
        logit = math.log(centre / (1 - centre))
        on_logit = half_width / (centre * (1 - centre))
        low = sigmoid(logit - on_logit)
        high = sigmoid(logit + on_logit)
        ci95 = min(low, max(0.0, estimate.mean)), max(high, min(1.0, estimate.mean))
    mean = estimate.with_interval(ci95)
    return mean._replace(mean=min(1.0, max(0.0, mean.mean)))


def labels_alone(units: JudgedUnits, confidence: float | None = CONFIDENCE) -> Mean:
    """Return the mean of the labels, without the judge. Raises DataError without labels."""
    without_judge = np.where(units.certain, units.judged, 0.0)
    one_stratum = np.where(units.certain, 0, units.certain.any())
    return prediction_powered(units._replace(judged=without_judge, strata=one_stratum), confidence)


def labels_saved(corrected: Mean, alone: Mean, labels: int) -> int | None:
    """Return the extra labels for an interval of the same width without the judge, or None.

    n (width_alone / width)^2 - n
    """
    if corrected.ci95 is None or alone.ci95 is None:
        return None
    width = corrected.high - corrected.low
    width_alone = alone.high - alone.low
    return max(0, round(labels * ((width_alone / width) ** 2 - 1)))


def covering(estimates: Sequence[Mean]) -> Mean:
    """Return the smallest interval that covers the intervals of all annotators, and the midpoint of
    their means.
    """
    means = [estimate.mean for estimate in estimates]
    limits = [estimate.ci95 for estimate in estimates if estimate.ci95]
    around = None
    if len(limits) == len(estimates):
        lows, highs = zip(*limits, strict=True)
        around = (min(lows), max(highs))
    return estimates[0]._replace(mean=(min(means) + max(means)) / 2, ci95=around)


def corrected_difference(
    before: JudgedUnits,
    after: JudgedUnits,
    confidence: float | None = CONFIDENCE,
    *,
    unshared: float = 1.0,
) -> Mean:
    """Return the corrected mean of `after` minus the corrected mean of `before`.

    Clusters have the same numbers in both, and their contributions are subtracted. `unshared` is
    the share of the weight of statements that only one of the runs has: unseen errors change the
    difference by no more. Raises DataError if one has no labels.
    """
    old = _estimate(before)
    new = _estimate(after)
    size = max(len(old.contributions), len(new.contributions))
    difference = _Estimate(
        mean=_without_float_error(new.mean - old.mean),
        ppi_lambda=new.ppi_lambda,
        contributions=_padded(new.contributions, size) - _padded(old.contributions, size),
        clusters=min(new.clusters, old.clusters),
        unseen=new.unseen + old.unseen,
        strata=max(new.strata, old.strata),
        labels=min(new.labels, old.labels),
    )
    return difference.as_difference(confidence, unshared)


def corrected_change(
    units: JudgedUnits,
    signs: Floats,
    shares: Floats,
    confidence: float | None = CONFIDENCE,
) -> Mean:
    """Return the corrected difference of two means, from one drawing of the statements of both.

    The weights are what each unit adds to the difference if it counts 1, without the `signs`
    (units,): 1 for units of the second mean, -1 for units of the first. A statement that both have
    is one unit with the difference of its weights. `shares` (units,) sum to the shares of the
    clusters in the means.

        A   1 of 2 statements, H = 1 0         weights 1/2, 1/2
        B   the first and two others           weights 1/3, 1/3, 1/3
        units: the first with 1/2 - 1/3 and sign -1, and three others, -1, 1, 1

    Raises DataError without labels.
    """
    signed = units._replace(judged=signs * units.judged, human=signs * units.human)
    estimate = _estimate(signed, shares)
    most = min(1.0, float(units.weights.sum()))
    return estimate.as_difference(confidence, most)


class _Estimate(NamedTuple):
    """Mean, lambda, contributions (clusters,), and what their variance needs.

    `clusters` and `strata` are those with `labels`. `unseen` is the squared weight of an unseen
    unit.
    """

    mean: float
    ppi_lambda: float
    contributions: Floats
    clusters: int
    unseen: float
    strata: int
    labels: int

    def with_interval(self, ci95: tuple[float, float] | None) -> Mean:
        return Mean(
            mean=self.mean,
            ci95=ci95,
            method="prediction-powered",
            n=self.labels,
            clusters=self.clusters,
            basis="labels",
            ppi_lambda=self.ppi_lambda,
        )

    def as_difference(self, confidence: float | None, unshared: float) -> Mean:
        """Return the mean as a difference, of which a share of the weight is `unshared`.

        The limits of a mean are on the logit scale, which widens them near 0 and 1. Those of a
        difference are not, so that unseen units count twice as much.
        """
        quantile = self.quantile(confidence)
        ci95 = None
        if quantile is not None:
            by_unseen = min(quantile**2 * self.unseen, unshared**2)
            half_width = math.sqrt(quantile**2 * self.variance + by_unseen)
            ci95 = max(-1.0, self.mean - half_width), min(1.0, self.mean + half_width)
        return self.with_interval(ci95)._replace(range=(-1.0, 1.0))

    def quantile(self, confidence: float | None) -> float | None:
        """Return the quantile of Student's t, None if the clusters give no interval."""
        if confidence is None or self.clusters < MIN_CLUSTERS:
            return None
        return two_sided_quantile(confidence, max(1, self.clusters - self.strata))

    @property
    def variance(self) -> float:
        all_clusters = len(self.contributions)
        squares = float((self.contributions**2).sum())
        return squares * all_clusters / max(1, all_clusters - 1)


def _estimate(units: JudgedUnits, shares: Floats | None = None) -> _Estimate:
    """Return the estimate.

    `shares` (units,) sum to those of the clusters in the mean, and are by default the weights.
    """
    if shares is None:
        shares = units.weights
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
    mean = ppi_lambda * float((units.weights * units.judged).sum()) + float((v * q).sum())
    return _Estimate(
        mean=_without_float_error(mean),
        ppi_lambda=ppi_lambda,
        contributions=_contributions(units, shares, strata, v, q, ppi_lambda),
        clusters=len(np.unique(units.clusters[labelled])),
        unseen=float((v[labelled] ** 2).mean()),
        strata=len(np.unique(strata[labelled])),
        labels=int(labelled.sum()),
    )


def _without_float_error(mean: float) -> float:
    """Return 1 for a sum of weights that is .9999999999999999, and 0 for one that is 1e-16."""
    whole = float(round(mean))
    if abs(mean - whole) < _FLOAT_ERROR:
        return whole
    return mean


def _merged_strata(units: JudgedUnits) -> Indices:
    """Return each unit's stratum, numbered from 0.

    A stratum with too few labels joins the next one, or, as the last, the one before.
    """
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
    shares: Floats,
    strata: Indices,
    v: Floats,
    q: Floats,
    ppi_lambda: float,
) -> Floats:
    """Return the contribution of each cluster to the corrected mean, shape (clusters,)."""
    average = _means(q, v, strata)
    parts = units.weights * (ppi_lambda * units.judged + average)
    parts = parts - parts.sum() * shares
    has_label = units.drawn > 0
    counts = _sums(has_label.astype(np.float64), strata)
    # Squares around the mean of k labels are too small by a factor of (k - 1) / k.
    widened = np.sqrt(counts / np.maximum(counts - 1, 1))[strata]
    label_parts = np.where(has_label, widened * (v * (q - average)), 0.0)
    return _sums(parts + label_parts, units.clusters)


def _padded(values: Floats, size: int) -> Floats:
    return np.pad(values, (0, size - len(values)))


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


def drawing_sizes(weights: Floats, p_yes: Floats) -> Floats:
    """Return the sizes of units (units,) in a drawing: weight times uncertainty.

    The uncertainty is sqrt(p (1 - p)), with p moved from `p_yes` towards 1/2.
    """
    p = p_yes + _DOUBT * (0.5 - p_yes)
    sizes: Floats = weights * np.sqrt(p * (1 - p))
    return sizes


def draw(sizes: Floats, strata: Indices, count: int, seed: int) -> tuple[Indices, Indices]:
    """Draw `count` units with these positive sizes (units,).

    Returns their indices (count,) in drawing order, and the number of points (count,) until each
    was hit. Fewer are drawn if `MAX_POINTS` points hit fewer.
    """
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
    first = np.argsort(turns)[:count]
    return order[units[first]], turns[first] + 1


def inclusion_probabilities(shares: Floats, turns: int) -> Floats:
    """Return the probabilities (units,) that `turns` points hit units with these shares s (units,)
    of the total size.

        sum over the gaps between points of min(s, gap)

    Two points leave gaps of 0.382 and 0.618: a share of 0.2 is hit with 2 x 0.2, one of 0.5 with
    0.382 + 0.5.
    """
    points = np.sort(_GOLDEN * np.arange(turns) % 1)
    between = np.diff(points, append=points[0] + 1)
    gaps, counts = np.unique(np.round(between, _GAP_DIGITS), return_counts=True)
    probabilities: Floats = (np.minimum(shares[:, None], gaps) * counts).sum(axis=1)
    return np.minimum(1.0, probabilities)
