"""From which probability on a verdict should be 1, and what that choice is worth on rows that had no part in it.

    rows, by cluster   | fold 1 | fold 2 | fold 3 | fold 4 |
    threshold from          2 3 4    1 3 4    1 2 4    1 2 3       then decides its own fold
    saved threshold    from all rows; what is said of it is what the folds found

A threshold that is chosen and measured on the same rows looks better than it is. Clusters are never divided: rows about
one document help to guess each other. The invariant: a seed and the rows fix every threshold; neither the order of the
rows nor the names of the clusters move any.

Source: M. Stone (1974), Cross-validatory choice and assessment of statistical predictions, Journal of the Royal
Statistical Society B 36, 111-147.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localjudge.errors import DataError
from localjudge.stats.intervals import LabelledScores
from localjudge.stats.resampling import SEED, Floats, Indices, canonical_groups

FOLDS = 10
_TIE = 1e-9


class HeldOutDecisions(NamedTuple):
    """The decision on each row (n,) by a threshold from the other folds, and the threshold of each fold."""

    decisions: Floats
    thresholds: tuple[float, ...]


def best_threshold(rows: LabelledScores) -> float:
    """The threshold of the greatest balanced accuracy: 1 from it on, halfway between two neighbouring scores.

    Of several that are equally good, the one nearest to 0.5, and of two equally near ones the lower. Raises DataError
    where all labels or all scores are equal: no threshold parts them.
    """
    labels, scores = np.asarray(rows.labels, dtype=np.float64), np.asarray(rows.scores, dtype=np.float64)
    weights = np.ones(len(labels)) if rows.weights is None else np.asarray(rows.weights, dtype=np.float64)
    distinct, place = np.unique(scores, return_inverse=True)
    ones, zeros = (np.bincount(place, weights * (labels == kind), len(distinct)) for kind in (1, 0))
    if len(distinct) == 1 or not ones.any() or not zeros.any():
        raise DataError(
            "no threshold can be chosen where all labels or all probabilities are equal",
            hint="add rows that people labelled the other way",
        )
    recall = 1 - np.cumsum(ones)[:-1] / ones.sum()
    rejected = np.cumsum(zeros)[:-1] / zeros.sum()
    between = (distinct[:-1] + distinct[1:]) / 2
    between = np.where(between > distinct[:-1], between, distinct[1:])  # of two neighbouring floats, the upper
    quality = (recall + rejected) / 2
    best = between[quality >= quality.max() - _TIE]
    return float(best[np.argmin(np.abs(best - 0.5))])


def held_out_decisions(rows: LabelledScores, *, folds: int = FOLDS, seed: int = SEED) -> HeldOutDecisions:
    """Each row decided by a threshold that was chosen without its cluster.

    Raises DataError for a single cluster, and as `best_threshold` does on the rows of all folds but one.
    """
    labels, scores = np.asarray(rows.labels, dtype=np.float64), np.asarray(rows.scores, dtype=np.float64)
    weights = np.ones(len(labels)) if rows.weights is None else np.asarray(rows.weights, dtype=np.float64)
    fold = _fold_of_row([labels, scores, weights], rows.clusters, folds, seed)
    if fold.max() == 0:
        raise DataError(
            "all labels are of one cluster: no threshold can be tried on another",
            hint="label rows of other documents, or name a column with several values",
        )
    decisions = np.zeros(len(labels))
    thresholds = []
    for number in range(fold.max() + 1):
        ours = fold == number
        threshold = best_threshold(LabelledScores(labels[~ours], scores[~ours], weights[~ours]))
        decisions[ours] = scores[ours] >= threshold
        thresholds.append(threshold)
    return HeldOutDecisions(decisions, tuple(thresholds))


def _fold_of_row(columns: list[Floats], clusters: npt.ArrayLike | None, folds: int, seed: int) -> Indices:
    """The number of each row's fold: clusters in an order of their contents, shuffled, dealt out one by one."""
    groups = canonical_groups(columns, clusters)
    shuffled = np.random.Generator(np.random.PCG64(seed)).permutation(len(groups))
    fold = np.zeros(len(columns[0]), dtype=np.intp)
    for place, number in enumerate(shuffled):
        fold[groups[number]] = place % folds
    return fold
