"""Decide the recommended uses of a judge from its answers to labelled items, by fixed rules.

    ranking      AUC, lower limit >= .65
    means        balanced accuracy, lower limit >= .75; bias, both limits within .15; at most 10 % flipped by order
    thresholds   balanced accuracy, lower limit >= .85; calibration slope .5 to 2, error <= .15;
                 probability falls in minimal pairs, lower limit >= .75 (attribution)

Each level requires all levels above it. A judge has no recommended use if it fails the plain cases,
or if valid answers get less than half of its probability. Limits of intervals clustered by passage
decide. Order and minimal pairs are measured for attribution only.

A judge with balanced accuracy b shows a difference between two systems at 2b - 1 of its size: half
at .75, .7 at .85. If it is unbiased, its mean is wrong by up to 1 - b where all labels are equal.
If the log odds of both labels are normal with equal variances, an AUC of .65 equals a balanced
accuracy of .61, which leaves a fifth of each difference.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, log, log1p
from statistics import median
from typing import Literal, NamedTuple

import numpy as np

from localjudge.doctor.health_check import (
    ADMISSION,
    ANOTHER_JUDGE,
    LABELS_INSTEAD,
    HealthCheck,
    failed,
    recommendation,
    warning,
)
from localjudge.doctor.judgement import ENOUGH_MASS, THRESHOLD, Examinee
from localjudge.errors import DataError
from localjudge.judge.probes import PER_PASSAGE, Probe, passages, probe_tasks, probes, rearranged
from localjudge.labels.judge_figures import FEW
from localjudge.run_directory.calibration import Calibration
from localjudge.stats import agreement
from localjudge.stats.interval import Interval, LabelledScores, mean_interval, statistic_intervals
from localjudge.types import USES, Answer, Attribution, Task, Use

ProbedTask = Literal["attribution", "relevance"]
TASKS: tuple[ProbedTask, ...] = ("attribution", "relevance")
_FEWEST_PASSAGES = 8
"""One passage of each domain. Intervals over fewer clusters are too narrow."""
PROBE_SECONDS = 300  # by the speed of the plain cases; a user may name the number of items instead
_LEAST_AUC = 0.65
_LEAST_BALANCED_ACCURACY: dict[Use, float] = {"means": 0.75, "thresholds": 0.85}
_LARGEST_LEAN = 0.15
_LARGEST_FLIPPED = 0.10
_SLOPES = (0.5, 2.0)
_LARGEST_CALIBRATION_ERROR = 0.15
_LEAST_FALLING = 0.75


def choose_passages(judge: Examinee, items: int | None) -> tuple[int, str]:
    """Return the number of passages for this many items (None: for about five minutes), and why not all."""
    every = len(passages())
    if items is not None:
        count = min(ceil(items / PER_PASSAGE), every)
        return count, "as requested" if count < every else ""
    count, why = judge.fitting(probe_tasks(), every, PROBE_SECONDS)
    return max(count, _FEWEST_PASSAGES), f"{why} (--probes all)" if why else ""


class Skill(NamedTuple):
    """Figures for one task.

    `lean` is the share judged 1 minus the true share. `slope` is the calibration slope, None if
    undefined.
    """

    auc: Interval
    balanced_accuracy: Interval
    lean: Interval
    slope: Interval | None
    calibration_error: float


class ProbeFigures(NamedTuple):
    """Figures behind the admission. Unknown ones are None or missing.

    `falls` is the share of minimal pairs with a lower probability for the changed statement,
    `flipped` the share of rearrangements that change a verdict.
    """

    passages: int = 0
    skills: Mapping[ProbedTask, Skill] = {}
    falls: Interval | None = None
    flipped: float | None = None
    median_mass: float | None = None


_Scored = Sequence[tuple[Probe, float]]


def measure(
    count: int, why: str, answers: Mapping[Task, Answer]
) -> tuple[ProbeFigures, list[HealthCheck]]:
    answered = [(probe, answers[probe.task]) for probe in probes(count) if probe.task in answers]
    masses = sorted(answer.valid_mass for _, answer in answered)
    items: dict[ProbedTask, list[tuple[Probe, float]]] = {"attribution": [], "relevance": []}
    for probe, answer in answered:
        items["attribution" if isinstance(probe.task, Attribution) else "relevance"].append(
            (probe, answer.p_yes)
        )
    skills = {
        task: skill(items[task])
        for task in TASKS
        if len({probe.answer for probe, _ in items[task]}) > 1
    }
    checks = [
        _check_probes(count, why, masses),
        *(_check_skill(task, skills[task]) for task in skills),
    ]
    if skills:
        leans = ", ".join(
            f"{task} {in_limits(measured.lean, '+')}" for task, measured in skills.items()
        )
        advice = "its means may be off by this much: label some of your own data, and choose the --threshold by labels"
        figures = {task: limits_json(measured.lean) for task, measured in skills.items()}
        finding = f"share judged 1 minus the true share: {leans}"
        checks.append(
            warning("bias", finding, advice, when=any(map(_leans, skills.values())), **figures)
        )
    falls, sensitivity = _measure_sensitivity(items["attribution"])
    flipped, order = _measure_order(count, answers)
    checks += [check for check in (sensitivity, order) if check]
    return ProbeFigures(count, skills, falls, flipped, median(masses) if masses else None), checks


def skill(items: _Scored) -> Skill:
    labels = np.array([probe.answer for probe, _ in items], dtype=np.float64)
    scores = np.array([p_yes for _, p_yes in items], dtype=np.float64)
    rows = LabelledScores(labels, scores, clusters=[probe.passage for probe, _ in items])
    decisions = rows._replace(scores=(scores >= THRESHOLD).astype(np.float64))
    of_decisions = {"balanced_accuracy": agreement.balanced_accuracy, "lean": agreement.bias}
    try:
        slope = statistic_intervals(
            {"": lambda *data: agreement.calibration_line(*data).slope}, rows
        )[""]
    except DataError:
        slope = None
    return Skill(
        auc=statistic_intervals({"": agreement.roc_auc}, rows)[""],
        slope=slope,
        calibration_error=float(agreement.calibration_error(labels, scores)),
        **statistic_intervals(of_decisions, decisions),
    )


def _check_probes(count: int, why: str, masses: Sequence[float]) -> HealthCheck:
    asked = len(probes(count))
    finding = f"{asked} of {len(probes())} labelled items{f', {why}' if why else ''}"
    figures: dict[str, float] = {"items": asked, "passages": count, "answered": len(masses)}
    if not masses:
        return failed("probes", f"{finding}: no answers", ANOTHER_JUDGE, **figures)
    figures["median_legal_mass"] = middle = median(masses)
    finding += f"; median probability of valid answers {100 * middle:.3g} %"
    finding += f"; {asked - len(masses)} without an answer" if len(masses) < asked else ""
    advice = "give the judge a larger context (n_ctx)" if len(masses) < asked else ANOTHER_JUDGE
    return warning(
        "probes", finding, advice, when=len(masses) < asked or middle < ENOUGH_MASS, **figures
    )


def _check_skill(task: ProbedTask, measured: Skill) -> HealthCheck:
    auc, slope = measured.auc, measured.slope
    finding = (
        f"AUC {in_limits(auc)}, balanced accuracy {in_limits(measured.balanced_accuracy)} on {auc.n} items; "
        f"calibration slope {'none' if slope is None else f'{slope.mean:.2g}'}, error {measured.calibration_error:.2f}"
    )
    limits = {
        name: limits_json(getattr(measured, name))
        for name in ("auc", "balanced_accuracy", "lean", "slope")
    }
    figures = {
        "items": auc.n,
        "passages": auc.clusters,
        **limits,
        "calibration_error": measured.calibration_error,
    }
    return warning(task, finding, ANOTHER_JUDGE, when=auc.low < _LEAST_AUC, **figures)


def _measure_sensitivity(items: _Scored) -> tuple[Interval | None, HealthCheck | None]:
    p_of = {(probe.passage, probe.kind): p_yes for probe, p_yes in items}
    pairs = [
        (probe.passage, p_of[half], p_yes)
        for probe, p_yes in items
        if probe.changed_from and (half := (probe.passage, probe.changed_from)) in p_of
    ]
    if not pairs:
        return None, None
    falls = mean_interval(
        [float(after < before) for _, before, after in pairs],
        clusters=[pair[0] for pair in pairs],
    )
    turned = sum(before >= THRESHOLD > after for _, before, after in pairs)
    mean_fall = sum(before - after for _, before, after in pairs) / len(pairs)
    figures = {
        "falls": limits_json(falls),
        "pairs": len(pairs),
        "turned": turned,
        "mean_fall": mean_fall,
    }
    finding = (
        f"a changed detail lowers p in {in_limits(falls)} of {len(pairs)} minimal pairs, by {mean_fall:.2f} on "
        f"average; {turned} verdicts change from 1 to 0"
    )
    advice = f"wrong numbers or names in an answer may go unnoticed: {ANOTHER_JUDGE}"
    return falls, warning(
        "sensitivity", finding, advice, when=falls.low < _LEAST_FALLING, **figures
    )


def _measure_order(
    count: int, answers: Mapping[Task, Answer]
) -> tuple[float | None, HealthCheck | None]:
    moves = [
        (answers[before].p_yes, answers[after].p_yes)
        for before, after in rearranged(count)
        if before in answers and after in answers
    ]
    if not moves:
        return None, None
    odds = [abs(_log_odds(after) - _log_odds(before)) for before, after in moves]
    share = sum((before >= THRESHOLD) != (after >= THRESHOLD) for before, after in moves) / len(
        moves
    )
    figures = {
        "asked": len(moves),
        "flipped": share,
        "mean_move": sum(odds) / len(odds),
        "largest_move": max(odds),
    }
    finding = (
        f"{100 * share:.3g} % of {len(moves)} verdicts change when the same chunks are rearranged; log odds move by "
        f"{figures['mean_move']:.2f} on average, at most {max(odds):.2f}"
    )
    advice = f"the order of the retrieved texts changes scores: {ANOTHER_JUDGE}"
    return share, warning("order", finding, advice, when=share > _LARGEST_FLIPPED, **figures)


def _log_odds(probability: float) -> float:
    clipped = min(max(probability, 1e-6), 1 - 1e-6)
    return log(clipped) - log1p(-clipped)


class Admission(NamedTuple):
    """Recommended uses of a judge for one task, and the reasons against the next use."""

    uses: tuple[Use, ...]
    barred_by: tuple[str, ...]

    def __str__(self) -> str:
        why = f" ({'; '.join(self.barred_by)})" if self.barred_by else ""
        barred = USES[len(self.uses) :] if self.uses else ()
        return recommendation(self.uses) + (f", not for {barred[0]}" if barred else "") + why


def admissions(figures: ProbeFigures, *, passes_plain_cases: bool) -> dict[ProbedTask, Admission]:
    barred = [] if passes_plain_cases else ["it fails the plain cases"]
    if figures.median_mass is not None and figures.median_mass < ENOUGH_MASS:
        barred.append(
            f"it gives valid answers {figures.median_mass:.2g} of its probability, less than {ENOUGH_MASS:g}",
        )
    if barred:
        return dict.fromkeys(figures.skills, Admission((), tuple(barred)))
    of_task = {"attribution": figures, "relevance": ProbeFigures()}
    return {task: _admit(measured, of_task[task]) for task, measured in figures.skills.items()}


def admission_by_labels(calibration: Calibration) -> Admission:
    labels, clusters = calibration.labels, calibration.labels.clusters
    fewest = min(labels.positives, labels.verdicts - labels.positives, clusters)
    if fewest < FEW:
        return Admission(
            (),
            (f"needs {FEW} labels of each kind and {FEW} groups, the smallest number is {fewest}",),
        )
    if not calibration.figures:
        return Admission((), ("all probabilities are equal",))
    figures = {
        name: Interval(figure.value, *figure.ci95, "clustered bootstrap", labels.verdicts, clusters)
        for name, figure in (calibration.figures | calibration.held_out).items()
    }
    auc, accuracy, bias = (figures[name] for name in ("auc", "balanced_accuracy", "bias"))
    measured = Skill(
        auc,
        accuracy,
        bias,
        figures.get("calibration_slope"),
        figures["calibration_error"].mean,
    )
    return _admit(measured, ProbeFigures())


def _admit(measured: Skill, figures: ProbeFigures) -> Admission:
    bars = list(_bars(measured, figures))
    for place, use in enumerate(USES):
        if reasons := tuple(reason for barred, reason in bars if barred == use):
            return Admission(USES[:place], reasons)
    return Admission(USES, ())


def _bars(measured: Skill, figures: ProbeFigures) -> Iterator[tuple[Use, str]]:
    if measured.auc.low < _LEAST_AUC:
        yield (
            "ranking",
            f"AUC {in_limits(measured.auc)}: the lower limit must be at least {_LEAST_AUC:g}",
        )
    for use, least in _LEAST_BALANCED_ACCURACY.items():
        if measured.balanced_accuracy.low < least:
            accuracy = in_limits(measured.balanced_accuracy)
            yield use, f"balanced accuracy {accuracy}: the lower limit must be at least {least:.2f}"
    if _leans(measured):
        yield (
            "means",
            f"bias {in_limits(measured.lean, '+')}: both limits must be within {_LARGEST_LEAN:g}",
        )
    if figures.flipped is not None and figures.flipped > _LARGEST_FLIPPED:
        yield (
            "means",
            f"order changes {figures.flipped:.2f} of the verdicts, more than {_LARGEST_FLIPPED:g}",
        )
    least, most = _SLOPES
    if measured.slope is not None and not least <= measured.slope.mean <= most:
        yield (
            "thresholds",
            f"calibration slope {measured.slope.mean:.2g}, not {least:g} to {most:g}",
        )
    if (error := measured.calibration_error) > _LARGEST_CALIBRATION_ERROR:
        yield (
            "thresholds",
            f"calibration error {error:.2f}, more than {_LARGEST_CALIBRATION_ERROR:g}",
        )
    if figures.falls is not None and figures.falls.low < _LEAST_FALLING:
        falls = in_limits(figures.falls)
        yield (
            "thresholds",
            f"details lower p in {falls} of the pairs: the limit must be at least {_LEAST_FALLING:g}",
        )


def _leans(measured: Skill) -> bool:
    return max(-measured.lean.low, measured.lean.high) > _LARGEST_LEAN


def in_limits(interval: Interval, sign: Literal["", "+"] = "") -> str:
    """Format `0.78 [0.72, 0.83]`, `+0.21 [+0.15, +0.27]` or `0.78 (1 passage: no interval)`."""
    mean = f"{interval.mean:{sign}.2f}"
    if interval.limits is None:
        return f"{mean} (1 passage: no interval)"
    low, high = interval.limits
    return f"{mean} [{low:{sign}.2f}, {high:{sign}.2f}]"


def limits_json(interval: Interval | None) -> dict[str, float | None] | None:
    if interval is None:
        return None
    low, high = interval.limits or (None, None)
    return {"value": interval.mean, "low": low, "high": high}


def check_admission(
    figures: ProbeFigures | None, *, passes_plain_cases: bool, required: Use | None
) -> HealthCheck:
    """Summarise the admission in one line. Fails below `required`; warns if a task has no recommended use."""
    if figures is None and not passes_plain_cases:
        advice, no_uses = f"{ANOTHER_JUDGE}{LABELS_INSTEAD}", {task: list[Use]() for task in TASKS}
        return failed(
            ADMISSION, f"{recommendation(())}: it fails the plain cases", advice, uses=no_uses
        )
    figures = figures or ProbeFigures()
    admitted = admissions(figures, passes_plain_cases=passes_plain_cases)
    if len(admitted) < len(TASKS) or (figures.passages < _FEWEST_PASSAGES and passes_plain_cases):
        decide = failed if required else warning
        return decide(
            ADMISSION,
            "undecided: too few answered items",
            "ask more (--probes all)",
            uses=None,
        )
    unfit = [task for task, admission in admitted.items() if not admission.uses]
    advice = (
        f"do not use its verdicts on {' and '.join(unfit)}: {ANOTHER_JUDGE}{LABELS_INSTEAD}"
        if unfit
        else ""
    )
    advice = (
        advice
        or "compare its verdicts with human labels of 100 sentences of your own before you rely on them"
    )
    lacking = required is not None and any(
        required not in admission.uses for admission in admitted.values()
    )
    return HealthCheck(
        name=ADMISSION,
        status="failed" if lacking else "warning" if unfit else "ok",
        finding="; ".join(f"{task}: {admission}" for task, admission in admitted.items()),
        advice=f"{ANOTHER_JUDGE}: {required} is required{LABELS_INSTEAD}" if lacking else advice,
        figures={
            "uses": {task: list(admission.uses) for task, admission in admitted.items()},
            "barred_by": {task: list(admission.barred_by) for task, admission in admitted.items()},
        },
    )
