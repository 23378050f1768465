"""What an interval has to know of values, gathered block by block: 8 bytes each, and 4 where they have clusters.

    few distinct values   each with its count, which is all that there is to know
    many                  shares of the points 0, 1/1024, ..., 1: a value between two points counts for both, so that
                          its mean is kept                                   0.3 h   ->   0.7 at 0,  0.3 at h

The second is linear binning (M. P. Wand, 1994, Fast computation of multivariate kernel estimators, Journal of
Computational and Graphical Statistics 3, 433-445). It spreads a mean, never the opposite, and by very little: the value
X is the mean of the two points Y that stand for it. In the Bayesian bootstrap a mean is sum(s_k X_k), with random
shares s and values X drawn from the data (J. Sethuraman, 1994, A constructive definition of Dirichlet priors,
Statistica Sinica 4, 639-650), so it is the expectation of sum(s_k Y_k) given s and X: by Jensen's inequality the binned
mean has the same centre and at least the same expectation of every convex function. |X - Y| < h, so no limit moves by
more than h, a 1024th of the range. The variance of a value grows by at most h^2 / 4, which moves the limits of n
values by about 2 h / (2 sqrt n) at most, when all lie near one spot (0.000015 of n = 4,096), and by far less elsewhere.

With clusters the same is done to the mean of each cluster, for each size of cluster by itself.

The invariant: neither the order of the values nor the blocks in which they come move any number. Sums are exact.
"""

import math
from array import array
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localjudge.stats.resampling import Floats

DISTINCT = 4_096
"""So many distinct values (or clusters) are counted one by one."""
_STEP_BITS = 10
_PART_BITS = 32
"""A value is rounded to a 2^32nd part of a step, so that shares can be added exactly."""

Counts = npt.NDArray[np.int64]


class Draws(NamedTuple):
    """What a bootstrap draws: clusters of these sums and sizes, in these numbers, which need not be whole.

    Samples without clusters have size 1. Values are scaled to [0, 1].
    """

    sums: Floats
    sizes: Floats
    counts: Floats

    @property
    def single(self) -> bool:
        """Whether every cluster is one sample."""
        return bool((self.sizes == 1).all())


class Tally:
    """Values in [lowest, 1], added in blocks; either all blocks name clusters or none does."""

    def __init__(self, lowest: float = 0.0) -> None:
        self.lowest = lowest
        self._values = array("d")
        self._clusters = array("i")

    @property
    def n(self) -> int:
        """How many values there are."""
        return len(self._values)

    def add(self, values: npt.ArrayLike, clusters: npt.ArrayLike | None = None) -> None:
        """Add some values (k,) and, where samples belong together, the number of each one's cluster (k,), below 2^31.

        Raises ValueError for values out of range or not finite, and for shapes that are not these.
        """
        scores = np.asarray(values, dtype=np.float64)
        if scores.ndim != 1:
            raise ValueError(f"a mean needs a flat array of values, got shape {scores.shape}")
        # Written so that NaN, which is neither inside nor outside, is refused too.
        if not ((scores >= self.lowest) & (scores <= 1.0)).all():
            raise ValueError(f"values must lie in [{self.lowest}, 1.0]")
        if self.n and bool(self._clusters) is (clusters is None):
            raise ValueError("some values have clusters and some have none")
        if clusters is not None:
            numbers = np.asarray(clusters, dtype=np.int32)
            if numbers.shape != scores.shape:
                raise ValueError(f"clusters has shape {numbers.shape}, expected {scores.shape}: one entry per row")
            self._clusters.frombytes(numbers.tobytes())
        self._values.frombytes(scores.tobytes())

    @property
    def total(self) -> float:
        """Sum of all values, rounded once."""
        return math.fsum(self._values)

    @property
    def mean(self) -> float:
        """Mean of the values. Raises ValueError of no values."""
        if not self.n:
            raise ValueError("a mean needs at least one value")
        return self.total / self.n

    def draws(self) -> tuple[Draws, int]:
        """What is drawn, and how many clusters it stands for (values, where there are no clusters)."""
        scaled = (np.asarray(self._values) - self.lowest) / (1.0 - self.lowest)
        if not self._clusters:
            values, counts = np.unique(scaled, return_counts=True)
            weights = counts.astype(np.float64)
            if len(values) > DISTINCT:
                values, weights = _points_of(_shares(values, counts))
            return Draws(values, np.ones(len(values)), weights), self.n
        sums, sizes = _sums_of_clusters(scaled, np.asarray(self._clusters))
        distinct, times = np.unique(np.column_stack([sums, sizes]), axis=0, return_counts=True)
        if len(distinct) > DISTINCT:
            return _binned(sums, sizes), len(sums)
        distinct_sums, distinct_sizes = np.ascontiguousarray(distinct.T)
        return Draws(distinct_sums, distinct_sizes, times.astype(np.float64)), len(sums)


def _shares(values: Floats, counts: Counts) -> Counts:
    """How much of the counted values falls to each point, in 2^32nd parts."""
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


def _sums_of_clusters(values: Floats, clusters: npt.NDArray[np.int32]) -> tuple[Floats, Floats]:
    """Sum and size of each cluster; a sum is exact and then rounded once, so that no order moves it."""
    order = np.argsort(clusters, kind="stable")
    starts = np.flatnonzero(np.diff(clusters[order], prepend=clusters[order[0]] - 1))
    ends = np.append(starts[1:], len(order))
    ordered = values[order]
    bounds: Iterable[tuple[int, int]] = zip(starts, ends, strict=True)
    sums = (math.fsum(ordered[start:end].tolist()) for start, end in bounds)
    return np.fromiter(sums, dtype=np.float64, count=len(starts)), (ends - starts).astype(np.float64)


def _binned(sums: Floats, sizes: Floats) -> Draws:
    """The clusters with their means as shares of points, where more of one size differ than there are points."""
    found = []
    for size in np.unique(sizes):
        own, counts = np.unique(sums[sizes == size], return_counts=True)
        weights = counts.astype(np.float64)
        if len(own) > (1 << _STEP_BITS) + 1:
            points, weights = _points_of(_shares(np.minimum(own / size, 1.0), counts))
            own = points * size
        found.append((own, np.full(len(own), size), weights))
    return Draws(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
