"""Measure a judge on bundled labelled items, and recommend uses for it.

    answers ──> attribution: AUC, balanced accuracy, bias, calibration ──┐
                minimal pairs, order of chunks (attribution only) ───────┼─ rules ──> uses
                relevance: AUC, balanced accuracy, bias, calibration ────┘

The rules are in `localjudge.labels.recommended_uses`. A judge has no recommended use if it fails
the plain cases, or if valid answers get less than half of its probability. Intervals are clustered
by passage.
"""

from collections.abc import Mapping, Sequence
from math import ceil, log, log1p
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np

from localjudge.doctor.examinee import ENOUGH_MASS, THRESHOLD, Examinee
from localjudge.doctor.health_check import (
    ADMISSION,
    ANOTHER_JUDGE,
    LABELS_INSTEAD,
    HealthCheck,
    failed,
    warning,
)
from localjudge.errors import DataError
from localjudge.judge.probes import PER_PASSAGE, Probe, passages, probe_tasks, probes, rearranged
from localjudge.judge.wording import PromptWriter
from localjudge.labels.recommended_uses import (
    MAX_ORDER_FLIP_RATE,
    MIN_AUC,
    MIN_PAIR_SENSITIVITY,
    Admission,
    Skill,
    admit,
    format_interval,
    recommendation,
)
from localjudge.stats import agreement
from localjudge.stats.interval import Interval, LabelledScores, mean_interval, statistic_intervals
from localjudge.types import Answer, Attribution, Task, Use

ProbedTask = Literal["attribution", "relevance"]
TASKS: tuple[ProbedTask, ...] = ("attribution", "relevance")
_PROMPTS: Mapping[ProbedTask, Sequence[str]] = {
    "attribution": ["attribution"],
    "relevance": ["relevance_sentence", "relevance_chunk"],
}
"""The prompts that a judge needs for the items of each task."""
PROBE_SECONDS = 300
"""Time for the items, by the speed of the plain cases; a user may name their number instead."""
_MIN_PASSAGES = 8
"""One passage of each domain. Intervals over fewer clusters are too narrow."""
_SURE = 1e-6
"""Probabilities are clipped to it and to one minus it, so that log odds are finite."""


class ProbeFigures(NamedTuple):
    """Skills by task on the items of so many passages, and the median mass of valid answers."""

    passages: int
    items: int
    skills: Mapping[ProbedTask, Skill]
    median_mass: float | None


def find_probed_tasks(writer: PromptWriter) -> tuple[ProbedTask, ...]:
    """Return the tasks for which the judge has prompts. The bundled reader has only attribution."""
    return tuple(task for task in TASKS if not writer.unsupported(_PROMPTS[task]))


def list_questions(count: int | None, tasks: Sequence[ProbedTask]) -> list[Task]:
    """Return the questions about the first `count` passages (None: all), with rearrangements."""
    return [question for question in probe_tasks(count) if _classify(question) in tasks]


def _list_items(count: int | None, tasks: Sequence[ProbedTask]) -> list[Probe]:
    return [probe for probe in probes(count) if _classify(probe.task) in tasks]


def _classify(question: Task) -> ProbedTask:
    return "attribution" if isinstance(question, Attribution) else "relevance"


def choose_passages(judge: Examinee, items: int | None) -> tuple[int, str]:
    """Return the number of passages for this many items, and why not all.

    None chooses as many as take about five minutes.
    """
    every = len(passages())
    if items is not None:
        count = min(ceil(items / PER_PASSAGE), every)
        return count, "as requested" if count < every else ""
    questions = list_questions(None, find_probed_tasks(judge.writer))
    count, why = judge.fit_in_time(questions, every, PROBE_SECONDS)
    if why:
        why = f"{why} (--probes all)"
    return max(count, _MIN_PASSAGES), why


def measure_skills(
    count: int,
    why: str,
    answers: Mapping[Task, Answer],
    tasks: Sequence[ProbedTask] = TASKS,
) -> tuple[ProbeFigures, list[HealthCheck]]:
    """Return the figures on the items of `count` passages, and the findings.

    `why` explains why not all.
    """
    items: dict[ProbedTask, list[tuple[Probe, float]]] = {task: [] for task in TASKS}
    masses = []
    asked = _list_items(count, tasks)
    for probe in asked:
        answer = answers.get(probe.task)
        if answer is not None:
            items[_classify(probe.task)].append((probe, answer.p_yes))
            masses.append(answer.valid_mass)
    sensitivity, sensitivity_checks = _measure_sensitivity(items["attribution"])
    flip_rate, order_checks = _measure_order(count, answers)
    skills = {}
    for task in TASKS:
        labels = {probe.answer for probe, _ in items[task]}
        if len(labels) > 1:
            skills[task] = measure_skill(items[task])
    of_items = f"{len(asked)} of {len(_list_items(None, tasks))} labelled items"
    if why:
        of_items += f", {why}"
    checks = [_check_probes(of_items, count, len(asked), masses)]
    checks += [_check_skill(task, skill) for task, skill in skills.items()]
    checks += [*sensitivity_checks, *order_checks]
    if "attribution" in skills:
        skills["attribution"] = skills["attribution"]._replace(
            pair_sensitivity=sensitivity, order_flip_rate=flip_rate
        )
    median_mass = median(masses) if masses else None
    return ProbeFigures(count, len(asked), skills, median_mass), checks


def measure_skill(items: Sequence[tuple[Probe, float]]) -> Skill:
    """Return the figures of the probabilities of 1, and of the verdicts at 0.5.

    The items need both labels.
    """
    labels = np.array([probe.answer for probe, _ in items], dtype=np.float64)
    scores = np.array([p_yes for _, p_yes in items], dtype=np.float64)
    rows = LabelledScores(labels, scores, clusters=[probe.passage for probe, _ in items])
    verdicts = (scores >= THRESHOLD).astype(np.float64)
    decisions = statistic_intervals(
        {"balanced_accuracy": agreement.balanced_accuracy, "bias": agreement.bias},
        rows._replace(scores=verdicts),
    )
    return Skill(
        auc=statistic_intervals({"auc": agreement.roc_auc}, rows)["auc"],
        balanced_accuracy=decisions["balanced_accuracy"],
        bias=decisions["bias"],
        calibration_slope=_measure_slope(rows),
        calibration_error=float(agreement.calibration_error(labels, scores)),
    )


def _measure_slope(rows: LabelledScores) -> Interval | None:
    """Return the calibration slope, or None if no line fits best."""
    try:
        slopes = statistic_intervals(
            {"slope": lambda *data: agreement.calibration_line(*data).slope}, rows
        )
    except DataError:
        return None
    return slopes["slope"]


def _check_probes(finding: str, count: int, asked: int, masses: Sequence[float]) -> HealthCheck:
    figures: dict[str, Any] = {"items": asked, "passages": count, "answered": len(masses)}
    if not masses:
        return failed("probes", f"{finding}: no answers", ANOTHER_JUDGE, **figures)
    middle = median(masses)
    figures["median_valid_mass"] = middle
    finding += f"; median probability of valid answers {100 * middle:.3g} %"
    if len(masses) < asked:
        finding += f"; {asked - len(masses)} without an answer"
        return warning("probes", finding, "give the judge a larger context (n_ctx)", **figures)
    return warning("probes", finding, ANOTHER_JUDGE, when=middle < ENOUGH_MASS, **figures)


def _check_skill(task: ProbedTask, skill: Skill) -> HealthCheck:
    slope = skill.calibration_slope
    slope_words = "none" if slope is None else f"{slope.mean:.2g}"
    finding = (
        f"AUC {format_interval(skill.auc)}, "
        f"balanced accuracy {format_interval(skill.balanced_accuracy)} on {skill.auc.n} items; "
        f"bias {format_interval(skill.bias, '+')}; "
        f"calibration slope {slope_words}, error {skill.calibration_error:.2f}"
    )
    advice = ANOTHER_JUDGE
    if skill.auc.low >= MIN_AUC:
        off = "its means may be off by its bias (share judged 1 minus the true share)"
        advice = f"{off}: label some of your own data, and choose the --threshold by labels"
    return warning(
        task,
        finding,
        advice,
        when=skill.auc.low < MIN_AUC or skill.is_biased,
        items=skill.auc.n,
        passages=skill.auc.clusters,
        auc=limits_json(skill.auc),
        balanced_accuracy=limits_json(skill.balanced_accuracy),
        bias=limits_json(skill.bias),
        calibration_slope=limits_json(slope),
        calibration_error=skill.calibration_error,
    )


def _measure_sensitivity(
    items: Sequence[tuple[Probe, float]],
) -> tuple[Interval | None, list[HealthCheck]]:
    """Return the share of minimal pairs with a lower probability for the changed statement."""
    p_yes_by_kind = {(probe.passage, probe.kind): p_yes for probe, p_yes in items}
    clusters = []
    pairs = []
    for probe, after in items:
        if probe.changed_from is not None:
            before = p_yes_by_kind.get((probe.passage, probe.changed_from))
            if before is not None:
                clusters.append(probe.passage)
                pairs.append((before, after))
    if not pairs:
        return None, []
    falls = [float(after < before) for before, after in pairs]
    sensitivity = mean_interval(falls, clusters=clusters)
    changed_verdicts = sum(before >= THRESHOLD > after for before, after in pairs)
    mean_fall = sum(before - after for before, after in pairs) / len(pairs)
    finding = (
        f"a changed detail lowers p in {format_interval(sensitivity)} of {len(pairs)} minimal "
        f"pairs, by {mean_fall:.2f} on average; {changed_verdicts} verdicts change from 1 to 0"
    )
    check = warning(
        "sensitivity",
        finding,
        f"wrong numbers or names in an answer may go unnoticed: {ANOTHER_JUDGE}",
        when=sensitivity.low < MIN_PAIR_SENSITIVITY,
        pair_sensitivity=limits_json(sensitivity),
        pairs=len(pairs),
        changed_verdicts=changed_verdicts,
        mean_fall=mean_fall,
    )
    return sensitivity, [check]


def _measure_order(
    count: int, answers: Mapping[Task, Answer]
) -> tuple[float | None, list[HealthCheck]]:
    """Return the share of verdicts that change when the same chunks are arranged in another way."""
    pairs = []
    for before, after in rearranged(count):
        if before in answers and after in answers:
            pairs.append((answers[before].p_yes, answers[after].p_yes))
    if not pairs:
        return None, []
    flips = sum((before >= THRESHOLD) != (after >= THRESHOLD) for before, after in pairs)
    flip_rate = flips / len(pairs)
    moves = [abs(_log_odds(after) - _log_odds(before)) for before, after in pairs]
    mean_move = sum(moves) / len(moves)
    finding = (
        f"{100 * flip_rate:.3g} % of {len(pairs)} verdicts change when the same chunks are "
        f"rearranged; log odds move by {mean_move:.2f} on average, at most {max(moves):.2f}"
    )
    check = warning(
        "order",
        finding,
        f"the order of the retrieved texts changes scores: {ANOTHER_JUDGE}",
        when=flip_rate > MAX_ORDER_FLIP_RATE,
        asked=len(pairs),
        order_flip_rate=flip_rate,
        mean_move=mean_move,
        largest_move=max(moves),
    )
    return flip_rate, [check]


def _log_odds(probability: float) -> float:
    clipped = min(max(probability, _SURE), 1 - _SURE)
    return log(clipped) - log1p(-clipped)


def limits_json(interval: Interval | None) -> dict[str, float | None] | None:
    if interval is None:
        return None
    low, high = interval.limits or (None, None)
    return {"value": interval.mean, "low": low, "high": high}


def admit_by_task(
    figures: ProbeFigures, *, passes_plain_cases: bool
) -> dict[ProbedTask, Admission]:
    """Return the recommended uses for each measured task."""
    barred = []
    if not passes_plain_cases:
        barred.append("it fails the plain cases")
    mass = figures.median_mass
    if mass is not None and mass < ENOUGH_MASS:
        minimum = f"less than {ENOUGH_MASS:g}"
        barred.append(f"it gives valid answers {mass:.2g} of its probability, {minimum}")
    if barred:
        return dict.fromkeys(figures.skills, Admission((), tuple(barred)))
    return {task: admit(skill) for task, skill in figures.skills.items()}


def check_admission(
    figures: ProbeFigures | None,
    *,
    passes_plain_cases: bool,
    required: Use | None,
    tasks: Sequence[ProbedTask] = TASKS,
) -> HealthCheck:
    """Summarise the admission in one line. `tasks` are those for which the judge has prompts.

    Fails below `required`; warns if a task has no recommended use.
    """
    if figures is None and not passes_plain_cases:
        return failed(
            ADMISSION,
            f"{recommendation(())}: it fails the plain cases",
            f"{ANOTHER_JUDGE}{LABELS_INSTEAD}",
            uses={task: [] for task in tasks},
        )
    figures = figures or ProbeFigures(0, 0, {}, None)
    admissions = admit_by_task(figures, passes_plain_cases=passes_plain_cases)
    is_too_small = figures.passages < _MIN_PASSAGES and passes_plain_cases
    if len(admissions) < len(tasks) or is_too_small:
        conclude = failed if required else warning
        finding = "undecided: too few answered items"
        return conclude(ADMISSION, finding, "ask more (--probes all)", uses=None)
    finding = "; ".join(f"{task}: {admission}" for task, admission in admissions.items())
    details: dict[str, Any] = {
        "uses": {task: list(admission.uses) for task, admission in admissions.items()},
        "barred_by": {task: list(admission.barred_by) for task, admission in admissions.items()},
    }
    if required and any(required not in admission.uses for admission in admissions.values()):
        advice = f"{ANOTHER_JUDGE}: {required} is required{LABELS_INSTEAD}"
        return failed(ADMISSION, finding, advice, **details)
    unfit = [task for task, admission in admissions.items() if not admission.uses]
    if unfit:
        avoid = f"do not use its verdicts on {' and '.join(unfit)}"
        return warning(ADMISSION, finding, f"{avoid}: {ANOTHER_JUDGE}{LABELS_INSTEAD}", **details)
    return HealthCheck(
        name=ADMISSION,
        status="ok",
        finding=finding,
        advice=(
            "compare its verdicts with human labels of 100 sentences of your own "
            "before you rely on them"
        ),
        figures=details,
    )
