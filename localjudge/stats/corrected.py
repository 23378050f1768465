"""A judge's mean, corrected by the labels that people gave to a part of its verdicts, and which verdicts to label.

The headline of a metric is a mean over N samples of a share of units, so a unit of a sample that has m of them weighs
w = 1 / (m N) in it, and so does an error of the judge about it. L is the judge's label, H the one of people:

    judged     p     = sum w L        over all units: the headline
    truth      theta = E[sum w H]     what people would say, for samples drawn like these: what is estimated
    corrected  theta = lambda sum w L + sum v (H - lambda L)     v: weights of the labelled units

A labelled unit that was drawn with the probability pi stands for w / pi (Horvitz and Thompson, 1952). These are scaled
to what they stand for together in their stratum (Hajek, 1971), which is known. lambda, in [0, 1], is the slope of H on
L within the strata ("power tuning"). The labelled units are a part of the judged ones, so that the best slope lacks the
factor 1 / (1 + n / N) of a second data set.

To first order it is a sum over independent clusters (a sample, or a group of samples): of each unit its own share and
what the labels of its stratum say on average, w (lambda L + mean q), and of each labelled unit how far it is from that,
v (q - mean q), with q = H - lambda L. Their sum of squares is the variance (S. L. Lohr, 2022, Sampling, 9.3); Student's
t has as many degrees of freedom as clusters have labels, less the strata. The limits are taken on the logit, as means
near 0 and 1 are skewed. Where no error was seen there may be one: the variance has one labelled unit more, which the
judge has wrong as likely as not. `scripts/coverage-table --corrected` shows how often the intervals hold the truth.

Units are drawn in five strata of equally many by p_yes; in its stratum each with a probability in proportion to its
weight, so that every label stands for equally much of the mean, which makes the intervals narrowest. The weights are
laid end to end in a random order, and every k-th step hits a unit: systematic sampling (W. G. Madow, 1949, On the
theory of systematic sampling II, Annals of Mathematical Statistics 20, 333-354), which has exactly these probabilities.

Sources: A. N. Angelopoulos, J. C. Duchi and T. Zrnic (2023), PPI++: Efficient prediction-powered inference,
arXiv:2311.01453, section 6; C.-E. Sarndal, B. Swensson and J. Wretman (1992), Model Assisted Survey Sampling, 3.6, 3.7.
"""

import math
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
_ROUNDING = 1e-9


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


class PredictionPowered(NamedTuple):
    """The corrected mean, its limits (None where too few clusters have labels), lambda, and how many have labels."""

    mean: float
    limits: tuple[float, float] | None
    power: float
    clusters: int


def prediction_powered(units: JudgedUnits) -> PredictionPowered:
    """The prediction-powered mean, formulas above; labels that agree with the judge leave the judge's mean.

        judged   1 1 0 0 1 1 0 0 (p = .5), four labelled: 1 1 0 0 say 1 0 0 0, each stands for 1/4
        lambda   H mean .25, L mean .5: (.75 .5 - .25 .5 + .25 .5 + .25 .5) / 4 / .25 = .5
        theta    .5 .5 + ((1 - .5) + (0 - .5) + 0 + 0) / 4 = .25

    Raises DataError for no label.
    """
    labelled = _labelled(units)
    if not labelled.any():
        raise DataError("no unit is labelled", hint="label some of them")
    strata = _merged_strata(units)
    known, stands_for = _sums(units.weights, strata), _sums(units.drawn, strata)
    v = units.drawn * np.divide(known, stands_for, out=np.zeros_like(known), where=stands_for > 0)[strata]
    human, judged = (values - _means(values, v, strata) for values in (units.human, units.judged))
    spread = float((v * judged**2).sum())
    power = min(1.0, max(0.0, float((v * human * judged).sum()) / spread)) if spread else 1.0
    q = units.human - power * units.judged
    mean = power * float((units.weights * units.judged).sum()) + float((v * q).sum())
    contributions = _contributions(units, strata, v, q, power)
    squares = float((contributions**2).sum()) * len(contributions) / max(1, len(contributions) - 1)
    unseen = float((v[labelled] ** 2).mean())  # of one labelled unit more, as heavy as those there are
    limits = None
    if (clusters := len(np.unique(units.clusters[labelled]))) >= FEWEST_CLUSTERS:
        t = two_sided_quantile(CONFIDENCE, max(1, clusters - len(np.unique(strata[labelled]))))
        limits = _logit_limits(mean, t * math.sqrt(squares + unseen / 2), math.sqrt(unseen) / 2)
    return PredictionPowered(min(1.0, max(0.0, mean)), limits, power, clusters)


def _labelled(units: JudgedUnits) -> Flags:
    labelled: Flags = (units.drawn > 0) & ~units.certain
    return labelled


def _merged_strata(units: JudgedUnits) -> Indices:
    """Numbers of strata from 0 on; one with too few labels is taken together with the next, the last with its last."""
    labels = _sums(_labelled(units).astype(np.float64), units.strata)
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
    sums: Floats = np.bincount(group, weights=values).astype(np.float64)
    return sums


class Drawing(NamedTuple):
    """Indices of the drawn units in a random order, and for every unit (units,) with which probability it was drawn."""

    taken: Indices
    probabilities: Floats


def strata_by_score(scores: Floats, strata: int = STRATA) -> Indices:
    """Number of the stratum of each score (units,), ascending and about equally large; equal scores are together."""
    edges = np.quantile(scores, np.arange(1, strata) / strata)
    return np.unique(np.searchsorted(edges, scores, side="right"), return_inverse=True)[1].reshape(-1)


def draw(sizes: Floats, strata: Indices, count: int, seed: int) -> Drawing:
    """Draw `count` units (all if there are fewer) of these sizes (units,), above 0, about equally many of each stratum.

    The same seed draws the same units.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    probabilities = np.zeros(len(sizes))
    taken = []
    members = [np.flatnonzero(strata == number) for number in range(int(strata.max()) + 1)]
    for rows, share in zip(members, even_shares([len(rows) for rows in members], count), strict=True):
        probabilities[rows] = _probabilities(sizes[rows], share)
        order = generator.permutation(len(rows))
        ends = np.cumsum(probabilities[rows][order]) + generator.random()
        steps = np.floor(np.concatenate([[ends[0] - probabilities[rows[order[0]]]], ends]) + _ROUNDING)
        taken.append(rows[order][np.diff(steps) > 0])
    return Drawing(generator.permutation(np.concatenate(taken)), probabilities)


def even_shares(sizes: list[int], count: int) -> list[int]:
    """Equal shares of the count, none beyond its stratum; what is left over goes to those that have room."""
    shares = [0] * len(sizes)
    left = min(count, sum(sizes))
    while left:
        open_strata = [number for number, size in enumerate(sizes) if shares[number] < size]
        each, more = divmod(left, len(open_strata))
        for place, number in enumerate(open_strata):
            added = min(sizes[number] - shares[number], each + (place < more))
            shares[number] += added
            left -= added
    return shares


def _probabilities(sizes: Floats, count: int) -> Floats:
    """In proportion to the sizes and `count` in all; a unit that would have more than 1 has 1, and the others share."""
    probabilities = np.ones(len(sizes))
    rest = np.ones(len(sizes), dtype=bool)
    while rest.any():
        probabilities[rest] = (count - int((~rest).sum())) * sizes[rest] / sizes[rest].sum()
        beyond = rest & (probabilities >= 1)
        probabilities[beyond] = 1.0
        if not beyond.any():
            break
        rest &= ~beyond
    return probabilities
