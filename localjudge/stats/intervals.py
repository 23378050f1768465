"""How far a mean may be from the truth, for samples drawn from the same source as the ones at hand.

A plain percentile bootstrap promises too much exactly where evaluations live: ten samples that all score 1 give the
interval [1, 1]. Here every resample holds one sample more, which nobody has seen: the worst score there can be for the
lower limit, the best for the upper one. With exponential weights w (see `resampling`):

    low  = 2.5 % quantile of  (sum w_i x_i + w_0 * 0) / (sum w_i + w_0)
    high = 97.5 % quantile of (sum w_i x_i + w_0 * 1) / (sum w_i + w_0)

One rule for every n and every mean, so nothing jumps at a threshold. For 0/1 scores both limits are beta quantiles, and
the interval *is* the exact one of Clopper and Pearson, computed as such. For other scores in [0, 1] the coverage is a
conjecture of its authors without a known counterexample; `scripts/coverage-table` shows what it is in practice. For
large n it is the bootstrap: the unseen sample weighs 1/n. More than 4,096 distinct values are binned, as `tally` says:
that can only spread the draws, by next to nothing, and bounds time and memory for any n.

With clusters (samples that share a document), a cluster is one draw and the unseen one has their average size. From a
single cluster of several samples nothing can be told: the next may have another size and another mean. Its interval is
all that there can be, [0, 1], and is not shown to anybody (`Interval.limits`). So is that of any other statistic, for
which it is everything: a bootstrap of one cluster would give a width of zero.

The invariant: neither the order of the rows nor the names of the clusters move any number.

Sources: N. Gaffke (2005), Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
variable, Mathematical Methods of Statistics 14, 451-467; E. Learned-Miller and P. S. Thomas (2019), A new confidence
interval for the mean of a bounded random variable, arXiv:1905.06208; M. Phan, P. S. Thomas and E. Learned-Miller
(2021), Towards practical mean bounds for small samples, ICML, arXiv:2106.03163.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localjudge.stats.binomial import clopper_pearson
from localjudge.stats.resampling import (
    RESAMPLES,
    SEED,
    Floats,
    canonical_groups,
    cluster_numbers,
    gamma_weights,
    quantile,
)
from localjudge.stats.tally import Draws, Tally

STATISTIC_RESAMPLES = 2_000
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
    scores = np.asarray(values, dtype=np.float64)
    tally = Tally()
    tally.add(scores, None if clusters is None else cluster_numbers(clusters, len(scores)))
    return tally_interval(tally, confidence=confidence, resamples=resamples, seed=seed)


def tally_interval(tally: Tally, *, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = SEED) -> Interval:
    """The same of values that were added up in blocks: bit for bit what `mean_interval` gives for all at once.

    Raises ValueError for no values.
    """
    _check_settings(confidence, resamples)
    mean = tally.mean
    draws, total = tally.draws()
    if draws.single and np.isin(draws.sums, (0.0, 1.0)).all():
        low, high = clopper_pearson(int(draws.counts[draws.sums == 1].sum()), total, confidence)
        method = "exact binomial"
    elif total == 1 and not draws.single:
        low, high, method = 0.0, 1.0, "one cluster"
    else:
        tail = (1 - confidence) / 2
        low, high = _limits(draws, tally.n / total, tail, resamples, seed)
        method = "bootstrap" if draws.single else "clustered bootstrap"
    return Interval(mean, low, high, method, tally.n, total, confidence)


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
    truth, judged = np.asarray(rows.labels, dtype=np.float64), np.asarray(rows.scores, dtype=np.float64)
    if truth.ndim != 1 or len(truth) == 0 or judged.shape[:1] != truth.shape or judged.ndim not in (1, 2):
        raise ValueError(f"labels and scores have shapes {truth.shape} and {judged.shape}")
    weights_given = np.ones(len(truth)) if rows.weights is None else np.asarray(rows.weights, dtype=np.float64)
    _check_settings(confidence, resamples)
    groups = canonical_groups([truth, *np.atleast_2d(judged.T), weights_given], rows.clusters)
    order = np.concatenate(groups)
    known, given, heavy = truth[order], judged[order], weights_given[order]
    group_of_row = np.repeat(np.arange(len(groups)), [len(members) for members in groups])
    blocks = gamma_weights(np.ones(len(groups)), resamples, seed, spread=len(order))
    draws: dict[str, list[Floats]] = {name: [] for name in statistics}
    for block in blocks:
        weights = np.take(block, group_of_row, axis=-1) * heavy
        for name, statistic in statistics.items():
            draws[name].append(_weighed(statistic, known, given, weights))
    method = "bootstrap" if len(groups) == len(order) else "clustered bootstrap"
    intervals = {}
    for name, statistic in statistics.items():
        mean = float(_weighed(statistic, known, given, heavy[None])[0])
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
