"""The figures of answers to labelled questions, and of two sets of answers to the same ones, with 95 % intervals.

Clusters are drawn together. They fall into two halves by their names alone: one to choose on, one to report on.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from localjudge.errors import DataError
from localjudge.stats import Interval, statistic_interval
from localjudge.stats.agreement import balanced_accuracy, calibration_line, roc_auc
from localjudge.stats.interval import Floats

Answers = Mapping[str, Mapping[str, Any]]
"""Rows of answers, by the ids of their items."""


class Table(NamedTuple):
    """Answers of one or several judges (columns) to the same items (rows): labels (n,), p_yes (n, k), clusters (n,)."""

    labels: npt.NDArray[np.int64]
    p_yes: Floats
    clusters: npt.NDArray[np.str_]


def make_table(columns: Sequence[Answers], half: int | None = None) -> Table | None:
    """Items that every column has an answer to, of one half of the clusters (0 or 1) or of both (None).

    None if they are not of both labels.
    """
    rows = [
        row
        for name, row in columns[0].items()
        if all(name in column and column[name]["p_yes"] is not None for column in columns)
        if half is None or hashlib.sha256(row["cluster"].encode()).digest()[0] % 2 == half
    ]
    table = Table(
        labels=np.array([row["label"] for row in rows], dtype=np.int64),
        p_yes=np.array([[column[row["id"]]["p_yes"] for column in columns] for row in rows]),
        clusters=np.array([row["cluster"] for row in rows]),
    )
    return table if {0, 1} <= set(table.labels.tolist()) else None


def cells(table: Table) -> list[str]:
    """Of the first column: items, AUC, balanced accuracy at .5, how much more often than true it says 1, slope."""
    labels, p_yes, clusters = table.labels, table.p_yes[:, 0], table.clusters
    calls = p_yes >= 0.5  # noqa: PLR2004 -- the threshold of a run
    auc = statistic_interval(roc_auc, labels, p_yes, clusters=clusters)
    right = statistic_interval(balanced_accuracy, labels, calls, clusters=clusters)
    more = statistic_interval(
        lambda true, called, weights: ((called - true) * weights).sum(-1) / weights.sum(-1),
        labels,
        calls,
        clusters=clusters,
    )
    try:
        slope = short(statistic_interval(lambda *rows: calibration_line(*rows).slope, labels, p_yes, clusters=clusters))
    except DataError:  # no line fits best
        slope = "-"
    return [str(len(labels)), short(auc), short(right), short(more, "+"), slope]


def auc_gained(table: Table) -> Interval:
    """Mean over judges of the AUC that each gains; columns are before and after of the first, of the second ..."""

    def gained(labels: Floats, scores: Floats, weights: Floats) -> Floats:
        each = [roc_auc(labels, column, weights) for column in scores.T]
        mean: Floats = np.mean(each[1::2], axis=0) - np.mean(each[::2], axis=0)
        return mean

    return statistic_interval(gained, table.labels, table.p_yes, clusters=table.clusters)


def short(interval: Interval, sign: str = "") -> str:
    """`.751 [.718, .784]`, with a sign where "+" is given; no zero before the point."""
    mean, low, high = (
        re.sub(r"^([+-]?)0\.", r"\1.", f"{number:{sign}.3f}") for number in (interval.mean, interval.low, interval.high)
    )
    return f"{mean} [{low}, {high}]"
