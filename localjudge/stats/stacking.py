"""Combine the probabilities of several judges by logistic regression on human labels.

    p = sigmoid(b + sum of w_j x logit(p_j))    minimise log loss + ridge/2 x sum of (w_j x sd_j)^2

sd_j is the standard deviation of a judge's log odds, so that the penalty does not depend on how
extreme its probabilities are. Weights are at least 0: a judge that would get a negative weight gets
none. Held-out probabilities are from fits without the row's fold, a random set of clusters.
Sources: D. H. Wolpert (1992), Neural Networks 5, 241-259; L. Breiman (1996), Machine Learning 24,
49-64 (weights of at least 0); A. E. Hoerl and R. W. Kennard (1970), Technometrics 12, 55-67.

The smallest probability of a verdict 1 is chosen likewise, and rows are decided by thresholds of
other folds: a threshold that is tested on the rows it was chosen for looks better than it is.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from localjudge.errors import DataError
from localjudge.stats.agreement import LabelledScores, canonical_groups, statistic_intervals
from localjudge.stats.interval import SEED, Floats, Indices, Mean

_FOLDS = 10
_TIE = 1e-9
RIDGE = 1.0
_MAX_STEPS = 50
_MIN_STEP = 1e-10
_BIAS_PENALTY = 1e-10  # so that the curvature can be inverted
_LARGEST_EXPONENT = 30
_MIN_SPREAD = 1e-6
_MIN_PROBABILITY = 1e-6


def fit(log_odds: Floats, labels: ArrayLike, row_weights: ArrayLike) -> tuple[Floats, float]:
    """Fit judges to log odds (n, k), labels (n,) and row weights (n,).

    Returns the weight of each judge's log odds (k,), at least 0, and the bias. Raises DataError if
    all labels are equal.
    """
    y_true = np.asarray(labels, dtype=np.float64)
    relative_weights = np.asarray(row_weights, dtype=np.float64)
    relative_weights = relative_weights / relative_weights.mean()
    if len(np.unique(y_true)) == 1:
        raise DataError(
            "weights cannot be fitted if all labels are equal", hint="label more statements"
        )
    spread = np.maximum(log_odds.std(axis=0), _MIN_SPREAD)
    scaled = log_odds / spread
    used = list(range(log_odds.shape[1]))
    while True:
        solution = _minimise_log_loss(scaled[:, used], y_true, relative_weights)
        if not (solution[1:] < 0).any():
            break
        del used[int(np.argmin(solution[1:]))]
    judge_weights = np.zeros(log_odds.shape[1])
    judge_weights[used] = solution[1:] / spread[used]
    return judge_weights, float(solution[0])


def combine(log_odds: Floats, weights: Floats, bias: float) -> Floats:
    """Return the probabilities (n,) of log odds (n, k), with judges' weights (k,)."""
    probabilities: Floats = 1 / (1 + np.exp(-(bias + log_odds @ weights)))
    return probabilities


def held_out(log_odds: Floats, rows: LabelledScores) -> Floats:
    """Return the probability of each row (n,) by the weights that were fitted to the other folds.

    `rows` has the labels, weights and clusters; its scores are not used. Raises DataError for a
    single cluster, or if the labels of some folds are equal.
    """
    labels = rows.labels
    row_weights = rows.weights
    probabilities = np.zeros(len(labels))
    for tested, others in cluster_folds([labels, *log_odds.T, row_weights], rows.clusters):
        weights, bias = fit(log_odds[others], labels[others], row_weights[others])
        probabilities[tested] = combine(log_odds[tested], weights, bias)
    return probabilities


def log_loss(labels: Floats, probabilities: Floats, weights: Floats) -> Floats:
    """Return the weighted mean log losses (m,) of probabilities (n,) for row weights (m, n)."""
    clipped = np.clip(probabilities, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    losses = -np.where(labels > 0, np.log(clipped), np.log1p(-clipped))
    means: Floats = weights @ losses / weights.sum(axis=1)
    return means


def loss_difference(rows: LabelledScores, one: Floats, other: Floats) -> Mean:
    """Return the log loss of `one` minus that of `other` with its interval, paired by row, over
    clusters.
    """

    def difference(labels: Floats, scores: Floats, weights: Floats) -> Floats:
        loss = log_loss(labels, scores[:, 0], weights)
        other_loss = log_loss(labels, scores[:, 1], weights)
        values: Floats = loss - other_loss
        return values

    pairs = rows.with_scores(np.column_stack([one, other]))
    return statistic_intervals({"difference": difference}, pairs)["difference"]


def _minimise_log_loss(columns: Floats, labels: Floats, weights: Floats) -> Floats:
    """Return the bias and coefficients with the least penalised log loss, by Newton's method."""
    design = np.column_stack([np.ones(len(labels)), columns])
    penalty = np.full(design.shape[1], RIDGE)
    penalty[0] = _BIAS_PENALTY
    solution = np.zeros(design.shape[1])
    for _ in range(_MAX_STEPS):
        probabilities = 1 / (
            1 + np.exp(-np.clip(design @ solution, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))
        )
        gradient = design.T @ (weights * (probabilities - labels)) + penalty * solution
        variances = weights * probabilities * (1 - probabilities)
        curvature = design.T * variances @ design + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        solution = solution - step
        if np.abs(step).max() < _MIN_STEP:
            break
    return solution


def best_threshold(rows: LabelledScores) -> float:
    """Return the midpoint between two adjacent scores with the greatest balanced accuracy.

    Of equals it is the nearest to 0.5, then the lower. Raises DataError if all labels or all scores
    are equal.
    """
    distinct, numbers = np.unique(rows.scores, return_inverse=True)
    ones = np.bincount(numbers, rows.weights * (rows.labels == 1), len(distinct))
    zeros = np.bincount(numbers, rows.weights * (rows.labels == 0), len(distinct))
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
    labels = rows.labels
    scores = rows.scores
    weights = rows.weights
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
