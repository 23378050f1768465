"""How far a mean may be from the truth, for samples drawn from the same source as the ones at hand.

A plain percentile bootstrap promises too much exactly where evaluations live: ten samples that all score 1 give the
interval [1, 1]. Here every resample holds one sample more, which nobody has seen: the worst score there can be for the
lower limit, the best for the upper one. With exponential weights w (see `resampling`):

    low  = 2.5 % quantile of  (sum w_i x_i + w_0 * 0) / (sum w_i + w_0)
    high = 97.5 % quantile of (sum w_i x_i + w_0 * 1) / (sum w_i + w_0)

One rule for every n and every mean, so nothing jumps at a threshold. For 0/1 scores both limits are beta quantiles, and
the interval *is* the exact one of Clopper and Pearson, computed as such. For other scores in [0, 1] the coverage is a
conjecture of its authors without a known counterexample; `scripts/coverage-table` shows what it is in practice. For
large n it is the bootstrap: the unseen sample weighs 1/n.

With clusters (samples that share a document), a cluster is one draw and the unseen one has their average size. From a
single cluster of several samples nothing can be told: the next may have another size and another mean. Its interval is
all that there can be, [0, 1].

The invariant: neither the order of the rows nor the names of the clusters move any number.

Sources: N. Gaffke (2005), Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
variable, Mathematical Methods of Statistics 14, 451-467; E. Learned-Miller and P. S. Thomas (2019), A new confidence
interval for the mean of a bounded random variable, arXiv:1905.06208; M. Phan, P. S. Thomas and E. Learned-Miller
(2021), Towards practical mean bounds for small samples, ICML, arXiv:2106.03163.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localjudge.stats.binomial import clopper_pearson
from localjudge.stats.resampling import (
    RESAMPLES,
    SEED,
    Floats,
    canonical_groups,
    cluster_members,
    gamma_weights,
    quantile,
)

Statistic = Callable[[Floats, Floats, Floats], float]


class Interval(NamedTuple):
    """A number, the limits that hold the true one with `confidence`, and what they rest on.

    `n` counts samples, `clusters` what was drawn independently (equal to `n` where there are no clusters), `method` is
    "exact binomial", "bootstrap", "clustered bootstrap" or "one cluster".
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


class _Clusters(NamedTuple):
    """Distinct (sum, size) of clusters, and how often each occurs. Samples without clusters have size 1."""

    sums: Floats
    sizes: Floats
    counts: Floats

    @property
    def single(self) -> bool:
        return bool((self.sizes == 1).all())


def mean_interval(
    values: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    lowest: float = 0.0,
    highest: float = 1.0,
) -> Interval:
    """Interval of the mean of `values` (n,), none below `lowest` or above `highest`; formula and sources above.

    `clusters` (n,) names what each value belongs to, in any comparable type. One value gives a valid and very wide
    interval, one cluster of several [lowest, highest]. Raises ValueError for no values, values out of range or not
    finite, or unequal lengths.
    """
    scores = _checked(values, lowest, highest)
    _check_settings(confidence, resamples)
    groups = _distinct((scores - lowest) / (highest - lowest), clusters)
    total = int(groups.counts.sum())
    if groups.single and np.isin(groups.sums, (0.0, 1.0)).all():
        low, high = clopper_pearson(int(groups.counts[groups.sums == 1].sum()), total, confidence)
        method = "exact binomial"
    elif total == 1 and not groups.single:
        low, high, method = 0.0, 1.0, "one cluster"
    else:
        low, high = _limits(groups, confidence, resamples, seed)
        method = "bootstrap" if groups.single else "clustered bootstrap"
    scale = highest - lowest
    mean = math.fsum(scores) / len(scores)
    return Interval(mean, lowest + scale * low, lowest + scale * high, method, len(scores), total, confidence)


def statistic_interval(
    statistic: Statistic,
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    confidence: float = 0.95,
    resamples: int = 2_000,
    seed: int = SEED,
) -> Interval:
    """Percentile interval of any `statistic(labels, scores, weights)`, such as `agreement.roc_auc`.

    The Bayesian bootstrap of D. B. Rubin (1981), with the percentile limits of Efron and Tibshirani (1993), chapter 13:
    for tens of samples or clusters and more; it has no correction for fewer. `mean` is the statistic of the data.
    Raises ValueError for no rows or unequal lengths, and what `statistic` raises.
    """
    columns = [np.asarray(labels, dtype=np.float64), np.asarray(scores, dtype=np.float64)]
    if len(columns[0]) == 0 or columns[0].shape != columns[1].shape:
        raise ValueError(f"labels and scores have shapes {columns[0].shape} and {columns[1].shape}")
    _check_settings(confidence, resamples)
    groups = canonical_groups(columns, clusters)
    order = np.concatenate(groups)
    known, given = (column[order] for column in columns)
    group_of_row = np.repeat(np.arange(len(groups)), [len(rows) for rows in groups])
    draws = np.array(
        [
            statistic(known, given, weights[group_of_row])
            for block in gamma_weights(np.ones(len(groups)), resamples, seed)
            for weights in block
        ]
    )
    return Interval(
        mean=statistic(known, given, np.ones(len(order))),
        low=quantile(draws, (1 - confidence) / 2),
        high=quantile(draws, (1 + confidence) / 2),
        method="bootstrap" if len(groups) == len(order) else "clustered bootstrap",
        n=len(order),
        clusters=len(groups),
        confidence=confidence,
    )


def _checked(values: npt.ArrayLike, lowest: float, highest: float) -> Floats:
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1 or len(scores) == 0:
        raise ValueError(f"a mean needs a flat array of at least one value, got shape {scores.shape}")
    # Written so that NaN, which is neither inside nor outside, is refused too.
    if not ((scores >= lowest) & (scores <= highest)).all():
        raise ValueError(f"values must lie in [{lowest}, {highest}]")
    return scores


def _check_settings(confidence: float, resamples: int) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")


def _distinct(values: Floats, clusters: npt.ArrayLike | None) -> _Clusters:
    """The clusters by content alone: sums are exact (`fsum`), and equal clusters are counted, not listed."""
    if clusters is None:
        sums, counts = np.unique(values, return_counts=True)
        return _Clusters(sums, np.ones(len(sums)), counts.astype(np.float64))
    members = cluster_members(clusters, len(values))
    pairs = np.array([(math.fsum(values[rows]), len(rows)) for rows in members])
    distinct, counts = np.unique(pairs, axis=0, return_counts=True)
    sums, sizes = np.ascontiguousarray(distinct.T)
    return _Clusters(sums, sizes, counts.astype(np.float64))


def _limits(groups: _Clusters, confidence: float, resamples: int, seed: int) -> tuple[float, float]:
    unseen_size = float(groups.sizes @ groups.counts / groups.counts.sum())
    # The last weight is that of the unseen cluster.
    shapes = np.append(groups.counts, 1.0)
    lows, highs = [], []
    for weights in gamma_weights(shapes, resamples, seed):
        # einsum, because a threaded BLAS may add in another order on another number of threads.
        scored = np.einsum("ij,j->i", weights[:, :-1], groups.sums)
        unseen = weights[:, -1] * unseen_size
        size = np.einsum("ij,j->i", weights[:, :-1], groups.sizes) + unseen
        lows.append(scored / size)
        highs.append((scored + unseen) / size)
    tail = (1 - confidence) / 2
    return quantile(np.concatenate(lows), tail), quantile(np.concatenate(highs), 1 - tail)
