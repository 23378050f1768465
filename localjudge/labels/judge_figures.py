"""Quality of a judge on human labels, with intervals, the best threshold, and recommended uses.

    probabilities   AUC, calibration slope and error
    decisions       balanced accuracy, bias: at .5 and at thresholds chosen on other clusters
    savings         n r^2 / (1 - r^2) labels for n = 50

Intervals are from a bootstrap over clusters with fixed fold thresholds.

If many more units are judged than labelled, the variance of a corrected mean is 1 - r^2 times that
of the labels' mean. r is the correlation of human labels with the prediction of the corrected mean.
It is adjusted for the number of fitted parameters and includes one extra row that is wrong with
probability 1/2. Sources: A. N. Angelopoulos, J. C. Duchi and T. Zrnic (2023), PPI++,
arXiv:2311.01453, section 6; P. Boyeau et al. (2024), arXiv:2403.07008; A. Fisch et al. (2024),
arXiv:2406.04291.

The figures decide the recommended uses, by fixed rules:

    ranking      AUC, lower limit >= .65
    means        balanced accuracy, lower limit >= .75; bias, both limits within .15;
                 at most 10 % flipped by order
    thresholds   balanced accuracy, lower limit >= .85; calibration slope .5 to 2, error <= .15;
                 probability falls in minimal pairs, lower limit >= .75 (attribution)

Each level requires all levels above it. Limits of clustered intervals decide. Order and minimal
pairs are measured only by `localjudge.doctor`, for attribution.

A judge with balanced accuracy b shows a difference between two systems at 2b - 1 of its size: half
at .75, .7 at .85. If it is unbiased, its mean is wrong by up to 1 - b where all labels are equal.
If the log odds of both labels are normal with equal variances, an AUC of .65 equals a balanced
accuracy of .61, which leaves a fifth of each difference.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from localjudge.errors import DataError
from localjudge.run_directory.measured_judges import Calibration, Figure, LabelSavings
from localjudge.stats import agreement
from localjudge.stats.agreement import LabelledScores, Statistic, statistic_intervals
from localjudge.stats.corrected import STRATA, strata_by_score
from localjudge.stats.interval import Floats, Indices, Mean
from localjudge.stats.stacking import best_threshold, held_out_decisions
from localjudge.types import ONE_HALF, USES, Use
from localjudge.words import three_digits

_SAVED_OF = 50
FEW = 20
"""Labels of one kind, or clusters, below which intervals are unreliable."""
_GUESSES = (
    "warning: this judge is not shown to be better than guessing, and no threshold can fix that"
)
_OF_PROBABILITIES: dict[str, Statistic] = {
    "auc": agreement.roc_auc,
    "calibration_slope": agreement.calibration_slope,
    "calibration_error": agreement.calibration_error,
}
_OF_DECISIONS: dict[str, Statistic] = {
    "balanced_accuracy": agreement.balanced_accuracy,
    "bias": agreement.bias,
}
MIN_AUC = 0.65
_MIN_BALANCED_ACCURACY: dict[Use, float] = {"means": 0.75, "thresholds": 0.85}
_MAX_BIAS = 0.15
MAX_ORDER_FLIP_RATE = 0.10
_MIN_SLOPE = 0.5
_MAX_SLOPE = 2.0
_MAX_CALIBRATION_ERROR = 0.15
MIN_PAIR_SENSITIVITY = 0.75


def judge_figures(rows: LabelledScores) -> dict[str, Any]:
    """Return the measured fields of a `Calibration` from labels, probabilities, weights, clusters.

    Each is of shape (n,). Raises DataError if all labels are equal, or a threshold cannot be tried
    on other clusters.
    """
    try:
        threshold = best_threshold(rows)
        decisions, thresholds = held_out_decisions(rows)
    except DataError as error:
        held_out_decisions(rows.with_scores(rows.labels))  # raises for unusable labels
        return _without_threshold(error.message)
    at_one_half = (rows.scores >= ONE_HALF).astype(np.float64)
    undefined: dict[str, str] = {}
    held_out = _measure(_OF_DECISIONS, rows, decisions, undefined, "held_out.")
    held_out["gain"] = _gain(at_one_half, decisions, rows)
    figures = _measure(_OF_PROBABILITIES, rows, rows.scores, undefined, "")
    return {
        "threshold": threshold,
        "fold_thresholds": thresholds,
        "figures": figures,
        "at_one_half": _measure(_OF_DECISIONS, rows, at_one_half, undefined, "at_one_half."),
        "held_out": held_out,
        "savings": label_savings(rows),
        "undefined": undefined,
        "remarks": tuple(_remarks(rows, figures["auc"], held_out)),
    }


def _without_threshold(reason: str) -> dict[str, Any]:
    """Return the fields for probabilities that give no threshold, such as equal ones."""
    return {
        "threshold": ONE_HALF,
        "fold_thresholds": (),
        "figures": {},
        "at_one_half": {},
        "held_out": {},
        "savings": None,
        "undefined": {"threshold": reason},
        "remarks": (_GUESSES,),
    }


def _measure(
    statistics: Mapping[str, Statistic],
    rows: LabelledScores,
    values: Floats,
    undefined: dict[str, str],
    prefix: str,
) -> dict[str, Figure]:
    """Return each statistic of `values` (n,) with its interval; put reasons into `undefined`."""
    defined: dict[str, Statistic] = {}
    for name, statistic in statistics.items():
        try:
            statistic(rows.labels, values, np.ones((1, len(rows.labels))))
        except DataError as error:
            undefined[prefix + name] = error.message
        else:
            defined[name] = statistic
    intervals = statistic_intervals(defined, rows.with_scores(values))
    return {name: _as_figure(interval) for name, interval in intervals.items()}


def _as_figure(interval: Mean) -> Figure:
    return Figure(value=interval.mean, ci95=(interval.low, interval.high))


def _gain(before: Floats, after: Floats, rows: LabelledScores) -> Figure:
    """Return how much the balanced accuracy of decisions (n,) grows, with a paired interval."""

    def gain(labels: Floats, decisions: Floats, weights: Floats) -> Floats:
        old = agreement.balanced_accuracy(labels, decisions[:, 0], weights)
        new = agreement.balanced_accuracy(labels, decisions[:, 1], weights)
        return new - old

    both = rows.with_scores(np.column_stack([before, after]))
    return _as_figure(statistic_intervals({"gain": gain}, both)["gain"])


def label_savings(rows: LabelledScores) -> LabelSavings:
    """Return the labels saved at 50 labels if many more units are judged, by the formula above.

    Four labels 0 0 1 1 in two strata (0 0) (1 1): errors 0 + 1/2, spread 4/4 + 1/2; (1/2) / (3/2) *
    3/2 = 1/2: 50.
    """
    labels = rows.labels
    weights = rows.weights
    strata = strata_by_score(rows.scores, STRATA)
    judged = (rows.scores >= ONE_HALF).astype(np.float64)
    human = _within_strata(labels, strata, weights)
    judge = _within_strata(judged, strata, weights)
    variance = float((weights * judge**2).sum())
    ppi_lambda = 0.0
    if variance:
        slope = float((weights * human * judge).sum()) / variance
        ppi_lambda = min(1.0, max(0.0, slope))
    extra_row = weights.mean() / 2
    errors = (weights * (human - ppi_lambda * judge) ** 2).sum() + extra_row
    mean = np.average(labels, weights=weights)
    spread = (weights * (labels - mean) ** 2).sum() + extra_row
    fitted = len(np.unique(strata)) + (variance > 0)
    degrees = max(1, len(labels) - fitted)
    remaining = errors / spread * (len(labels) - 1) / degrees
    saved = round(_SAVED_OF * (1 / remaining - 1))
    return LabelSavings(labels=max(0, saved), of=_SAVED_OF)


def _within_strata(values: Floats, strata: Indices, weights: Floats) -> Floats:
    """Return the values (n,) minus the weighted mean of their stratum."""
    means = np.bincount(strata, weights * values) / np.bincount(strata, weights)
    return values - means[strata]


def _remarks(rows: LabelledScores, auc: Figure, held_out: Mapping[str, Figure]) -> Iterator[str]:
    labels = rows.labels
    for kind in (1, 0):
        count = int((labels == kind).sum())
        if count < FEW:
            labels_of_kind = f"warning: only {count} labels of {kind}"
            yield f"{labels_of_kind}: get {FEW} or more before you rely on any figure"
    clusters = len(labels)
    if rows.clusters is not None:
        clusters = len(np.unique(np.asarray(rows.clusters)))
    if clusters < FEW:
        groups = f"warning: only {clusters} independent groups"
        yield f"{groups}: with fewer than {FEW}, intervals are too narrow"
    if auc.ci95[0] <= ONE_HALF:
        yield _GUESSES
    if held_out["gain"].ci95[0] <= 0:
        yield "the threshold is not shown to be better than 0.5 on held-out labels"
    bias = held_out["bias"]
    low, high = bias.ci95
    if low > 0 or high < 0:
        direction = "high" if low > 0 else "low"
        size = three_digits(abs(bias.value))
        shift = f"held out, the chosen thresholds put the share of 1 too {direction} by {size}"
        yield f"{shift}, which shifts the mean of a metric"


class Skill(NamedTuple):
    """Figures of a judge for one question. Unknown ones are None.

    `bias` is the share judged 1 minus the true share. `pair_sensitivity` is the share of minimal
    pairs with a lower probability for the changed statement, `order_flip_rate` the share of
    rearrangements that change a verdict.
    """

    auc: Mean
    balanced_accuracy: Mean
    bias: Mean
    calibration_slope: Mean | None
    calibration_error: float
    pair_sensitivity: Mean | None = None
    order_flip_rate: float | None = None

    @property
    def is_biased(self) -> bool:
        return max(-self.bias.low, self.bias.high) > _MAX_BIAS


class Admission(NamedTuple):
    """Recommended uses of a judge for one question, and the reasons against the next use."""

    uses: tuple[Use, ...]
    barred_by: tuple[str, ...]

    def __str__(self) -> str:
        words = recommendation(self.uses)
        if self.uses and len(self.uses) < len(USES):
            words += f", not for {USES[len(self.uses)]}"
        if self.barred_by:
            words += f" ({'; '.join(self.barred_by)})"
        return words


def recommendation(uses: Sequence[str]) -> str:
    """Format `recommended for ranking and means`, or `not recommended for ...` without uses."""
    verb = "recommended" if uses else "not recommended"
    conjunction = "and" if uses else "or"
    *others, last = uses or USES
    if not others:
        return f"{verb} for {last}"
    return f"{verb} for {', '.join(others)} {conjunction} {last}"


def admit_by_labels(calibration: Calibration) -> Admission:
    """Return the uses that a calibration's labels recommend, none with fewer than 20 of a kind."""
    labels = calibration.labels
    negatives = labels.verdicts - labels.positives
    fewest = min(labels.positives, negatives, labels.clusters)
    if fewest < FEW:
        needed = f"needs {FEW} labels of each kind and {FEW} groups"
        return Admission((), (f"{needed}, the smallest number is {fewest}",))
    if not calibration.figures:
        return Admission((), ("all probabilities are equal",))
    figures: dict[str, Mean] = {}
    for name, figure in (calibration.figures | calibration.held_out).items():
        figures[name] = Mean(
            figure.value,
            figure.ci95,
            "clustered bootstrap",
            labels.verdicts,
            labels.clusters,
        )
    skill = Skill(
        auc=figures["auc"],
        balanced_accuracy=figures["balanced_accuracy"],
        bias=figures["bias"],
        calibration_slope=figures.get("calibration_slope"),
        calibration_error=figures["calibration_error"].mean,
    )
    return admit(skill)


def admit(skill: Skill) -> Admission:
    """Return the uses below the first one that a figure excludes."""
    if skill.auc.low >= MIN_AUC:
        reasons_against_ranking: list[str] = []
    else:
        auc = format_interval(skill.auc)
        reasons_against_ranking = [f"AUC {auc}: the lower limit must be at least {MIN_AUC:g}"]
    reasons_against_means = _reasons_by_accuracy(skill, "means")
    if skill.is_biased:
        bias = format_interval(skill.bias, "+")
        reasons_against_means.append(f"bias {bias}: both limits must be within {_MAX_BIAS:g}")
    flip_rate = skill.order_flip_rate
    if flip_rate is not None and flip_rate > MAX_ORDER_FLIP_RATE:
        changed = f"order changes {flip_rate:.2f} of the verdicts"
        reasons_against_means.append(f"{changed}, more than {MAX_ORDER_FLIP_RATE:g}")
    reasons: dict[Use, list[str]] = {
        "ranking": reasons_against_ranking,
        "means": reasons_against_means,
        "thresholds": _reasons_against_thresholds(skill),
    }
    for level, use in enumerate(USES):
        if reasons[use]:
            return Admission(USES[:level], tuple(reasons[use]))
    return Admission(USES, ())


def _reasons_against_thresholds(skill: Skill) -> list[str]:
    reasons = _reasons_by_accuracy(skill, "thresholds")
    slope = skill.calibration_slope
    if slope is not None and not _MIN_SLOPE <= slope.mean <= _MAX_SLOPE:
        limits = f"{_MIN_SLOPE:g} to {_MAX_SLOPE:g}"
        reasons.append(f"calibration slope {slope.mean:.2g}, not {limits}")
    error = skill.calibration_error
    if error > _MAX_CALIBRATION_ERROR:
        reasons.append(f"calibration error {error:.2f}, more than {_MAX_CALIBRATION_ERROR:g}")
    sensitivity = skill.pair_sensitivity
    if sensitivity is not None and sensitivity.low < MIN_PAIR_SENSITIVITY:
        limit = f"the limit must be at least {MIN_PAIR_SENSITIVITY:g}"
        share = format_interval(sensitivity)
        reasons.append(f"details lower p in {share} of the pairs: {limit}")
    return reasons


def _reasons_by_accuracy(skill: Skill, use: Use) -> list[str]:
    minimum = _MIN_BALANCED_ACCURACY[use]
    if skill.balanced_accuracy.low >= minimum:
        return []
    accuracy = format_interval(skill.balanced_accuracy)
    return [f"balanced accuracy {accuracy}: the lower limit must be at least {minimum:.2f}"]


def format_interval(interval: Mean, sign: Literal["", "+"] = "") -> str:
    """Format `0.78 [0.72, 0.83]`, `+0.21 [+0.15, +0.27]` or `0.78 (1 group: no interval)`."""
    mean = f"{interval.mean:{sign}.2f}"
    if interval.ci95 is None:
        return f"{mean} (1 group: no interval)"
    low, high = interval.ci95
    return f"{mean} [{low:{sign}.2f}, {high:{sign}.2f}]"
