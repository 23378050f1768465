"""Decide the recommended uses of a judge from its figures on labels, by fixed rules.

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

from collections.abc import Sequence
from typing import Literal, NamedTuple

from localjudge.labels.judge_figures import FEW
from localjudge.run_directory.calibration import Calibration
from localjudge.stats.interval import Mean
from localjudge.types import USES, Use

MIN_AUC = 0.65
_MIN_BALANCED_ACCURACY: dict[Use, float] = {"means": 0.75, "thresholds": 0.85}
_MAX_BIAS = 0.15
MAX_ORDER_FLIP_RATE = 0.10
_MIN_SLOPE = 0.5
_MAX_SLOPE = 2.0
_MAX_CALIBRATION_ERROR = 0.15
MIN_PAIR_SENSITIVITY = 0.75


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
