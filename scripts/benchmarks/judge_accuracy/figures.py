"""AUC of judges on labelled rows, with 95 % intervals: bootstraps that draw whole clusters.

Every interval uses the same draws, so that differences of two judges are paired. Source: B. Efron
and R. Tibshirani (1993), An Introduction to the Bootstrap, chapters 8 and 13.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from localjudge.errors import DataError
from localjudge.stats.agreement import roc_auc
from localjudge.stats.interval import Floats

from .rows import SEED, LabelledRow

REPLICATES = 2000
TAILS = (0.025, 0.975)


class Estimate(NamedTuple):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


class Labels:
    """Labels of rows, and draws of their clusters."""

    def __init__(self, rows: Sequence[LabelledRow]) -> None:
        self.rows = rows
        self._labels = np.array([row.label for row in rows])
        clusters = np.unique([row.cluster for row in rows], return_inverse=True)[1]
        count = int(clusters.max()) + 1
        rng = np.random.default_rng(SEED)
        draws = rng.multinomial(count, np.full(count, 1 / count), size=REPLICATES)
        # Number of times that each row is drawn (REPLICATES, rows)
        self._weights = draws[:, clusters].astype(float)

    def auc(self, scores: Floats) -> Estimate:
        """Return the AUC of a judge's scores (n,) on all rows."""
        return _estimate(self._auc(scores), self._drawn_aucs(scores))

    def gain(self, scores: Floats, baseline: Floats) -> Estimate:
        """Return the AUC of scores minus the AUC of a baseline, both (n,)."""
        drawn = self._drawn_aucs(scores) - self._drawn_aucs(baseline)
        return _estimate(self._auc(scores) - self._auc(baseline), drawn)

    def compute_auc(self, chosen: Sequence[bool], scores: Floats) -> float | None:
        """Return the AUC on chosen rows, or None if they have only one label."""
        mask = np.array(chosen)
        if len(set(self._labels[mask].tolist())) < len({0, 1}):
            return None
        return float(roc_auc(self._labels[mask], scores[mask]))

    def _auc(self, scores: Floats) -> float:
        return float(roc_auc(self._labels, scores))

    def _drawn_aucs(self, scores: Floats) -> Floats:
        """Return the AUC in each draw (REPLICATES,). Raises DataError for too few rows."""
        positives = self._weights @ self._labels
        if not np.all((positives > 0) & (positives < self._weights.sum(axis=1))):
            raise DataError("there are draws with only one label", hint="take more rows")
        return roc_auc(self._labels, scores, self._weights)


def _estimate(value: float, drawn: Floats) -> Estimate:
    low, high = np.quantile(drawn, TAILS)
    return Estimate(value, float(low), float(high))
