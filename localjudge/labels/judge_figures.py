"""Quality of a judge's probabilities on human labels, each figure with its interval, and the best threshold.

    probabilities   AUC, calibration slope and error
    decisions       balanced accuracy, bias: at .5, and held out, at thresholds chosen on other clusters
    worth           n r^2 / (1 - r^2) labels for n = 50

Intervals are from a bootstrap over clusters with fixed fold thresholds.

If many more units are judged than labelled, the variance of a corrected mean is 1 - r^2 times that
of the labels' mean. r is the correlation of human labels with the prediction of the corrected mean.
It is adjusted for the number of fitted parameters and includes one extra row that is wrong with
probability 1/2. Sources: A. N. Angelopoulos, J. C. Duchi and T. Zrnic (2023), PPI++,
arXiv:2311.01453, section 6; P. Boyeau et al. (2024), arXiv:2403.07008; A. Fisch et al. (2024),
arXiv:2406.04291.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from localjudge.errors import DataError
from localjudge.run_directory.calibration import Figure, LabelSavings
from localjudge.stats import agreement
from localjudge.stats.corrected import STRATA, strata_by_score
from localjudge.stats.interval import Floats, LabelledScores, Statistic, statistic_intervals

_ONE_HALF = 0.5
_SAVED_OF = 50
FEW = 20
"""Labels of one kind, or clusters, below which intervals are unreliable."""
_GUESSES = (
    "warning: this judge is not shown to be better than guessing, and no threshold can fix that"
)
_OF_PROBABILITIES: dict[str, Statistic] = {
    "auc": agreement.roc_auc,
    "calibration_slope": lambda *rows: agreement.calibration_line(*rows).slope,
    "calibration_error": agreement.calibration_error,
}
_OF_DECISIONS: dict[str, Statistic] = {
    "balanced_accuracy": agreement.balanced_accuracy,
    "bias": agreement.bias,
}


def judge_figures(rows: LabelledScores) -> dict[str, Any]:
    """Return the measured fields of a `Calibration` for labels, probabilities, weights and clusters, each (n,).

    Raises DataError if all labels are equal, or a threshold cannot be tried on other clusters.
    """
    labels, scores, _ = rows.arrays()
    try:
        threshold = agreement.best_threshold(rows)
        decisions, thresholds = agreement.held_out_decisions(rows)
    except DataError as error:
        agreement.held_out_decisions(rows._replace(scores=labels))  # raises for unusable labels
        unmeasured = {
            "figures": {},
            "at_one_half": {},
            "held_out": {},
            "undefined": {"threshold": error.message},
        }
        return {
            **unmeasured,
            "threshold": _ONE_HALF,
            "fold_thresholds": (),
            "worth": None,
            "remarks": (_GUESSES,),
        }
    at_one_half = (scores >= _ONE_HALF).astype(np.float64)
    undefined: dict[str, str] = {}

    def measure(
        statistics: Mapping[str, Statistic], values: Floats, prefix: str = ""
    ) -> dict[str, Figure]:
        sound: dict[str, Statistic] = {}
        for name, statistic in statistics.items():
            try:
                statistic(labels, values, np.ones((1, len(labels))))
                sound[name] = statistic
            except DataError as error:
                undefined[prefix + name] = error.message
        intervals = statistic_intervals(sound, rows._replace(scores=values))
        return {
            name: Figure(value=each.mean, ci95=(each.low, each.high))
            for name, each in intervals.items()
        }

    measured = {
        "at_one_half": measure(_OF_DECISIONS, at_one_half, "at_one_half."),
        "held_out": measure(_OF_DECISIONS, decisions, "held_out.")
        | {"gain": _gain(at_one_half, decisions, rows)},
        "figures": measure(_OF_PROBABILITIES, scores),
    }
    remarks = tuple(_remarks(rows, measured["figures"]["auc"], measured["held_out"]))
    chosen = {"threshold": threshold, "fold_thresholds": thresholds, "worth": label_savings(rows)}
    return {**measured, **chosen, "undefined": undefined, "remarks": remarks}


def _gain(before: Floats, after: Floats, rows: LabelledScores) -> Figure:
    def gain(labels: Floats, scores: Floats, weights: Floats) -> Floats:
        old, new = (
            agreement.balanced_accuracy(labels, decisions, weights) for decisions in scores.T
        )
        return new - old

    interval = statistic_intervals(
        {"": gain}, rows._replace(scores=np.column_stack([before, after]))
    )[""]
    return Figure(value=interval.mean, ci95=(interval.low, interval.high))


def label_savings(rows: LabelledScores) -> LabelSavings:
    """Return the labels saved at 50 labels if many more units are judged, by the formula above.

    Four labels 0 0 1 1 in two strata (0 0) (1 1): errors 0 + 1/2, spread 4/4 + 1/2; (1/2) / (3/2) *
    3/2 = 1/2: 50.
    """
    labels, scores, weights = rows.arrays()
    strata, judged = strata_by_score(scores, STRATA), (scores >= _ONE_HALF).astype(np.float64)
    total, unseen = np.bincount(strata, weights), weights.mean() / 2
    human, judge = (
        side - (np.bincount(strata, weights * side) / total)[strata] for side in (labels, judged)
    )
    moves = float((weights * judge**2).sum())
    power = min(1.0, max(0.0, float((weights * human * judge).sum()) / moves)) if moves else 0.0
    errors = (weights * (human - power * judge) ** 2).sum() + unseen
    spread = (weights * (labels - np.average(labels, weights=weights)) ** 2).sum() + unseen
    left = errors / spread * (len(labels) - 1) / max(1, len(labels) - len(total) - (moves > 0))
    return LabelSavings(labels=max(0, round(_SAVED_OF * (1 / left - 1))), of=_SAVED_OF)


def _remarks(rows: LabelledScores, auc: Figure, held_out: Mapping[str, Figure]) -> Iterator[str]:
    labels = rows.arrays()[0]
    for kind in (1, 0):
        if (count := int((labels == kind).sum())) < FEW:
            yield f"warning: only {count} labels of {kind}: get {FEW} or more before you rely on any figure"
    if (
        clusters := len(labels if rows.clusters is None else np.unique(np.asarray(rows.clusters)))
    ) < FEW:
        yield f"warning: only {clusters} independent groups: with fewer than {FEW}, intervals are too narrow"
    if auc.ci95[0] <= _ONE_HALF:
        yield _GUESSES
    if held_out["gain"].ci95[0] <= 0:
        yield "the threshold is not shown to be better than 0.5 on held-out labels"
    low, high = (bias := held_out["bias"]).ci95
    if low > 0 or high < 0:
        direction = "high" if low > 0 else "low"
        shift = f"with this threshold the share of 1 is too {direction} by {abs(bias.value):.3f}"
        yield f"{shift}, which shifts the mean of a metric"
