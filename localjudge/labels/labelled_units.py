"""The units of a metric with their labels, weighted by the chance of being drawn."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np

from localjudge.labels.decisions import DrawnLabel
from localjudge.labels.units import UnitFrame
from localjudge.stats.corrected import (
    STRATA,
    JudgedUnits,
    inclusion_probabilities,
    strata_by_score,
)
from localjudge.stats.interval import Indices, Interval, mean_interval, share_interval
from localjudge.stats.looks import MIN_PLANNED_LABELS, Look, look_at


def sampling_weights(
    drawings: Iterable[Iterable[DrawnLabel]], most: float = math.inf
) -> dict[str, float]:
    """Return the weights of the first `most` labelled statements, relative to shares in the mean.

    It is the sum of (share of labels) / (inclusion probability) over the drawings that reached the
    statement.
    """
    keys: set[str] = set()
    reached: list[list[DrawnLabel]] = []
    for drawing in drawings:
        reached.append([])
        for drawn in drawing:
            if len(keys) >= most:
                break
            keys.add(drawn.key)
            reached[-1].append(drawn)
    count = sum(len(statements) for statements in reached)
    weights: dict[str, float] = defaultdict(float)
    for statements in reached:
        if not statements:
            continue
        shares = np.array([drawn.size_share for drawn in statements])
        probabilities = inclusion_probabilities(shares, statements[-1].draw_index).tolist()
        for drawn, probability in zip(statements, probabilities, strict=True):
            weights[drawn.key] += len(statements) / count / probability
    return dict(weights)


class LabelledUnits(NamedTuple):
    """Units of a metric with labels. Of the `labelled` statements, `counted` count at this look.

    `is_complete`: every statement has a label that counts. `is_planned`: the number of labels was
        planned.
    """

    units: JudgedUnits
    counted: Set[str]
    labelled: Set[str]
    look: Look
    is_complete: bool
    is_planned: bool


class LabelledMetric(NamedTuple):
    """The labels of one metric's statements by one annotator.

    `plans` are the statements of first readings that were complete.
    """

    frame: UnitFrame
    human: Mapping[str, float]
    drawings: Sequence[Sequence[DrawnLabel]]
    plans: Sequence[Set[str]] = ()

    def units(self, most: int | None = None) -> LabelledUnits:
        """Return the units with the labels that count, for at most `most` statements."""
        frame = self.frame
        keys = frame.by_key.keys() & self.human.keys()
        drawings = _drawn_among(self.drawings, keys)
        weights = sampling_weights(drawings)
        has_all = len(keys) == len(frame.by_key)
        is_complete = has_all and (most is None or most >= len(keys) or len(weights) < len(keys))
        labelled = keys if is_complete else weights.keys()
        planned = self.planned_among(labelled)
        number = len(labelled) if most is None else min(len(labelled), most)
        look = look_at(number, len(frame.by_key), len(planned) or None)
        if not is_complete and look.labels < len(labelled):
            if look.labels == len(planned):
                drawings = _drawn_among(drawings, planned)
            weights = sampling_weights(drawings, look.labels)
        if is_complete:
            weights = dict.fromkeys(keys, 1.0)
        is_planned = bool(planned) and look.labels == len(planned)
        units = _judged_units(frame, self.human, weights)
        return LabelledUnits(units, weights.keys(), labelled, look, is_complete, is_planned)

    def planned_among(self, labelled: Set[str]) -> Set[str]:
        """Return the largest plan for the labelled statements, or none if it is too small."""
        planned = [plan & self.frame.by_key.keys() for plan in self.plans]
        usable = [plan for plan in planned if len(plan) >= MIN_PLANNED_LABELS and plan <= labelled]
        return max(usable, key=len, default=frozenset())


def _drawn_among(
    drawings: Iterable[Iterable[DrawnLabel]], keys: Set[str]
) -> list[list[DrawnLabel]]:
    return [[drawn for drawn in drawing if drawn.key in keys] for drawing in drawings]


def _judged_units(
    frame: UnitFrame, human: Mapping[str, float], sampling_weight: Mapping[str, float]
) -> JudgedUnits:
    """Return the units of a metric, with labels of the statements that have a sampling weight."""
    labels = np.zeros(len(frame.judged))
    drawn = np.zeros(len(frame.judged))
    for key, weight in sampling_weight.items():
        indices = frame.by_key[key]
        labels[indices] = human[key]
        # A statement has one label even if several samples share it. Its first unit represents all.
        drawn[indices[0]] = frame.weights[indices].sum() * weight
    certain = np.isnan(frame.p_yes)
    labels[certain] = frame.judged[certain]
    drawn[certain] = frame.weights[certain]
    strata = np.zeros(len(labels), dtype=np.intp)
    if not certain.all():
        scores = frame.p_yes[~certain]
        count = max(1, min(STRATA, len(sampling_weight)))
        strata[~certain] = strata_by_score(scores, count) + int(certain.any())
    units = JudgedUnits(frame.judged, frame.weights, labels, drawn, strata, frame.clusters, certain)
    if frame.share_of == "zeros":
        return units._replace(judged=1 - units.judged, human=1 - units.human)
    return units


def interval_of_labels(frame: UnitFrame, units: JudgedUnits, confidence: float) -> Interval:
    """Return the mean of the labels of a metric with its interval, if every statement has a label.

    It is the interval that the judge's mean has: over samples, with groups of samples as single
    draws.
    """
    if frame.is_pooled:
        ones = units.human.astype(np.int64)
        return share_interval(ones, np.ones_like(ones), _from_zero(units.clusters), confidence)
    shares = frame.means_of_samples(units.human)
    clusters = frame.clusters_of_samples
    is_grouped = len(np.unique(clusters)) < len(clusters)
    return mean_interval(shares, clusters=clusters if is_grouped else None, confidence=confidence)


def _from_zero(clusters: Indices) -> Indices:
    return np.unique(clusters, return_inverse=True)[1].reshape(-1)
