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

The figures of the probe set as lines of the doctor's table, and last what the judge may be used for.

What the answers to the probe set amount to: arithmetic alone, with intervals that are clustered by passage.

labels      0   0   1   1
p_yes      .2  .7  .6  .9       AUC 3/4; at .5 the labels 0 1 1 1: balanced accuracy 3/4, lean 3/4 - 2/4 = +1/4
minimal pair    holds .9, number changed .6             p falls by .3, and the verdict does not turn
arrangement     needed chunk first .8, last .6          log odds move by |logit .8 - logit .6| = .98

Labelled items that measure a judge: 32 passages, written for this, each with 8 statements and 4 of relevance.

    holds        copied  paraphrase  combination  inference
    does not     changed number | name | negation, swapped relation, absent, general, other passage     4 of the 7

    needed       sentence that answers, chunk that answers
    not needed   sentence on the same topic, chunk on the same topic | unrelated chunk

Half of each passage's items are 1 in either task. A changed number, name or negation is a substitution in a statement
that holds, so that the two are a minimal pair; the copied sentence, the statement about another passage and the
unrelated chunk are taken by rule. All else is written by hand (`probes/README.md`). The passages come in an order in
which their first few have as many of each kind and domain as can be: whoever takes fewer takes the first.

Puts the probe set to a judge: as many passages as its speed allows, and what came of it as plain rows.
"""

import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from math import ceil, log
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from localjudge.analysis.judge_figures import FEW
from localjudge.doctor.health_check import ADMISSION, USES, HealthCheck, Use, failed, fit_for, ok, warning
from localjudge.engine.protocol import Engine
from localjudge.errors import DataError
from localjudge.judge.wording import PromptWriter
from localjudge.progress import Progress
from localjudge.record.manifest import Calibration
from localjudge.run.loop import answers_in_order
from localjudge.stats import agreement
from localjudge.stats.interval import Floats, Interval, mean_interval, statistic_interval
from localjudge.types import Answer, Attribution, Label, Record, Relevance, Span, Task, Unit

Kind = Literal[
    "copied", "paraphrase", "combination", "inference",
    "number", "name", "negation", "relation", "absent", "general", "other passage",
    "sentence that answers", "sentence on the topic", "chunk that answers", "chunk on the topic", "unrelated chunk",
]  # fmt: skip
Change = tuple[Literal["copied", "paraphrase", "combination"], str, str]
"""The statement that is changed, what is taken out, what is put in."""
Rearrangement = Literal["needed chunk last", "others swapped", "same chunk twice"]

PER_PASSAGE = 12
"""Items of a passage: 8 of attribution and 4 of relevance."""
_REARRANGED_EVERY = 4
_FOLDER = Path(__file__).parent / "probes"


class Passage(Record):
    """A short text with what is asked about it. Sentences are counted from 0."""

    title: str
    text: tuple[str, ...]
    question: str
    copied: int
    paraphrase: str
    combination: str
    inference: str
    number: Change | None = None
    name: Change | None = None
    negation: Change | None = None
    relation: str | None = None
    absent: str | None = None
    general: str | None = None
    other: str | None = None
    """Title of the passage whose paraphrase is held against this one."""
    asked: str
    answer: int
    beside: int
    answered: str
    near: str | None = None
    """A question on the topic that the text does not answer; without one, another passage's is asked."""

    @property
    def whole(self) -> str:
        """The sentences as one text."""
        return " ".join(self.text)


class Probe(NamedTuple):
    """An item: what is asked, its kind, the right answer. `changed_from` is the kind of a minimal pair's other half."""

    passage: str
    kind: Kind
    answer: Label
    task: Attribution | Relevance
    changed_from: Kind | None = None


class Rearranged(NamedTuple):
    """A statement, asked twice about the same evidence in two arrangements: the verdict should not care."""

    passage: str
    effect: Rearrangement
    before: Attribution
    after: Attribution


@cache
def passages() -> tuple[Passage, ...]:
    """One of each domain (a file), then the next of each domain, and so on."""
    files = [
        [Passage.model_validate(table) for table in tomllib.loads(file.read_text(encoding="utf-8"))["passage"]]
        for file in sorted(_FOLDER.glob("*.toml"))
    ]
    return tuple(chain.from_iterable(zip(*files, strict=True)))


def probes(count: int | None = None) -> list[Probe]:
    """The items of the first `count` passages, of all if None."""
    return [probe for place in range(len(passages()[:count])) for probe in _items(place)]


def rearranged(count: int | None = None) -> list[Rearranged]:
    """Statements of every fourth of the first `count` passages, among chunks of the next passage."""
    return [one for place in range(0, len(passages()[:count]), _REARRANGED_EVERY) for one in _arrangements(place)]


def _items(place: int) -> Iterator[Probe]:
    passage = passages()[place]
    yield from _statements(passage)
    for kind, index, answer in _SENTENCES:
        yield Probe(passage.title, kind, answer, _sentence(passage, getattr(passage, index)))
    yield Probe(passage.title, "chunk that answers", 1, _chunk(passage, passage.answered))
    if passage.near is not None:
        yield Probe(passage.title, "chunk on the topic", 0, _chunk(passage, passage.near))
    else:
        yield Probe(passage.title, "unrelated chunk", 0, _chunk(passage, _after(place, 1).answered))


_SENTENCES: tuple[tuple[Kind, str, Label], ...] = (
    ("sentence that answers", "answer", 1),
    ("sentence on the topic", "beside", 0),
)
_HOLDING: tuple[Kind, ...] = ("paraphrase", "combination", "inference")
_CHANGED: tuple[Kind, ...] = ("number", "name", "negation")
_WRITTEN: tuple[Kind, ...] = ("relation", "absent", "general")


def _statements(passage: Passage) -> Iterator[Probe]:
    holding: dict[Kind, str] = {"copied": passage.text[passage.copied]}
    holding |= {kind: getattr(passage, kind) for kind in _HOLDING}
    for kind, text in holding.items():
        yield Probe(passage.title, kind, 1, _statement(passage, text))
    for kind in _CHANGED:
        if change := getattr(passage, kind):
            base, old, new = change
            changed = _statement(passage, replaced(holding[base], old, new))
            yield Probe(passage.title, kind, 0, changed, changed_from=base)
    for kind in _WRITTEN:
        if text := getattr(passage, kind):
            yield Probe(passage.title, kind, 0, _statement(passage, text))
    if passage.other is not None:
        [other] = [one for one in passages() if one.title == passage.other]
        yield Probe(passage.title, "other passage", 0, _statement(passage, other.paraphrase))


def replaced(text: str, old: str, new: str) -> str:
    """The text with its one occurrence of `old` exchanged. Raises ValueError unless it occurs once."""
    if text.count(old) != 1:
        raise ValueError(f"{old!r} occurs {text.count(old)} times in {text!r}")
    return text.replace(old, new)


def _arrangements(place: int) -> Iterator[Rearranged]:
    """The others are the two halves of the next passage, which is of another domain."""
    passage, other = passages()[place], _after(place, 1)
    needed = passage.whole
    first, second = " ".join(other.text[:2]), " ".join(other.text[2:])
    of_passage = list(_statements(passage))
    for probe in (of_passage[0], of_passage[1], *of_passage[4:6]):
        statement = probe.task.unit.span.text
        alone, leading = _statement(passage, statement), _statement(passage, statement, needed, first, second)
        pairs: tuple[tuple[Rearrangement, Attribution, tuple[str, ...]], ...] = (
            ("needed chunk last", leading, (first, second, needed)),
            ("others swapped", leading, (needed, second, first)),
            ("same chunk twice", alone, (needed, needed)),
        )
        for effect, before, contexts in pairs:
            yield Rearranged(passage.title, effect, before, _statement(passage, statement, *contexts))


def _after(place: int, steps: int) -> Passage:
    return passages()[(place + steps) % len(passages())]


def _statement(passage: Passage, text: str, *contexts: str) -> Attribution:
    unit = Unit(kind="statement", index=0, source="response", span=Span.whole(text))
    return Attribution(unit=unit, contexts=contexts or (passage.whole,), user_input=passage.question)


def _sentence(passage: Passage, index: int) -> Relevance:
    start = sum(len(sentence) + 1 for sentence in passage.text[:index])
    text = passage.text[index]
    span = Span(start=start, end=start + len(text), text=text)
    unit = Unit(kind="sentence", index=index, source="retrieved_contexts", source_index=0, span=span)
    return Relevance(unit=unit, user_input=passage.asked, contexts=(passage.whole,))


def _chunk(passage: Passage, question: str) -> Relevance:
    span = Span.whole(passage.whole)
    unit = Unit(kind="chunk", index=0, source="retrieved_contexts", source_index=0, span=span)
    return Relevance(unit=unit, user_input=question)


FEWEST_PASSAGES = 8
"""One of each domain. Intervals that are clustered by fewer passages promise more than they keep."""
PROBE_SECONDS = 300
"""So long the items may take, by the speed of the plain cases; a user may name their number instead."""


class ProbeChoice(NamedTuple):
    """The first so many passages, and why not all; "" if they are all."""

    passages: int
    why: str

    @property
    def tasks(self) -> list[Task]:
        """All that is asked about them, nothing twice."""
        items = (probe.task for probe in probes(self.passages))
        arranged = (task for one in rearranged(self.passages) for task in (one.before, one.after))
        return list(dict.fromkeys([*items, *arranged]))


class JudgedProbe(NamedTuple):
    """An item and the probability of label 1; None where the judge gave no answer."""

    probe: Probe
    p_yes: float | None


class JudgedArrangement(NamedTuple):
    """A statement in two arrangements, with the probability of label 1 in each."""

    one: Rearranged
    p_before: float
    p_after: float


class ProbeAnswers(NamedTuple):
    """What a judge said. Arrangements that lack an answer are left out; `masses` are of the items' answers."""

    choice: ProbeChoice
    items: tuple[JudgedProbe, ...]
    arrangements: tuple[JudgedArrangement, ...]
    masses: tuple[float, ...]


NO_PROBES = ProbeChoice(0, "")


def at_most_probes(wanted: int | None) -> ProbeChoice:
    """So many items as are wanted, in whole passages; all if None."""
    every = len(passages())
    count = every if wanted is None else min(ceil(wanted / PER_PASSAGE), every)
    return ProbeChoice(count, "as asked for" if count < every else "")


def chosen_probes(wanted: int | None, judge: PromptWriter, engine: Engine, seconds_per_token: float) -> ProbeChoice:
    """The same, but if None, as many as take about five minutes.

    Which they are depends on their number alone, and no verdict depends on which others are asked.
    """
    most = at_most_probes(wanted)
    if wanted is not None:
        return most
    seconds = engine.distinct_tokens([judge.request(task) for task in most.tasks]) * seconds_per_token
    if seconds <= PROBE_SECONDS:
        return most
    why = f"because all would take this judge about {seconds / 60:.0f} minutes (--probes all)"
    return ProbeChoice(max(FEWEST_PASSAGES, int(most.passages * PROBE_SECONDS / seconds)), why)


def probe_answers(judge: PromptWriter, engine: Engine, progress: Progress, choice: ProbeChoice) -> ProbeAnswers:
    """Ask about the chosen passages, at least one."""
    tasks = choice.tasks
    requests = [judge.request(task) for task in tasks]
    answers = dict(zip(tasks, answers_in_order(engine, requests, progress), strict=True))
    given = {task: answer for task, answer in answers.items() if isinstance(answer, Answer)}
    items = tuple(
        JudgedProbe(probe, given[probe.task].p_yes if probe.task in given else None)
        for probe in probes(choice.passages)
    )
    arrangements = tuple(
        JudgedArrangement(one, given[one.before].p_yes, given[one.after].p_yes)
        for one in rearranged(choice.passages)
        if one.before in given and one.after in given
    )
    return ProbeAnswers(choice, items, arrangements, _masses(given, items))


def _masses(given: dict[Task, Answer], items: Sequence[JudgedProbe]) -> tuple[float, ...]:
    return tuple(given[item.probe.task].legal_mass for item in items if item.probe.task in given)


ProbedTask = Literal["attribution", "relevance"]
THRESHOLD = 0.5
_LEAST = 1e-6  # as in `stats.agreement`: stands for a probability of exactly 0 in log odds


class Skill(NamedTuple):
    """How well a judge tells the items of one task apart."""

    auc: Interval
    balanced_accuracy: Interval
    lean: Interval
    """Share of items that it says yes to, less the share of those that are so."""
    slope: Interval | None
    """Of the calibration line; None where one threshold splits the items without error, or all get one probability."""
    calibration_error: float
    right: dict[Kind, tuple[int, int]]
    """Of each kind, how many verdicts are right, of how many."""

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        found = {"auc": self.auc, "balanced_accuracy": self.balanced_accuracy, "lean": self.lean, "slope": self.slope}
        return {
            "items": self.auc.n,
            "passages": self.auc.clusters,
            **{name: limits_json(interval) for name, interval in found.items()},
            "calibration_error": self.calibration_error,
            "right": {kind: {"right": right, "of": of} for kind, (right, of) in self.right.items()},
        }


class PairFigures(NamedTuple):
    """Minimal pairs: a statement that holds, and the same with one thing changed so that it does not."""

    pairs: int
    fell: int
    turned: int
    """Pairs of which the judge calls the first 1 and the second 0."""
    mean_fall: float


class Sensitivity(NamedTuple):
    """Whether the probability falls when a number, a name or a negation is changed."""

    falls: Interval
    every: PairFigures
    by_kind: dict[Kind, PairFigures]


class OrderEffect(NamedTuple):
    """What an arrangement of the same evidence does: flipped verdicts, and by how much the log odds move."""

    asked: int
    flipped: int
    mean_move: float
    largest_move: float


class ProbeFigures(NamedTuple):
    """Everything; None where there were no answers to tell it by."""

    skills: dict[ProbedTask, Skill]
    sensitivity: Sensitivity | None
    order: dict[Rearrangement, OrderEffect]
    flipped: float | None
    """Share of all rearranged verdicts."""
    median_mass: float | None


def probe_figures(answers: ProbeAnswers) -> ProbeFigures:
    """All figures; a task of which one label got no answer has none."""
    tasks: dict[ProbedTask, list[JudgedProbe]] = {"attribution": [], "relevance": []}
    for item in answers.items:
        if item.p_yes is not None:
            tasks["attribution" if isinstance(item.probe.task, Attribution) else "relevance"].append(item)
    effects: dict[Rearrangement, list[JudgedArrangement]] = defaultdict(list)
    for arrangement in answers.arrangements:
        effects[arrangement.one.effect].append(arrangement)
    order = {name: _effect(those) for name, those in effects.items()}
    asked = sum(effect.asked for effect in order.values())
    return ProbeFigures(
        skills={name: skill(items) for name, items in tasks.items() if len({one.probe.answer for one in items}) > 1},
        sensitivity=_sensitivity(tasks["attribution"]),
        order=order,
        flipped=sum(effect.flipped for effect in order.values()) / asked if asked else None,
        median_mass=float(np.median(answers.masses)) if answers.masses else None,
    )


def skill(items: Sequence[JudgedProbe]) -> Skill:
    """Figures of the items of one task, all answered, some of each label."""
    labels = np.array([item.probe.answer for item in items], dtype=np.float64)
    scores = np.array([item.p_yes for item in items], dtype=np.float64)
    decisions = (scores >= THRESHOLD).astype(np.float64)
    clusters = [item.probe.passage for item in items]
    right: dict[Kind, tuple[int, int]] = {}
    for item, is_right in zip(items, labels == decisions, strict=True):
        known, of = right.get(item.probe.kind, (0, 0))
        right[item.probe.kind] = (known + int(is_right), of + 1)
    try:
        slope = statistic_interval(_slope, labels, scores, clusters=clusters)
    except DataError:
        slope = None
    return Skill(
        auc=statistic_interval(agreement.roc_auc, labels, scores, clusters=clusters),
        balanced_accuracy=statistic_interval(agreement.balanced_accuracy, labels, decisions, clusters=clusters),
        lean=statistic_interval(_lean, labels, decisions, clusters=clusters),
        slope=slope,
        calibration_error=float(agreement.expected_calibration_error(labels, scores)),
        right=right,
    )


def limits_json(interval: Interval | None) -> dict[str, float | None] | None:
    """A figure and its limits, for programs."""
    if interval is None:
        return None
    low, high = interval.limits or (None, None)
    return {"value": interval.mean, "low": low, "high": high}


def _slope(labels: Floats, scores: Floats, weights: Floats) -> Floats:
    return agreement.calibration_line(labels, scores, weights).slope


def _lean(labels: Floats, decisions: Floats, weights: Floats) -> Floats:
    lean: Floats = (weights * (decisions - labels)).sum(axis=-1) / weights.sum(axis=-1)
    return lean


def _sensitivity(items: Sequence[JudgedProbe]) -> Sensitivity | None:
    known = {(item.probe.passage, item.probe.kind): item.p_yes for item in items}
    pairs: list[tuple[Probe, float, float]] = []
    for item in items:
        base = item.probe.changed_from
        before = known.get((item.probe.passage, base)) if base else None
        if before is not None and item.p_yes is not None:
            pairs.append((item.probe, before, item.p_yes))
    if not pairs:
        return None
    by_kind: dict[Kind, list[tuple[float, float]]] = defaultdict(list)
    for probe, before, after in pairs:
        by_kind[probe.kind].append((before, after))
    fell = [float(after < before) for _, before, after in pairs]
    return Sensitivity(
        falls=mean_interval(fell, clusters=[probe.passage for probe, _, _ in pairs]),
        every=_pair_figures([(before, after) for _, before, after in pairs]),
        by_kind={kind: _pair_figures(those) for kind, those in by_kind.items()},
    )


def _pair_figures(pairs: Sequence[tuple[float, float]]) -> PairFigures:
    return PairFigures(
        pairs=len(pairs),
        fell=sum(after < before for before, after in pairs),
        turned=sum(before >= THRESHOLD > after for before, after in pairs),
        mean_fall=sum(before - after for before, after in pairs) / len(pairs),
    )


def _effect(those: Sequence[JudgedArrangement]) -> OrderEffect:
    moves = [abs(_log_odds(one.p_after) - _log_odds(one.p_before)) for one in those]
    return OrderEffect(
        asked=len(those),
        flipped=sum((one.p_before >= THRESHOLD) != (one.p_after >= THRESHOLD) for one in those),
        mean_move=sum(moves) / len(moves),
        largest_move=max(moves),
    )


def _log_odds(probability: float) -> float:
    clipped = min(max(probability, _LEAST), 1 - _LEAST)
    return log(clipped) - log(1 - clipped)


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
    low = sum(mass < LEAST_MASS for mass in masses)
    noted: dict[str, float] = {"items": asked, "of": every, "passages": count, "answered": given, "below_half": low}
    if figures.median_mass is None:
        return failed("probes", f"{found}: none got an answer", _ANOTHER_JUDGE, **noted)
    noted |= {"median_legal_mass": figures.median_mass, "least_legal_mass": masses[0]}
    median, least = map(_percent, (figures.median_mass, masses[0]))
    found += f"; legal answers get {median} of its probability in the median, {least} at least"
    if given < asked:
        found += f"; {asked - given} got no answer"
        return warning("probes", found, "give the judge a longer window (n_ctx)", **noted)
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
    found = admissions(figures, passes_plain_cases=passes_plain_cases)
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
    if skill.auc.low < LEAST_AUC:
        return warning(task, f"{found} (guessing has an AUC of 0.5)", _ANOTHER_JUDGE, **skill.as_json())
    return ok(task, found, **skill.as_json())


def _bias_check(skills: dict[ProbedTask, Skill]) -> HealthCheck:
    said, noted, leaning = [], {}, False
    for task, skill in skills.items():
        said.append(f"{task} {shown_lean(skill.lean)}")
        noted[task] = limits_json(skill.lean)
        leaning |= max(-skill.lean.low, skill.lean.high) > LARGEST_LEAN
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
    if pairs.falls.low < LEAST_FALLING:
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
    if flipped > LARGEST_FLIPPED:
        advice = f"a retriever that only reorders moves its scores: {_ANOTHER_JUDGE}"
        return warning("order", found, advice, **noted)
    return ok("order", found, **noted)
