"""Measures a judge's logits against human labels: how well they rank, decide, and say how sure they are.

    AUC                 chance that a positive example has a higher logit than a negative one, ties half
    balanced accuracy   mean of the two classes' shares of right verdicts, at p = .5
    calibration error   mean distance between p and the share of positives, in ten bins of p, weighed by their size

Intervals are percentiles of bootstrap resamples of groups: examples that share their context or question are drawn
together.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .labelled import Example
from .layout import Floats

_RESAMPLES, _SEED = 500, 20240
_BINS = 10
_WORD = re.compile(r"\w+")

Measure = Callable[[NDArray[np.int64], Floats], float]


class Estimate(NamedTuple):
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{_short(self.value)} [{_short(self.low)}, {_short(self.high)}]"


def auc(labels: NDArray[np.int64], logits: Floats) -> float:
    """Area under the ROC curve."""
    _, place, size = np.unique(logits, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(size) - (size - 1) / 2)[place]
    positives = labels.sum()
    above = ranks[labels == 1].sum() - positives * (positives + 1) / 2
    return float(above / (positives * (len(labels) - positives)))


def balanced_accuracy(labels: NDArray[np.int64], logits: Floats) -> float:
    """Mean share of right verdicts of the two classes."""
    verdicts = logits >= 0
    return float((verdicts[labels == 1].mean() + 1 - verdicts[labels == 0].mean()) / 2)


def calibration_error(labels: NDArray[np.int64], logits: Floats) -> float:
    """Expected calibration error in ten bins of equal width."""
    chances = 1 / (1 + np.exp(-logits))
    bins = np.minimum((chances * _BINS).astype(int), _BINS - 1)
    excess = np.bincount(bins, weights=chances - labels, minlength=_BINS)
    return float(np.abs(excess).sum() / len(labels))


def calibration_line(labels: NDArray[np.int64], logits: Floats) -> tuple[float, float]:
    """Slope and intercept of the logistic regression of the labels on the logits: 1 and 0 if they are calibrated."""
    design = np.stack([logits, np.ones(len(logits))], axis=1)
    line = np.array([0.0, np.log(labels.mean() / (1 - labels.mean()))])
    for _ in range(30):
        chances = 1 / (1 + np.exp(-(design @ line)))
        curvature = design.T @ (design * (chances * (1 - chances))[:, None])
        line -= np.linalg.solve(curvature, design.T @ (chances - labels))
    return float(line[0]), float(line[1])


def estimate(measure: Measure, labels: NDArray[np.int64], logits: Floats, groups: Sequence[str]) -> Estimate:
    """The measure, with the interval over resampled groups. Resamples that lack a class are drawn again."""
    rows = _rows_by_group(groups)
    chance = np.random.Generator(np.random.PCG64(_SEED))
    found: list[float] = []
    while len(found) < _RESAMPLES:
        drawn = np.concatenate([rows[place] for place in chance.integers(0, len(rows), len(rows))])
        if 0 < labels[drawn].sum() < len(drawn):
            found.append(measure(labels[drawn], logits[drawn]))
    low, high = np.percentile(found, [2.5, 97.5])
    return Estimate(measure(labels, logits), float(low), float(high))


def word_overlap(example: Example, task: str) -> float:
    """The baseline: share of the statement's words in the context, or of the question's words in the sentence."""
    given, judged = (set(_WORD.findall(text.lower())) for text in (example.given, example.judged))
    looked_for, text = (judged, given) if task == "attribution" else (given, judged)
    return len(looked_for & text) / max(len(looked_for), 1)


def _rows_by_group(groups: Sequence[str]) -> list[NDArray[np.intp]]:
    _, place = np.unique(np.array(groups), return_inverse=True)
    order = np.argsort(place, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(place[order])) + 1)


def _short(value: float) -> str:
    """Two or three digits, without the zero before the point."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"
