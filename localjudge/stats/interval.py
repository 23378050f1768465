"""How far a mean, or another statistic, may be from the truth, for samples drawn from the same source as those at hand.

A plain percentile bootstrap promises too much exactly where evaluations live: ten samples that all score 1 give the
interval [1, 1]. Here every resample holds one sample more, which nobody has seen: the worst score there can be for the
lower limit, the best for the upper one. With exponential weights w:

    low  = 2.5 % quantile of  (sum w_i x_i + w_0 * 0) / (sum w_i + w_0)
    high = 97.5 % quantile of (sum w_i x_i + w_0 * 1) / (sum w_i + w_0)

One rule for every n and every mean, so nothing jumps at a threshold. For 0/1 scores both limits are beta quantiles, and
the interval *is* the exact one of Clopper and Pearson, computed as such. For other scores in [0, 1] the coverage is a
conjecture of its authors without a known counterexample; `scripts/coverage-table` shows what it is in practice. For
large n it is the bootstrap: the unseen sample weighs 1/n.

With clusters (samples that share a document), a cluster is one draw and the unseen one has their average size. From a
single cluster of several samples nothing can be told: the next may have another size and another mean. Its interval is
all that there can be, [0, 1], and is not shown to anybody (`Interval.limits`). So is that of any other statistic, for
which it is everything: a bootstrap of one cluster would give a width of zero.

The weights are those of the Bayesian bootstrap: where Efron's weighs a row by how often it was drawn, (2, 0, 1, ...),
Rubin's weighs it by an exponential draw. It never empties a class and has no lattice for few rows, and k equal rows
share one Gamma(k) draw: ten thousand scores with thirty distinct values cost thirty draws. More than 4,096 distinct
values are binned linearly on a grid of 1/1024, which keeps their mean:  0.3 h  ->  0.7 at 0,  0.3 at h. A value X is
the mean of the two points Y that stand for it, and a bootstrap mean is sum(s_k X_k) = E[sum(s_k Y_k)]: by Jensen's
inequality binning only spreads it, and |X - Y| < h, so no limit moves by more than h; the variance of a value grows by
at most h^2 / 4. With clusters the same is done to the mean of each cluster, for each size of cluster by itself.

The invariant: neither the order of the rows nor the names of the clusters move any number; a seed and the shapes fix
every weight, whatever the block size. NumPy alone is used; its version belongs to what the last digits depend on.

Sources: N. Gaffke (2005), Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
variable, Mathematical Methods of Statistics 14, 451-467; E. Learned-Miller and P. S. Thomas (2019), A new confidence
interval for the mean of a bounded random variable, arXiv:1905.06208; M. Phan, P. S. Thomas and E. Learned-Miller
(2021), Towards practical mean bounds for small samples, ICML, arXiv:2106.03163; B. Efron and R. J. Tibshirani (1993),
An Introduction to the Bootstrap, chapters 6 and 13; D. B. Rubin (1981), The Bayesian bootstrap, Annals of Statistics 9,
130-134; J. Sethuraman (1994), A constructive definition of Dirichlet priors, Statistica Sinica 4, 639-650; M. P. Wand
(1994), Fast computation of multivariate kernel estimators, J. of Computational and Graphical Statistics 3, 433-445.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Counts = npt.NDArray[np.int64]

SEED = 0
RESAMPLES = 10_000
STATISTIC_RESAMPLES = 2_000
DISTINCT = 4_096
"""So many distinct values (or clusters) are counted one by one."""
_STEP_BITS = 10
_PART_BITS = 32
"""A value is rounded to a 2^32nd part of a step, so that shares can be added exactly."""
_BLOCK = 2**20
_HALVINGS = 64
_NEARLY_NORMAL = 10_000
_LARGEST_T = 1e6
_T_HALVINGS = 100


class Interval(NamedTuple):
    """A number, the limits that hold the true one with `confidence`, and what they rest on.

    `n` counts samples, `clusters` what was drawn independently (equal to `n` where there are no clusters), `method` is
    "exact binomial", "bootstrap", "clustered bootstrap" or "one cluster"; of a difference as `paired` says.
    """

    mean: float
    low: float
    high: float
    method: str
    n: int
    clusters: int
    confidence: float

    @property
    def one_cluster(self) -> bool:
        """Whether all samples, several of them, are of one cluster: the interval then says nothing."""
        return self.clusters == 1 < self.n

    @property
    def limits(self) -> tuple[float, float] | None:
        """Both limits, to be shown; None where the interval says nothing."""
        return None if self.one_cluster else (self.low, self.high)


class Draws(NamedTuple):
    """What a bootstrap draws: clusters of these sums and sizes, in these numbers, which need not be whole.

    Samples without clusters have size 1. Values are scaled to [0, 1]. There are `clusters` in all.
    """

    sums: Floats
    sizes: Floats
    counts: Floats
    clusters: int

    @property
    def single(self) -> bool:
        """Whether every cluster is one sample."""
        return bool((self.sizes == 1).all())


def mean_interval(
    values: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """Interval of the mean of `values` (n,), all in [0, 1]; formula and sources above.

    `clusters` (n,) names what each value belongs to, in any comparable type. One value gives a valid and very wide
    interval, one cluster of several [0, 1]. Raises ValueError for no values, values out of range or not
    finite, or unequal lengths.
    """
    _check_settings(confidence, resamples)
    scores = checked_values(values)
    draws = draws_of(scores, clusters)
    if draws.single and np.isin(draws.sums, (0.0, 1.0)).all():
        low, high = clopper_pearson(int(draws.counts[draws.sums == 1].sum()), draws.clusters, confidence)
        method = "exact binomial"
    elif draws.clusters == 1 and not draws.single:
        low, high, method = 0.0, 1.0, "one cluster"
    else:
        low, high = _limits(draws, len(scores) / draws.clusters, (1 - confidence) / 2, resamples, seed)
        method = "bootstrap" if draws.single else "clustered bootstrap"
    return Interval(exact_mean(scores), low, high, method, len(scores), draws.clusters, confidence)


def mean_bounds(values: npt.ArrayLike, failed: int) -> tuple[float, float]:
    """Least and greatest mean over all samples: those scored `values` (n,), in [0, 1], and `failed` unknown ones.

        scored 1, 1, 0, one failed:   mean 2/3   bounds [2/4, 3/4]

    Whatever made some fail, the mean lies between; an interval speaks of samples not yet seen. Raises ValueError where
    there is nothing to take a mean of. Source: C. F. Manski (1989), Anatomy of the selection problem, Journal of Human
    Resources 24, 343-360.
    """
    scores = np.asarray(values, dtype=np.float64)
    samples = len(scores) + failed
    if samples == 0 or failed < 0:
        raise ValueError(f"no mean of {len(scores)} scored and {failed} failed samples")
    total = math.fsum(scores.tolist())
    return total / samples, (total + failed) / samples


def exact_mean(values: Floats) -> float:
    """The mean of the values, one at least; their sum is rounded once, so that no order moves it."""
    return math.fsum(values.tolist()) / len(values)


def checked_values(values: npt.ArrayLike, lowest: float = 0.0) -> Floats:
    """Values in [lowest, 1] as an array (n,). Raises ValueError for anything else, and for none."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1:
        raise ValueError(f"a mean needs a flat array of values, got shape {numbers.shape}")
    if not len(numbers):
        raise ValueError("a mean needs at least one value")
    # Written so that NaN, which is neither inside nor outside, is refused too.
    if not ((numbers >= lowest) & (numbers <= 1.0)).all():
        raise ValueError(f"values must lie in [{lowest}, 1.0]")
    return numbers


def draws_of(values: Floats, clusters: npt.ArrayLike | None, lowest: float = 0.0) -> Draws:
    """What is drawn from values (n,) in [lowest, 1]. Raises ValueError unless `clusters` has one entry per row."""
    scaled = (values - lowest) / (1.0 - lowest)
    if clusters is None:
        distinct, counts = np.unique(scaled, return_counts=True)
        weights = counts.astype(np.float64)
        if len(distinct) > DISTINCT:
            distinct, weights = _points_of(_shares(distinct, counts))
        return Draws(distinct, np.ones(len(distinct)), weights, len(scaled))
    sums, sizes = _sums_of_clusters(scaled, cluster_numbers(clusters, len(scaled)))
    distinct, counts = np.unique(np.column_stack([sums, sizes]), axis=0, return_counts=True)
    if len(distinct) > DISTINCT:
        return _binned(sums, sizes)
    distinct_sums, distinct_sizes = np.ascontiguousarray(distinct.T)
    return Draws(distinct_sums, distinct_sizes, counts.astype(np.float64), len(sums))


def _shares(values: Floats, counts: Counts) -> Counts:
    """How much of the counted values falls to each point of the grid, in 2^32nd parts."""
    rounded = np.rint(values * 2.0 ** (_STEP_BITS + _PART_BITS)).astype(np.int64)
    point, part = rounded >> _PART_BITS, rounded & ((1 << _PART_BITS) - 1)
    # One more than there are points: the value 1 has no next one, and gives it nothing.
    shares = np.zeros((1 << _STEP_BITS) + 2, dtype=np.int64)
    np.add.at(shares, point, ((1 << _PART_BITS) - part) * counts)
    np.add.at(shares, point + 1, part * counts)
    return shares[:-1]


def _points_of(shares: Counts) -> tuple[Floats, Floats]:
    """The points that have a share, and their shares as counts."""
    taken = np.flatnonzero(shares)
    return taken / (1 << _STEP_BITS), shares[taken] / (1 << _PART_BITS)


def _sums_of_clusters(values: Floats, numbers: Indices) -> tuple[Floats, Floats]:
    """Sum and size of each cluster; a sum is exact and then rounded once, so that no order moves it."""
    order = np.argsort(numbers, kind="stable")
    sizes = np.bincount(numbers)
    parts = np.split(values[order], np.cumsum(sizes)[:-1])
    return np.array([math.fsum(part.tolist()) for part in parts]), sizes.astype(np.float64)


def _binned(sums: Floats, sizes: Floats) -> Draws:
    """The clusters with their means as shares of points, where more of one size differ than there are points."""
    parts = []
    for size in np.unique(sizes):
        own, counts = np.unique(sums[sizes == size], return_counts=True)
        weights = counts.astype(np.float64)
        if len(own) > (1 << _STEP_BITS) + 1:
            points, weights = _points_of(_shares(np.minimum(own / size, 1.0), counts))
            own = points * size
        parts.append((own, np.full(len(own), size), weights))
    own_sums, own_sizes, weights = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Draws(own_sums, own_sizes, weights, len(sums))


def _limits(draws: Draws, unseen_size: float, tail: float, resamples: int, seed: int) -> tuple[float, float]:
    # The last weight is that of the unseen cluster.
    shapes = np.append(draws.counts, 1.0)
    lows, highs = [], []
    for weights in gamma_weights(shapes, resamples, seed):
        # einsum, because a threaded BLAS may add in another order on another number of threads.
        scored = np.einsum("ij,j->i", weights[:, :-1], draws.sums)
        unseen = weights[:, -1] * unseen_size
        size = np.einsum("ij,j->i", weights[:, :-1], draws.sizes) + unseen
        lows.append(scored / size)
        highs.append((scored + unseen) / size)
    return quantile(np.concatenate(lows), tail), quantile(np.concatenate(highs), 1 - tail)


def gamma_weights(shapes: Floats, resamples: int, seed: int, *, spread: int = 1) -> Iterator[Floats]:
    """Yield blocks of weights, each (some rows, len(shapes)), that together have `resamples` rows.

    A block holds about a million numbers (8 MB), or one row where that alone is more; so it does when each of its rows
    is spread over so many numbers.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    block_rows = max(1, _BLOCK // max(len(shapes), spread))
    for start in range(0, resamples, block_rows):
        yield generator.standard_gamma(shapes, size=(min(block_rows, resamples - start), len(shapes)))


def quantile(draws: Floats, probability: float) -> float:
    """Quantile of bootstrap draws at rank probability * (draws + 1), which has no bias for few draws.

    Source: R. J. Hyndman and Y. Fan (1996), Sample quantiles, American Statistician 50, 361-365, definition 6.
    """
    return float(np.quantile(draws, probability, method="weibull"))


def cluster_numbers(clusters: npt.ArrayLike, rows: int) -> Indices:
    """The number of each row's cluster, from 0 on. Raises ValueError unless `clusters` has one entry per row."""
    names = np.asarray(clusters)
    if names.shape != (rows,):
        raise ValueError(f"clusters has shape {names.shape}, expected ({rows},): one entry per row")
    return np.unique(names, return_inverse=True)[1]


def canonical_groups(columns: Sequence[Floats], clusters: npt.ArrayLike | None) -> list[Indices]:
    """Indices of the rows of each cluster, in an order that neither the rows' order nor the clusters' names move.

    A row is ranked by its content, a cluster by the ranks of its rows: clusters that tie hold equal rows. Without
    clusters each row is one. Raises ValueError unless `clusters` has one entry per row.
    """
    ranks = np.unique(np.column_stack(columns), axis=0, return_inverse=True)[1].reshape(-1)
    numbers = np.arange(len(ranks)) if clusters is None else cluster_numbers(clusters, len(ranks))
    order = np.lexsort((ranks, numbers))
    members = np.split(order, np.cumsum(np.bincount(numbers))[:-1])
    return sorted(members, key=lambda rows: tuple(ranks[rows]))


Statistic = Callable[[Floats, Floats, Floats], Floats]
"""Of labels (n,), scores (n,) or (n, k), and weights (m, n): a number for each of the m weighings, (m,)."""


class LabelledScores(NamedTuple):
    """Rows (n,) that people labelled 0 or 1, the score that each has, its weight and what it was drawn with.

    `weights` are 1 / inclusion probability where some rows were likelier to be labelled than others. `clusters` names
    what each row belongs to, in any comparable type.
    """

    labels: npt.ArrayLike
    scores: npt.ArrayLike
    weights: npt.ArrayLike | None = None
    clusters: npt.ArrayLike | None = None

    def arrays(self) -> tuple[Floats, Floats, Floats]:
        """Labels, scores and weights; 1 for rows without a weight."""
        labels, scores = np.asarray(self.labels, dtype=np.float64), np.asarray(self.scores, dtype=np.float64)
        weights = np.ones(labels.shape) if self.weights is None else np.asarray(self.weights, dtype=np.float64)
        return labels, scores, weights


def statistic_interval(
    statistic: Statistic,
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    confidence: float = 0.95,
    resamples: int = STATISTIC_RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """Percentile interval of any `statistic(labels, scores, weights)`, such as `agreement.roc_auc`.

    Scores are (n,), or (n, k) for a statistic that compares k judges on the same rows. A resample is a weighing of the
    rows, and many are made at once, as blocks of weights (m, n) of about a million numbers; the statistic gives a
    number for each, (m,). The Bayesian bootstrap of D. B. Rubin (1981), with the percentile limits of Efron and
    Tibshirani (1993), chapter 13: for tens of samples or clusters and more; it has no correction for fewer, and of one
    cluster the limits are infinite. `mean` is the statistic of the data. Raises ValueError for no rows or unequal
    lengths, or a statistic that gives no such numbers, and what `statistic` raises.
    """
    rows = LabelledScores(labels, scores, clusters=clusters)
    return statistic_intervals({"": statistic}, rows, confidence=confidence, resamples=resamples, seed=seed)[""]


def statistic_intervals(
    statistics: Mapping[str, Statistic],
    rows: LabelledScores,
    *,
    confidence: float = 0.95,
    resamples: int = STATISTIC_RESAMPLES,
    seed: int = SEED,
) -> dict[str, Interval]:
    """The same of several statistics of the same rows, on the same resamples."""
    labels, scores, row_weights = rows.arrays()
    if labels.ndim != 1 or len(labels) == 0 or scores.shape[:1] != labels.shape or scores.ndim not in (1, 2):
        raise ValueError(f"labels and scores have shapes {labels.shape} and {scores.shape}")
    _check_settings(confidence, resamples)
    groups = canonical_groups([labels, *np.atleast_2d(scores.T), row_weights], rows.clusters)
    order = np.concatenate(groups)
    y_true, y_score, sample_weight = labels[order], scores[order], row_weights[order]
    group_of_row = np.repeat(np.arange(len(groups)), [len(members) for members in groups])
    blocks = gamma_weights(np.ones(len(groups)), resamples, seed, spread=len(order))
    draws: dict[str, list[Floats]] = {name: [] for name in statistics}
    for block in blocks:
        weights = np.take(block, group_of_row, axis=-1) * sample_weight
        for name, statistic in statistics.items():
            draws[name].append(_weighed(statistic, y_true, y_score, weights))
    method = "bootstrap" if len(groups) == len(order) else "clustered bootstrap"
    intervals = {}
    for name, statistic in statistics.items():
        mean = float(_weighed(statistic, y_true, y_score, sample_weight[None])[0])
        low, high = (quantile(np.concatenate(draws[name]), (1 + side * confidence) / 2) for side in (-1, 1))
        intervals[name] = Interval(mean, low, high, method, len(order), len(groups), confidence)
        if intervals[name].one_cluster:
            intervals[name] = intervals[name]._replace(low=-np.inf, high=np.inf, method="one cluster")
    return intervals


def _weighed(statistic: Statistic, labels: Floats, scores: Floats, weights: Floats) -> Floats:
    numbers = statistic(labels, scores, weights)
    if np.shape(numbers) != weights.shape[:1]:
        raise ValueError(
            f"the statistic gave shape {np.shape(numbers)} for weights {weights.shape}: expected {weights.shape[:1]}"
        )
    return numbers


def _check_settings(confidence: float, resamples: int) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")


def binomial_cdf(successes: int, trials: int, probability: float) -> float:
    """P(X <= successes) for X ~ Binomial(trials, probability), with 0 < probability < 1.

    Summed in logarithms, so that a million trials neither overflow nor lose the far tail.
    """
    return _cdf(successes, trials)(probability)


def _cdf(successes: int, trials: int) -> Callable[[float], float]:
    """`binomial_cdf` as a function of the probability: what does not depend on it is computed once."""
    if successes >= trials:
        return lambda _: 1.0
    counts = np.arange(successes + 1)
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, trials + 1)))))
    log_choose = log_factorial[trials] - log_factorial[counts] - log_factorial[trials - counts]

    def cdf(probability: float) -> float:
        log_terms = log_choose + counts * math.log(probability) + (trials - counts) * math.log1p(-probability)
        return min(1.0, float(np.exp(log_terms).sum()))

    return cdf


def clopper_pearson(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    """Limits of a proportion that hold the true one with at least `confidence`, for every n and every true value.

    Each limit is the proportion at which a count this far out has probability (1 - confidence) / 2.
    Source: C. J. Clopper and E. S. Pearson (1934), Biometrika 26, 404-413.
    """
    tail = (1 - confidence) / 2
    low, high = 0.0, 1.0
    if successes > 0:
        # P(X >= k | p) is P(Y <= n - k | 1 - p): the small tail is summed itself, never taken from 1.
        at_least = _cdf(trials - successes, trials)
        low = _root(lambda p: at_least(1 - p) - tail)
    if successes < trials:
        at_most = _cdf(successes, trials)
        high = _root(lambda p: tail - at_most(p))
    return low, high


def _root(rising: Callable[[float], float]) -> float:
    """Where a rising function on (0, 1) crosses zero, by halving."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@cache
def two_sided_quantile(confidence: float, dof: int) -> float:
    """The t with P(|T| <= t) = confidence, in (0, 1), for `dof` of at least 1.

    Raises ValueError for fewer degrees of freedom. From ten thousand on it is that of the normal distribution, which is
    smaller by (z^2 + 1) / (4 dof) of itself (R. A. Fisher and E. A. Cornish, 1960): 1.2e-4 for 95 %.
    """
    if dof < 1:
        raise ValueError(f"Student's t has at least 1 degree of freedom, got {dof}")
    if dof >= _NEARLY_NORMAL:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    low, high = 0.0, _LARGEST_T
    for _ in range(_T_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, dof) < confidence else (low, middle)
    return (low + high) / 2


def within(t: float, dof: int) -> float:
    """P(|T| <= t) for t of at least 0, with x = atan(t / sqrt(dof)).

        dof
        1      2 x / pi
        odd    2 / pi (x + sin x (cos x + 2/3 cos^3 x + ... + (2 4 ... (dof - 3)) / (3 5 ... (dof - 2)) cos^(dof-2) x))
        even   sin x (1 + 1/2 cos^2 x + ... + (1 3 ... (dof - 3)) / (2 4 ... (dof - 2)) cos^(dof - 2) x)

    Source: M. Abramowitz and I. A. Stegun (1964), Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    x = math.atan(t / math.sqrt(dof))
    if dof == 1:
        return 2 * x / math.pi
    odd = dof % 2
    steps = np.arange(2 + odd, dof - 1, 2)
    # Each term is the one before it times (k - 1) / k cos^2 x: 2/3, 4/5, ... or 1/2, 3/4, ...
    terms = np.cumprod(np.concatenate([[1.0], (steps - 1) / steps * math.cos(x) ** 2]))
    if odd:
        return 2 / math.pi * (x + math.sin(x) * math.cos(x) * float(terms.sum()))
    return math.sin(x) * float(terms.sum())
