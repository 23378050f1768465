"""For what is a judge fit? Fixed rules over the figures of the probe set, each level with all that stands above it.

    ranking      AUC, lower limit >= .65
    means        balanced accuracy, lower limit >= .75; lean, both limits within .15; at most 10 % flipped by order
    thresholds   balanced accuracy, lower limit >= .85; calibration slope .5 to 2, error <= .15;
                 probability falls in minimal pairs, lower limit >= .75 (attribution)

Nothing is admitted of a judge that fails the plain cases or gives legal answers less than half of its probability.

A judge of balanced accuracy b sees a difference between two systems at 2b - 1 of its size: half of it at .75, .7 at
.85. Its mean, if it leans to no side, is off by up to 1 - b where all is so or nothing is. An AUC of .65 is a balanced
accuracy of .61 where the log odds of both labels are normal with one variance: a fifth is left of each difference,
which takes some 20 times the samples. Limits and not estimates decide, so that few items admit nothing by luck; the
calibration error, which chance alone keeps above 0, has no lower limit and a lenient rule. Order and minimal pairs are
measured on attribution alone.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from localjudge.analysis.judge_figures import FEW
from localjudge.doctor.extent import USES, Use, fit_for
from localjudge.doctor.probe_figures import ProbedTask, ProbeFigures, Skill
from localjudge.record.calibration import Calibration
from localjudge.stats.intervals import Interval

LEAST_AUC = 0.65
LEAST_BALANCED_ACCURACY = {"means": 0.75, "thresholds": 0.85}
LARGEST_LEAN = 0.15
LARGEST_FLIPPED = 0.10
LEAST_MASS = 0.5
SLOPES = (0.5, 2.0)
LARGEST_CALIBRATION_ERROR = 0.15
LEAST_FALLING = 0.75


class Admission(NamedTuple):
    """What a judge may be used for in one task, none of the uses if empty, and what bars it from the next."""

    uses: tuple[Use, ...]
    barred_by: tuple[str, ...]

    def __str__(self) -> str:
        """`fit for ranking, not for means (...)`."""
        why = f" ({'; '.join(self.barred_by)})" if self.barred_by else ""
        barred = USES[len(self.uses) :] if self.uses else ()
        return fit_for(self.uses) + (f", not for {barred[0]}" if barred else "") + why


def admissions(figures: ProbeFigures, *, passes_plain_cases: bool) -> dict[ProbedTask, Admission]:
    """The admission of each task that was measured."""
    barred = tuple(_from_everything(figures, passes_plain_cases=passes_plain_cases))
    return {
        task: Admission((), barred) if barred else _admission(task, measured, figures)
        for task, measured in figures.skills.items()
    }


def admission_by_labels(calibration: Calibration) -> Admission:
    """What a judge may be used for by people's labels: by its probabilities, and its decisions held out.

    Order and minimal pairs are not in labels, and not asked for here.
    """
    labels, clusters = calibration.labels, calibration.labels.clusters
    fewest = min(labels.positives, labels.verdicts - labels.positives, clusters)
    if fewest < FEW:
        return Admission((), (f"it takes {FEW} labels of each kind in {FEW} groups, the fewest are {fewest}",))
    figures = {
        name: Interval(one.value, *one.ci95, "clustered bootstrap", labels.verdicts, clusters, 0.95)
        for name, one in (calibration.figures | calibration.held_out).items()
    }
    auc, accuracy, bias = (figures[name] for name in ("auc", "balanced_accuracy", "bias"))
    error = figures["calibration_error"].mean
    skill = Skill(auc, accuracy, bias, figures.get("calibration_slope"), error, {})
    return _admission("relevance", skill, ProbeFigures({}, None, {}, None, None))


def shown(interval: Interval) -> str:
    """`0.78 [0.72, 0.83]`; `0.78 (1 passage: no interval)`."""
    return _shown(interval, ".2f")


def shown_lean(interval: Interval) -> str:
    """`+0.21 [+0.15, +0.27]`."""
    return _shown(interval, "+.2f")


def _shown(interval: Interval, digits: str) -> str:
    if interval.limits is None:
        return f"{interval.mean:{digits}} (1 passage: no interval)"
    low, high = interval.limits
    return f"{interval.mean:{digits}} [{low:{digits}}, {high:{digits}}]"


def _from_everything(figures: ProbeFigures, *, passes_plain_cases: bool) -> Iterator[str]:
    if not passes_plain_cases:
        yield "it fails the plain cases"
    if figures.median_mass is not None and figures.median_mass < LEAST_MASS:
        yield f"it gives legal answers {figures.median_mass:.2g} of its probability, less than {LEAST_MASS:g}"


def _admission(task: ProbedTask, skill: Skill, figures: ProbeFigures) -> Admission:
    rules = {
        "ranking": _against_ranking(skill),
        "means": _against_means(task, skill, figures),
        "thresholds": _against_thresholds(task, skill, figures),
    }
    uses: list[Use] = []
    for use in USES:
        if reasons := tuple(rules[use]):
            return Admission(tuple(uses), reasons)
        uses.append(use)
    return Admission(tuple(uses), ())


def _against_ranking(skill: Skill) -> Iterator[str]:
    if skill.auc.low < LEAST_AUC:
        yield f"AUC {shown(skill.auc)}: its lower limit has to reach {LEAST_AUC:g}"


def _against_means(task: ProbedTask, skill: Skill, figures: ProbeFigures) -> Iterator[str]:
    yield from _against_accuracy(skill, "means")
    if max(-skill.lean.low, skill.lean.high) > LARGEST_LEAN:
        yield f"share of yes is off by {shown_lean(skill.lean)}, more than {LARGEST_LEAN:g}"
    if task == "attribution" and figures.flipped is not None and figures.flipped > LARGEST_FLIPPED:
        yield f"order flips {100 * figures.flipped:.3g} % of the verdicts, more than {100 * LARGEST_FLIPPED:.0f} %"


def _against_thresholds(task: ProbedTask, skill: Skill, figures: ProbeFigures) -> Iterator[str]:
    yield from _against_accuracy(skill, "thresholds")
    least, most = SLOPES
    if skill.slope is not None and not least <= skill.slope.mean <= most:
        yield f"calibration slope {skill.slope.mean:.2g}, not {least:g} to {most:g}"
    if skill.calibration_error > LARGEST_CALIBRATION_ERROR:
        yield f"calibration error {skill.calibration_error:.2f}, more than {LARGEST_CALIBRATION_ERROR:g}"
    pairs = figures.sensitivity
    if task == "attribution" and pairs is not None and pairs.falls.low < LEAST_FALLING:
        yield f"changed details lower p in {shown(pairs.falls)} of the pairs: the limit has to reach {LEAST_FALLING:g}"


def _against_accuracy(skill: Skill, use: Literal["means", "thresholds"]) -> Iterator[str]:
    least = LEAST_BALANCED_ACCURACY[use]
    if skill.balanced_accuracy.low < least:
        yield f"balanced accuracy {shown(skill.balanced_accuracy)}: its lower limit has to reach {least:.2f}"
