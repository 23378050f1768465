"""Measuring without PyTorch: windows of a long text, and the area under the ROC curve."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reader_recipe.tokens import Ids

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

NEARLY_BEST = 0.005
NEWTON_STEPS = 30
CALIBRATION_BINS = 10


def windows(sentences: list[Ids], room: int) -> list[Ids]:
    """Pack whole sentences into windows of `room` tokens, each with the last sentence before it.

    A sentence longer than the room is cut into pieces.
    """
    pieces = [s[start : start + room] for s in sentences for start in range(0, len(s), room)]
    result: list[Ids] = []
    start = 0
    while start < len(pieces):
        end = start
        size = 0
        while end < len(pieces) and size + len(pieces[end]) <= room:
            size += len(pieces[end])
            end += 1
        result.append(np.concatenate(pieces[start:end]))
        if end == len(pieces):
            break
        start = max(end - 1, start + 1)
    return result


def auc(labels: Labels, scores: Floats) -> float:
    """The chance that a positive row has the higher score; ties count half."""
    positive = scores[labels == 1]
    negative = np.sort(scores[labels == 0])
    if not len(positive) or not len(negative):
        return float("nan")
    below = np.searchsorted(negative, positive, "left")
    not_above = np.searchsorted(negative, positive, "right")
    return float((below + not_above).mean() / 2 / len(negative))


def standardised(scores: Floats) -> Floats:
    result: Floats = (scores - scores.mean()) / scores.std()
    return result


class Calibration(NamedTuple):
    """p = sigmoid(scale * logit + bias)."""

    scale: float
    bias: float

    def probabilities(self, logits: Floats) -> Floats:
        result: Floats = 1 / (1 + np.exp(-(self.scale * logits + self.bias)))
        return result


def balanced_accuracy(labels: Labels, is_yes: npt.NDArray[np.bool_]) -> float:
    """Mean of the share of positive rows called yes and of negative rows called no."""
    return float((is_yes[labels == 1].mean() + (~is_yes[labels == 0]).mean()) / 2)


def best_threshold(labels: Labels, logits: Floats) -> float:
    """The logit above which yes gives the best balanced accuracy.

    Many thresholds are about equally good on few rows: the mean of those within .005 of the best.
    """
    candidates = np.quantile(logits, np.linspace(0.02, 0.98, 193))
    accuracies = np.array([balanced_accuracy(labels, logits >= c) for c in candidates])
    return float(candidates[accuracies >= accuracies.max() - NEARLY_BEST].mean())


def fit_calibration(labels: Labels, logits: Floats) -> Calibration:
    """The slope of a class-balanced logistic regression, and p = .5 at the best threshold."""
    weights = np.where(labels == 1, 0.5 / labels.mean(), 0.5 / (1 - labels.mean()))
    features = np.stack([logits, np.ones_like(logits)], axis=1)
    beta = np.zeros(2)
    for _ in range(NEWTON_STEPS):
        p = 1 / (1 + np.exp(-features @ beta))
        gradient = features.T @ (weights * (p - labels))
        hessian = (features * (weights * p * (1 - p))[:, None]).T @ features
        beta -= np.linalg.solve(hessian, gradient)
    scale = float(beta[0])
    return Calibration(scale, -scale * best_threshold(labels, logits))


def calibration_error(labels: Labels, probabilities: Floats) -> float:
    """Mean distance between probability and share of positive rows, over ten bins of equal size."""
    order = np.argsort(probabilities, kind="stable")
    bins = np.array_split(order, CALIBRATION_BINS)
    gaps = [abs(probabilities[b].mean() - labels[b].mean()) * len(b) for b in bins]
    return float(sum(gaps) / len(labels))
