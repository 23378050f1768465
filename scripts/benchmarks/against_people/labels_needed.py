"""How many labels does it take to order three systems as all ratings do?

An answer is labelled 1 if people rate it 3.5 or more on average. Labels of so many answers of each
system are drawn at random; each system then has a corrected mean (localjudge.stats.corrected, with
a score in [0, 1] of each answer in place of the judge's verdict), and a mean of the labels without
any judge. All scores see the same drawings.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from localjudge.stats.corrected import JudgedUnits, prediction_powered
from localjudge.stats.corrected import labels_alone as mean_of_labels
from localjudge.stats.interval import Flags, Floats, Mean

from .ratings import Rating, align

FAITHFUL = 3.5
LABELS = (10, 20, 50, 100)
DRAWINGS = 1000
ALONE = "labels alone"
_SEED = 0
_TIE = 1e-9
"""Smaller than any difference of means."""


class Ordering(NamedTuple):
    """Share of drawings with the best system first, and with all in order; mean interval width."""

    scored_by: str
    labels: int
    best_first: float
    all_in_order: float
    width: float


class _System(NamedTuple):
    """Labels (n,) of the answers of a system, and their scores (n,) by name."""

    labels: Floats
    scores: Mapping[str, Floats]


def measure_orderings(
    ratings: Sequence[Rating],
    scores: Mapping[str, Mapping[str, float]],
    systems: Mapping[str, str],
    drawings: int = DRAWINGS,
) -> list[Ordering]:
    """Return how often each score, corrected by labels, and labels alone find the order.

    `scores` are by name and answer.
    """
    groups = _by_system(ratings, scores, systems)
    fewest = min(len(group.labels) for group in groups)
    return [
        _measure(groups, name, labels, drawings)
        for labels, name in itertools.product(LABELS, (ALONE, *scores))
        if labels <= fewest
    ]


def _measure(groups: Sequence[_System], name: str, labels: int, drawings: int) -> Ordering:
    truth = np.argsort([-group.labels.mean() for group in groups], kind="stable")
    rng = np.random.default_rng(_SEED)
    in_order = np.empty((drawings, 2))
    widths: list[float] = []
    for drawing in range(drawings):
        means = [_corrected(group, name, _draw(group, labels, rng)) for group in groups]
        # Few labels often give equal means: chance decides which comes first.
        estimates = np.array([each.mean for each in means])
        order = np.argsort(-estimates + _TIE * rng.random(len(estimates)))
        in_order[drawing] = order[0] == truth[0], (order == truth).all()
        widths += [each.ci95[1] - each.ci95[0] for each in means if each.ci95]
    best_first, all_in_order = in_order.mean(axis=0).tolist()
    return Ordering(name, labels, best_first, all_in_order, float(np.mean(widths)))


def _by_system(
    ratings: Sequence[Rating],
    scores: Mapping[str, Mapping[str, float]],
    systems: Mapping[str, str],
) -> list[_System]:
    groups: list[_System] = []
    for system in sorted(set(systems.values())):
        of_system = [rating for rating in ratings if systems[rating.answer] == system]
        labels = np.array([float(rating.value >= FAITHFUL) for rating in of_system])
        aligned = {name: align(of_system, values) for name, values in scores.items()}
        groups.append(_System(labels, aligned))
    return groups


def _draw(system: _System, labels: int, rng: np.random.Generator) -> Flags:
    answers = len(system.labels)
    chosen = np.zeros(answers, dtype=np.bool_)
    chosen[rng.choice(answers, labels, replace=False)] = True
    return chosen


def _corrected(system: _System, name: str, chosen: Flags) -> Mean:
    count = len(system.labels)
    judged = np.zeros(count)
    if name != ALONE:
        judged = system.scores[name]
    units = JudgedUnits(
        judged=judged,
        weights=np.full(count, 1 / count),
        human=np.where(chosen, system.labels, 0.0),
        drawn=np.where(chosen, 1 / int(chosen.sum()), 0.0),
        strata=np.zeros(count, dtype=np.intp),
        clusters=np.arange(count, dtype=np.intp),
        certain=np.zeros(count, dtype=np.bool_),
    )
    if name == ALONE:
        return mean_of_labels(units)
    return prediction_powered(units)
