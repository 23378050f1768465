"""Confidence intervals for a mean or a share, over samples drawn from the same source.

A plain percentile bootstrap is too narrow: ten samples that all score 1 give [1, 1]. Here every
resample, with exponential weights w (Bayesian bootstrap), contains one unseen sample of weight w_0:

    low  = 2.5 % quantile of  (sum w_i x_i + w_0 * 0) / (sum w_i + w_0)
    high = 97.5 % quantile of (sum w_i x_i + w_0 * 1) / (sum w_i + w_0)

For 0/1 scores this is the exact interval of Clopper and Pearson. A cluster is one draw. Row order,
cluster names and block size do not change any number. docs/statistics.md explains binning and
coverage. Sources: N. Gaffke (2005), Mathematical Methods of Statistics 14, 451-467; E.
Learned-Miller and P. S. Thomas (2019), arXiv:1905.06208; D. B. Rubin (1981), Annals of Statistics
9, 130-134.

The binomial distribution and Student's t are here, too, without SciPy.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Counts = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

CONFIDENCE = 0.95
Z_CONFIDENCE = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
"""Half width of an interval in standard errors, for many values."""
POWER = 0.8
"""Share of cases in which a difference is to be detected."""
Z_POWER = NormalDist().inv_cdf(POWER)
_TAIL = (1 - CONFIDENCE) / 2
SEED = 0
RESAMPLES = 10_000
DISTINCT = 4_096  # values or clusters that are not binned
_STEP_BITS = 10
_PART_BITS = 32  # shares of a step are integers, so that sums are exact
_BLOCK = 2**20
_NEARLY_NORMAL = 10_000  # degrees of freedom
_LARGEST_T = 1e6
Basis = Literal["judge", "labels", "too few labels"]
Limits = tuple[float, float] | None
"""Both ends of an interval, None without one."""


class Mean(NamedTuple):
    """A mean, share or difference with its interval, of `n` values in `clusters` independent draws.

    `ci95` is None if they give no interval; `low` and `high` are then the ends of the `range` of
    possible means. The confidence is 95 % unless the function was given another one. A mean is
    based on the judge or on labels, which `based_on` describes in words. `ppi_lambda` is the weight
    of the judge in a mean that labels correct, from 0 to 1.
    """

    mean: float
    ci95: Limits
    method: str
    n: int
    clusters: int
    range: tuple[float, float] = (0.0, 1.0)
    basis: Basis = "judge"
    based_on: str = "judge only"
    ppi_lambda: float | None = None

    @property
    def one_cluster(self) -> bool:
        return self.clusters == 1 < self.n

    @property
    def low(self) -> float:
        return (self.ci95 or self.range)[0]

    @property
    def high(self) -> float:
        return (self.ci95 or self.range)[1]

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


class NoMean(NamedTuple):
    """No mean to quote: no sample has a score, or labels are too few, as `based_on` says."""

    basis: Basis = "judge"
    based_on: str = "judge only"
    mean: None = None
    ci95: None = None


def mean_interval(
    values: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    confidence: float = CONFIDENCE,
) -> Mean:
    """Return the interval of the mean of `values` (n,) in [0, 1] in these `clusters` (n,) of any
    comparable type.

    Raises ValueError for empty or invalid values, or unequal lengths.
    """
    scores = checked_values(values)
    draws = group_draws(scores, clusters)
    return _interval(draws, exact_mean(scores), len(scores), resamples, seed, confidence)


def share_interval(
    ones: Counts,
    units: Counts,
    clusters: Indices,
    confidence: float = CONFIDENCE,
) -> Mean:
    """Return the interval of the share of 1 among all units.

    Row i has `units[i]` units, `ones[i]` of them 1, in the cluster `clusters[i]`, numbered from 0.
    `mean_interval` gives the same for a list of all units.
    """
    sums = np.bincount(clusters, weights=ones).astype(np.float64)
    sizes = np.bincount(clusters, weights=units).astype(np.float64)
    total = int(units.sum())
    share = int(ones.sum()) / total
    return _interval(_distinct(sums, sizes), share, total, RESAMPLES, SEED, confidence)


def mean_bounds(values: ArrayLike, failed: int) -> tuple[float, float]:
    """Return the smallest and largest possible mean of `values` (n,) in [0, 1] and `failed` unknown
    ones.

    Source: C. F. Manski (1989), Anatomy of the selection problem, Journal of Human Resources 24,
    343-360.
    """
    scores = np.asarray(values, dtype=np.float64)
    samples = len(scores) + failed
    total = math.fsum(scores.tolist())
    return total / samples, (total + failed) / samples


def exact_mean(values: Floats) -> float:
    """Return the mean. Its sum is rounded only once, so order does not matter."""
    return math.fsum(values.tolist()) / len(values)


def checked_values(values: ArrayLike, lowest: float = 0.0) -> Floats:
    """Return values in [lowest, 1] as an array (n,). Raises ValueError if empty or invalid."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not len(numbers):
        shape = numbers.shape
        raise ValueError(f"a mean needs a flat array with at least one value, got shape {shape}")
    if not ((numbers >= lowest) & (numbers <= 1)).all():  # refuses NaN, too
        raise ValueError(f"values must lie in [{lowest:g}, 1]")
    return numbers


class Draws(NamedTuple):
    """Clusters of equal sum and size, counted: sums of values in [0, 1], sizes and counts (k,)."""

    sums: Floats
    sizes: Floats
    counts: Floats
    clusters: int

    @property
    def single(self) -> bool:
        return bool((self.sizes == 1).all())


def group_draws(values: Floats, clusters: ArrayLike | None, lowest: float = 0.0) -> Draws:
    """Return the clusters of values (n,) in [lowest, 1].

    Raises ValueError for `clusters` of another length.
    """
    sums = (values - lowest) / (1.0 - lowest)
    sizes = np.ones(len(sums))
    if clusters is not None:
        numbers = cluster_numbers(clusters, len(sums))
        order = np.argsort(numbers, kind="stable")
        members = np.bincount(numbers)
        # Each sum is rounded once, so that order does not matter.
        parts = np.split(sums[order], np.cumsum(members)[:-1])
        sums = np.array([math.fsum(part.tolist()) for part in parts])
        sizes = members.astype(np.float64)
    return _distinct(sums, sizes)


def gamma_weights(
    shapes: Floats,
    resamples: int,
    seed: int,
    *,
    spread: int = 1,
) -> Iterator[Floats]:
    """Yield weights (rows, len(shapes)) in blocks of about 8 MB, or fewer if a row needs `spread`
    values later.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    block_rows = max(1, _BLOCK // max(len(shapes), spread))
    for start in range(0, resamples, block_rows):
        rows = min(block_rows, resamples - start)
        yield generator.standard_gamma(shapes, size=(rows, len(shapes)))


def quantile(draws: Floats, probability: float) -> float:
    """Return a quantile by definition 6 of Hyndman and Fan.

    Source: R. J. Hyndman and Y. Fan (1996), American Statistician 50, 361-365.
    """
    return float(np.quantile(draws, probability, method="weibull"))


def cluster_numbers(clusters: ArrayLike, rows: int) -> Indices:
    """Return the cluster number (from 0) of each row.

    Raises ValueError for `clusters` of another length.
    """
    names = np.asarray(clusters)
    if names.shape != (rows,):
        shape = names.shape
        raise ValueError(f"clusters has shape {shape}, expected ({rows},): one entry per row")
    return np.unique(names, return_inverse=True)[1]


def _interval(
    draws: Draws,
    mean: float,
    rows: int,
    resamples: int,
    seed: int,
    confidence: float,
) -> Mean:
    tail = (1 - confidence) / 2
    if draws.single and np.isin(draws.sums, (0.0, 1.0)).all():
        ones = int(draws.counts[draws.sums == 1].sum())
        low, high = clopper_pearson(ones, draws.clusters, tail)
        return Mean(mean, (low, high), "exact binomial", rows, draws.clusters)
    if draws.clusters == 1 and not draws.single:
        return Mean(mean, None, "one cluster", rows, draws.clusters)
    unseen_size = rows / draws.clusters
    shapes = np.append(draws.counts, 1.0)  # the last one for the unseen cluster
    lows = []
    highs = []
    for weights in gamma_weights(shapes, resamples, seed):
        # einsum, because BLAS may add in another order with another number of threads.
        scored = np.einsum("ij,j->i", weights[:, :-1], draws.sums)
        unseen = weights[:, -1] * unseen_size
        size = np.einsum("ij,j->i", weights[:, :-1], draws.sizes) + unseen
        lows.append(scored / size)
        highs.append((scored + unseen) / size)
    limits = (quantile(np.concatenate(lows), tail), quantile(np.concatenate(highs), 1 - tail))
    method = "bootstrap" if draws.single else "clustered bootstrap"
    return Mean(mean, limits, method, rows, draws.clusters)


def _distinct(sums: Floats, sizes: Floats) -> Draws:
    """Return the distinct clusters.

    If they are many, the means of each size with more distinct means than grid points are binned:
    a value is split between adjacent grid points, in units of 2^-32.
    """
    rows, counts = np.unique(np.column_stack([sums, sizes]), axis=0, return_counts=True)
    if len(rows) <= DISTINCT:
        sums_of_draws, sizes_of_draws = np.ascontiguousarray(rows.T)
        return Draws(sums_of_draws, sizes_of_draws, counts.astype(np.float64), len(sums))
    parts = []
    for size in np.unique(sizes):
        distinct, counts = np.unique(sums[sizes == size], return_counts=True)
        weights = counts.astype(np.float64)
        if len(distinct) > (1 << _STEP_BITS) + 1:
            values = np.minimum(distinct / size, 1.0)
            rounded = np.rint(values * 2.0 ** (_STEP_BITS + _PART_BITS)).astype(np.int64)
            lower = rounded >> _PART_BITS
            part = rounded & ((1 << _PART_BITS) - 1)
            # One extra point, because the value 1 adds 0 there.
            shares = np.zeros((1 << _STEP_BITS) + 2, dtype=np.int64)
            np.add.at(shares, lower, ((1 << _PART_BITS) - part) * counts)
            np.add.at(shares, lower + 1, part * counts)
            points = np.flatnonzero(shares[:-1])
            distinct = points / (1 << _STEP_BITS) * size
            weights = shares[points] / (1 << _PART_BITS)
        parts.append((distinct, np.full(len(distinct), size), weights))
    columns = zip(*parts, strict=True)
    draw_sums, draw_sizes, draw_counts = (np.concatenate(column) for column in columns)
    return Draws(draw_sums, draw_sizes, draw_counts, len(sums))


def clopper_pearson(successes: int, trials: int, tail: float = _TAIL) -> tuple[float, float]:
    """Return the exact limits of a proportion.

        P(X >= successes | low) = P(X <= successes | high) = tail

    Source: C. J. Clopper and E. S. Pearson (1934), Biometrika 26, 404-413.
    """
    low = 0.0
    high = 1.0
    if successes > 0:
        # P(X >= k | p) = P(Y <= n - k | 1 - p): the small tail is summed, not subtracted from 1.
        at_least = binomial_cdf(trials - successes, trials)
        low = _root(lambda p: at_least(1 - p) - tail)
    if successes < trials:
        at_most = binomial_cdf(successes, trials)
        high = _root(lambda p: tail - at_most(p))
    return low, high


def ratio_interval(numerators: ArrayLike, denominators: ArrayLike) -> tuple[float, float | None]:
    """Return the ratio of the sums of (n,) pairs, and half the width of its t interval (None for
    one pair).

    Source: W. G. Cochran (1977), Sampling Techniques, 3rd edition, section 6.4.
    """
    parts = np.asarray(numerators, dtype=np.float64)
    sizes = np.asarray(denominators, dtype=np.float64)
    pairs = len(parts)
    total = max(1.0, float(sizes.sum()))
    ratio = float(parts.sum()) / total
    if pairs == 1:
        return ratio, None
    deviations = parts - ratio * sizes
    error = math.sqrt(float(deviations @ deviations) * pairs / (pairs - 1)) / total
    return ratio, two_sided_quantile(CONFIDENCE, pairs - 1) * error


def binomial_cdf(successes: int, trials: int) -> Callable[[float], float]:
    """Return P(X <= successes) for X ~ Binomial(trials, p) as a function of p in (0, 1), exact in
    the far tail.
    """
    if successes >= trials:
        return lambda _: 1.0
    counts = np.arange(successes + 1)
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, trials + 1)))))
    log_choose = log_factorial[trials] - log_factorial[counts] - log_factorial[trials - counts]

    def cdf(probability: float) -> float:
        log_success = math.log(probability)
        log_failure = math.log1p(-probability)
        log_terms = log_choose + counts * log_success + (trials - counts) * log_failure
        return min(1.0, float(np.exp(log_terms).sum()))

    return cdf


@cache
def two_sided_quantile(confidence: float, dof: int) -> float:
    """Return t with P(|T| <= t) = confidence, by the normal distribution if `dof` is 10,000 or
    more.
    """
    if dof >= _NEARLY_NORMAL:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    return _root(lambda t: within(t, dof) - confidence, _LARGEST_T, halvings=100)


def within(t: float, dof: int) -> float:
    """Return P(|T| <= t) for Student's t.

    Source: M. Abramowitz and I. A. Stegun (1964), Handbook of Mathematical Functions, 26.7.3 and
    26.7.4.
    """
    x = math.atan(t / math.sqrt(dof))
    if dof == 1:
        return 2 * x / math.pi
    odd = dof % 2
    steps = np.arange(2 + odd, dof - 1, 2)
    # Ratios of consecutive terms: (k - 1) / k cos^2 x, with k = 3, 5, ... or 2, 4, ...
    terms = np.cumprod(np.concatenate([[1.0], (steps - 1) / steps * math.cos(x) ** 2]))
    if odd:
        return 2 / math.pi * (x + math.sin(x) * math.cos(x) * float(terms.sum()))
    return math.sin(x) * float(terms.sum())


def _root(rising: Callable[[float], float], high: float = 1.0, halvings: int = 64) -> float:
    """Return the zero of an increasing function on (0, high) by bisection."""
    low = 0.0
    for _ in range(halvings):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2
