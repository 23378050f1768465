"""Measures a judge's logits against human labels, with the package's own figures and their 95 % intervals.

Examples that share their context or question are drawn together. The baseline of every figure is the overlap of words.
"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localjudge.stats import Interval, statistic_interval
from localjudge.stats.agreement import balanced_accuracy, calibration_line, expected_calibration_error, roc_auc

from .labelled import Example
from .layout import Floats

_WORD = re.compile(r"\w+")

Labels = NDArray[np.int64]


class Figures(NamedTuple):
    """What the logits are worth: how they rank, how they decide at p = .5, how far p is from the share of positives."""

    auc: Interval
    balanced_accuracy: Interval
    calibration_error: Interval


class Line(NamedTuple):
    """The line of calibration: slope 1 and intercept 0 if the logits are calibrated."""

    slope: Interval
    intercept: Interval


def figures(labels: Labels, logits: Floats, groups: ArrayLike) -> Figures:
    """Of logits (n,) for examples (n,) that belong to groups (n,)."""
    return Figures(
        ranking(labels, logits, groups),
        statistic_interval(balanced_accuracy, labels, logits >= 0, clusters=groups),
        statistic_interval(expected_calibration_error, labels, _chances(logits), clusters=groups),
    )


def ranking(labels: Labels, scores: Floats, groups: ArrayLike) -> Interval:
    """Area under the ROC curve of any scores."""
    return statistic_interval(roc_auc, labels, scores, clusters=groups)


def line(labels: Labels, logits: Floats, groups: ArrayLike) -> Line:
    """The line of calibration, and how it varies with the groups."""
    chances = _chances(logits)
    return Line(
        statistic_interval(lambda *rows: calibration_line(*rows).slope, labels, chances, clusters=groups),
        statistic_interval(lambda *rows: calibration_line(*rows).intercept, labels, chances, clusters=groups),
    )


def in_short(interval: Interval) -> str:
    """`.751 [.718, .784]`."""
    low, value, high = (_short(number) for number in (interval.low, interval.mean, interval.high))
    return f"{value} [{low}, {high}]"


def word_overlap(example: Example, task: str) -> float:
    """The baseline: share of the statement's words in the context, or of the question's words in the sentence."""
    given, judged = (set(_WORD.findall(text.lower())) for text in (example.given, example.judged))
    looked_for, text = (judged, given) if task == "attribution" else (given, judged)
    return len(looked_for & text) / max(len(looked_for), 1)


def _chances(logits: Floats) -> Floats:
    return 1 / (1 + np.exp(-logits))


def _short(value: float) -> str:
    """Three digits, without the zero before the point; two from 1 on."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"
