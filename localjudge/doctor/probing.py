"""Measure a judge on bundled labelled items, and recommend uses for it by these figures.

    answers ──> attribution: AUC, balanced accuracy, bias, calibration
                minimal pairs, order of chunks (attribution only)
                relevance: AUC, balanced accuracy, bias, calibration
                answers: the same, and pairs of a good and a poor answer
            ──> rules of localjudge.labels.judge_figures ──> ranking, means, thresholds

Intervals are clustered by passage, those of answers by question. A judge has no recommended use if
it fails the plain cases, or if valid answers get less than half of its probability.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import ceil
from statistics import mean, median
from typing import Any, Literal, NamedTuple

import numpy as np

from localjudge.doctor.checks import (
    ADMISSION,
    ANOTHER_JUDGE,
    LABELS_INSTEAD,
    CheckResult,
    failed,
    warn_if,
    warning,
)
from localjudge.doctor.examinee import ENOUGH_MASS, Examinee
from localjudge.errors import DataError
from localjudge.judge.probes import (
    PER_PASSAGE,
    Probe,
    answer_probes,
    passages,
    probe_tasks,
    probes,
    rearranged,
)
from localjudge.judge.wording import PromptWriter
from localjudge.labels.judge_figures import (
    MAX_ORDER_FLIP_RATE,
    MIN_AUC,
    MIN_PAIR_SENSITIVITY,
    Admission,
    Skill,
    admit,
    format_interval,
    recommendation,
)
from localjudge.run_directory.measured_judges import name_task
from localjudge.stats import agreement
from localjudge.stats.agreement import LabelledScores, statistic_intervals
from localjudge.stats.interval import Mean, mean_interval
from localjudge.types import ONE_HALF, Answer, Attribution, Label, Task, Use
from localjudge.words import numbered

_COMPARE_WITH_LABELS = (
    "compare its verdicts with human labels of 100 sentences of your own before you rely on them"
)
ProbedTask = Literal["attribution", "relevance", "answers"]
TASKS: tuple[ProbedTask, ...] = ("attribution", "relevance", "answers")
_PROMPTS: Mapping[ProbedTask, Sequence[str]] = {
    "attribution": ["attribution"],
    "relevance": ["relevance_sentence", "relevance_chunk"],
    "answers": ["answer_sentence"],
}
"""The prompts that a judge needs for the items of each task."""
PROBE_SECONDS = 300
"""Time for the items, by the speed of the plain cases; a user may name their number instead."""
_GUESSING = 0.5
MIN_PASSAGES = 8
"""One passage of each domain. Intervals over fewer clusters are too narrow."""


class ProbeFigures(NamedTuple):
    """Skills by task on the items of this many passages, and the median mass of valid answers."""

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
    items = [*probes(count), *answer_probes(count)]
    return [item for item in items if _classify(item.task) in tasks]


def _classify(question: Task) -> ProbedTask:
    if isinstance(question, Attribution):
        return "attribution"
    if question.unit.source == "response":
        return "answers"
    return "relevance"


def choose_passages(judge: Examinee, items: int | None) -> tuple[int, str]:
    """Return the number of passages for this many items, and why not all.

    None chooses as many as take about five minutes.
    """
    total = len(passages())
    if items is not None:
        count = ceil(items / PER_PASSAGE)
        if count < total:
            return count, "as requested"
        return total, ""
    questions = list_questions(None, find_probed_tasks(judge.writer))
    count, why = judge.fit_in_time(questions, total, PROBE_SECONDS)
    if why:
        why = f"{why} (--probes all)"
    return max(count, MIN_PASSAGES), why


def measure_skills(
    count: int,
    why: str,
    answers: Mapping[Task, Answer],
    tasks: Sequence[ProbedTask] = TASKS,
) -> tuple[ProbeFigures, list[CheckResult]]:
    """Return the figures on the items of `count` passages, and the results of the checks.

    `why` explains why not all.
    """
    items = _list_items(count, tasks)
    p_yes_by_task: dict[ProbedTask, list[tuple[Probe, float]]] = {}
    for task in TASKS:
        p_yes_by_task[task] = []
    masses = []
    for item in items:
        answer = answers.get(item.task)
        if answer is not None:
            p_yes_by_task[_classify(item.task)].append((item, answer.p_yes))
            masses.append(answer.valid_mass)
    description = f"{len(items)} of {len(_list_items(None, tasks))} labelled items"
    if why:
        description += f", {why}"
    checks = [_check_answers(description, count, len(items), masses)]
    skills: dict[ProbedTask, Skill] = {}
    for task, answered in p_yes_by_task.items():
        if len({item.answer for item, _ in answered}) > 1:
            skills[task] = measure_skill(answered)
            check = _check_skill(task, skills[task])
            if task == "answers":
                check = _add_pairs(check, answered)
            checks.append(check)
    sensitivity, sensitivity_checks = _measure_sensitivity(p_yes_by_task["attribution"])
    flip_rate, order_checks = _measure_order(count, answers)
    checks += [*sensitivity_checks, *order_checks]
    if "attribution" in skills:
        skills["attribution"] = skills["attribution"]._replace(
            pair_sensitivity=sensitivity, order_flip_rate=flip_rate
        )
    median_mass = None
    if masses:
        median_mass = median(masses)
    return ProbeFigures(count, len(items), skills, median_mass), checks


def measure_skill(items: Sequence[tuple[Probe, float]]) -> Skill:
    """Return the figures of the probabilities of 1, and of the verdicts at 0.5.

    The items need both labels.
    """
    labels = np.zeros(len(items))
    scores = np.zeros(len(items))
    clusters = []
    for index, (item, p_yes) in enumerate(items):
        labels[index] = item.answer
        scores[index] = p_yes
        clusters.append(item.passage)
    rows = LabelledScores(labels, scores, clusters=clusters)
    verdicts = (scores >= ONE_HALF).astype(np.float64)
    decisions = statistic_intervals(
        {"balanced_accuracy": agreement.balanced_accuracy, "bias": agreement.bias},
        rows.with_scores(verdicts),
    )
    slope: Mean | None = None
    with suppress(DataError):  # if no line fits best
        slope = statistic_intervals({"slope": agreement.calibration_slope}, rows)["slope"]
    return Skill(
        auc=statistic_intervals({"auc": agreement.roc_auc}, rows)["auc"],
        balanced_accuracy=decisions["balanced_accuracy"],
        bias=decisions["bias"],
        calibration_slope=slope,
        calibration_error=float(agreement.calibration_error(labels, scores)),
    )


def _check_answers(finding: str, count: int, asked: int, masses: Sequence[float]) -> CheckResult:
    """Check that the items were answered, with most of the probability on valid answers."""
    figures: dict[str, Any] = {"items": asked, "passages": count, "answered": len(masses)}
    if not masses:
        return failed("probes", f"{finding}: no answers", ANOTHER_JUDGE, **figures)
    middle = median(masses)
    figures["median_valid_mass"] = middle
    finding += f"; median probability of valid answers {100 * middle:.3g} %"
    if len(masses) < asked:
        finding += f"; {asked - len(masses)} without an answer"
        return warning("probes", finding, "give the judge a larger context (n_ctx)", **figures)
    return warn_if(middle < ENOUGH_MASS, "probes", finding, ANOTHER_JUDGE, **figures)


def _check_skill(task: ProbedTask, skill: Skill) -> CheckResult:
    slope = skill.calibration_slope
    slope_words = "none"
    if slope is not None:
        slope_words = f"{slope.mean:.2g}"
    finding = (
        f"AUC {format_interval(skill.auc)}, "
        f"balanced accuracy {format_interval(skill.balanced_accuracy)} on {skill.auc.n} items; "
        f"bias {format_interval(skill.bias, '+')}; "
        f"calibration slope {slope_words}, error {skill.calibration_error:.2f}"
    )
    if skill.auc.ci95 is not None and skill.auc.low <= _GUESSING:
        finding += "; no better than guessing"
    if slope is not None and slope.low > 1:
        finding += "; probabilities are nearer to one half than the labels, and so expected scores"
    clusters = "passages"
    if task == "answers":
        clusters = "questions"
    can_rank = skill.auc.low >= MIN_AUC
    advice = ANOTHER_JUDGE
    if can_rank:
        off = "its means may be off by its bias (share judged 1 minus the true share)"
        advice = f"{off}: label some of your own data, and choose the --threshold by labels"
    return warn_if(
        not can_rank or skill.is_biased,
        task,
        finding,
        advice,
        items=skill.auc.n,
        **{clusters: skill.auc.clusters},
        auc=limits_json(skill.auc),
        balanced_accuracy=limits_json(skill.balanced_accuracy),
        bias=limits_json(skill.bias),
        calibration_slope=limits_json(slope),
        calibration_error=skill.calibration_error,
    )


def _add_pairs(check: CheckResult, answered: Sequence[tuple[Probe, float]]) -> CheckResult:
    """Return the check of answers with the share of questions whose good sentence is higher.

    Equal probabilities count half.
    """
    p_yes_by_question: dict[str, dict[Label, float]] = {}
    for item, p_yes in answered:
        p_yes_by_question.setdefault(item.passage, {})[item.answer] = p_yes
    shares: list[float] = []
    shares_by_kind: dict[str, list[float]] = {}
    for item, poor in answered:
        good = p_yes_by_question[item.passage].get(1)
        if item.answer or good is None:
            continue
        share = (1 + (good > poor) - (good < poor)) / 2
        shares.append(share)
        shares_by_kind.setdefault(item.kind, []).append(share)
    if not shares:
        return check
    higher = mean_interval(shares)
    by_kind = {kind: mean(of_kind) for kind, of_kind in shares_by_kind.items()}
    finding = (
        f"{check.finding}; the good sentence is higher in {format_interval(higher)} "
        f"of {numbered(len(shares), 'pair')}"
    )
    missed = [kind.replace("_", " ") for kind, share in by_kind.items() if share < _GUESSING]
    if missed:
        finding += f", in less than half beside {', '.join(missed)}"
    pairs = {
        "pairs": len(shares),
        "good_above_poor": limits_json(higher),
        "good_above_poor_by_kind": by_kind,
    }
    return check.model_copy(update={"finding": finding, "figures": check.figures | pairs})


def _measure_sensitivity(
    items: Sequence[tuple[Probe, float]],
) -> tuple[Mean | None, list[CheckResult]]:
    """Return the share of minimal pairs with a lower probability for the changed statement."""
    p_yes_by_kind = {(item.passage, item.kind): p_yes for item, p_yes in items}
    clusters = []
    falls = []
    for item, after in items:
        if item.changed_from is None:
            continue
        before = p_yes_by_kind.get((item.passage, item.changed_from))
        if before is None:
            continue
        clusters.append(item.passage)
        falls.append(before > after)
    if not falls:
        return None, []
    sensitivity = mean_interval(list(map(float, falls)), clusters=clusters)
    finding = (
        f"a changed detail lowers p in {format_interval(sensitivity)} of {len(falls)} minimal pairs"
    )
    check = warn_if(
        sensitivity.low < MIN_PAIR_SENSITIVITY,
        "sensitivity",
        finding,
        f"wrong numbers or names in an answer may go unnoticed: {ANOTHER_JUDGE}",
        pair_sensitivity=limits_json(sensitivity),
        pairs=len(falls),
    )
    return sensitivity, [check]


def _measure_order(
    count: int, answers: Mapping[Task, Answer]
) -> tuple[float | None, list[CheckResult]]:
    """Return the share of verdicts that change when the same chunks are arranged in another way."""
    flips = 0
    asked = 0
    for one, another in rearranged(count):
        if one in answers and another in answers:
            asked += 1
            before = answers[one].p_yes >= ONE_HALF
            flips += before != (answers[another].p_yes >= ONE_HALF)
    if not asked:
        return None, []
    flip_rate = flips / asked
    finding = (
        f"{100 * flip_rate:.3g} % of {asked} verdicts change when the same chunks are rearranged"
    )
    check = warn_if(
        flip_rate > MAX_ORDER_FLIP_RATE,
        "order",
        finding,
        f"the order of the retrieved texts changes scores: {ANOTHER_JUDGE}",
        asked=asked,
        order_flip_rate=flip_rate,
    )
    return flip_rate, [check]


def limits_json(interval: Mean | None) -> dict[str, float | None] | None:
    if interval is None:
        return None
    low, high = interval.ci95 or (None, None)
    return {"value": interval.mean, "low": low, "high": high}


def check_admission(
    figures: ProbeFigures | None,
    *,
    passes_plain_cases: bool,
    required: Use | None,
    tasks: Sequence[ProbedTask] = TASKS,
) -> CheckResult:
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
    is_too_small = figures.passages < MIN_PASSAGES and passes_plain_cases
    if len(admissions) < len(tasks) or is_too_small:
        finding = "undecided: too few answered items"
        advice = "ask more (--probes all)"
        if required:
            return failed(ADMISSION, finding, advice, uses=None)
        return warning(ADMISSION, finding, advice, uses=None)
    return _recommend(admissions, required)


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


def _recommend(admissions: dict[ProbedTask, Admission], required: Use | None) -> CheckResult:
    sentences = []
    uses = {}
    barred_by = {}
    without_use = []
    below_required = []
    for task, admission in admissions.items():
        sentences.append(f"{name_task(task)}: {admission}")
        uses[task] = list(admission.uses)
        barred_by[task] = list(admission.barred_by)
        if not admission.uses:
            without_use.append(name_task(task))
        if required and required not in admission.uses:
            below_required.append(task)
    finding = "; ".join(sentences)
    figures = {"uses": uses, "barred_by": barred_by}
    if below_required:
        advice = f"{ANOTHER_JUDGE}: {required} is required{LABELS_INSTEAD}"
        return failed(ADMISSION, finding, advice, **figures)
    if without_use:
        avoid = f"do not use its verdicts on {', '.join(without_use)}"
        return warning(ADMISSION, finding, f"{avoid}: {ANOTHER_JUDGE}{LABELS_INSTEAD}", **figures)
    return CheckResult(
        name=ADMISSION,
        status="ok",
        finding=finding,
        advice=_COMPARE_WITH_LABELS,
        figures=figures,
    )
