"""What the answers to the probe set amount to: arithmetic alone, with intervals that are clustered by passage.

labels      0   0   1   1
p_yes      .2  .7  .6  .9       AUC 3/4; at .5 the labels 0 1 1 1: balanced accuracy 3/4, lean 3/4 - 2/4 = +1/4
minimal pair    holds .9, number changed .6             p falls by .3, and the verdict does not turn
arrangement     needed chunk first .8, last .6          log odds move by |logit .8 - logit .6| = .98
"""

from collections import defaultdict
from collections.abc import Sequence
from math import log
from typing import Any, Literal, NamedTuple

import numpy as np

from localjudge.doctor.probe_set import Kind, Probe, Rearrangement
from localjudge.doctor.probing import JudgedArrangement, JudgedProbe, ProbeAnswers
from localjudge.errors import DataError
from localjudge.stats import agreement
from localjudge.stats.intervals import Interval, mean_interval, statistic_interval
from localjudge.stats.resampling import Floats
from localjudge.types import Attribution

ProbedTask = Literal["attribution", "relevance"]
THRESHOLD = 0.5
_LEAST = 1e-6  # as in `stats.agreement`: stands for a probability of exactly 0 in log odds


class Skill(NamedTuple):
    """How well a judge tells the items of one task apart."""

    auc: Interval
    balanced_accuracy: Interval
    lean: Interval
    """Share of items that it says yes to, less the share of those that are so."""
    slope: Interval | None
    """Of the calibration line; None where one threshold splits the items without error, or all get one probability."""
    calibration_error: float
    right: dict[Kind, tuple[int, int]]
    """Of each kind, how many verdicts are right, of how many."""

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        found = {"auc": self.auc, "balanced_accuracy": self.balanced_accuracy, "lean": self.lean, "slope": self.slope}
        return {
            "items": self.auc.n,
            "passages": self.auc.clusters,
            **{name: limits_json(interval) for name, interval in found.items()},
            "calibration_error": self.calibration_error,
            "right": {kind: {"right": right, "of": of} for kind, (right, of) in self.right.items()},
        }


class PairFigures(NamedTuple):
    """Minimal pairs: a statement that holds, and the same with one thing changed so that it does not."""

    pairs: int
    fell: int
    turned: int
    """Pairs of which the judge calls the first 1 and the second 0."""
    mean_fall: float


class Sensitivity(NamedTuple):
    """Whether the probability falls when a number, a name or a negation is changed."""

    falls: Interval
    every: PairFigures
    by_kind: dict[Kind, PairFigures]


class OrderEffect(NamedTuple):
    """What an arrangement of the same evidence does: flipped verdicts, and by how much the log odds move."""

    asked: int
    flipped: int
    mean_move: float
    largest_move: float


class ProbeFigures(NamedTuple):
    """Everything; None where there were no answers to tell it by."""

    skills: dict[ProbedTask, Skill]
    sensitivity: Sensitivity | None
    order: dict[Rearrangement, OrderEffect]
    flipped: float | None
    """Share of all rearranged verdicts."""
    median_mass: float | None


def probe_figures(answers: ProbeAnswers) -> ProbeFigures:
    """All figures; a task of which one label got no answer has none."""
    tasks: dict[ProbedTask, list[JudgedProbe]] = {"attribution": [], "relevance": []}
    for item in answers.items:
        if item.p_yes is not None:
            tasks["attribution" if isinstance(item.probe.task, Attribution) else "relevance"].append(item)
    effects: dict[Rearrangement, list[JudgedArrangement]] = defaultdict(list)
    for arrangement in answers.arrangements:
        effects[arrangement.one.effect].append(arrangement)
    order = {name: _effect(those) for name, those in effects.items()}
    asked = sum(effect.asked for effect in order.values())
    return ProbeFigures(
        skills={name: skill(items) for name, items in tasks.items() if len({one.probe.answer for one in items}) > 1},
        sensitivity=_sensitivity(tasks["attribution"]),
        order=order,
        flipped=sum(effect.flipped for effect in order.values()) / asked if asked else None,
        median_mass=float(np.median(answers.masses)) if answers.masses else None,
    )


def skill(items: Sequence[JudgedProbe]) -> Skill:
    """Figures of the items of one task, all answered, some of each label."""
    labels = np.array([item.probe.answer for item in items], dtype=np.float64)
    scores = np.array([item.p_yes for item in items], dtype=np.float64)
    decisions = (scores >= THRESHOLD).astype(np.float64)
    clusters = [item.probe.passage for item in items]
    right: dict[Kind, tuple[int, int]] = {}
    for item, is_right in zip(items, labels == decisions, strict=True):
        known, of = right.get(item.probe.kind, (0, 0))
        right[item.probe.kind] = (known + int(is_right), of + 1)
    try:
        slope = statistic_interval(_slope, labels, scores, clusters=clusters)
    except DataError:
        slope = None
    return Skill(
        auc=statistic_interval(agreement.roc_auc, labels, scores, clusters=clusters),
        balanced_accuracy=statistic_interval(agreement.balanced_accuracy, labels, decisions, clusters=clusters),
        lean=statistic_interval(_lean, labels, decisions, clusters=clusters),
        slope=slope,
        calibration_error=float(agreement.expected_calibration_error(labels, scores)),
        right=right,
    )


def limits_json(interval: Interval | None) -> dict[str, float | None] | None:
    """A figure and its limits, for programs."""
    if interval is None:
        return None
    low, high = interval.limits or (None, None)
    return {"value": interval.mean, "low": low, "high": high}


def _slope(labels: Floats, scores: Floats, weights: Floats) -> Floats:
    return agreement.calibration_line(labels, scores, weights).slope


def _lean(labels: Floats, decisions: Floats, weights: Floats) -> Floats:
    lean: Floats = (weights * (decisions - labels)).sum(axis=-1) / weights.sum(axis=-1)
    return lean


def _sensitivity(items: Sequence[JudgedProbe]) -> Sensitivity | None:
    known = {(item.probe.passage, item.probe.kind): item.p_yes for item in items}
    pairs: list[tuple[Probe, float, float]] = []
    for item in items:
        base = item.probe.changed_from
        before = known.get((item.probe.passage, base)) if base else None
        if before is not None and item.p_yes is not None:
            pairs.append((item.probe, before, item.p_yes))
    if not pairs:
        return None
    by_kind: dict[Kind, list[tuple[float, float]]] = defaultdict(list)
    for probe, before, after in pairs:
        by_kind[probe.kind].append((before, after))
    fell = [float(after < before) for _, before, after in pairs]
    return Sensitivity(
        falls=mean_interval(fell, clusters=[probe.passage for probe, _, _ in pairs]),
        every=_pair_figures([(before, after) for _, before, after in pairs]),
        by_kind={kind: _pair_figures(those) for kind, those in by_kind.items()},
    )


def _pair_figures(pairs: Sequence[tuple[float, float]]) -> PairFigures:
    return PairFigures(
        pairs=len(pairs),
        fell=sum(after < before for before, after in pairs),
        turned=sum(before >= THRESHOLD > after for before, after in pairs),
        mean_fall=sum(before - after for before, after in pairs) / len(pairs),
    )


def _effect(those: Sequence[JudgedArrangement]) -> OrderEffect:
    moves = [abs(_log_odds(one.p_after) - _log_odds(one.p_before)) for one in those]
    return OrderEffect(
        asked=len(those),
        flipped=sum((one.p_before >= THRESHOLD) != (one.p_after >= THRESHOLD) for one in those),
        mean_move=sum(moves) / len(moves),
        largest_move=max(moves),
    )


def _log_odds(probability: float) -> float:
    clipped = min(max(probability, _LEAST), 1 - _LEAST)
    return log(clipped) - log(1 - clipped)
