"""Heads on states: fitted on people's labels or on made ones, and judged on data sets that they were not fitted on.

    ridge       standardise ─> ridge regression ─> log odds of its score (ridge.py)
    logistic    standardise ─> principal components ─> logistic regression with a penalty

Whatever a head chooses it chooses by grouped cross-validation on the training rows. A data set of the development rows
is decided by a head that saw no row of it, nor of its family. Intervals: over groups (rows that share a context).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from localjudge.stats.agreement import balanced_accuracy, best_threshold, expected_calibration_error, roc_auc
from localjudge.stats.interval import LabelledScores, Statistic, statistic_intervals

from .ridge import fit_ridge

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]
COMPONENTS, PENALTIES = (20, 50, 100, 200), (1.0, 10.0, 100.0)
_FOLDS = 5
_SAME = {"expertqa": "attributionbench"}
"""A part of another data set, under a name of its own."""


class Decided(NamedTuple):
    """Log odds of development rows, and above which of them each row's data set is decided 1, both shape (rows,)."""

    odds: Floats
    thresholds: Floats

    def mean_with(self, other: "Decided") -> "Decided":
        """As `localjudge combine` joins two judges: by the mean of their log odds."""
        return Decided((self.odds + other.odds) / 2, (self.thresholds + other.thresholds) / 2)


def log_odds(p: NDArray[Any]) -> Floats:
    """Log odds of probabilities that are not nearer to 0 or 1 than 1e-6."""
    p = np.clip(p.astype(float), 1e-6, 1 - 1e-6)
    return np.asarray(np.log(p / (1 - p)))


def ridge(train: Columns, dev: Columns, names: list[str]) -> Decided:
    """Of the development rows, by ridge regression on these columns of the training rows."""
    x, at = (np.column_stack([part[name].astype(float) for name in names]) for part in (train, dev))
    decided = Decided(np.zeros(len(at)), np.zeros(len(at)))
    for inside, here in _left_out(train, dev):
        labels = train["label"][inside].astype(float)
        line, held_out = fit_ridge(labels, x[inside], train["group"][inside])
        decided.odds[here] = at[here] @ line[:-1] + line[-1]
        # Log odds that are all equal tell nothing: nor does the threshold.
        one = np.ptp(held_out) == 0
        decided.thresholds[here] = held_out[0] if one else best_threshold(LabelledScores(labels, held_out))
    return decided


def _left_out(train: Columns, dev: Columns) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """For each data set of the development rows: the training rows of other families, and its own rows."""
    families = np.array([family(name) for name in train["dataset"]])
    return [(families != family(name), dev["dataset"] == name) for name in np.unique(dev["dataset"])]


def family(dataset: str) -> str:
    """The data set that this one is a part of."""
    name = dataset.partition("_")[0]
    return _SAME.get(name, name)


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


def logistic(train: Columns, dev: Columns, names: list[str]) -> Decided:
    """Of the development rows, by logistic regression on principal components of these columns."""
    x, at = (np.column_stack([part[name].astype(float) for name in names]) for part in (train, dev))
    decided = Decided(np.zeros(len(at)), np.zeros(len(at)))
    for inside, here in _left_out(train, dev):
        labels = train["label"][inside].astype(float)
        most, penalty, held_out = _choose(x[inside], labels, train["group"][inside])
        components = Components.of(x[inside])
        weights = fit(components.inside(x[inside], most), labels, penalty)
        decided.odds[here] = components.inside(at[here], most) @ weights[:-1] + weights[-1]
        decided.thresholds[here] = best_threshold(LabelledScores(labels, held_out))
    return decided


def _choose(x: Floats, labels: Floats, groups: NDArray[Any]) -> tuple[int, float, Floats]:
    """How many components and which penalty have the best AUC on groups that were left out; log odds of these."""
    names, place = np.unique(groups, return_inverse=True)
    fold = np.random.default_rng(0).integers(_FOLDS, size=len(names))[place]
    odds = {(most, penalty): np.zeros(len(labels)) for most in COMPONENTS for penalty in PENALTIES}
    for number in range(_FOLDS):
        inside = fold != number
        components = Components.of(x[inside])
        for (most, penalty), row in odds.items():
            weights = fit(components.inside(x[inside], most), labels[inside], penalty)
            row[~inside] = components.inside(x[~inside], most) @ weights[:-1] + weights[-1]
    best = max(odds, key=lambda setting: float(roc_auc(labels, odds[setting])))
    return *best, odds[best]


def figures(dev: Columns, decided: Decided, asked: Floats) -> list[str]:
    """AUC, its gain over the judge as asked, balanced accuracy, each with its interval, and the calibration error."""
    labels, odds = dev["label"].astype(float), decided.odds
    statistics: dict[str, Statistic] = {
        "auc": lambda y, x, weights: roc_auc(y, x[:, 0], weights),
        "gain": lambda y, x, weights: roc_auc(y, x[:, 0], weights) - roc_auc(y, x[:, 1], weights),
        "balanced accuracy": lambda y, x, weights: balanced_accuracy(y, x[:, 2], weights),
    }
    scores = np.column_stack([odds, asked, odds >= decided.thresholds])
    intervals = statistic_intervals(statistics, LabelledScores(labels, scores, None, dev["group"]))
    cells = [f"{each.mean:.3f} [{each.low:.3f}, {each.high:.3f}]" for each in intervals.values()]
    return [*cells, f"{float(expected_calibration_error(labels, 1 / (1 + np.exp(-odds)))):.3f}"]
