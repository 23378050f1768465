"""A judge's mean, corrected by the labels that people gave to a part of its verdicts, and which verdicts to label.

The headline of a metric is a mean over N samples of a share of units, so a unit of a sample that has m of them weighs
w = 1 / (m N) in it, and so does an error of the judge about it. L is the judge's label, H the one of people:

    judged     p     = sum w L        over all units: the headline
    truth      theta = E[sum w H]     what people would say, for samples drawn like these: what is estimated
    corrected  theta = lambda sum w L + sum v (H - lambda L)     v: weights of the labelled units

A labelled unit that was drawn with the probability pi stands for w / pi (Horvitz and Thompson, 1952). These are scaled
to what they stand for together in their stratum (Hajek, 1971), which is known. lambda, in [0, 1], is the slope of H on
L within the strata: how much the judge is worth ("power tuning"). The labelled units are a part of the judged ones, so
that the best slope lacks the factor 1 / (1 + n / N) of a second data set.

To first order it is a sum over independent clusters (a sample, or a group of samples): of each unit its own share and
what the labels of its stratum say on average, w (lambda L + mean q), and of each labelled unit how far it is from that,
v (q - mean q), with q = H - lambda L. Their sum of squares is the variance (S. L. Lohr, 2022, Sampling, 9.3); Student's
t has as many degrees of freedom as clusters have labels, less the strata. The limits are taken on the logit, as means
near 0 and 1 are skewed. Where no error was seen there may be one: the variance has one labelled unit more, which the
judge has wrong as likely as not. `scripts/coverage-table --corrected` shows how often the intervals hold the truth.

Units are drawn in five strata of equally many by p_yes, so sure and unsure verdicts are labelled alike; in its stratum
with a probability in proportion to its weight, so that every label stands for equally much of the mean, which makes the
intervals narrowest for a given n. The weights are laid end to end in a random order, and every k-th step hits a unit:
systematic sampling, which has exactly the probabilities that it states.

Sources: A. N. Angelopoulos, J. C. Duchi and T. Zrnic (2023), PPI++: Efficient prediction-powered inference,
arXiv:2311.01453, section 6; W. G. Madow (1949), On the theory of systematic sampling II, Annals of Mathematical
Statistics 20, 333-354; C.-E. Sarndal, B. Swensson and J. Wretman (1992), Model Assisted Survey Sampling, 3.6 and 3.7.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localjudge.errors import DataError
from localjudge.stats.interval import Floats, Indices, two_sided_quantile

Flags = npt.NDArray[np.bool_]

FEWEST_CLUSTERS = 10
"""Samples (or groups of samples) that need labels for an interval: of fewer, no t is a good approximation."""
_FEWEST_OF_STRATUM = 5
STRATA = 5
_ROUNDING = 1e-9


class JudgedUnits(NamedTuple):
    """Units of one metric, all arrays (units,): those that make up its mean, and those that people labelled.

    `weights` are the shares of units in the mean, 1 in all. `drawn` is what a labelled unit stands for, w / pi, and 0
    where there is no label, and then nobody looks at `human`. Strata that stand beside each other by number are alike;
    `clusters` are numbers from 0 on.
    """

    judged: Floats
    weights: Floats
    human: Floats
    drawn: Floats
    strata: Indices
    clusters: Indices
    certain: Flags
    """Those whose truth needs no label, because it follows without a judge: `human` says it, `drawn` is the weight
    itself, and their stratum is the first, 0."""


class PredictionPowered(NamedTuple):
    """The corrected mean, its limits (None where too few clusters have labels), and lambda."""

    mean: float
    limits: tuple[float, float] | None
    power: float


def prediction_powered(units: JudgedUnits, *, confidence: float = 0.95) -> PredictionPowered:
    """The prediction-powered mean, formulas above; labels that agree with the judge leave the judge's mean.

        judged   1 1 0 0 1 1 0 0 (p = .5), four labelled: 1 1 0 0 say 1 0 0 0, each stands for 1/4
        lambda   H mean .25, L mean .5: (.75 .5 - .25 .5 + .25 .5 + .25 .5) / 4 / .25 = .5
        theta    .5 .5 + ((1 - .5) + (0 - .5) + 0 + 0) / 4 = .25

    Raises ValueError for arrays that are not as they should be, DataError for no label.
    """
    _refuse_unsound(units)
    strata = _merged_strata(units)
    known, labelled = _sums(units.weights, strata), _sums(units.drawn, strata)
    v = units.drawn * np.divide(known, labelled, out=np.zeros_like(known), where=labelled > 0)[strata]
    human, judged = (_off_mean(values, v, strata) for values in (units.human, units.judged))
    spread = float((v * judged**2).sum())
    power = min(1.0, max(0.0, float((v * human * judged).sum()) / spread)) if spread else 1.0
    q = units.human - power * units.judged
    mean = power * float((units.weights * units.judged).sum()) + float((v * q).sum())
    # Its stratum has its known weight, whichever of its units are labelled: only what differs from its mean varies.
    varying = v * _off_mean(q, v, strata)
    contributions = _contributions(
        units._replace(strata=strata), units.weights * (power * units.judged + _means(q, v, strata)), varying
    )
    squares = float((contributions**2).sum()) * len(contributions) / max(1, len(contributions) - 1)
    variance = squares + _unseen(v, units) / 2
    limits = None
    if (clusters := labelled_clusters(units)) >= FEWEST_CLUSTERS:
        t = two_sided_quantile(confidence, max(1, clusters - len(np.unique(strata[_labelled(units)]))))
        limits = _logit_limits(mean, t * math.sqrt(variance), math.sqrt(_unseen(v, units)) / 2)
    return PredictionPowered(_inside(mean), limits, power)


def labelled_clusters(units: JudgedUnits) -> int:
    """How many clusters have a label."""
    return len(np.unique(units.clusters[_labelled(units)]))


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


def _contributions(units: JudgedUnits, own: Floats, varying: Floats) -> Floats:
    """What each cluster adds to a deviation: its own part, and how its labelled units differ from their stratum."""
    own = own - own.sum() * units.weights
    labelled = units.drawn > 0
    counts = _sums(labelled.astype(np.float64), units.strata)
    # Around a mean that was taken from k labels, squares are too small by (k - 1) / k.
    widened = np.sqrt(counts / np.maximum(counts - 1, 1))[units.strata]
    return _sums(own + np.where(labelled, widened * varying, 0.0), units.clusters)


def _logit_limits(mean: float, arm: float, least: float) -> tuple[float, float]:
    """The limits around the logit of a mean, which is taken to be no nearer to 0 and 1 than half a unit.

    Means near 1 vary more below than above. Source: R. G. Newcombe (2001), Logit confidence intervals and the inverse
    sinh transformation, American Statistician 55, 200-202.
    """
    centre = min(1 - least, max(least, mean))
    logit, on_logit = math.log(centre / (1 - centre)), arm / (centre * (1 - centre))
    low, high = (1 / (1 + math.exp(-min(700.0, max(-700.0, logit + sign * on_logit)))) for sign in (-1, 1))
    return min(low, _inside(mean)), max(high, _inside(mean))


def _unseen(v: Floats, units: JudgedUnits) -> float:
    """Square of the weight of one labelled unit more, as heavy as those there are."""
    return float((v[_labelled(units)] ** 2).mean())


def _off_mean(values: Floats, weights: Floats, strata: Indices) -> Floats:
    return values - _means(values, weights, strata)


def _means(values: Floats, weights: Floats, strata: Indices) -> Floats:
    """The weighted mean of its stratum for each unit, 0 where none has a weight."""
    total = _sums(weights, strata)
    means: Floats = np.divide(_sums(weights * values, strata), total, out=np.zeros_like(total), where=total > 0)
    return means[strata]


def _sums(values: Floats, group: Indices) -> Floats:
    sums: Floats = np.bincount(group, weights=values).astype(np.float64)
    return sums


def _inside(value: float) -> float:
    return min(1.0, max(0.0, value))


def _refuse_unsound(units: JudgedUnits) -> None:
    if len({np.shape(column) for column in units}) > 1 or np.ndim(units.judged) != 1:
        raise ValueError(f"expected flat arrays of one length, got {[np.shape(column) for column in units]}")
    labelled = _labelled(units)
    if not labelled.any():
        raise DataError("no unit is labelled", hint="label some of them")
    for name, values in (("judged", units.judged), ("human", units.human[labelled])):
        if not np.isin(values, (0.0, 1.0)).all():
            raise ValueError(f"labels must be 0 or 1: {name}")
    if not (units.weights >= 0).all() or not math.isclose(float(units.weights.sum()), 1.0, rel_tol=1e-6):
        raise ValueError("the weights in the mean are 1 in all")
    if not (np.isfinite(units.drawn) & (units.drawn >= 0)).all():
        raise ValueError("a labelled unit stands for something finite")


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
