"""The statements of two runs, weighted by what each adds to the difference of the means.

    pair   A's statements   B's statements     weight of each in B - A, with two pairs
    1      s1 s2            s1 s2              s1, s2: 1/2 * (1/2 - 1/2) = 0
    2      t1 t2            t1 t3 t4           t1: 1/2 * (1/3 - 1/2) = -1/12, t2: -1/4, t3, t4: 1/6

A statement whose weights cancel needs no label: whatever a person says, the difference stays. One
drawing of the others, by these weights, is the plan for labels of a difference.
"""

import math
from functools import cached_property
from statistics import NormalDist

import numpy as np

from localjudge.labels.units import UnitFrame
from localjudge.stats.corrected import JudgedUnits, drawing_sizes
from localjudge.stats.interval import CONFIDENCE, Floats
from localjudge.stats.repeated_looks import MIN_PLANNED_LABELS

_POWER = 0.8
_NO_WEIGHT = 1e-12
"""A smaller weight is the rounding of two equal ones."""


class DifferenceFrame(UnitFrame):
    """Verdicts of one metric on paired samples in two runs: the baseline's, then the new run's.

    Both frames have the samples of the same pairs, with the same clusters. The first verdict on a
    statement has the weight of all of them, because the statement has one label.
    """

    def __init__(self, before: UnitFrame, after: UnitFrame) -> None:
        super().__init__(after.metric, after.values_of)
        self.before = before
        self.after = after
        self._samples = [*before._samples, *after._samples]
        self._shares = before._shares & after._shares

    @cached_property
    def _statements(self) -> dict[str, list[int]]:
        """The indices of all units by the key of their statement, also of those without weight."""
        indices = {key: list(units) for key, units in self.before.by_key.items()}
        offset = len(self.before.weights)
        for key, units in self.after.by_key.items():
            indices.setdefault(key, []).extend(offset + unit for unit in units)
        return indices

    @cached_property
    def changes(self) -> Floats:
        """What each unit (units,) adds to the new mean minus the old one, if it counts 1."""
        changes = np.concatenate([-self.before.weights, self.after.weights])
        sums = np.where(np.isnan(self.p_yes), changes, 0.0)  # known without a label
        for units in self._statements.values():
            change = changes[units].sum()
            if abs(change) > _NO_WEIGHT:
                sums[units[0]] = change
        return sums

    @cached_property
    def weights(self) -> Floats:
        """The changes without their signs (units,)."""
        return np.abs(self.changes)

    @cached_property
    def signs(self) -> Floats:
        """1 for units that add to the difference, -1 for those that take from it (units,)."""
        return np.where(self.changes < 0, -1.0, 1.0)

    @cached_property
    def shares(self) -> Floats:
        """Shares of the units (units,) that sum to those of their clusters in the means."""
        return np.concatenate([np.zeros(len(self.before.weights)), self.after.weights])

    @cached_property
    def by_key(self) -> dict[str, list[int]]:
        """The index of the unit of each statement that changes the difference, by its key."""
        indices: dict[str, list[int]] = {}
        for key, units in self._statements.items():
            if self.weights[units[0]]:
                indices[key] = units[:1]
        return indices

    @property
    def statements(self) -> int:
        """The number of different statements in the two runs, with those that cancel."""
        return len(self._statements)

    @property
    def uncounted(self) -> int:
        """The number of statements that count the same in both runs, and are never drawn."""
        return self.statements - len(self.by_key)

    def weights_of_runs(self) -> tuple[Floats, Floats]:
        """Return what each unit (units,) adds to the mean of each run, if it counts 1.

        The first unit of a statement has the weight of all of them.
        """
        before = np.concatenate([self.before.weights, np.zeros(len(self.after.weights))])
        after = self.shares.copy()
        for weights in (before, after):
            for units in self._statements.values():
                total = weights[units].sum()
                weights[units] = 0.0
                weights[units[0]] = total
        return before, after

    def shares_of_samples(self, values: Floats) -> tuple[dict[str, float], dict[str, float]]:
        """Return the mean of values (units,) by sample, in each run.

        Each unit has the value of its statement's first unit.
        """
        by_statement = values.copy()
        for units in self._statements.values():
            by_statement[units] = values[units[0]]
        old = len(self.before.weights)
        before = self.before.share_of_samples(by_statement[:old])
        after = self.after.share_of_samples(by_statement[old:])
        return before, after


def labels_to_detect(frame: DifferenceFrame, difference: float) -> int | None:
    """Return how many labels would detect a difference in four of five cases, None if none would.

    It supposes that the judge's probabilities are right. None: more questions are needed.
    """
    most = len(frame.by_key)
    if most == 0 or _detectable(frame, most) > difference:
        return None
    least = min(MIN_PLANNED_LABELS, most)
    while least < most:
        middle = (least + most) // 2
        if _detectable(frame, middle) <= difference:
            most = middle
        else:
            least = middle + 1
    return most


def questions_to_detect(frame: DifferenceFrame, difference: float) -> int:
    """Return how many questions would detect a difference if all of their statements had a label.

    The detectable difference is in proportion to 1 / sqrt(questions).
    """
    questions = len(np.unique(frame.clusters))
    detectable = _detectable(frame, max(1, len(frame.by_key)))
    return math.ceil(questions * (detectable / difference) ** 2)


def half_width_of_all_labels(frame: DifferenceFrame, units: JudgedUnits) -> float:
    """Return the expected half width of the interval if every statement had a label.

        variance   sum over clusters (d - share D)^2 + sum over statements w^2 s (1 - s)

    s is the share of labels of 1 among the drawn statements of a system, and d and D are the
    differences that these shares give. The first statement to be drawn has a share of one half.
    """
    values = np.where(units.certain, units.human, 0.0)
    for sign in (-1.0, 1.0):
        of_system = (frame.signs == sign) & ~units.certain
        drawn = units.drawn[of_system]
        labels = np.count_nonzero(drawn)
        share = 0.5
        if labels:
            share = float((drawn * units.human[of_system]).sum() / drawn.sum())
        values[of_system] = (labels * share + 0.5) / (labels + 1)
    variance = _variance_of_clusters(frame, values)
    variance += float((frame.weights**2 * values * (1 - values)).sum())
    return NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * math.sqrt(variance)


def _variance_of_clusters(frame: DifferenceFrame, values: Floats) -> float:
    """Return the sum of (d - share D)^2 over the clusters, for values of the units (units,)."""
    parts = frame.changes * values
    of_clusters = np.bincount(frame.clusters, parts - parts.sum() * frame.shares)
    return float((of_clusters**2).sum())


def _detectable(frame: DifferenceFrame, labels: int) -> float:
    """Return the smallest difference that this number of labels is expected to detect.

        variance    sum over clusters (d - share D)^2 + sum over statements w^2 p (1 - p) / pi
        detectable  (z_confidence + z_power) sqrt(variance + unseen)

    d and D are the differences by probabilities p, w the weights, pi = min(1, labels * size / sum
    of the sizes) the chance of being drawn. Unseen errors count as in `stats.corrected`.
    """
    units = [indices[0] for indices in frame.by_key.values()]
    p = frame.p_yes[units]
    weights = frame.weights[units]
    sizes = drawing_sizes(weights, p)
    chances = np.minimum(1.0, labels * sizes / sizes.sum())
    predicted = np.where(np.isnan(frame.p_yes), frame.judged, frame.p_yes)
    variance = _variance_of_clusters(frame, predicted)
    variance += float((weights**2 * p * (1 - p) / chances).sum())
    if labels < len(units):
        variance += float((weights**2 / chances).sum()) / labels
    normal = NormalDist()
    return math.sqrt(variance) * (normal.inv_cdf((1 + CONFIDENCE) / 2) + normal.inv_cdf(_POWER))
