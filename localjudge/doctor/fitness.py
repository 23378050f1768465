"""For what is a judge fit? What its answers to the labelled items amount to, and fixed rules over these figures.

    labels      0   0   1   1
    p_yes      .2  .7  .6  .9       AUC 3/4; at .5 the labels 0 1 1 1: balanced accuracy 3/4, lean 3/4 - 2/4 = +1/4
    minimal pair    holds .9, number changed .6         p falls by .3, and the verdict does not turn
    arrangement     needed chunk first .8, last .6      log odds move by |logit .8 - logit .6| = .98

    ranking      AUC, lower limit >= .65
    means        balanced accuracy, lower limit >= .75; lean, both limits within .15; at most 10 % flipped by order
    thresholds   balanced accuracy, lower limit >= .85; calibration slope .5 to 2, error <= .15;
                 probability falls in minimal pairs, lower limit >= .75 (attribution)

Each level needs all that stands above it. Nothing is admitted of a judge that fails the plain cases or gives legal
answers less than half of its probability. Intervals are clustered by passage.

A judge of balanced accuracy b sees a difference between two systems at 2b - 1 of its size: half of it at .75, .7 at
.85. Its mean, if it leans to no side, is off by up to 1 - b where all is so or nothing is. An AUC of .65 is a balanced
accuracy of .61 where the log odds of both labels are normal with one variance: a fifth is left of each difference,
which takes some 20 times the samples. Limits and not estimates decide, so that few items admit nothing by luck; the
calibration error, which chance alone keeps above 0, has no lower limit and a lenient rule. Order and minimal pairs are
measured on attribution alone.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, log
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np

from localjudge.analysis.judge_figures import FEW
from localjudge.doctor.health_check import (
    ADMISSION,
    ANOTHER_JUDGE,
    USES,
    HealthCheck,
    Use,
    failed,
    fit_for,
    ok,
    warning,
    warning_if,
)
from localjudge.doctor.judgement import THRESHOLD, Examinee, Portion
from localjudge.doctor.probes import PER_PASSAGE, Kind, Probe, Rearrangement, passages, probe_tasks, probes, rearranged
from localjudge.errors import DataError
from localjudge.record.manifest import Calibration
from localjudge.stats import agreement
from localjudge.stats.interval import Interval, mean_interval, statistic_interval
from localjudge.types import Answer, Attribution, Task

ProbedTask = Literal["attribution", "relevance"]
TASKS: tuple[ProbedTask, ...] = ("attribution", "relevance")
FEWEST_PASSAGES = 8
"""One of each domain. Intervals that are clustered by fewer passages promise more than they keep."""
PROBE_SECONDS = 300
"""So long the items may take, by the speed of the plain cases; a user may name their number instead."""
LEAST_AUC = 0.65
LEAST_BALANCED_ACCURACY: dict[Use, float] = {"means": 0.75, "thresholds": 0.85}
LARGEST_LEAN = 0.15
LARGEST_FLIPPED = 0.10
LEAST_MASS = 0.5
SLOPES = (0.5, 2.0)
LARGEST_CALIBRATION_ERROR = 0.15
LEAST_FALLING = 0.75
_LITTLE_MASS = 0.05
_LEAST = 1e-6  # as in `stats.agreement`: stands for a probability of exactly 0 in log odds
_OWN_LABELS = "compare its verdicts on 100 sentences of your own with people's before you rely on them"
_ADVICE = {
    1: f"compare systems by its scores, and read none as a share; {_OWN_LABELS}",
    2: f"read means, and decide nothing by a single verdict; {_OWN_LABELS}",
    3: _OWN_LABELS,
}
"""By the number of uses."""


def choose_passages(judge: Examinee, items: int | None) -> Portion:
    """So many items, in whole passages; if None, as many as take about five minutes."""
    every = len(passages())
    if items is not None:
        return Portion.as_named(ceil(items / PER_PASSAGE), every)
    seconds = judge.seconds_for(probe_tasks())
    return Portion.by_speed(every, seconds, PROBE_SECONDS, least=FEWEST_PASSAGES, all_with="--probes all")


class Skill(NamedTuple):
    """How well a judge tells the items of one task apart.

    `lean` is the share of items that it says yes to, less the share of those that are so; `slope` that of the
    calibration line, None where one threshold splits the items without error, or all get one probability.
    """

    auc: Interval
    balanced_accuracy: Interval
    lean: Interval
    slope: Interval | None
    calibration_error: float


class ProbeFigures(NamedTuple):
    """What admission rests on; None, or no key, where no answer tells it.

    `falls` is the share of minimal pairs in which the changed statement gets less, `flipped` that of the arrangements
    that move a verdict across the threshold, `median_mass` that of the legal answers to items.
    """

    passages: int = 0
    skills: Mapping[ProbedTask, Skill] = {}
    falls: Interval | None = None
    flipped: float | None = None
    median_mass: float | None = None


Scored = Sequence[tuple[Probe, float]]
"""Items with the probabilities of 1 that they got."""


def measure(choice: Portion, answers: Mapping[Task, Answer]) -> tuple[ProbeFigures, list[HealthCheck]]:
    """All figures of the chosen passages, and a check for each; a task of which one label got no answer has none."""
    masses = sorted(answers[probe.task].legal_mass for probe in probes(choice.first) if probe.task in answers)
    checks = [_probes_check(choice, masses)]
    scored = [(probe, answers[probe.task].p_yes) for probe in probes(choice.first) if probe.task in answers]
    items: dict[ProbedTask, Scored] = {
        "attribution": [pair for pair in scored if isinstance(pair[0].task, Attribution)],
        "relevance": [pair for pair in scored if not isinstance(pair[0].task, Attribution)],
    }
    skills = {task: skill(items[task]) for task in TASKS if len({probe.answer for probe, _ in items[task]}) > 1}
    checks += [_skill_check(task, measured, items[task]) for task, measured in skills.items()]
    checks += [_bias_check(skills)] if skills else []
    p_of = {(probe.passage, probe.kind): p_yes for probe, p_yes in items["attribution"]}
    pairs = [
        (probe, p_of[half], p_yes)
        for probe, p_yes in items["attribution"]
        if probe.changed_from and (half := (probe.passage, probe.changed_from)) in p_of
    ]
    falls = None
    if pairs:
        fell = [float(after < before) for _, before, after in pairs]
        falls = mean_interval(fell, clusters=[probe.passage for probe, _, _ in pairs])
        checks.append(_sensitivity_check(falls, pairs))
    moves: dict[Rearrangement, list[tuple[float, float]]] = defaultdict(list)
    for pair in rearranged(choice.first):
        if pair.before in answers and pair.after in answers:
            moves[pair.effect].append((answers[pair.before].p_yes, answers[pair.after].p_yes))
    order = _order_check(moves) if moves else None
    checks += [order] if order else []
    flipped = order.figures["flipped"] if order else None
    return ProbeFigures(choice.first, skills, falls, flipped, median(masses) if masses else None), checks


def skill(items: Scored) -> Skill:
    """Figures of the items of one task, some of each label."""
    labels = np.array([probe.answer for probe, _ in items], dtype=np.float64)
    scores = np.array([p_yes for _, p_yes in items], dtype=np.float64)
    decisions = (scores >= THRESHOLD).astype(np.float64)
    clusters = [probe.passage for probe, _ in items]
    try:
        line = agreement.calibration_line
        slope = statistic_interval(lambda *data: line(*data).slope, labels, scores, clusters=clusters)
    except DataError:
        slope = None
    return Skill(
        auc=statistic_interval(agreement.roc_auc, labels, scores, clusters=clusters),
        balanced_accuracy=statistic_interval(agreement.balanced_accuracy, labels, decisions, clusters=clusters),
        lean=statistic_interval(agreement.bias, labels, decisions, clusters=clusters),
        slope=slope,
        calibration_error=float(agreement.expected_calibration_error(labels, scores)),
    )


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
    barred = [] if passes_plain_cases else ["it fails the plain cases"]
    if figures.median_mass is not None and figures.median_mass < LEAST_MASS:
        barred.append(f"it gives legal answers {figures.median_mass:.2g} of its probability, less than {LEAST_MASS:g}")
    return {
        task: Admission((), tuple(barred))
        if barred
        else _admission(measured, figures if task == "attribution" else ProbeFigures())
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
        name: Interval(figure.value, *figure.ci95, "clustered bootstrap", labels.verdicts, clusters)
        for name, figure in (calibration.figures | calibration.held_out).items()
    }
    auc, accuracy, bias = (figures[name] for name in ("auc", "balanced_accuracy", "bias"))
    measured = Skill(auc, accuracy, bias, figures.get("calibration_slope"), figures["calibration_error"].mean)
    return _admission(measured, ProbeFigures())


def _admission(measured: Skill, figures: ProbeFigures) -> Admission:
    bars = list(_bars(measured, figures))
    for place, use in enumerate(USES):
        if reasons := tuple(reason for barred, reason in bars if barred == use):
            return Admission(USES[:place], reasons)
    return Admission(USES, ())


def _bars(measured: Skill, figures: ProbeFigures) -> Iterator[tuple[Use, str]]:
    """Each rule that is broken, with the first use that it bars."""
    if measured.auc.low < LEAST_AUC:
        yield "ranking", f"AUC {in_limits(measured.auc)}: its lower limit has to reach {LEAST_AUC:g}"
    accuracy = measured.balanced_accuracy
    for use, least in LEAST_BALANCED_ACCURACY.items():
        if accuracy.low < least:
            yield use, f"balanced accuracy {in_limits(accuracy)}: its lower limit has to reach {least:.2f}"
    if _leans(measured):
        yield "means", f"share of yes is off by {in_limits(measured.lean, '+')}, more than {LARGEST_LEAN:g}"
    least, most = SLOPES
    if measured.slope is not None and not least <= measured.slope.mean <= most:
        yield "thresholds", f"calibration slope {measured.slope.mean:.2g}, not {least:g} to {most:g}"
    if measured.calibration_error > LARGEST_CALIBRATION_ERROR:
        error = f"{measured.calibration_error:.2f}, more than {LARGEST_CALIBRATION_ERROR:g}"
        yield "thresholds", f"calibration error {error}"
    if figures.flipped is not None and figures.flipped > LARGEST_FLIPPED:
        yield "means", f"order flips {_percent(figures.flipped)} of the verdicts, more than {_percent(LARGEST_FLIPPED)}"
    if figures.falls is not None and figures.falls.low < LEAST_FALLING:
        limit = f"the limit has to reach {LEAST_FALLING:g}"
        yield "thresholds", f"changed details lower p in {in_limits(figures.falls)} of the pairs: {limit}"


def _leans(measured: Skill) -> bool:
    return max(-measured.lean.low, measured.lean.high) > LARGEST_LEAN


def in_limits(interval: Interval, sign: Literal["", "+"] = "") -> str:
    """`0.78 [0.72, 0.83]`, `+0.21 [+0.15, +0.27]`; `0.78 (1 passage: no interval)`."""
    mean = f"{interval.mean:{sign}.2f}"
    if interval.limits is None:
        return f"{mean} (1 passage: no interval)"
    low, high = interval.limits
    return f"{mean} [{low:{sign}.2f}, {high:{sign}.2f}]"


def limits_json(interval: Interval | None) -> dict[str, float | None] | None:
    """A figure and its limits, for programs."""
    if interval is None:
        return None
    low, high = interval.limits or (None, None)
    return {"value": interval.mean, "low": low, "high": high}


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _probes_check(choice: Portion, masses: Sequence[float]) -> HealthCheck:
    """How many items were asked, and how much of its probability the judge gave to legal answers, ascending."""
    asked, every = len(probes(choice.first)), len(probes())
    rest = f", {choice.why}" if choice.why else ""
    finding = f"{asked} of {every} labelled items, of {choice.first} of {len(passages())} passages{rest}"
    low = sum(mass < LEAST_MASS for mass in masses)
    figures: dict[str, float] = {
        "items": asked,
        "of": every,
        "passages": choice.first,
        "answered": len(masses),
        "below_half": low,
    }
    if not masses:
        return failed("probes", f"{finding}: none got an answer", ANOTHER_JUDGE, **figures)
    middle, least = median(masses), masses[0]
    figures |= {"median_legal_mass": middle, "least_legal_mass": least}
    finding += f"; legal answers get {_percent(middle)} of its probability in the median, {_percent(least)} at least"
    if len(masses) < asked:
        finding += f"; {asked - len(masses)} got no answer"
        return warning("probes", finding, "give the judge a longer window (n_ctx)", **figures)
    if low > _LITTLE_MASS * len(masses):
        finding += f"; less than half in {low}: there it wants to say something else"
        return warning("probes", finding, ANOTHER_JUDGE, **figures)
    return ok("probes", finding, **figures)


def _skill_check(task: ProbedTask, measured: Skill, items: Scored) -> HealthCheck:
    auc, slope = measured.auc, measured.slope
    every = Counter(probe.kind for probe, _ in items)
    right = Counter(probe.kind for probe, p_yes in items if (p_yes >= THRESHOLD) == probe.answer)
    kinds = ", ".join(f"{kind} {right[kind]}/{of}" for kind, of in every.items())
    guesses = auc.low < LEAST_AUC
    finding = (
        f"AUC {in_limits(auc)}, balanced accuracy {in_limits(measured.balanced_accuracy)} on {auc.n} items; "
        f"calibration slope {'none' if slope is None else f'{slope.mean:.2g}'}, error "
        f"{measured.calibration_error:.2f}; right: {kinds}{' (guessing has an AUC of 0.5)' if guesses else ''}"
    )
    figures: dict[str, Any] = {"items": auc.n, "passages": auc.clusters}
    figures |= {name: limits_json(getattr(measured, name)) for name in ("auc", "balanced_accuracy", "lean", "slope")}
    figures |= {"calibration_error": measured.calibration_error}
    figures |= {"right": {kind: {"right": right[kind], "of": of} for kind, of in every.items()}}
    return warning_if(guesses, task, finding, ANOTHER_JUDGE, **figures)


def _bias_check(skills: Mapping[ProbedTask, Skill]) -> HealthCheck:
    leans = ", ".join(f"{task} {in_limits(measured.lean, '+')}" for task, measured in skills.items())
    return warning_if(
        any(map(_leans, skills.values())),
        "bias",
        f"share of yes less share that is so (half): {leans}",
        "its means may be off by as much: label some of your own data, and let that choose the --threshold",
        **{task: limits_json(measured.lean) for task, measured in skills.items()},
    )


def _sensitivity_check(falls: Interval, pairs: Sequence[tuple[Probe, float, float]]) -> HealthCheck:
    def count(kind: Kind | None = None) -> dict[str, float]:
        moves = [(before, after) for probe, before, after in pairs if kind in (None, probe.kind)]
        return {
            "pairs": len(moves),
            "fell": sum(after < before for before, after in moves),
            "turned": sum(before >= THRESHOLD > after for before, after in moves),
            "mean_fall": sum(before - after for before, after in moves) / len(moves),
        }

    every, kinds = count(), {kind: count(kind) for kind in sorted({probe.kind for probe, _, _ in pairs})}
    by_kind = ", ".join(
        f"{kind} {part['fell']}/{part['pairs']} by {part['mean_fall']:.2f}" for kind, part in kinds.items()
    )
    return warning_if(
        falls.low < LEAST_FALLING,
        "sensitivity",
        f"one detail changed lowers p in {every['fell']} of {every['pairs']} minimal pairs, {in_limits(falls)}, by "
        f"{every['mean_fall']:.2f} on average ({by_kind}); {every['turned']} verdicts turn from 1 to 0",
        f"a wrong number or name in an answer may pass: {ANOTHER_JUDGE}",
        falls=limits_json(falls),
        every=every,
        **{str(kind): part for kind, part in kinds.items()},
    )


def _order_check(moves: Mapping[Rearrangement, Sequence[tuple[float, float]]]) -> HealthCheck:
    effects = {}
    for name, pairs in moves.items():
        odds = [abs(_log_odds(after) - _log_odds(before)) for before, after in pairs]
        flipped = sum((before >= THRESHOLD) != (after >= THRESHOLD) for before, after in pairs)
        mean, largest = sum(odds) / len(odds), max(odds)
        effects[name] = {"asked": len(pairs), "flipped": flipped, "mean_move": mean, "largest_move": largest}
    share = sum(effect["flipped"] for effect in effects.values()) / sum(map(len, moves.values()))
    listed = "; ".join(
        f"{name} {effect['flipped']}/{effect['asked']}, log odds move by {effect['mean_move']:.2f}, at most "
        f"{effect['largest_move']:.2f}"
        for name, effect in effects.items()
    )
    return warning_if(
        share > LARGEST_FLIPPED,
        "order",
        f"{_percent(share)} of the verdicts flip when the same chunks are shown in another way: {listed}",
        f"a retriever that only reorders moves its scores: {ANOTHER_JUDGE}",
        flipped=share,
        **{str(name): effect for name, effect in effects.items()},
    )


def _log_odds(probability: float) -> float:
    clipped = min(max(probability, _LEAST), 1 - _LEAST)
    return log(clipped) - log(1 - clipped)


def admission_check(
    figures: ProbeFigures | None, *, passes_plain_cases: bool, required: Use | None
) -> HealthCheck | None:
    """One line to act on. Failed below what is required; a warning where some task is fit for nothing.

    None where no items were asked of a judge that has to be fit for nothing.
    """
    if figures is None and not passes_plain_cases:
        uses: dict[ProbedTask, list[Use]] = {task: [] for task in TASKS}
        return failed(ADMISSION, "not fit: it fails the plain cases", ANOTHER_JUDGE, uses=uses)
    if figures is None:
        unasked = failed(ADMISSION, "undecided: no items were asked", "ask some (--probes all)", uses=None)
        return unasked if required else None
    admitted = admissions(figures, passes_plain_cases=passes_plain_cases)
    few = f"{figures.passages} passages are too few to tell (it takes {FEWEST_PASSAGES})"
    few = "too few items got an answer" if len(admitted) < len(TASKS) else few
    if (figures.passages < FEWEST_PASSAGES and passes_plain_cases) or len(admitted) < len(TASKS):
        decide = warning if required is None else failed
        return decide(ADMISSION, f"undecided: {few}", "ask about more (--probes all)", uses=None)
    unfit = [task for task, admission in admitted.items() if not admission.uses]
    advice = _ADVICE.get(min(len(admission.uses) for admission in admitted.values()))
    advice = advice or f"do not use its verdicts of {' and '.join(unfit)}: {ANOTHER_JUDGE}"
    lacking = required is not None and any(required not in admission.uses for admission in admitted.values())
    return HealthCheck(
        name=ADMISSION,
        status="failed" if lacking else "warning" if unfit else "ok",
        found="; ".join(f"{task}: {admission}" for task, admission in admitted.items()),
        advice=f"{ANOTHER_JUDGE}: fit for {required} is required" if lacking else advice,
        figures={
            "uses": {task: list(admission.uses) for task, admission in admitted.items()},
            "barred_by": {task: list(admission.barred_by) for task, admission in admitted.items()},
        },
    )
