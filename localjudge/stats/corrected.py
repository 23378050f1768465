"""A judge's mean, corrected by the labels that people gave to a part of its verdicts, and which verdicts to label.

The headline of a metric is a mean over N samples of a share of units, so a unit of a sample that has m of them weighs
w = 1 / (m N) in it, and so does an error of the judge about it. L is the judge's label, H the one of people:

    judged     p     = sum w L        over all units: the headline
    truth      theta = E[sum w H]     what people would say, for samples drawn like these: what is estimated
    corrected  theta = lambda sum w L + sum v (H - lambda L)     v: weights of the labelled units

A labelled unit that was drawn with the probability pi stands for w / pi (Horvitz and Thompson, 1952). These are scaled
to what they stand for together in their stratum (Hajek, 1971), which is known; strata are of alike p_yes. lambda, in
[0, 1], is the slope of H on L within the strata ("power tuning"). With L = 0 and one stratum it is the mean of the
labels alone, and the judge is worth the labels that would make that interval as narrow: as n labels give a width in
proportion to 1 / sqrt(n), those are n (width of the labels alone / width)^2 - n.

To first order it is a sum over independent clusters (a sample, or a group of samples): of each unit its own share and
what the labels of its stratum say on average, w (lambda L + mean q), and of each labelled unit how far it is from that,
v (q - mean q), with q = H - lambda L. Their sum of squares is the variance (S. L. Lohr, 2022, Sampling, 9.3); Student's
t has as many degrees of freedom as clusters have labels, less the strata. The limits are taken on the logit, as means
near 0 and 1 are skewed. Where no error was seen there may be one: the variance has one labelled unit more, which the
judge has wrong as likely as not. The intervals of a run are those of a planned look at its labels, with the confidence
of `localjudge.stats.looks`. A difference of two means is the sum of the differences of what each cluster adds.

Units are drawn with probabilities in proportion to their weight times how unsure the judge is of them, sqrt(p (1 - p)),
with p a tenth of the way from p_yes to 1/2, as a judge may be sure and wrong (T. Zrnic and E. J. Candes, 2024, Active
statistical inference, arXiv:2403.03208). They lie next to each other on a circle, arcs of these lengths, alike ones
together; points that the golden ratio spreads over the circle from a random start on fall on those that are labelled:
any number of them is a systematic sample (W. G. Madow, 1949, On the theory of systematic sampling II, Annals of
Mathematical Statistics 20, 333-354), so one may stop or go on at any time. After k points, which leave k gaps between
them, an arc of length s was hit with the probability sum min(s, gap).

`scripts/coverage-table --corrected` shows how often the intervals hold the truth, and how many labels are saved.

Sources: A. N. Angelopoulos, J. C. Duchi and T. Zrnic (2023), PPI++: Efficient prediction-powered inference,
arXiv:2311.01453, section 6; C.-E. Sarndal, B. Swensson and J. Wretman (1992), Model Assisted Survey Sampling, 3.6, 3.7.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localjudge.errors import DataError
from localjudge.stats.interval import CONFIDENCE, Floats, Indices, two_sided_quantile

Flags = npt.NDArray[np.bool_]

FEWEST_CLUSTERS = 10
"""Samples (or groups of samples) that need labels for an interval: of fewer, no t is a good approximation."""
_FEWEST_OF_STRATUM = 5
STRATA = 5
_DOUBT = 0.1
_ROUNDING = 1e-12
_GOLDEN = (math.sqrt(5) - 1) / 2
_GAP_DIGITS = 12
MOST_POINTS = 1 << 22
"""How many points a drawing may have: they hit all units whose shares are above 3e-7."""


class JudgedUnits(NamedTuple):
    """Units of one metric, all arrays (units,): those that make up its mean, and those that people labelled.

    `weights` are the shares of units in the mean, 1 in all. `drawn` is what a labelled unit stands for, w / pi, and 0
    where there is no label. Strata next to each other by number are alike; `clusters` are numbers from 0 on. The truth
    of `certain` units follows without a judge: `human` says it, `drawn` is the weight, and their stratum is the first.
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
        """Which units have a label that somebody gave."""
        return (self.drawn > 0) & ~self.certain


class PredictionPowered(NamedTuple):
    """The corrected mean, its limits (None where too few clusters have labels), lambda, and how many have labels."""

    mean: float
    limits: tuple[float, float] | None
    power: float
    clusters: int


class _Estimate(NamedTuple):
    """A mean, lambda, what each cluster adds to its deviation (clusters,), and how many of them have labels.

    `unseen` is the square that one labelled unit more would add, `strata` the number of those that have labels.
    """

    mean: float
    power: float
    contributions: Floats
    clusters: int
    unseen: float
    strata: int

    def half_width(self, confidence: float | None) -> float | None:
        """Half of the interval of a normal mean; None without a confidence, or if too few clusters have labels."""
        if confidence is None or self.clusters < FEWEST_CLUSTERS:
            return None
        clusters = len(self.contributions)
        variance = float((self.contributions**2).sum()) * clusters / max(1, clusters - 1) + self.unseen / 2
        return two_sided_quantile(confidence, max(1, self.clusters - self.strata)) * math.sqrt(variance)


def prediction_powered(units: JudgedUnits, confidence: float | None = CONFIDENCE) -> PredictionPowered:
    """The prediction-powered mean, formulas above; labels that agree with the judge leave the judge's mean.

    `confidence` is that of one look (`localjudge.stats.looks`): None gives no interval.

        judged   1 1 0 0 1 1 0 0 (p = .5), four labelled: 1 1 0 0 say 1 0 0 0, each stands for 1/4
        lambda   H mean .25, L mean .5: (.75 .5 - .25 .5 + .25 .5 + .25 .5) / 4 / .25 = .5
        theta    .5 .5 + ((1 - .5) + (0 - .5) + 0 + 0) / 4 = .25

    Raises DataError for no label.
    """
    estimate = _estimate(units)
    half_width, least = estimate.half_width(confidence), math.sqrt(estimate.unseen) / 2
    limits = None if half_width is None else _logit_limits(estimate.mean, half_width, least)
    return PredictionPowered(min(1.0, max(0.0, estimate.mean)), limits, estimate.power, estimate.clusters)


def labels_alone(units: JudgedUnits, confidence: float | None = CONFIDENCE) -> PredictionPowered:
    """The mean of the labels, without the judge. Raises DataError for no label."""
    nothing = np.where(units.certain, units.judged, 0.0)
    strata = np.where(units.certain, 0, units.certain.any())
    return prediction_powered(units._replace(judged=nothing, strata=strata), confidence)


def labels_saved(corrected: PredictionPowered, alone: PredictionPowered, labels: int) -> int | None:
    """How many labels more would make the interval of the labels alone as narrow as the corrected; None without any."""
    if corrected.limits is None or alone.limits is None:
        return None
    width, width_alone = (high - low for low, high in (corrected.limits, alone.limits))
    return max(0, round(labels * ((width_alone / width) ** 2 - 1)))


def covering(estimates: Sequence[PredictionPowered]) -> PredictionPowered:
    """The smallest interval around those of several estimates, and the middle of their means; the rest of the first.

    One for each annotator, where annotators contradict each other: the interval of each lies inside.
    """
    means, limits = [each.mean for each in estimates], [each.limits for each in estimates if each.limits]
    around = None
    if len(limits) == len(estimates):
        around = min(low for low, _ in limits), max(high for _, high in limits)
    return estimates[0]._replace(mean=(min(means) + max(means)) / 2, limits=around)


def corrected_difference(
    before: JudgedUnits, after: JudgedUnits, confidence: float | None = CONFIDENCE
) -> PredictionPowered:
    """The corrected mean of `after` minus that of `before`; clusters have the same numbers in both.

    A unit that both have, with one label, adds to it only what the judges and the weights make different: where no
    cluster differs the difference is exact. Its `power` is that of `after`.

    Raises DataError for no label in one of them.
    """
    old, new = _estimate(before), _estimate(after)
    size = max(len(old.contributions), len(new.contributions))
    sides = (np.pad(side.contributions, (0, size - len(side.contributions))) for side in (new, old))
    contributions = np.subtract(*sides)
    difference = _Estimate(
        mean=new.mean - old.mean,
        power=new.power,
        contributions=contributions,
        clusters=min(new.clusters, old.clusters),
        unseen=new.unseen + old.unseen if np.abs(contributions).max() > _ROUNDING else 0.0,
        strata=max(new.strata, old.strata),
    )
    half_width, limits = difference.half_width(confidence), None
    if half_width is not None:
        limits = max(-1.0, difference.mean - half_width), min(1.0, difference.mean + half_width)
    return PredictionPowered(difference.mean, limits, new.power, difference.clusters)


def _estimate(units: JudgedUnits) -> _Estimate:
    labelled = units.labelled
    if not labelled.any():
        raise DataError("no unit is labelled", hint="label some of them")
    strata = _merged_strata(units)
    known, stands_for = _sums(units.weights, strata), _sums(units.drawn, strata)
    v = units.drawn * np.divide(known, stands_for, out=np.zeros_like(known), where=stands_for > 0)[strata]
    human, judged = (values - _means(values, v, strata) for values in (units.human, units.judged))
    spread = float((v * judged**2).sum())
    power = min(1.0, max(0.0, float((v * human * judged).sum()) / spread)) if spread else 1.0
    q = units.human - power * units.judged
    return _Estimate(
        mean=power * float((units.weights * units.judged).sum()) + float((v * q).sum()),
        power=power,
        contributions=_contributions(units, strata, v, q, power),
        clusters=len(np.unique(units.clusters[labelled])),
        unseen=float((v[labelled] ** 2).mean()),  # of one labelled unit more, as heavy as those there are
        strata=len(np.unique(strata[labelled])),
    )


def _merged_strata(units: JudgedUnits) -> Indices:
    """Numbers of strata from 0 on; one with too few labels is taken together with the next, the last with its last."""
    labels = _sums(units.labelled.astype(np.float64), units.strata)
    first = int(units.certain.any())
    number, seen, new = first, 0.0, [0] * first
    for count in labels[first:]:
        if seen >= _FEWEST_OF_STRATUM:
            number, seen = number + 1, 0.0
        new.append(number)
        seen += count
    if seen < _FEWEST_OF_STRATUM and number > first:
        new = [min(stratum, number - 1) for stratum in new]
    return np.array(new, dtype=np.intp)[units.strata]


def _contributions(units: JudgedUnits, strata: Indices, v: Floats, q: Floats, power: float) -> Floats:
    """What each cluster adds to a deviation: its own part, and how its labelled units differ from their stratum.

    A stratum has its known weight, whichever of its units are labelled: only what differs from its mean varies.
    """
    average = _means(q, v, strata)
    own = units.weights * (power * units.judged + average)
    own = own - own.sum() * units.weights
    labelled = units.drawn > 0
    counts = _sums(labelled.astype(np.float64), strata)
    # Around a mean that was taken from k labels, squares are too small by (k - 1) / k.
    widened = np.sqrt(counts / np.maximum(counts - 1, 1))[strata]
    return _sums(own + np.where(labelled, widened * (v * (q - average)), 0.0), units.clusters)


def _logit_limits(mean: float, arm: float, least: float) -> tuple[float, float]:
    """The limits around the logit of a mean, which is taken to be no nearer to 0 and 1 than half a unit.

    Source: R. G. Newcombe (2001), Logit confidence intervals and the inverse sinh transformation, American Statistician
    55, 200-202.
    """
    centre = min(1 - least, max(least, mean))
    logit, on_logit = math.log(centre / (1 - centre)), arm / (centre * (1 - centre))
    low, high = (1 / (1 + math.exp(-min(700.0, max(-700.0, logit + sign * on_logit)))) for sign in (-1, 1))
    return min(low, max(0.0, mean)), max(high, min(1.0, mean))


def _means(values: Floats, weights: Floats, strata: Indices) -> Floats:
    """The weighted mean of its stratum for each unit, 0 where none has a weight."""
    total = _sums(weights, strata)
    means: Floats = np.divide(_sums(weights * values, strata), total, out=np.zeros_like(total), where=total > 0)
    return means[strata]


def _sums(values: Floats, group: Indices) -> Floats:
    return np.bincount(group, weights=values).astype(np.float64)


def strata_by_score(scores: Floats, strata: int = STRATA) -> Indices:
    """Number of the stratum of each score (units,), ascending and about equally large; equal scores are together."""
    edges = np.quantile(scores, np.arange(1, strata) / strata)
    return np.unique(np.searchsorted(edges, scores, side="right"), return_inverse=True)[1].reshape(-1)


def uncertainty(p_yes: Floats) -> Floats:
    """How far off the judge may be about units of these probabilities of 1: sqrt(p (1 - p)), p nearer to 1/2."""
    p = p_yes + _DOUBT * (0.5 - p_yes)
    return np.sqrt(p * (1 - p))


class DrawnUnits(NamedTuple):
    """Indices of the drawn units in the order of drawing, and after how many points each was hit, from 1 on."""

    taken: Indices
    turns: Indices


def draw(sizes: Floats, strata: Indices, count: int, seed: int) -> DrawnUnits:
    """Draw `count` units (or all) of these sizes (units,), above 0; those of a stratum lie together on the circle.

    Fewer where MOST_POINTS points do not hit as many.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    start, size = generator.random(), len(sizes)
    order = np.lexsort((generator.random(size), strata))
    ends = np.cumsum(sizes[order] / sizes.sum())
    points = min(4 * min(count, size), MOST_POINTS)
    while True:
        hit = np.minimum(np.searchsorted(ends, (start + _GOLDEN * np.arange(points)) % 1, side="right"), size - 1)
        units, first = np.unique(hit, return_index=True)
        if len(units) >= min(count, size) or points == MOST_POINTS:
            break
        points = min(2 * points, MOST_POINTS)
    by_turn = np.argsort(first)[:count]
    return DrawnUnits(order[units[by_turn]], first[by_turn] + 1)


def inclusion_probabilities(shares: Floats, turns: int) -> Floats:
    """With which probability units with these shares (units,) of all sizes are hit by this number of points.

    One point hits a share of 0.2 with that probability. Two, 0.618 apart, leave gaps of 0.382 and 0.618: a share of 0.2
    is hit with 2 x 0.2, one of 0.5 with 0.382 + 0.5.
    """
    points = np.sort(_GOLDEN * np.arange(turns) % 1)
    gaps, counts = np.unique(np.round(np.diff(points, append=points[0] + 1), _GAP_DIGITS), return_counts=True)
    probabilities: Floats = (np.minimum(shares[:, None], gaps) * counts).sum(axis=1)
    return np.minimum(1.0, probabilities)
