"""Agreement of a judge with human labels: ranking, decisions and probabilities, with intervals.

Most statistics take human `labels` (n,) of 0 and 1, `scores` (probabilities of 1) or `decisions`
(n,), and `weights` (n,), by default 1, or (m, n) for m weightings of the same rows. Their results
have the shape of the weights without the last axis. They raise ValueError for no rows, unequal
lengths or other labels, and DataError if equal labels make the statistic undefined. The order of
rows does not matter.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from localjudge.errors import DataError
from localjudge.stats.interval import (
    CONFIDENCE,
    SEED,
    Floats,
    Indices,
    Mean,
    cluster_numbers,
    gamma_weights,
    quantile,
)

_RESAMPLES = 2_000
_BINS = 10
_MIN_BIN_SIZE = 10
# Distance of probabilities from 0 and 1, which have no logit. float32 resolves no smaller one.
_MIN_PROBABILITY = 1e-6
_STEPS = 100
_MIN_STEP = 1e-10
_OTHER_LABELS = "add rows with the other label"


class LabelledScores:
    """Human labels (n,) of 0 or 1, scores, weights (1 / inclusion probability) and clusters."""

    def __init__(
        self,
        labels: ArrayLike,
        scores: ArrayLike,
        weights: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
    ) -> None:
        self.labels: Floats = np.asarray(labels, dtype=np.float64)
        self.scores: Floats = np.asarray(scores, dtype=np.float64)
        self.weights: Floats = np.ones(self.labels.shape)
        if weights is not None:
            self.weights = np.asarray(weights, dtype=np.float64)
        self.clusters = clusters

    def with_scores(self, scores: ArrayLike) -> "LabelledScores":
        """Return the same rows with other scores, (n,) or (n, k)."""
        return LabelledScores(self.labels, scores, self.weights, self.clusters)


Statistic = Callable[[Floats, Floats, Floats], Floats]
"""Receives labels (n,), scores (n,) or (n, k), and weights (m, n). Returns numbers (m,)."""


def roc_auc(labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """Return the probability that a random 1 scores above a random 0. A tie counts half.

    Source: J. A. Hanley and B. J. McNeil (1982), Radiology 143, 29-36.
    """
    y_true, y_score, weight = _rows_with_both_labels(labels, scores, weights)
    tie = np.unique(y_score, return_inverse=True)[1]
    ones = _sums(weight * y_true, tie)
    zeros = _sums(weight * (1 - y_true), tie)
    below = np.cumsum(zeros, axis=-1) - zeros
    pairs = ones.sum(axis=-1) * zeros.sum(axis=-1)
    share: Floats = (ones * (below + zeros / 2)).sum(axis=-1) / pairs
    return share


def balanced_accuracy(
    labels: ArrayLike,
    decisions: ArrayLike,
    weights: ArrayLike | None = None,
) -> Floats:
    """Return the mean of sensitivity and specificity.

    Source: K. H. Brodersen et al. (2010), ICPR, 3121-3124.
    """
    tp, fp, fn, tn = _confusion_shares(_rows_with_both_labels(labels, decisions, weights))
    return (tp / (tp + fn) + tn / (tn + fp)) / 2


def bias(labels: ArrayLike, decisions: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """Return the share of rows decided 1 minus the share labelled 1."""
    _, fp, fn, _ = _confusion_shares(_checked_rows(labels, decisions, weights))
    return fp - fn


def cohen_kappa(
    labels: ArrayLike,
    decisions: ArrayLike,
    weights: ArrayLike | None = None,
) -> Floats:
    """Return the agreement beyond chance: (observed - expected) / (1 - expected).

    Source: J. Cohen (1960), Educational and Psychological Measurement 20, 37-46.
    """
    tp, fp, fn, tn = _confusion_shares(_checked_rows(labels, decisions, weights))
    if not (fp + fn).any() and not (tp.any() and tn.any()):
        problem = "Cohen's kappa is undefined if both give every row the same label"
        raise DataError(problem, hint=_OTHER_LABELS)
    expected = (tp + fn) * (tp + fp) + (tn + fp) * (tn + fn)
    return (tp + tn - expected) / (1 - expected)


def mcnemar_test(only_first: int, only_second: int) -> float:
    """Return the two-sided p-value of the exact test that both sides have the same share of 1.

    `only_first` and `only_second` pairs have a 1 on one side only. 19 and 0 give 2 * 0.5^19.
    Source: Q. McNemar (1947), Psychometrika 12, 153-157.
    """
    pairs = only_first + only_second
    smaller = min(only_first, only_second)
    outcomes = sum(math.comb(pairs, count) for count in range(smaller + 1))
    return float(min(1.0, 2 * outcomes / (1 << pairs)))


def krippendorff_alpha(units: Iterable[Sequence[int]]) -> float:
    """Return the agreement beyond chance of any number of annotators, for labels 0 and 1 of each
    unit.

        alpha = 1 - (n - 1) sum_u d_u / (m_u - 1) / (n_0 n_1)

    Unit u has m_u > 1 labels, of which d_u pairs differ; n = n_0 + n_1 are the labels of these
    units. Raises DataError if n_0 or n_1 is 0. Source: K. Krippendorff (2011), Computing
    Krippendorff's alpha-reliability, A and C.
    """
    pairable = [unit for unit in units if len(unit) > 1]
    ones = sum(map(sum, pairable))
    count = sum(map(len, pairable))
    if not 0 < ones < count:
        raise DataError(
            "all labels are equal, so agreement beyond chance is undefined",
            hint=_OTHER_LABELS,
        )
    differing = []
    for unit in pairable:
        unit_ones = sum(unit)
        differing.append(unit_ones * (len(unit) - unit_ones) / (len(unit) - 1))
    # Rounded once, so that the order of units does not matter.
    return 1 - (count - 1) * math.fsum(differing) / (ones * (count - ones))


def calibration_error(
    labels: ArrayLike,
    scores: ArrayLike,
    weights: ArrayLike | None = None,
) -> Floats:
    """Return the debiased root mean squared calibration error over equal-mass bins.

        sqrt(max(0, sum_b W_b ((sbar_b - ybar_b)^2 - ybar_b (1 - ybar_b) / (n_b - 1)) / sum_b W_b))

    Bin b has the mean score sbar, the share ybar of 1s, the weight W = sum w and n = W^2 / sum w^2
    effective rows (L. Kish (1965), Survey Sampling). Source: A. Kumar, P. Liang and T. Ma (2019),
    NeurIPS, definition 4.1, arXiv:1909.10155.
    """
    y_true, y_score, weight = _checked_rows(labels, scores, weights)
    group = _equal_mass_bins(y_score)
    mass = _sums(weight, group)
    squares = _sums(weight**2, group)
    share = _sums(weight * y_true, group) / mass
    gap = _sums(weight * y_score, group) / mass - share
    several = mass**2 - squares
    # The variance of a bin with one row is unknown; its numerator is 0.
    variance = np.divide(
        share * (1 - share) * squares,
        several,
        out=np.zeros_like(mass),
        where=several > 0,
    )
    square = (mass * (gap**2 - variance)).sum(axis=-1) / mass.sum(axis=-1)
    root: Floats = np.sqrt(np.maximum(square, 0))
    return root


def calibration_slope(
    labels: ArrayLike,
    scores: ArrayLike,
    weights: ArrayLike | None = None,
) -> Floats:
    """Return the slope of the logistic regression of the labels on the scores' logits.

        logit P(label = 1) = intercept + slope * logit(score)

    A calibrated judge has slope 1 and intercept 0. A slope below 1 means overconfident scores.

    Raises DataError if the likelihood has no maximum, because one threshold separates the labels or
    all scores are equal (A. Albert and J. A. Anderson (1984), Biometrika 71, 1-10). Source: D. R.
    Cox (1958), Biometrika 45, 562-565.
    """
    y_true, y_score, weight = _rows_with_both_labels(labels, scores, weights)
    clipped = np.clip(y_score, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    logits = np.log(clipped) - np.log1p(-clipped)
    ones = logits[y_true == 1]
    zeros = logits[y_true == 0]
    if zeros.max() <= ones.min() or ones.max() <= zeros.min():
        reason = "the scores separate the labels perfectly or are equal"
        problem = f"no calibration line exists, because {reason}"
        raise DataError(problem, hint="add rows, including hard ones")
    weightings = np.atleast_2d(weight / weight.mean(axis=-1, keepdims=True))
    columns = np.stack([logits, np.ones(len(logits))])
    [unweighted] = _logistic_lines(columns, y_true, np.ones((1, len(logits))), np.zeros(2))
    slopes: Floats = _logistic_lines(columns, y_true, weightings, unweighted)[:, 0]
    return slopes.reshape(weight.shape[:-1])


def statistic_intervals(
    statistics: Mapping[str, Statistic], rows: LabelledScores
) -> dict[str, Mean]:
    """Return percentile intervals of several statistics of the same rows, on the same resamples.

    Bayesian bootstrap with percentile limits (B. Efron and R. J. Tibshirani (1993), An Introduction
    to the Bootstrap, chapter 13), suitable from tens of clusters; the limits of one cluster are
    infinite. Raises ValueError for no rows, unequal lengths or a wrong result shape, and the errors
    of the statistics.
    """
    labels = rows.labels
    scores = rows.scores
    weights = rows.weights
    is_flat = labels.ndim == 1 and len(labels) > 0
    if not is_flat or scores.shape[:1] != labels.shape or scores.ndim not in (1, 2):
        raise ValueError(f"labels and scores have shapes {labels.shape} and {scores.shape}")
    groups = canonical_groups([labels, *np.atleast_2d(scores.T), weights], rows.clusters)
    order = np.concatenate(groups)
    ordered = LabelledScores(labels[order], scores[order], weights[order])
    sizes = [len(members) for members in groups]
    draws = _resample(statistics, ordered, sizes)
    method = "bootstrap"
    if len(groups) < len(order):
        method = "clustered bootstrap"
    tail = (1 - CONFIDENCE) / 2
    intervals = {}
    for name, statistic in statistics.items():
        mean = float(statistic(labels[order], scores[order], weights[order][None])[0])
        limits = (quantile(draws[name], tail), quantile(draws[name], 1 - tail))
        interval = Mean(mean, limits, method, len(order), len(groups))
        if interval.one_cluster:
            infinite = (-np.inf, np.inf)
            interval = interval._replace(ci95=None, method="one cluster", range=infinite)
        intervals[name] = interval
    return intervals


def canonical_groups(columns: Sequence[Floats], clusters: ArrayLike | None) -> list[Indices]:
    """Return the row indices of each cluster (by default each row), ordered by their content."""
    ranks = np.unique(np.column_stack(columns), axis=0, return_inverse=True)[1].reshape(-1)
    numbers = np.arange(len(ranks))
    if clusters is not None:
        numbers = cluster_numbers(clusters, len(ranks))
    order = np.lexsort((ranks, numbers))
    members = np.split(order, np.cumsum(np.bincount(numbers))[:-1])
    return sorted(members, key=lambda rows: tuple(ranks[rows]))


def _resample(
    statistics: Mapping[str, Statistic],
    rows: LabelledScores,
    sizes: Sequence[int],
) -> dict[str, Floats]:
    """Return the values of each statistic on all resamples.

    In `rows`, the clusters follow each other, with these sizes.
    """
    cluster_of_row = np.repeat(np.arange(len(sizes)), sizes)
    blocks: dict[str, list[Floats]] = {name: [] for name in statistics}
    shapes = np.ones(len(sizes))
    for draws in gamma_weights(shapes, _RESAMPLES, SEED, spread=len(rows.labels)):
        weights = np.take(draws, cluster_of_row, axis=-1) * rows.weights
        for name, statistic in statistics.items():
            numbers = statistic(rows.labels, rows.scores, weights)
            if np.shape(numbers) != weights.shape[:1]:
                shape = np.shape(numbers)
                raise ValueError(f"the statistic gave shape {shape} for weights {weights.shape}")
            blocks[name].append(numbers)
    return {name: np.concatenate(numbers) for name, numbers in blocks.items()}


def _checked_rows(
    labels: ArrayLike,
    scores: ArrayLike,
    weights: ArrayLike | None,
) -> tuple[Floats, Floats, Floats]:
    rows = LabelledScores(labels, scores, weights)
    y_true = rows.labels
    y_score = rows.scores
    weight = rows.weights
    is_flat = y_true.ndim == 1 and len(y_true) > 0
    if not is_flat or not y_true.shape == y_score.shape == weight.shape[-1:]:
        shapes = f"{y_true.shape}, {y_score.shape}, {weight.shape}"
        raise ValueError(f"expected flat arrays of one length, got {shapes}")
    if not np.isin(y_true, (0, 1)).all():
        raise ValueError("labels must be 0 or 1")
    return y_true, y_score, weight


def _rows_with_both_labels(
    labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    rows = _checked_rows(labels, scores, weights)
    if rows[0].min() == rows[0].max():
        problem = f"every row has the label {rows[0][0]:g}, so telling 1 from 0 cannot be measured"
        raise DataError(problem, hint=_OTHER_LABELS)
    return rows


def _confusion_shares(rows: tuple[Floats, Floats, Floats]) -> list[Floats]:
    """Return the shares of true and false positives, and of false and true negatives."""
    y_true, decided, weight = rows
    cells = (
        y_true * decided,
        (1 - y_true) * decided,
        y_true * (1 - decided),
        (1 - y_true) * (1 - decided),
    )
    return [(weight * cell).sum(axis=-1) / weight.sum(axis=-1) for cell in cells]


def _sums(values: Floats, group: Indices) -> Floats:
    """Return the sums of values (n,) or (m, n) by group, numbered from 0."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    # `take` keeps the values of one weighting contiguous, so the order of addition is the same for
    # any m.
    return np.add.reduceat(np.take(values, order, axis=-1), starts, axis=-1)


def _equal_mass_bins(scores: Floats) -> Indices:
    """Return each row's bin number, ascending with the score, for up to ten bins of at least ten
    rows.

    Equal scores share a bin.
    """
    number = max(1, min(_BINS, len(scores) // _MIN_BIN_SIZE))
    last_of_bins = (np.arange(1, number) * len(scores) - 1) // number
    edges = np.sort(scores)[last_of_bins]
    return np.searchsorted(np.unique(edges), scores, side="left")


def _logistic_lines(columns: Floats, labels: Floats, weights: Floats, start: Floats) -> Floats:
    """Return logistic regressions (m, p) of labels (n,) on columns (p, n), one for each row of the
    weights (m, n).

    Newton's method from `start` (p,), with halved steps where the likelihood would fall. Raises
    LinAlgError for linearly dependent columns.
    """
    lines = np.tile(start, (len(weights), 1))
    steps = np.zeros((len(weights), len(columns)))
    log_likelihoods = np.full(len(lines), -np.inf)
    active = np.arange(len(lines))
    for _ in range(_STEPS):
        weight = weights[active]
        candidates = lines[active] + steps[active]
        linear = np.zeros(weight.shape)
        for number, column in enumerate(columns):
            linear += candidates[:, [number]] * column
        decay = np.exp(-np.abs(linear))
        # log(1 + e^z) in parts that cannot overflow, many times faster than `logaddexp`.
        softplus = np.maximum(linear, 0) + np.log1p(decay)
        log_likelihood = (weight * (labels * linear - softplus)).sum(axis=-1)
        is_higher = log_likelihood >= log_likelihoods[active]
        improved = active[is_higher]
        lines[improved] = candidates[is_higher]
        log_likelihoods[improved] = log_likelihood[is_higher]
        fitted = (np.where(linear >= 0, 1, decay) / (1 + decay))[is_higher]
        first = weight[is_higher] * (labels - fitted)
        second = weight[is_higher] * fitted * (1 - fitted)
        steps[improved] = _newton_steps(columns, first, second)
        steps[active[~is_higher]] /= 2
        active = active[np.abs(steps[active]).max(axis=-1) > _MIN_STEP]
        if not len(active):
            break
    return lines + steps


def _newton_steps(columns: Floats, first: Floats, second: Floats) -> Floats:
    """Return the gradient (m, p) divided by the curvature (m, p, p), shape (m, p).

    `first` and `second` (m, n) are the derivatives of the log likelihood by each row's linear term,
    the second one with the opposite sign.
    """
    gradient = np.stack([(first * column).sum(axis=-1) for column in columns], axis=-1)
    curvature = []
    for row in columns:
        curvature.append([(second * row * column).sum(axis=-1) for column in columns])
    matrices = np.moveaxis(np.array(curvature), -1, 0)
    steps: Floats = np.linalg.solve(matrices, gradient[..., None])[..., 0]
    return steps
