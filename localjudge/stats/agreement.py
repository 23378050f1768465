"""How well a judge agrees with people: its order, its decisions and its probabilities, each measured apart.

    labels         0  0  1  1      what people said
    scores         .1 .6 .4 .9     what the judge gives as the probability of 1
    decisions      0  1  0  1      scores >= threshold

    order          roc_auc                           does 1 get higher scores than 0?
    decisions      balanced_accuracy, cohen_kappa    are the labels right?
    probabilities  brier_score, expected_calibration_error, calibration_line    does 0.8 mean eight of ten?

Every function takes `labels` (n,) of 0 and 1, `scores` or `decisions` (n,), and `weights` (n,), one per row and 1 where
left out, which is what `statistic_interval` needs. The order of the rows is immaterial. All raise ValueError for no
rows, unequal lengths or other labels, and DataError where labels of one kind leave the number without a meaning.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localjudge.errors import DataError
from localjudge.stats.resampling import Floats

_BINS = 10
# A probability of exactly 0 or 1 has no logit: 1e-6 stands for it, the least that a float32 softmax tells from 0 or 1.
_LEAST = 1e-6
_STEPS = 100
_ENOUGH = 1e-10


class CalibrationLine(NamedTuple):
    """logit P(label = 1) = intercept + slope * logit(score): 0 and 1 for a calibrated judge."""

    slope: float
    intercept: float


class _Rows(NamedTuple):
    labels: Floats
    scores: Floats
    weights: Floats


def roc_auc(labels: npt.ArrayLike, scores: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float:
    """Probability that a random 1 scores above a random 0; a tie counts half.

    Source: J. A. Hanley and B. J. McNeil (1982), Radiology 143, 29-36.
    """
    rows = _both_kinds(_rows(labels, scores, weights))
    group = np.unique(rows.scores, return_inverse=True)[1]
    ones = np.bincount(group, weights=rows.weights * rows.labels)
    zeros = np.bincount(group, weights=rows.weights * (1 - rows.labels))
    below = np.cumsum(zeros) - zeros
    return float((ones * (below + zeros / 2)).sum() / (ones.sum() * zeros.sum()))


def balanced_accuracy(labels: npt.ArrayLike, decisions: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float:
    """Mean of the share of 1s and the share of 0s that were decided rightly.

    Source: K. H. Brodersen et al. (2010), The balanced accuracy and its posterior distribution, ICPR, 3121-3124.
    """
    rows = _both_kinds(_rows(labels, decisions, weights))
    right = rows.weights * (rows.labels == rows.scores)
    ones, zeros = rows.labels == 1, rows.labels == 0
    recalls = [right[kind].sum() / rows.weights[kind].sum() for kind in (ones, zeros)]
    return float(sum(recalls) / 2)


def cohen_kappa(labels: npt.ArrayLike, decisions: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float:
    """Agreement beyond chance, (observed - expected) / (1 - expected).

    Source: J. Cohen (1960), Educational and Psychological Measurement 20, 37-46.
    """
    rows = _rows(labels, decisions, weights)
    if rows.labels.min() == rows.labels.max() and (rows.labels == rows.scores).all():
        raise DataError(
            "Cohen's kappa has no value where both say the same one label for every row",
            hint="add rows that people labelled the other way",
        )
    share = rows.weights / rows.weights.sum()
    observed = (share * (rows.labels == rows.scores)).sum()
    labelled, decided = (share * rows.labels).sum(), (share * rows.scores).sum()
    expected = labelled * decided + (1 - labelled) * (1 - decided)
    return float((observed - expected) / (1 - expected))


def brier_score(labels: npt.ArrayLike, scores: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float:
    """Mean squared distance of the probabilities from the labels: 0 is best, 0.25 is what 0.5 everywhere gets.

    Source: G. W. Brier (1950), Monthly Weather Review 78, 1-3 (half of his sum over both classes).
    """
    rows = _rows(labels, scores, weights)
    return float((rows.weights * (rows.scores - rows.labels) ** 2).sum() / rows.weights.sum())


def expected_calibration_error(
    labels: npt.ArrayLike, scores: npt.ArrayLike, weights: npt.ArrayLike | None = None, *, bins: int = _BINS
) -> float:
    """Mean distance, over `bins` equal steps of probability, between mean score and share of 1s, weighted by rows.

    A score on an edge belongs to the step above it; 1 belongs to the last. Chance alone keeps it above 0, the more so
    the fewer rows, and a bootstrap of it adds chance to chance: read its interval as a bound from above. Source: M. P.
    Naeini, G. F. Cooper and M. Hauskrecht (2015), Obtaining well calibrated probabilities using Bayesian binning, AAAI,
    2901-2907.
    """
    rows = _rows(labels, scores, weights)
    step = np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], rows.scores, side="right")
    gaps = np.bincount(step, weights=rows.weights * (rows.scores - rows.labels))
    return float(np.abs(gaps).sum() / rows.weights.sum())


def calibration_line(
    labels: npt.ArrayLike, scores: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> CalibrationLine:
    """Slope and intercept of the logistic regression of the labels on the scores' logits, by Newton's method.

    A slope below 1 means scores too near 0 and 1. Raises DataError where one threshold splits the labels without error,
    or all scores are equal: the likelihood then has no greatest value (A. Albert and J. A. Anderson (1984), Biometrika
    71, 1-10). Source: D. R. Cox (1958), Two further applications of a model for binary regression, Biometrika 45,
    562-565.
    """
    rows = _both_kinds(_rows(labels, scores, weights))
    clipped = np.clip(rows.scores, _LEAST, 1 - _LEAST)
    logits = np.log(clipped) - np.log1p(-clipped)
    ones, zeros = logits[rows.labels == 1], logits[rows.labels == 0]
    if zeros.max() <= ones.min() or ones.max() <= zeros.min():
        raise DataError(
            "the scores split the labels without error, or do not differ: no calibration line fits best",
            hint="add rows, hard ones among them",
        )
    design = np.column_stack((logits, np.ones(len(logits))))
    slope, intercept = _newton(design, rows.labels, rows.weights / rows.weights.mean())
    return CalibrationLine(slope, intercept)


def _newton(design: Floats, labels: Floats, weights: Floats) -> tuple[float, float]:
    """Maximise the log-likelihood, a concave function; a step that would lower it is halved."""
    line = np.zeros(2)
    likelihood = _log_likelihood(design @ line, labels, weights)
    for _ in range(_STEPS):
        fitted = np.exp(-np.logaddexp(0, -(design @ line)))
        gradient = design.T @ (weights * (labels - fitted))
        hessian = (design * (weights * fitted * (1 - fitted))[:, None]).T @ design
        step = np.linalg.solve(hessian, gradient)
        reached = _log_likelihood(design @ (line + step), labels, weights)
        while reached < likelihood and np.abs(step).max() > _ENOUGH:
            step /= 2
            reached = _log_likelihood(design @ (line + step), labels, weights)
        line, likelihood = line + step, reached
        if np.abs(step).max() <= _ENOUGH:
            break
    return float(line[0]), float(line[1])


def _log_likelihood(linear: Floats, labels: Floats, weights: Floats) -> float:
    return float((weights * (labels * linear - np.logaddexp(0, linear))).sum())


def _rows(labels: npt.ArrayLike, scores: npt.ArrayLike, weights: npt.ArrayLike | None) -> _Rows:
    known, given = np.asarray(labels, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    heavy = np.ones(known.shape) if weights is None else np.asarray(weights, dtype=np.float64)
    if known.ndim != 1 or len(known) == 0 or not known.shape == given.shape == heavy.shape:
        raise ValueError(f"expected flat arrays of one length, got {known.shape}, {given.shape}, {heavy.shape}")
    if not ((known == 0) | (known == 1)).all():
        raise ValueError("labels must be 0 or 1")
    return _Rows(known, given, heavy)


def _both_kinds(rows: _Rows) -> _Rows:
    if rows.labels.min() == rows.labels.max():
        raise DataError(
            f"every row is labelled {rows.labels[0]:g}: telling 1 from 0 cannot be measured",
            hint="add rows that people labelled the other way",
        )
    return rows
