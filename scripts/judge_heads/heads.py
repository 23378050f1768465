"""Heads on states: fitted on people's labels or on made ones, and judged on data sets that they were not fitted on.

    standardise ─> principal components ─> logistic regression with a penalty

How many components and how much penalty is chosen by grouped cross-validation on the training rows. A data set of the
development rows is decided by a head that saw no row of it, nor of its family. Intervals: Bayesian bootstrap over
groups (rows that share a context).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from localjudge.stats.agreement import balanced_accuracy, expected_calibration_error, roc_auc

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]
COMPONENTS, PENALTIES = (20, 50, 100, 200), (1.0, 10.0, 100.0)
_DRAWS, _FOLDS, _FEW = 2000, 5, 4
_SAME = {"expertqa": "attributionbench"}
"""A part of another data set, under a name of its own."""


class Components(NamedTuple):
    """Rows of states, standardised, by their principal components."""

    mean: Floats
    scale: Floats
    axes: Floats

    @classmethod
    def of(cls, x: Floats) -> "Components":
        """Those of these rows."""
        mean, scale = x.mean(axis=0), x.std(axis=0) + 1e-6
        return cls(mean, scale, np.linalg.svd((x - mean) / scale, full_matrices=False)[2])

    def inside(self, x: Floats, most: int) -> Floats:
        """Rows by the first of them, shape (rows, components)."""
        return np.asarray((x - self.mean) / self.scale @ self.axes[:most].T)


def fit(inner: Floats, labels: Floats, penalty: float) -> Floats:
    """Weights, and the offset, which costs nothing; the others cost half the penalty times their squares."""

    def loss(weights: Floats) -> tuple[float, Floats]:
        odds = inner @ weights[:-1] + weights[-1]
        error = 1 / (1 + np.exp(-odds)) - labels
        value = np.logaddexp(0, odds).sum() - labels @ odds + penalty / 2 * weights[:-1] @ weights[:-1]
        return float(value), np.append(inner.T @ error + penalty * weights[:-1], error.sum())

    return np.asarray(minimize(loss, np.zeros(inner.shape[1] + 1), jac=True, method="L-BFGS-B").x)


def choose(x: Floats, labels: Floats, groups: NDArray[Any]) -> tuple[int, float]:
    """How many components and which penalty have the best AUC on groups that were left out."""
    if x.shape[1] < _FEW:
        return x.shape[1], PENALTIES[0]
    names, place = np.unique(groups, return_inverse=True)
    fold = np.random.default_rng(0).integers(_FOLDS, size=len(names))[place]
    odds = {(most, penalty): np.zeros(len(labels)) for most in COMPONENTS for penalty in PENALTIES}
    for left in range(_FOLDS):
        kept = fold != left
        components = Components.of(x[kept])
        for (most, penalty), row in odds.items():
            weights = fit(components.inside(x[kept], most), labels[kept], penalty)
            row[~kept] = components.inside(x[~kept], most) @ weights[:-1] + weights[-1]
    return max(odds, key=lambda setting: float(roc_auc(labels, odds[setting])))


def left_out(train: Columns, dev: Columns, features: list[str]) -> tuple[Floats, Floats]:
    """Log odds of the development rows above the thresholds that decided the training rows best, and as they are."""
    x, at = (np.column_stack([part[name].astype(float) for name in features]) for part in (train, dev))
    labels, odds, thresholds = train["label"].astype(float), np.zeros(len(at)), np.zeros(len(at))
    families = np.array([family(name) for name in train["dataset"]])
    for name in np.unique(dev["dataset"]):
        kept, here = families != family(name), dev["dataset"] == name
        most, penalty = choose(x[kept], labels[kept], train["group"][kept])
        components = Components.of(x[kept])
        weights = fit(components.inside(x[kept], most), labels[kept], penalty)
        fitted, odds[here] = (
            components.inside(rows, most) @ weights[:-1] + weights[-1] for rows in (x[kept], at[here])
        )
        thresholds[here] = best_threshold(labels[kept], fitted)
    return odds - thresholds, odds


def family(dataset: str) -> str:
    """The data set that this one is a part of."""
    name = dataset.partition("_")[0]
    return _SAME.get(name, name)


def best_threshold(labels: Floats, odds: Floats) -> float:
    """The one with the best balanced accuracy, of 49."""
    choices = np.quantile(odds, np.linspace(0.02, 0.98, 49))
    return float(max(choices, key=lambda threshold: float(balanced_accuracy(labels, odds >= threshold))))


def figures(dev: Columns, above: Floats, odds: Floats, asked: Floats | None = None) -> list[str]:
    """AUC, its gain over the judge as asked, balanced accuracy, each with its interval, and the calibration error."""
    labels = dev["label"].astype(float)
    names, place = np.unique(dev["group"], return_inverse=True)
    weights = np.random.default_rng(0).exponential(size=(_DRAWS, len(names)))[:, place]
    auc, accuracy = (roc_auc(labels, odds), roc_auc(labels, odds, weights)), (above > 0).astype(float)
    shown = [auc, (balanced_accuracy(labels, accuracy), balanced_accuracy(labels, accuracy, weights))]
    if asked is not None:
        shown.insert(1, (auc[0] - roc_auc(labels, asked), auc[1] - roc_auc(labels, asked, weights)))
    cells = [
        "{:.3f} [{:.3f}, {:.3f}]".format(float(each), *np.quantile(draws, [0.025, 0.975])) for each, draws in shown
    ]
    if asked is None:
        cells.insert(1, "")
    return [*cells, f"{float(expected_calibration_error(labels, 1 / (1 + np.exp(-odds)))):.3f}"]
