"""Heads on states: fitted on people's labels or on made ones, and judged on data sets that they were not fitted on.

    ridge       `localjudge.stats.head`, the head that the package fits
    logistic    standardise ─> principal components ─> logistic regression with a penalty, to compare with

Whatever a head chooses it chooses by grouped cross-validation on the training rows. A data set of the development rows
is decided by a head that saw no row of it, nor of its family. Intervals: Bayesian bootstrap over groups (rows that
share a context).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from localjudge.analysis.judge_figures import gains_of_reading, judge_figures
from localjudge.doctor.fitness import admission_by_labels
from localjudge.record.manifest import Calibration, LabelsUsed
from localjudge.record.store import canonical_sha256
from localjudge.stats.agreement import balanced_accuracy, best_threshold, expected_calibration_error, roc_auc
from localjudge.stats.head import Head, fit_head
from localjudge.stats.interval import LabelledScores

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]
COMPONENTS, PENALTIES = (20, 50, 100, 200), (1.0, 10.0, 100.0)
_DRAWS, _FOLDS = 2000, 5
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


def read_by(head: Head, values: NDArray[Any]) -> Floats:
    """Log odds of rows (rows, numbers) by a head."""
    return log_odds(np.array([head.p_yes(row.astype("<f2").tobytes()) for row in values]))


def ridge(train: Columns, dev: Columns, names: list[str]) -> Decided:
    """Of the development rows, by the package's head on these columns of the training rows."""
    x, at = (np.column_stack([part[name] for name in names]) for part in (train, dev))
    decided = Decided(np.zeros(len(at)), np.zeros(len(at)))
    for inside, here in _left_out(train, dev):
        rows = LabelledScores(train["label"][inside], x[inside], None, train["group"][inside])
        fitted = fit_head(rows)
        decided.odds[here] = read_by(fitted.head, at[here])
        decided.thresholds[here] = log_odds(np.array([best_threshold(rows._replace(scores=fitted.held_out))]))
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


def measured(calibration: Calibration, columns: Columns, fitted_on: tuple[str, ...]) -> Calibration:
    """The calibration at 0.5, with figures on the development rows of all data sets but those."""
    inside = (columns["split"] == "dev") & (columns["task"] == "attribution")
    inside &= [not name.startswith(fitted_on) for name in columns["dataset"]]
    dev = {name: values[inside] for name, values in columns.items()}
    assert calibration.head
    odds = read_by(calibration.head, dev["readout"])
    rows = LabelledScores(dev["label"], 1 / (1 + np.exp(-odds)), None, dev["group"])
    of_rows = judge_figures(rows)
    labels = LabelsUsed(
        file=", ".join(np.unique(dev["dataset"])),
        sha256=canonical_sha256(sorted(dev["key"].tolist())),
        shape="attribution",
        verdicts=len(odds),
        positives=int(dev["label"].sum()),
        clusters=len(np.unique(dev["group"])),
        clustered_by="the same contexts",
    )
    # The threshold is not chosen on these rows: decisions at 0.5 are held out.
    own = {"threshold": 0.5, "fold_thresholds": (), "held_out": of_rows["at_one_half"], "labels": labels}
    gains = gains_of_reading(rows._replace(scores=dev["p_yes"].astype(float)), rows)
    values = dict(calibration) | of_rows | own | {"gains": gains, "remarks": ()}
    complete = Calibration(**values)
    return complete.model_copy(update={"fit_for": admission_by_labels(complete).uses})


def figures(dev: Columns, decided: Decided, asked: Floats) -> list[str]:
    """AUC, its gain over the judge as asked, balanced accuracy, each with its interval, and the calibration error."""
    labels, odds = dev["label"].astype(float), decided.odds
    names, place = np.unique(dev["group"], return_inverse=True)
    weights = np.random.default_rng(0).exponential(size=(_DRAWS, len(names)))[:, place]
    auc, decisions = (roc_auc(labels, odds), roc_auc(labels, odds, weights)), odds >= decided.thresholds
    gain = (auc[0] - roc_auc(labels, asked), auc[1] - roc_auc(labels, asked, weights))
    accuracy = (balanced_accuracy(labels, decisions), balanced_accuracy(labels, decisions, weights))
    cells = [
        "{:.3f} [{:.3f}, {:.3f}]".format(float(value), *np.quantile(draws, [0.025, 0.975]))
        for value, draws in (auc, gain, accuracy)
    ]
    return [*cells, f"{float(expected_calibration_error(labels, 1 / (1 + np.exp(-odds)))):.3f}"]
