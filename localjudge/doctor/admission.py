"""Recommend uses for a judge by its figures on the labelled items.

    skills by task ──> rules of localjudge.labels.recommended_uses ──> ranking, means, thresholds

A judge has no recommended use if it fails the plain cases, or if valid answers get less than half
of its probability.
"""

from collections.abc import Sequence

from localjudge.doctor.check_result import (
    ADMISSION,
    ANOTHER_JUDGE,
    LABELS_INSTEAD,
    CheckResult,
    failed,
    warning,
)
from localjudge.doctor.examinee import ENOUGH_MASS
from localjudge.doctor.probing import MIN_PASSAGES, TASKS, ProbedTask, ProbeFigures
from localjudge.labels.recommended_uses import Admission, admit, recommendation
from localjudge.types import Use

_COMPARE_WITH_LABELS = (
    "compare its verdicts with human labels of 100 sentences of your own before you rely on them"
)


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
        return _undecided(required)
    return _conclude(admissions, required)


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


def _undecided(required: Use | None) -> CheckResult:
    finding = "undecided: too few answered items"
    advice = "ask more (--probes all)"
    if required:
        return failed(ADMISSION, finding, advice, uses=None)
    return warning(ADMISSION, finding, advice, uses=None)


def _conclude(admissions: dict[ProbedTask, Admission], required: Use | None) -> CheckResult:
    sentences = []
    uses = {}
    barred_by = {}
    without_use = []
    below_required = []
    for task, admission in admissions.items():
        sentences.append(f"{task}: {admission}")
        uses[task] = list(admission.uses)
        barred_by[task] = list(admission.barred_by)
        if not admission.uses:
            without_use.append(task)
        if required and required not in admission.uses:
            below_required.append(task)
    finding = "; ".join(sentences)
    figures = {"uses": uses, "barred_by": barred_by}
    if below_required:
        advice = f"{ANOTHER_JUDGE}: {required} is required{LABELS_INSTEAD}"
        return failed(ADMISSION, finding, advice, **figures)
    if without_use:
        avoid = f"do not use its verdicts on {' and '.join(without_use)}"
        return warning(ADMISSION, finding, f"{avoid}: {ANOTHER_JUDGE}{LABELS_INSTEAD}", **figures)
    return CheckResult(
        name=ADMISSION,
        status="ok",
        finding=finding,
        advice=_COMPARE_WITH_LABELS,
        figures=figures,
    )
