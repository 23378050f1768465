"""Fits the rule of a task: a logistic regression whose weights may not change sign, on class-balanced data.

    slopes      fitted with a constant per data set, which takes up what sets data sets apart
    scale       what the slopes are worth on a data set that they were not fitted on
    constant    makes the mean probability equal the mean label in a data set; the mean of the data sets' constants

A rule predicts each data set by the others; one more regression on those predictions gives the scale. So the
probabilities are as sure as they deserve to be on a data set that was never seen, not on the ones that were.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .layout import Floats

Labels = NDArray[np.int64]
Groups = NDArray[Any]
_RIDGE = 0.001


def fit(features: Floats, labels: Labels, groups: Groups, signs: Sequence[int]) -> Floats:
    """Weights of the features, then the constant. `signs` gives the sign that each weight may have."""
    slopes = _slopes(features, labels, groups, signs)
    margins = np.zeros(len(labels))
    for group in np.unique(groups):
        here = groups == group
        others = features[~here], labels[~here], groups[~here]
        rule = _with_constant(_slopes(*others, signs), *others)
        margins[here] = features[here] @ rule[:-1] + rule[-1]
    slopes *= _slopes(margins[:, None], labels, np.zeros(len(labels)), [1])[0]
    return _with_constant(slopes, features, labels, groups)


def _slopes(features: Floats, labels: Labels, groups: Groups, signs: Sequence[int]) -> Floats:
    from scipy.optimize import minimize

    dummies = (groups[:, None] == np.unique(groups)).astype(np.float64)
    design = np.hstack([features * np.array(signs), dummies])
    importance = _balanced(labels)

    def loss(weights: Floats) -> tuple[float, Floats]:
        margin = design @ weights
        chance = 1 / (1 + np.exp(-margin))
        surprise = np.logaddexp(0, margin) - labels * margin
        gradient = design.T @ (importance * (chance - labels))
        return float(importance @ surprise + _RIDGE * weights @ weights), gradient + 2 * _RIDGE * weights

    count = features.shape[1]
    bounds = [(0.0, None)] * count + [(None, None)] * dummies.shape[1]
    found = minimize(loss, np.zeros(design.shape[1]), jac=True, bounds=bounds, method="L-BFGS-B").x
    return np.asarray(found[:count] * np.array(signs))


def _with_constant(slopes: Floats, features: Floats, labels: Labels, groups: Groups) -> Floats:
    margins, importance = features @ slopes, _balanced(labels)
    sets = [groups == group for group in np.unique(groups)]
    constants = [_constant(margins[rows], labels[rows], importance[rows]) for rows in sets]
    return np.append(slopes, np.mean(constants))


def _balanced(labels: Labels) -> Floats:
    """Weight of each example, so that both labels weigh the same and the mean weight is 1 / number."""
    share = labels.mean()
    return np.asarray(np.where(labels == 1, 0.5 / share, 0.5 / (1 - share)) / len(labels))


def _constant(margin: Floats, labels: Labels, importance: Floats) -> float:
    """The constant that makes the mean probability equal the mean label, by bisection."""
    low, high = -50.0, 50.0
    for _ in range(80):
        middle = (low + high) / 2
        excess = importance @ (1 / (1 + np.exp(-(margin + middle))) - labels)
        low, high = (low, middle) if excess > 0 else (middle, high)
    return low
