"""Choose the smallest probability of a verdict 1, and decide rows by thresholds of other rows.

Rows are divided into folds of whole clusters. A threshold that is tested on the rows it was chosen
for looks better than it is.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from localjudge.errors import DataError
from localjudge.stats.interval import SEED, Floats, Indices, LabelledScores, canonical_groups

_FOLDS = 10
_TIE = 1e-9


def best_threshold(rows: LabelledScores) -> float:
    """Return the midpoint between two adjacent scores with the greatest balanced accuracy.

    Of equals it is the nearest to 0.5, then the lower. Raises DataError if all labels or all scores
    are equal.
    """
    labels, scores, weights = rows.arrays()
    distinct, place = np.unique(scores, return_inverse=True)
    ones = np.bincount(place, weights * (labels == 1), len(distinct))
    zeros = np.bincount(place, weights * (labels == 0), len(distinct))
    if len(distinct) == 1 or not ones.any() or not zeros.any():
        problem = "no threshold can be chosen if all labels or all probabilities are equal"
        raise DataError(problem, hint="add rows with the other label")
    sensitivity = 1 - np.cumsum(ones)[:-1] / ones.sum()
    specificity = np.cumsum(zeros)[:-1] / zeros.sum()
    between = (distinct[:-1] + distinct[1:]) / 2
    # The midpoint of two neighbouring floats may be the lower one: then take the upper.
    between = np.where(between > distinct[:-1], between, distinct[1:])
    accuracy = (sensitivity + specificity) / 2
    best = between[accuracy >= accuracy.max() - _TIE]
    return float(best[np.argmin(np.abs(best - 0.5))])


def held_out_decisions(rows: LabelledScores) -> tuple[Floats, tuple[float, ...]]:
    """Return the decision on each row (n,) by the threshold of the other folds, and the threshold
    of each fold.

    Raises DataError for a single cluster, and as `best_threshold` does. Source: M. Stone (1974),
    JRSS B 36, 111-147.
    """
    labels, scores, weights = rows.arrays()
    decisions = np.zeros(len(labels))
    thresholds = []
    for tested, others in cluster_folds([labels, scores, weights], rows.clusters):
        threshold = best_threshold(LabelledScores(labels[others], scores[others], weights[others]))
        decisions[tested] = scores[tested] >= threshold
        thresholds.append(threshold)
    return decisions, tuple(thresholds)


def cluster_folds(
    columns: Sequence[Floats], clusters: ArrayLike | None
) -> list[tuple[Indices, Indices]]:
    """Divide the rows into random folds of whole clusters.

    Returns the rows to test of each fold, and all other rows in ascending order. The folds do not
    depend on the order of rows. Raises DataError for a single cluster.
    """
    groups = canonical_groups(columns, clusters)
    if len(groups) == 1:
        problem = "all labels are in one cluster, so nothing can be tested on another"
        hint = "label rows of other documents, or name a column with several values"
        raise DataError(problem, hint=hint)
    shuffled = np.random.Generator(np.random.PCG64(SEED)).permutation(len(groups))
    folds = []
    for number in range(min(_FOLDS, len(groups))):
        tested = np.concatenate([groups[group] for group in shuffled[number::_FOLDS]])
        is_other = np.ones(len(columns[0]), dtype=bool)
        is_other[tested] = False
        folds.append((tested, np.flatnonzero(is_other)))
    return folds
