"""Combine the probabilities of several judges by logistic regression on human labels.

    p = sigmoid(b + sum of w_j x logit(p_j))    minimise log loss + ridge/2 x sum of (w_j x sd_j)^2

sd_j is the standard deviation of a judge's log odds, so that the penalty does not depend on how
extreme its probabilities are. Weights are at least 0: a judge that would get a negative weight gets
none. Held-out probabilities are from fits without the row's fold, a random set of clusters.
Sources: D. H. Wolpert (1992), Neural Networks 5, 241-259; L. Breiman (1996), Machine Learning 24,
49-64 (weights of at least 0); A. E. Hoerl and R. W. Kennard (1970), Technometrics 12, 55-67.
"""

import numpy as np
from numpy.typing import ArrayLike

from localjudge.errors import DataError
from localjudge.stats.interval import Floats, Interval, LabelledScores, statistic_intervals
from localjudge.stats.threshold import cluster_folds

RIDGE = 1.0
_MAX_STEPS = 50
_MIN_STEP = 1e-10
_BIAS_PENALTY = 1e-10  # so that the curvature can be inverted
_LARGEST_EXPONENT = 30
_MIN_SPREAD = 1e-6
_MIN_PROBABILITY = 1e-6


def fit(
    log_odds: Floats, labels: ArrayLike, row_weights: ArrayLike, ridge: float = RIDGE
) -> tuple[Floats, float]:
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
        solution = _minimise_log_loss(scaled[:, used], y_true, relative_weights, ridge)
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


def held_out(log_odds: Floats, rows: LabelledScores, ridge: float = RIDGE) -> Floats:
    """Return the probability of each row (n,) by the weights that were fitted to the other folds.

    `rows` has the labels, weights and clusters; its scores are not used. Raises DataError for a
    single cluster, or if the labels of some folds are equal.
    """
    labels, _, row_weights = rows.arrays()
    probabilities = np.zeros(len(labels))
    for tested, others in cluster_folds([labels, *log_odds.T, row_weights], rows.clusters):
        weights, bias = fit(log_odds[others], labels[others], row_weights[others], ridge)
        probabilities[tested] = combine(log_odds[tested], weights, bias)
    return probabilities


def log_loss(labels: Floats, probabilities: Floats, weights: Floats) -> Floats:
    """Return the weighted mean log losses (m,) of probabilities (n,) for row weights (m, n)."""
    clipped = np.clip(probabilities, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    losses = -np.where(labels > 0, np.log(clipped), np.log1p(-clipped))
    means: Floats = weights @ losses / weights.sum(axis=1)
    return means


def loss_difference(rows: LabelledScores, one: Floats, other: Floats) -> Interval:
    """Return the log loss of `one` minus that of `other` with its interval, paired by row, over
    clusters.
    """

    def difference(labels: Floats, scores: Floats, weights: Floats) -> Floats:
        loss = log_loss(labels, scores[:, 0], weights)
        other_loss = log_loss(labels, scores[:, 1], weights)
        values: Floats = loss - other_loss
        return values

    pairs = rows._replace(scores=np.column_stack([one, other]))
    return statistic_intervals({"difference": difference}, pairs)["difference"]


def _minimise_log_loss(columns: Floats, labels: Floats, weights: Floats, ridge: float) -> Floats:
    """Return the bias and coefficients with the least penalised log loss, by Newton's method."""
    design = np.column_stack([np.ones(len(labels)), columns])
    penalty = np.full(design.shape[1], ridge)
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
