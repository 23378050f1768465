"""The units of a metric with their labels, weighted by the chance of being drawn."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

import numpy as np

from localjudge.labels.drawing import DrawnStatement
from localjudge.labels.units import UnitFrame
from localjudge.stats.corrected import (
    STRATA,
    JudgedUnits,
    PredictionPowered,
    inclusion_probabilities,
    prediction_powered,
    strata_by_score,
)
from localjudge.stats.interval import mean_interval, share_interval
from localjudge.stats.sequence import MIN_PLANNED_LABELS, Look, look_at


def sampling_weights(
    drawings: Iterable[Iterable[DrawnStatement]], most: float = math.inf
) -> dict[str, float]:
    """Return the weights of the first `most` labelled statements, relative to shares in the mean.

    It is the sum of (share of labels) / (inclusion probability) over the drawings that reached the
    statement.
    """
    keys: set[str] = set()
    reached: list[list[DrawnStatement]] = []
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

    frame: UnitFrame
    units: JudgedUnits
    counted: Set[str]
    labelled: Set[str]
    look: Look
    is_complete: bool
    is_planned: bool

    def estimate(self) -> PredictionPowered:
        """Return the mean of the labels if every statement has one, else the corrected mean."""
        if self.is_complete:
            confidence = self.look.confidence
            assert confidence  # the look at all labels has an interval
            labels = self.units.human
            if self.frame.is_pooled:
                ones = labels.astype(np.int64)
                clusters = np.unique(self.units.clusters, return_inverse=True)[1].reshape(-1)
                interval = share_interval(ones, np.ones_like(ones), clusters, confidence)
            else:
                shares = self.frame.means_of_samples(labels)
                groups = self.frame.clusters_of_samples
                is_grouped = len(np.unique(groups)) < len(groups)
                interval = mean_interval(
                    shares, clusters=groups if is_grouped else None, confidence=confidence
                )
            return PredictionPowered(interval.mean, interval.limits, 0.0, interval.clusters)
        return prediction_powered(self.units, self.look.confidence)


def label_units(
    frame: UnitFrame,
    human: Mapping[str, float],
    drawings: Iterable[Iterable[DrawnStatement]],
    plans: Iterable[Set[str]] = (),
    most: int | None = None,
) -> LabelledUnits:
    """Return the units of a metric with the labels that count, for at most `most` statements.

    `human` is one annotator's label of each statement, and `plans` are the statements of first
    readings that were complete.
    """
    keys = frame.by_key.keys() & human.keys()
    drawings = _select_labels(drawings, keys)
    weights = sampling_weights(drawings)
    is_complete = len(keys) == len(frame.by_key)
    if most is not None and most < len(keys):
        # The labels of a drawing are cut off at the look; others have no order.
        is_complete = is_complete and len(weights) < len(keys)
    labelled: Set[str] = weights.keys()
    if is_complete:
        labelled = keys
    planned = find_plan(frame, plans, labelled)
    number = len(labelled)
    if most is not None:
        number = min(number, most)
    look = look_at(number, len(frame.by_key), len(planned) or None)
    is_planned = bool(planned) and look.labels == len(planned)
    if is_complete:
        weights = dict.fromkeys(keys, 1.0)
    elif look.labels < len(labelled):
        if is_planned:
            drawings = _select_labels(drawings, planned)
        weights = sampling_weights(drawings, look.labels)
    return LabelledUnits(
        frame=frame,
        units=_judged_units(frame, human, weights),
        counted=weights.keys(),
        labelled=labelled,
        look=look,
        is_complete=is_complete,
        is_planned=is_planned,
    )


def find_plan(frame: UnitFrame, plans: Iterable[Set[str]], labelled: Set[str]) -> Set[str]:
    """Return the largest plan for the labelled statements, or none if it is too small."""
    largest: Set[str] = frozenset()
    for plan in plans:
        planned = plan & frame.by_key.keys()
        is_usable = len(planned) >= MIN_PLANNED_LABELS and planned <= labelled
        if is_usable and len(planned) > len(largest):
            largest = planned
    return largest


def _select_labels(
    drawings: Iterable[Iterable[DrawnStatement]], keys: Set[str]
) -> list[list[DrawnStatement]]:
    """Return the labels of these statements in each drawing."""
    selected = []
    for drawing in drawings:
        selected.append([drawn for drawn in drawing if drawn.key in keys])
    return selected


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
