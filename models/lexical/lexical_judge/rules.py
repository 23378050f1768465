"""Fit the rules of the judge to labelled examples, and solve its bump: `scalars.json`.

    frequencies ─> bump ──> features of labelled examples ─> weights of three rules

The rule of a task is a logistic regression on class-balanced data. Its weights may not change sign:

    slopes      fitted with a constant per data set, for the differences between data sets
    scale       the factor of the slopes for a data set outside the fit
    constant    makes the mean probability equal the mean label in a data set;
                the mean of the data sets' constants

A rule predicts each data set by the others; one more regression on those predictions gives the
scale. So the probabilities are calibrated for a new data set, not for the data sets of the fit.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .committed import LONGEST, Bump, Floats, Scalars, Vocabulary
from .labelled import Example
from .numpy_model import NumpyJudge, attribution, relevance

_RIDGE = 0.001
FREQUENCIES = (
    0.0885,
    0.1028,
    0.1275,
    0.1285,
    0.1372,
    0.3049,
    0.4888,
    0.5115,
    0.7079,
    0.7619,
    2.3128,
    2.4879,
)
"""Drawn at random, one of the better of twelve draws for the margin of the bump."""
FEATURES = {
    "attribution": ("mean_missing", "mean_missing_pair", "missing_names", "worst_number"),
    "relevance": ("coverage",),
    "chunk": ("coverage",),
}
Labels = NDArray[np.int64]
Groups = NDArray[Any]


def fit_scalars(vocabulary: Vocabulary, examples: dict[str, Sequence[Example]]) -> Scalars:
    """The bump solved, and the rules of all tasks fitted to labelled examples."""
    previous = solve_bump(FREQUENCIES, distance=1, size=60.0)
    judge = NumpyJudge(
        vocabulary, Scalars(FREQUENCIES, previous, attribution={}, relevance={}, chunk={})
    )
    rules = {}
    for task, rows in examples.items():
        weights = fit(*_table(judge, vocabulary, task, rows), _signs(task))
        names = [*FEATURES[task], "constant"]
        rules[task] = {
            name: round(float(weight), 3) for name, weight in zip(names, weights, strict=True)
        }
    return Scalars(FREQUENCIES, previous, **rules)


def prompt(vocabulary: Vocabulary, task: str, example: Example) -> list[int]:
    """Token ids of a labelled example, asked as its task is."""
    if task == "attribution":
        return attribution(vocabulary, [example.given], example.judged)
    return relevance(vocabulary, example.beside, example.given, example.judged)


def _table(
    judge: NumpyJudge, vocabulary: Vocabulary, task: str, examples: Sequence[Example]
) -> tuple[Floats, Labels, Groups]:
    found = [judge.features(prompt(vocabulary, task, example)) for example in examples]
    features = np.array([[row[name] for name in FEATURES[task]] for row in found])
    labels = np.array([example.label for example in examples])
    return features, labels, np.array([example.dataset for example in examples])


def _signs(task: str) -> list[int]:
    """What is missing speaks against a statement; what is covered speaks for a sentence."""
    return [-1 if task == "attribution" else 1] * len(FEATURES[task])


def solve_bump(frequencies: Sequence[float], distance: int, size: float) -> Bump:
    """The bump with the largest difference between one distance and all others.

    `size` bounds the sum of all coefficients, and with it the rounding error of half precision.
    """
    from scipy.optimize import linprog

    angles = np.multiply.outer(np.arange(LONGEST), np.array(frequencies))
    basis = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    others = np.delete(basis, distance, axis=0) - basis[distance]
    count = basis.shape[1]
    # Unknowns: positive and negative parts of the coefficients, and the margin, which is to be
    # largest.
    rows = np.vstack(
        [np.hstack([others, -others, np.ones((len(others), 1))]), [*[1.0] * (2 * count), 0.0]]
    )
    limits = np.append(np.zeros(len(others)), size)
    goal = np.append(np.zeros(2 * count), -1.0)
    solution = linprog(goal, A_ub=rows, b_ub=limits, bounds=(0.0, None), method="highs").x
    coefficients = np.round(solution[:count] - solution[count : 2 * count], 3)
    half = count // 2
    return Bump(tuple(map(float, coefficients[:half])), tuple(map(float, coefficients[half:])))


def fit(features: Floats, labels: Labels, groups: Groups, signs: Sequence[int]) -> Floats:
    """Weights of the features, then the constant.

    `signs` gives the sign that each weight may have.
    """
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
        return float(
            importance @ surprise + _RIDGE * weights @ weights
        ), gradient + 2 * _RIDGE * weights

    count = features.shape[1]
    bounds = [(0.0, None)] * count + [(None, None)] * dummies.shape[1]
    found = minimize(loss, np.zeros(design.shape[1]), jac=True, bounds=bounds, method="L-BFGS-B").x
    return np.asarray(found[:count] * np.array(signs))


def _with_constant(slopes: Floats, features: Floats, labels: Labels, groups: Groups) -> Floats:
    margins = features @ slopes
    importance = _balanced(labels)
    sets = [groups == group for group in np.unique(groups)]
    constants = [_constant(margins[rows], labels[rows], importance[rows]) for rows in sets]
    return np.append(slopes, np.mean(constants))


def _balanced(labels: Labels) -> Floats:
    """Weigh each example so that both labels weigh the same and the mean weight is 1 / number."""
    share = labels.mean()
    return np.asarray(np.where(labels == 1, 0.5 / share, 0.5 / (1 - share)) / len(labels))


def _constant(margin: Floats, labels: Labels, importance: Floats) -> float:
    """The constant that makes the mean probability equal the mean label, by bisection."""
    low = -50.0
    high = 50.0
    for _ in range(80):
        middle = (low + high) / 2
        excess = importance @ (1 / (1 + np.exp(-(margin + middle))) - labels)
        low, high = (low, middle) if excess > 0 else (middle, high)
    return low
