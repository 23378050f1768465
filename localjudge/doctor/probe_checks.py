"""The figures of the probe set as lines of the doctor's table, and last what the judge may be used for."""

from collections.abc import Iterator

from localjudge.doctor import admission
from localjudge.doctor.admission import Admission, shown, shown_lean
from localjudge.doctor.extent import ADMISSION, Use
from localjudge.doctor.health_check import HealthCheck, failed, ok, warning
from localjudge.doctor.probe_figures import (
    PairFigures,
    ProbedTask,
    ProbeFigures,
    Sensitivity,
    Skill,
    limits_json,
)
from localjudge.doctor.probe_set import passages, probes
from localjudge.doctor.probing import FEWEST_PASSAGES, ProbeAnswers

_TASKS: tuple[ProbedTask, ...] = ("attribution", "relevance")
_ANOTHER_JUDGE = "name a larger or better trained model (--judge)"
_LITTLE_MASS = 0.05
_OWN_LABELS = "hold the verdicts on 100 sentences of your own against people's before you rely on them"


def probes_check(answers: ProbeAnswers, figures: ProbeFigures) -> HealthCheck:
    """How many items were asked, and how much of its probability the judge gave to legal answers."""
    asked, every = len(answers.items), len(probes())
    given, masses = len(answers.masses), sorted(answers.masses)
    count = answers.choice.passages
    rest = f", {answers.choice.why}" if answers.choice.why else ""
    found = f"{asked} of {every} labelled items, of {count} of {len(passages())} passages{rest}"
    low = sum(mass < admission.LEAST_MASS for mass in masses)
    noted: dict[str, float] = {"items": asked, "of": every, "passages": count, "answered": given, "below_half": low}
    if figures.median_mass is None:
        return failed("probes", f"{found}: none got an answer", _ANOTHER_JUDGE, **noted)
    noted |= {"median_legal_mass": figures.median_mass, "least_legal_mass": masses[0]}
    median, least = map(_percent, (figures.median_mass, masses[0]))
    found += f"; legal answers get {median} of its probability in the median, {least} at least"
    if given < asked:
        found += f"; {asked - given} got no answer"
        return warning("probes", found, "give the judge a longer window (--n-ctx)", **noted)
    if low > _LITTLE_MASS * given:
        found += f"; less than half in {low}: there it wants to say something else"
        return warning("probes", found, _ANOTHER_JUDGE, **noted)
    return ok("probes", found, **noted)


def probe_checks(figures: ProbeFigures) -> Iterator[HealthCheck]:
    """All but the admission, each where there is something to tell it by."""
    for task in _TASKS:
        if task in figures.skills:
            yield _skill_check(task, figures.skills[task])
    if figures.skills:
        yield _bias_check(figures.skills)
    if figures.sensitivity is not None:
        yield _sensitivity_check(figures.sensitivity)
    if figures.order and figures.flipped is not None:
        yield _order_check(figures, figures.flipped)


def admission_check(
    answers: ProbeAnswers, figures: ProbeFigures, *, passes_plain_cases: bool, required: Use | None
) -> HealthCheck:
    """One line to act on. Failed below what is required; a warning where some task is fit for nothing."""
    found = admission.admissions(figures, passes_plain_cases=passes_plain_cases)
    few = answers.choice.passages < FEWEST_PASSAGES
    if (few and passes_plain_cases) or len(found) < len(_TASKS):
        said = f"undecided: {answers.choice.passages} passages are too few to tell (it takes {FEWEST_PASSAGES})"
        if len(found) < len(_TASKS):
            said = "undecided: too few items got an answer"
        return (warning if required is None else failed)(ADMISSION, said, "ask about more (--probes all)", uses=None)
    said = "; ".join(f"{task}: {one}" for task, one in found.items())
    noted = {
        "uses": {task: list(one.uses) for task, one in found.items()},
        "barred_by": {task: list(one.barred_by) for task, one in found.items()},
    }
    if required is not None and any(required not in one.uses for one in found.values()):
        return failed(ADMISSION, said, f"{_ANOTHER_JUDGE}: fit for {required} is required", **noted)
    advice = _advice(found)
    if any(not one.uses for one in found.values()):
        return warning(ADMISSION, said, advice, **noted)
    return HealthCheck(name=ADMISSION, status="ok", found=said, advice=advice, figures=noted)


def not_fit_check() -> HealthCheck:
    """Of a judge that guesses obvious cases, which is not asked the items."""
    return failed(ADMISSION, "not fit: it fails the plain cases", _ANOTHER_JUDGE, uses={task: [] for task in _TASKS})


def undecided_check() -> HealthCheck:
    """Of a judge that has to be fit for something, and was asked no items."""
    return failed(ADMISSION, "undecided: no items were asked", "ask some (--probes all)", uses=None)


def _advice(found: dict[ProbedTask, Admission]) -> str:
    """What to do with the lesser of the two."""
    unfit = [task for task, one in found.items() if not one.uses]
    if unfit:
        return f"do not use its verdicts of {' and '.join(unfit)}: {_ANOTHER_JUDGE}"
    match min(len(one.uses) for one in found.values()):
        case 1:
            return f"compare systems by its scores, and read none as a share; {_OWN_LABELS}"
        case 2:
            return f"read means, and decide nothing by a single verdict; {_OWN_LABELS}"
    return _OWN_LABELS


def _skill_check(task: ProbedTask, skill: Skill) -> HealthCheck:
    kinds = ", ".join(f"{kind} {right}/{of}" for kind, (right, of) in skill.right.items())
    slope = "none" if skill.slope is None else f"{skill.slope.mean:.2g}"
    found = (
        f"AUC {shown(skill.auc)}, balanced accuracy {shown(skill.balanced_accuracy)} on {skill.auc.n} items; "
        f"calibration slope {slope}, error {skill.calibration_error:.2f}; right: {kinds}"
    )
    if skill.auc.low < admission.LEAST_AUC:
        return warning(task, f"{found} (guessing has an AUC of 0.5)", _ANOTHER_JUDGE, **skill.as_json())
    return ok(task, found, **skill.as_json())


def _bias_check(skills: dict[ProbedTask, Skill]) -> HealthCheck:
    said, noted, leaning = [], {}, False
    for task, skill in skills.items():
        said.append(f"{task} {shown_lean(skill.lean)}")
        noted[task] = limits_json(skill.lean)
        leaning |= max(-skill.lean.low, skill.lean.high) > admission.LARGEST_LEAN
    found = f"share of yes less share that is so (half): {', '.join(said)}"
    if leaning:
        advice = "its means may be off by as much: label some of your own data, and let that choose the --threshold"
        return warning("bias", found, advice, **noted)
    return ok("bias", found, **noted)


def _sensitivity_check(pairs: Sensitivity) -> HealthCheck:
    kinds = ", ".join(
        f"{kind} {one.fell}/{one.pairs} by {one.mean_fall:.2f}" for kind, one in sorted(pairs.by_kind.items())
    )
    every = pairs.every
    found = (
        f"one detail changed lowers p in {every.fell} of {every.pairs} minimal pairs, {shown(pairs.falls)}, by "
        f"{every.mean_fall:.2f} on average ({kinds}); {every.turned} verdicts turn from 1 to 0"
    )
    noted = {
        "falls": limits_json(pairs.falls),
        "every": _json(every),
        **{str(kind): _json(one) for kind, one in pairs.by_kind.items()},
    }
    if pairs.falls.low < admission.LEAST_FALLING:
        advice = f"a wrong number or name in an answer may pass: {_ANOTHER_JUDGE}"
        return warning("sensitivity", found, advice, **noted)
    return ok("sensitivity", found, **noted)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _json(pairs: PairFigures) -> dict[str, float]:
    return dict(pairs._asdict())


def _order_check(figures: ProbeFigures, flipped: float) -> HealthCheck:
    effects = "; ".join(
        f"{name} {one.flipped}/{one.asked}, log odds move by {one.mean_move:.2f}, at most {one.largest_move:.2f}"
        for name, one in figures.order.items()
    )
    found = f"{_percent(flipped)} of the verdicts flip when the same chunks are shown in another way: {effects}"
    noted = {"flipped": flipped, **{str(name): one._asdict() for name, one in figures.order.items()}}
    if flipped > admission.LARGEST_FLIPPED:
        advice = f"a retriever that only reorders moves its scores: {_ANOTHER_JUDGE}"
        return warning("order", found, advice, **noted)
    return ok("order", found, **noted)
