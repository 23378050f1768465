"""Fits the rule of a task: a logistic regression whose weights may not change sign, on class-balanced data.

A constant per data set takes up what sets data sets apart, so that the weights say only how a missing word moves the
verdict. The constant of the rule is fitted afterwards, over all data.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .layout import Floats


def fit(features: Floats, labels: NDArray[np.int64], groups: Sequence[str], signs: Sequence[int]) -> Floats:
    """Weights of the features, then the constant. `signs` gives the sign that each weight may have."""
    from scipy.optimize import minimize

    names = sorted(set(groups))
    dummies = np.array([[group == name for name in names] for group in groups], dtype=np.float64)
    design = np.hstack([features * np.array(signs), dummies])
    importance = _balanced(labels)

    def loss(weights: Floats) -> tuple[float, Floats]:
        margin = design @ weights
        chance = 1 / (1 + np.exp(-margin))
        surprise = np.logaddexp(0, margin) - labels * margin
        gradient = design.T @ (importance * (chance - labels))
        return float(importance @ surprise + 0.001 * weights @ weights), gradient + 0.002 * weights

    count = features.shape[1]
    bounds = [(0.0, None)] * count + [(None, None)] * len(names)
    start = np.zeros(design.shape[1])
    slopes = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x[:count] * np.array(signs)
    return np.append(slopes, _constant(features @ slopes, labels, importance))


def _balanced(labels: NDArray[np.int64]) -> Floats:
    """Weight of each example, so that both labels weigh the same and the mean weight is 1 / number."""
    share = labels.mean()
    return np.asarray(np.where(labels == 1, 0.5 / share, 0.5 / (1 - share)) / len(labels))


def _constant(margin: Floats, labels: NDArray[np.int64], importance: Floats) -> float:
    """The constant that makes the mean probability equal the mean label, by bisection."""
    low, high = -50.0, 50.0
    for _ in range(80):
        middle = (low + high) / 2
        excess = importance @ (1 / (1 + np.exp(-(margin + middle))) - labels)
        low, high = (low, middle) if excess > 0 else (middle, high)
    return low
