"""The figures of answers to labelled questions, and of two sets of answers to the same ones, with 95 % intervals.

Clusters are drawn together. They fall into two halves by their names alone: one to choose on, one to report on.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from localjudge.errors import DataError
from localjudge.stats import Interval, statistic_interval
from localjudge.stats.agreement import balanced_accuracy, calibration_line, roc_auc
from localjudge.stats.interval import Floats

THRESHOLD = 0.5
Answered = Mapping[str, Mapping[str, Any]]
"""Rows of answers, by the ids of their items."""


class Table(NamedTuple):
    """Answers of one or several judges (columns) to the same items (rows): labels (n,), p_yes (n, k), clusters (n,)."""

    labels: npt.NDArray[np.int64]
    p_yes: Floats
    clusters: Sequence[str]


def table(columns: Sequence[Answered], half: int | None = None) -> Table:
    """Items that every column has an answer to, of one half of the clusters (0 or 1) or of both (None)."""
    answered = [{name: row for name, row in column.items() if row["p_yes"] is not None} for column in columns]
    shared = [name for name in answered[0] if all(name in column for column in answered[1:])]
    rows = [answered[0][name] for name in shared if half is None or half_of(answered[0][name]["cluster"]) == half]
    return Table(
        labels=np.array([row["label"] for row in rows], dtype=np.int64),
        p_yes=np.array([[column[row["id"]]["p_yes"] for column in answered] for row in rows]),
        clusters=[row["cluster"] for row in rows],
    )


def half_of(cluster: str) -> int:
    """Which half a cluster falls into: 0 to choose on, 1 to report on."""
    return hashlib.sha256(cluster.encode()).digest()[0] % 2


def auc(of: Table) -> Interval:
    """AUC of the first column."""
    return _interval(roc_auc, of, of.p_yes[:, 0])


def decided(of: Table) -> Interval:
    """Balanced accuracy of the first column at p = .5."""
    return _interval(balanced_accuracy, of, of.p_yes[:, 0] >= THRESHOLD)


def too_often(of: Table) -> Interval:
    """Share of items that the first column calls 1, less the share that are 1."""
    return _interval(
        lambda labels, calls, weights: ((calls - labels) * weights).sum(-1) / weights.sum(-1),
        of,
        of.p_yes[:, 0] >= THRESHOLD,
    )


def slope(of: Table) -> str:
    """Slope of the first column's calibration line; "-" where none fits best."""
    try:
        found = _interval(lambda *rows: calibration_line(*rows).slope, of, of.p_yes[:, 0])
    except DataError:
        return "-"
    return short(found)


def auc_gained(pairs: Table) -> Interval:
    """Mean over judges of the AUC that each gains; columns are before and after of the first, of the second ..."""

    def gained(labels: Floats, scores: Floats, weights: Floats) -> Floats:
        each = [roc_auc(labels, column, weights) for column in scores.T]
        mean: Floats = np.mean(each[1::2], axis=0) - np.mean(each[::2], axis=0)
        return mean

    return _interval(gained, pairs, pairs.p_yes)


def _interval(statistic: Callable[..., Floats], of: Table, scores: npt.ArrayLike) -> Interval:
    return statistic_interval(statistic, of.labels, scores, clusters=np.asarray(of.clusters))


def measurable(of: Table) -> bool:
    """Whether there are items of both labels."""
    return {0, 1} <= set(of.labels.tolist())


def short(interval: Interval, sign: str = "") -> str:
    """`.751 [.718, .784]`, with a sign where "+" is given; no zero before the point."""
    mean, low, high = (
        re.sub(r"^([+-]?)0\.", r"\1.", f"{number:{sign}.3f}") for number in (interval.mean, interval.low, interval.high)
    )
    return f"{mean} [{low}, {high}]"
