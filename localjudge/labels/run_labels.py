"""Means of a run corrected by its labels, the annotators, and their agreement.

    context_recall   the judge                 0.708   0.669 - 0.745
                     50 labels only            0.622   0.480 - 0.747
                     corrected                 0.641   0.580 - 0.702

Decisions match the run's verdicts by the text shown to the annotator. They correct its means only
if they were drawn from the same statements. If annotators contradict each other, the mean is
corrected once per annotator, and the interval covers all. Two drawings are combined in proportion
to their labels. Labels count at planned numbers only (`localjudge.stats.looks`). If every statement
has a label, the mean is the mean of the labels.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from itertools import combinations, pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np

from localjudge.errors import DataError, InputError
from localjudge.labels.drawing import draw_again, frame_of, metrics_of
from localjudge.labels.judge_figures import FEW
from localjudge.labels.label_counts import LabelCounts, count_labels
from localjudge.labels.units import ShareOf, UnitFrame, unit_frames
from localjudge.run_directory.label_rows import LabelRow, planned_statements, stored_labels
from localjudge.run_directory.run_cache import cached_by_run
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.stats.agreement import cohen_kappa, krippendorff_alpha
from localjudge.stats.corrected import (
    MIN_CLUSTERS,
    STRATA,
    JudgedUnits,
    PredictionPowered,
    covering,
    inclusion_probabilities,
    labels_alone,
    labels_saved,
    prediction_powered,
    strata_by_score,
)
from localjudge.stats.interval import Indices, Interval, mean_interval, share_interval
from localjudge.stats.looks import MIN_PLANNED_LABELS, Look, look_at
from localjudge.text.folding import fold
from localjudge.types import Label, Record
from localjudge.words import numbered, option_name, printable

SECONDS_A_LABEL = 18.0
"""Default until there are a few labels: 50 in a quarter of an hour."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0
"""Range of seconds between two labels of one annotator that counts as time for labelling."""
_FEWEST_PAUSES = 5
NO_SHARE = "its scores are not shares of its verdicts, so labels cannot correct its mean"
NOT_DRAWN = "its labels were not drawn from its statements, so they cannot correct its mean"
TOO_SMALL = f"fewer than {MIN_CLUSTERS} samples (or groups of samples): an interval needs labels of all statements"
TOO_MANY_FAILED = "too many of its samples failed"
BY_SCORES = "scores decided how many samples were judged, so labels cannot correct its mean"
ONE_GROUP = "all samples are in one group, so there is no interval"
FEWEST_SHARED = 10
_MAX_NAME = 40
_MAX_PAIRS = 5
"""Most pairs of annotators in a text: those with the most common statements."""
LEAST_AGREEMENT = 0.70
"""Below this agreement, on that number of statements or more, no mean is corrected."""
NO_SAVING = "the judge saves no labels"
ALL_LABELLED = "every statement has a label, so this is the mean of the labels"


def shorten_name(annotator: str) -> str:
    """Return an annotator's name for a text: escaped, and with at most 40 characters."""
    is_long = len(annotator) > _MAX_NAME
    return printable(f"{annotator[: _MAX_NAME - 3]}..." if is_long else annotator)


def labels_in_words(counted: int, labelled: int) -> str:
    return (
        f"{counted:,} of {labelled:,} labels" if counted < labelled else numbered(counted, "label")
    )


class LabelledMean(Record):
    """A mean with its 95 % interval, by labels without the judge or corrected by one annotator."""

    mean: float
    ci95: tuple[float, float] | None


class CorrectedMean(Record):
    """A mean corrected by labels, with its 95 % interval, or None if there are too few usable labels.

    Of the `labelled` `statements`, `labels` count, in `clusters` samples or groups, until the next
    look at `next_look` labels. An interval needs at least `needed` more labels, which take about
    `minutes`. `worth_labels` is the number of extra labels that a labels-only estimate would need
    for the same interval width. `power` is the weight of the judge, from 0 to 1. `counts` are all
    labels of its statements, also ones that cannot correct the mean; `own_labels` of these
    statements were labelled in this run, others in a run with the same statements. If every
    statement has a label (`is_complete`), the mean is the one of the labels. `is_planned`: the
    number of labels was planned, and the interval is an ordinary one. `right_on_ones` contains the
    number of labels of 1 that the judge gets right, and their total. `sensitivity` and
    `specificity` use the weights of the mean and need 20 labels of a kind. `remark` explains what
    is missing.

    If annotators contradict each other, `by_annotator` has a corrected mean for each, with missing
    labels from the annotator with the most. The interval covers all of theirs, and the mean is
    midway between the extremes. If agreement is too low, there is no mean until the `unsettled`
    statements are settled.
    """

    mean: float | None = None
    ci95: tuple[float, float] | None = None
    labels: int = 0
    labelled: int = 0
    next_look: int | None = None
    statements: int = 0
    worth_labels: int | None = None
    labels_alone: LabelledMean | None = None
    by_annotator: dict[str, LabelledMean] | None = None
    pooled: LabelledMean | None = None
    unsettled: int = 0
    clusters: int = 0
    needed: int | None = None
    minutes: int | None = None
    power: float | None = None
    right_on_ones: tuple[int, int] | None = None
    right_on_zeros: tuple[int, int] | None = None
    sensitivity: float | None = None
    specificity: float | None = None
    counts: LabelCounts | None = None
    own_labels: int = 0
    is_complete: bool = False
    is_planned: bool = False
    remark: str | None = None

    @property
    def in_words(self) -> str:
        """`50 labels`, or `50 of 63 labels` between two looks."""
        return labels_in_words(self.labels, self.labelled)

    @property
    def is_labelled(self) -> bool:
        """Whether statements have labels that were made in this run or drawn from its statements."""
        return self.own_labels > 0 or self.labelled > 0

    @property
    def contradiction(self) -> str | None:
        """How the labels contradict the judge, if they do."""
        return self.counts.contradiction if self.counts else None

    @property
    def shortage(self) -> str | None:
        """Why the labels give no interval: `19 labels, 20 needed`. None if they do, or without labels."""
        if self.counts is None or self.ci95:
            return None
        if self.needed is None:
            return f"{numbered(self.counts.labelled, 'label')}: {self.remark}"
        needed = self.labelled + self.needed
        return f"{numbered(self.labelled, 'label')}, {needed:,} needed"

    @property
    def rates_in_words(self) -> str:
        """`the judge gives 1 to 29 of 33 statements labelled 1 (sensitivity 87 %), and 0 to 9 of 17 labelled 0`.

        Few labels give no rate.
        """
        parts: list[str] = []
        for label, counts, name in (
            (1, self.right_on_ones, "sensitivity"),
            (0, self.right_on_zeros, "specificity"),
        ):
            if counts and counts[1]:
                rate = getattr(self, name)
                shown = "" if rate is None else f" ({name} {100 * rate:.0f} %)"
                statements = f"{counts[1]:,}" if parts else numbered(counts[1], "statement")
                parts.append(f"{label} to {counts[0]:,} of {statements} labelled {label}{shown}")
        return f"the judge gives {', and '.join(parts)}" if parts else ""


class PairAgreement(Record):
    """Share of equal labels of two annotators, and Cohen's kappa, if defined."""

    annotators: tuple[str, str]
    statements: int
    share: float
    kappa: float | None

    @property
    def line(self) -> str:
        kappa = "" if self.kappa is None else f", Cohen's kappa {self.kappa:.3f}"
        names = " and ".join(map(shorten_name, self.annotators))
        statements = numbered(self.statements, "statement")
        return f"{names}: {100 * self.share:.0f} % agreement on {statements}{kappa}"


class Agreement(Record):
    """Agreement of annotators on statements with two or more labels.

    `share` is the mean share of equal pairs of labels. `alpha` is Krippendorff's, if defined.
    Adjudicated labels are left out; they settle `settled` of the `disputed` statements.
    """

    statements: int
    share: float
    alpha: float | None
    disputed: int
    settled: int = 0
    pairs: tuple[PairAgreement, ...]

    @property
    def unsettled(self) -> int:
        return self.disputed - self.settled

    @property
    def is_too_low(self) -> bool:
        """Whether too few labels agree, and disputes are unsettled."""
        return (
            self.statements >= FEWEST_SHARED and self.share < LEAST_AGREEMENT and self.unsettled > 0
        )

    @property
    def lines(self) -> list[str]:
        alpha = "" if self.alpha is None else f", Krippendorff's alpha {self.alpha:.3f}"
        shared = f"{numbered(self.statements, 'statement')} with several labels: {100 * self.share:.0f} % agreement"
        disputed = f"{self.settled:,} of {numbered(self.disputed, 'disputed statement')} settled by adjudication"
        pairs = [pair.line for pair in self.pairs[:_MAX_PAIRS]]
        if len(self.pairs) > _MAX_PAIRS:
            pairs.append(f"and {numbered(len(self.pairs) - _MAX_PAIRS, 'more pair')} of annotators")
        return [f"{shared}{alpha}", *pairs, *([disputed] if self.settled else ())]

    @property
    def request(self) -> str:
        return (
            f"annotators agree on {100 * self.share:.0f} % of {self.statements:,} statements with several labels, less "
            f"than {100 * LEAST_AGREEMENT:.0f} %: settle the {numbered(self.unsettled, 'disputed statement')} first: "
            "`localjudge label RUN --disputed`"
        )


class RunLabels(Record):
    """Human labels of a run: counts by annotator (`ones`: labels of 1), times, agreement, and the corrected means.

    `statements` have a label, `unsure` ones were undecidable. `passed_over` statements have no
    label, but later ones of their drawing do. `undrawn` labels were drawn from other statements than
    those of the run, and correct no mean.
    """

    statements: int
    annotators: dict[str, int]
    ones: dict[str, int]
    first: str
    last: str
    unsure: int
    passed_over: int
    undrawn: int
    agreement: Agreement | None
    seconds_a_label: float
    corrected: dict[str, CorrectedMean]

    @property
    def is_incomplete(self) -> bool:
        """Whether more than a tenth of the drawn statements are unlabelled."""
        return 10 * self.passed_over > self.statements + self.passed_over

    @property
    def warnings(self) -> tuple[str, ...]:
        missing = f"{numbered(self.passed_over, 'drawn statement')} without a label, which may be harder than the rest"
        undrawn = f"{numbered(self.undrawn, 'label')} drawn from other statements than this run's, so not used"
        return tuple(
            text for text, count in ((missing, self.passed_over), (undrawn, self.undrawn)) if count
        )


class _Drawn(NamedTuple):
    turn: int
    share: float
    key: str


class Decisions:
    """The latest decision of each annotator on each statement, and its drawing. For equal times the last row counts.

    The latest adjudicated label of a statement replaces the labels of its annotators, except in
    their agreement. Names that differ in case only are one annotator, in the spelling of the first
    row.
    """

    def __init__(self, rows: Iterable[LabelRow]) -> None:
        in_file_order = list(rows)
        self._spellings: dict[str, str] = {}
        for row in in_file_order:
            self._spellings.setdefault(fold(row.annotator), row.annotator)
        respelled = map(self._respell, in_file_order)
        self.rows = sorted(respelled, key=lambda row: row.moment)
        self.of: dict[str, dict[str, Label | None]] = defaultdict(dict)
        """By statement, then by annotator. None for undecidable."""
        self.adjudications: dict[str, dict[str, Label | None]] = defaultdict(dict)
        """The same for adjudicated labels, the latest last."""
        self.drawn: dict[tuple[str, str], dict[str, _Drawn]] = defaultdict(dict)
        """By name and frame of the drawing, then by statement."""
        drawing_of: dict[tuple[str, str, str], tuple[str, str]] = {}
        for row in self.rows:
            people = self.in_role_of(row)[row.key]
            people.pop(row.annotator, None)
            if row.human is not None:
                people[row.annotator] = None if row.human == "?" else row.human
            if row.draw and row.frame and row.size_share and row.draw_index:
                statement = _Drawn(row.draw_index, row.size_share, row.key)
                self.drawn[row.draw, row.frame][row.key] = statement
                drawing_of.setdefault((row.key, row.annotator, row.when), (row.draw, row.frame))
        self._begun = list(dict.fromkeys(drawing_of.values()))
        """Drawings in the order of their first label that was not carried over."""
        self.labels: dict[str, dict[str, Label]] = {
            key: {name: label for name, label in people.items() if label is not None}
            for key, people in self.of.items()
        }
        """By statement, then by annotator, without undecided and adjudicated ones."""
        decided = {
            key: [(name, label) for name, label in people.items() if label is not None]
            for key, people in self.adjudications.items()
        }
        self.settled = {
            key: labels[-1] for key, labels in decided.items() if labels and self.labels.get(key)
        }
        """Adjudicator and adjudicated label of each labelled statement that has one."""
        self.human = {
            key: sum(people.values()) / len(people) for key, people in self.labels.items() if people
        }
        """Mean label of each labelled statement, or the adjudicated one."""
        self.human |= {key: float(label) for key, (_, label) in self.settled.items()}
        counts = Counter(name for people in self.labels.values() for name in people)
        self.annotators = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
        """Number of labels of each annotator, most first."""

    def count_ones(self) -> dict[str, int]:
        """Return the number of labels of 1 of each annotator."""
        ones = dict.fromkeys(sorted(self.annotators), 0)
        for people in self.labels.values():
            for name, label in people.items():
                ones[name] += label
        return ones

    @property
    def disputed(self) -> list[str]:
        """Statements with different labels, settled or not."""
        return [key for key, labels in self.labels.items() if len(set(labels.values())) > 1]

    def spell(self, annotator: str) -> str:
        """Return the name of an annotator as their first row spells it."""
        return self._spellings.get(fold(annotator), annotator)

    def _respell(self, row: LabelRow) -> LabelRow:
        spelling = self.spell(row.annotator)
        return row if row.annotator == spelling else row.model_copy(update={"annotator": spelling})

    def in_role_of(self, row: LabelRow) -> dict[str, dict[str, Label | None]]:
        """Return the decisions of annotators, or the adjudications if the row is one."""
        return self.adjudications if row.adjudicated else self.of

    def by_annotator(self, keys: Collection[str]) -> dict[str, dict[str, float]]:
        """Return the labels of these statements by annotator, with missing ones from the annotator with the most.

        One entry if no statement is disputed. An adjudicated label replaces the annotators' labels.
        """
        people = {key: self.labels[key] for key in keys}
        people |= {
            key: dict.fromkeys(people[key], self.settled[key][1])
            for key in keys
            if key in self.settled
        }
        disputed = [labels for labels in people.values() if len(set(labels.values())) > 1]
        names = [
            name for name in self.annotators if any(name in labels for labels in disputed)
        ] or [""]
        others = {
            key: next(labels[name] for name in self.annotators if name in labels)
            for key, labels in people.items()
        }
        return {
            name: {key: float(people[key].get(name, other)) for key, other in others.items()}
            for name in names
        }

    def agreement(self, keys: Collection[str] | None = None) -> Agreement | None:
        """Return the agreement on these or all statements, or None if none has labels of two annotators."""
        among = self.labels if keys is None else keys
        shared = [labels for key, labels in self.labels.items() if len(labels) > 1 and key in among]
        if not shared:
            return None
        ones = [(sum(labels.values()), len(labels)) for labels in shared]
        equal = [1 - 2 * one * (count - one) / (count * (count - 1)) for one, count in ones]
        alpha = None
        with suppress(DataError):  # all labels are equal
            alpha = krippendorff_alpha([list(labels.values()) for labels in shared])
        disputed = [key for key in self.disputed if key in among]
        both = (_pair_agreement(pair, shared) for pair in combinations(sorted(self.annotators), 2))
        return Agreement(
            statements=len(shared),
            share=fmean(equal),
            alpha=alpha,
            disputed=len(disputed),
            settled=sum(key in self.settled for key in disputed),
            pairs=tuple(sorted(filter(None, both), key=lambda pair: -pair.statements)),
        )

    def drawings(self, frames: Mapping[str, UnitFrame]) -> dict[str, list[list[_Drawn]]]:
        """Return the labelled statements of each drawing of these frames, by metric and in drawing order.

        A metric uses only drawings that include it, because others could not reach all of its
        statements.
        """
        drawings: dict[str, list[list[_Drawn]]] = defaultdict(list)
        for name, frame in self._begun:
            if not _is_drawn_from(frames, name, frame):
                continue
            statements = self.drawn[name, frame]
            labelled = sorted(statements[key] for key in statements.keys() & self.human.keys())
            for metric in metrics_of(name):
                by_key = frames[metric].by_key
                drawings[metric].append([drawn for drawn in labelled if drawn.key in by_key])
        return drawings


def _is_drawn_from(frames: Mapping[str, UnitFrame], name: str, frame: str) -> bool:
    """Return whether the named drawing was made from the statements of these frames."""
    metrics = metrics_of(name)
    if not metrics or not frames.keys() >= set(metrics):
        return False
    return frame == frame_of(frames[metric] for metric in metrics)


def sampling_weights(
    drawings: Iterable[Iterable[_Drawn]], most: float = math.inf
) -> dict[str, float]:
    """Return the weight of each of the first `most` labelled statements relative to its share in the mean.

    It is the sum of (share of labels) / (inclusion probability) over the drawings that reached the
    statement.
    """
    keys = set[str]()
    reached = list[list[_Drawn]]()
    for drawing in drawings:
        reached.append([])
        for drawn in drawing:
            if len(keys) >= most:
                break
            keys.add(drawn.key)
            reached[-1].append(drawn)
    count = sum(len(statements) for statements in reached)
    weights: dict[str, float] = defaultdict(float)
    for statements in reached:
        if not statements:
            continue
        shares = np.array([drawn.share for drawn in statements])
        probabilities = inclusion_probabilities(shares, statements[-1].turn).tolist()
        for drawn, probability in zip(statements, probabilities, strict=True):
            weights[drawn.key] += len(statements) / count / probability
    return dict(weights)


class LabelledUnits(NamedTuple):
    """Units of one metric with their labels. Of the `labelled` statements, `counted` count at this look.

    `is_complete`: every statement has a label that counts. `is_planned`: the number of labels was
        planned.
    """

    units: JudgedUnits
    counted: Set[str]
    labelled: Set[str]
    look: Look
    is_complete: bool
    is_planned: bool


class LabelledMetric(NamedTuple):
    """The labels of one metric's statements by one annotator.

    `plans` are the statements of first readings that were complete.
    """

    frame: UnitFrame
    human: Mapping[str, float]
    drawings: Sequence[Sequence[_Drawn]]
    plans: Sequence[Set[str]] = ()

    def units(self, most: int | None = None) -> LabelledUnits:
        """Return the units with the labels that count, for at most `most` statements."""
        frame = self.frame
        keys = frame.by_key.keys() & self.human.keys()
        drawings = _drawn_among(self.drawings, keys)
        weights = sampling_weights(drawings)
        has_all = len(keys) == len(frame.by_key)
        is_complete = has_all and (most is None or most >= len(keys) or len(weights) < len(keys))
        labelled = keys if is_complete else weights.keys()
        planned = self.planned_among(labelled)
        number = len(labelled) if most is None else min(len(labelled), most)
        look = look_at(number, len(frame.by_key), len(planned) or None)
        if not is_complete and look.labels < len(labelled):
            if look.labels == len(planned):
                drawings = _drawn_among(drawings, planned)
            weights = sampling_weights(drawings, look.labels)
        if is_complete:
            weights = dict.fromkeys(keys, 1.0)
        is_planned = bool(planned) and look.labels == len(planned)
        units = _judged_units(frame, self.human, weights)
        return LabelledUnits(units, weights.keys(), labelled, look, is_complete, is_planned)

    def planned_among(self, labelled: Set[str]) -> Set[str]:
        """Return the largest plan for the labelled statements, or none if it is too small."""
        planned = [plan & self.frame.by_key.keys() for plan in self.plans]
        usable = [plan for plan in planned if len(plan) >= MIN_PLANNED_LABELS and plan <= labelled]
        return max(usable, key=len, default=frozenset())


def _drawn_among(drawings: Iterable[Iterable[_Drawn]], keys: Set[str]) -> list[list[_Drawn]]:
    return [[drawn for drawn in drawing if drawn.key in keys] for drawing in drawings]


def _judged_units(
    frame: UnitFrame, human: Mapping[str, float], sampling_weight: Mapping[str, float]
) -> JudgedUnits:
    """Return the units of a metric, with labels of the statements that have a sampling weight."""
    labels = np.zeros(len(frame.judged))
    drawn = np.zeros(len(frame.judged))
    for key, weight in sampling_weight.items():
        indices = frame.by_key[key]
        labels[indices] = human[key]
        # A statement has one label even if several samples share it. Its first unit represents all.
        drawn[indices[0]] = frame.weights[indices].sum() * weight
    certain = np.isnan(frame.p_yes)
    labels[certain] = frame.judged[certain]
    drawn[certain] = frame.weights[certain]
    strata = np.zeros(len(labels), dtype=np.intp)
    if not certain.all():
        scores = frame.p_yes[~certain]
        count = max(1, min(STRATA, len(sampling_weight)))
        strata[~certain] = strata_by_score(scores, count) + int(certain.any())
    units = JudgedUnits(frame.judged, frame.weights, labels, drawn, strata, frame.clusters, certain)
    if frame.share_of == "zeros":
        return units._replace(judged=1 - units.judged, human=1 - units.human)
    return units


def interval_of_labels(frame: UnitFrame, units: JudgedUnits, confidence: float) -> Interval:
    """Return the mean of the labels of a metric with its interval, if every statement has a label.

    It is the interval that the judge's mean has: over samples, with groups of samples as single
    draws.
    """
    if frame.is_pooled:
        ones = units.human.astype(np.int64)
        return share_interval(ones, np.ones_like(ones), _from_zero(units.clusters), confidence)
    shares = frame.means_of_samples(units.human)
    clusters = frame.clusters_of_samples
    is_grouped = len(np.unique(clusters)) < len(clusters)
    return mean_interval(shares, clusters=clusters if is_grouped else None, confidence=confidence)


def _from_zero(clusters: Indices) -> Indices:
    return np.unique(clusters, return_inverse=True)[1].reshape(-1)


def check_labels_allowed(run: RunRecord) -> None:
    """Raise InputError for a run whose size depends on its scores, because no correction is valid for it."""
    if run.sampling.optional_stopping:
        problem = f"labels cannot correct {run.directory}, because its size depends on its scores"
        raise InputError(problem, hint=how_to_label(run))


def how_to_label(run: RunRecord) -> str:
    settings = run.manifest.environment.settings
    early = " and ".join(
        option_name(name) for name in ("until", "width") if getattr(settings, name)
    )
    effect = (
        "to judge all samples"
        if run.part
        else "to get ordinary intervals (it asks no more questions)"
    )
    resume = f"run the same command without {early} {effect}" if early else "judge all samples"
    return f"{resume}; for fewer samples, use {option_name('sample')} or {option_name('budget')}"


def labels_of(run: RunRecord | str | Path, others: Sequence[LabelRow] = ()) -> RunLabels | None:
    """Return the labels of a run and its corrected means, or None without labels. If scores stopped the run, no mean
    is corrected.

    `others` are labels of other runs, for equal statements. Raises RunDirectoryError for an invalid
    row.
    """
    run = as_run(run)
    rows = tuple(stored_labels(run.directory))
    is_labelled = (rows or others) and run.so_far is None
    return run_labels(run, rows, tuple(others)) if is_labelled else None


def slice_means(
    run: RunRecord, value_of: Mapping[str, str | None], others: Sequence[LabelRow] = ()
) -> dict[str | None, dict[str, CorrectedMean]]:
    """Return the corrected means of each slice by metric, {} without labels. Looks are separate for each slice."""
    labels = labels_of(run, others)
    means: dict[str | None, dict[str, CorrectedMean]] = {value: {} for value in value_of.values()}
    if labels is None:
        return means
    matched = _matched(run, tuple(stored_labels(run.directory)), tuple(others))
    for name, frame in matched.frames.items():
        for value, part in frame.by_value(value_of).items():
            if part.by_key:
                mean = _corrected(part, matched, labels.seconds_a_label)
                of_whole = labels.corrected[name]
                if of_whole.unsettled:
                    counted = {"counts": mean.counts, "own_labels": mean.own_labels}
                    mean = of_whole.model_copy(update=counted)
                means[value][name] = mean
    return means


class _Matched(NamedTuple):
    """Statements of a run, the decisions on them, and their drawings by metric."""

    frames: dict[str, UnitFrame]
    decisions: Decisions
    drawings: dict[str, list[list[_Drawn]]]
    undrawn: int
    plans: tuple[Set[str], ...]
    own: Set[str]
    """Statements with a label in this run's own file."""
    is_stopped: bool
    """Whether scores decided how many samples were judged."""


@cached_by_run
def _matched(run: RunRecord, own: tuple[LabelRow, ...], others: tuple[LabelRow, ...]) -> _Matched:
    frames = unit_frames(run)
    keys = {key for frame in frames.values() for key in frame.by_key}
    decisions = Decisions(row for row in (*own, *others) if row.key in keys)
    plans = (planned_statements(own), planned_statements(others))
    drawings = decisions.drawings(frames)
    own_keys = {row.key for row in own} & decisions.human.keys()
    is_stopped = run.sampling.optional_stopping
    undrawn = _count_undrawn(own, frames)
    return _Matched(frames, decisions, drawings, undrawn, plans, own_keys, is_stopped)


def _count_undrawn(rows: Iterable[LabelRow], frames: Mapping[str, UnitFrame]) -> int:
    """Return how many labels were drawn from other statements than those of these frames."""
    counts = Counter((row.draw, row.frame or "") for row in rows if row.draw)
    undrawn = 0
    for (name, frame), count in counts.items():
        if name and not _is_drawn_from(frames, name, frame):
            undrawn += count
    return undrawn


@cached_by_run
def run_labels(
    run: RunRecord, own: tuple[LabelRow, ...], others: tuple[LabelRow, ...] = ()
) -> RunLabels | None:
    """Return the run's labels and corrected means from its own and other labels, or None if none match."""
    matched = _matched(run, own, others)
    frames = matched.frames
    decisions = matched.decisions
    if not decisions.human:
        return None
    seconds, beyond = pace(decisions.rows), run.summary.failed_beyond(run.max_failed)
    labelled = [row for row in decisions.rows if row.key in decisions.human]
    return RunLabels(
        statements=len(decisions.human),
        annotators=dict(sorted(decisions.annotators.items())),
        ones=decisions.count_ones(),
        first=labelled[0].when,
        last=labelled[-1].when,
        unsure=sum(bool(people) for people in decisions.of.values()) - len(decisions.human),
        passed_over=_passed_over(frames, decisions),
        undrawn=matched.undrawn,
        agreement=decisions.agreement(),
        seconds_a_label=seconds,
        corrected={
            name: _corrected(frame, matched, seconds, too_many_failed=name in beyond)
            for name, frame in frames.items()
            if frame.by_key
        },
    )


def _corrected(
    frame: UnitFrame, matched: _Matched, seconds: float, *, too_many_failed: bool = False
) -> CorrectedMean:
    decisions = matched.decisions
    corrected = CorrectedMean(
        statements=len(frame.by_key),
        counts=count_labels(frame, decisions.human),
        own_labels=len(frame.by_key.keys() & matched.own),
    )
    obstacle = _obstacle(frame, matched, too_many_failed=too_many_failed)
    if obstacle:
        return corrected.model_copy(update={"remark": obstacle})
    agreement = decisions.agreement(frame.by_key)
    if agreement and agreement.is_too_low:
        disputes = {"remark": agreement.request, "unsettled": agreement.unsettled}
        return corrected.model_copy(update=disputes)
    labels = decisions.by_annotator(frame.by_key.keys() & decisions.human.keys())
    people = {
        name: LabelledMetric(frame, by_one, matched.drawings[frame.metric], matched.plans)
        for name, by_one in labels.items()
    }
    units = {name: person.units() for name, person in people.items()}
    first = next(iter(units.values()))
    update: dict[str, Any] = {
        "labels": len(first.counted),
        "labelled": len(first.labelled),
        "next_look": first.look.next,
        "is_complete": first.is_complete,
        "is_planned": first.is_planned,
    }
    if first.is_complete:
        update |= _mean_of_labels(frame, units)
    elif first.counted:
        update |= _mean_by_labels(frame, units)
    elif corrected.counts:
        update |= {"remark": NOT_DRAWN}
    if first.counted:
        update |= {"pooled": _pooled_share(people)}
    if not update.get("ci95"):
        update |= _missing_labels(frame, first, seconds)
    return corrected.model_copy(update=update)


def _obstacle(frame: UnitFrame, matched: _Matched, *, too_many_failed: bool) -> str | None:
    """Return why no label can correct the mean, if so."""
    if too_many_failed:
        return TOO_MANY_FAILED
    if matched.is_stopped:
        return BY_SCORES
    return NO_SHARE if frame.share_of is None else None


def _missing_labels(frame: UnitFrame, units: LabelledUnits, seconds: float) -> dict[str, int]:
    """Return the number of labels that are missing for an interval, and their minutes."""
    if units.look.next is None:
        return {}
    total = len(frame.by_key) if cannot_correct(frame) else units.look.next
    more = total - len(units.labelled)
    return {"needed": more, "minutes": max(1, math.ceil(more * seconds / 60))}


def _pooled_share(people: Mapping[str, LabelledMetric]) -> LabelledMean:
    estimates = []
    for person in people.values():
        pooled = person._replace(frame=person.frame.pooled())
        units = pooled.units()
        if units.is_complete:
            estimates.append(_estimate_of_labels(pooled.frame, units))
        else:
            estimates.append(prediction_powered(units.units, units.look.confidence))
    share = covering(estimates)
    return LabelledMean(mean=share.mean, ci95=share.limits)


def _estimate_of_labels(frame: UnitFrame, units: LabelledUnits) -> PredictionPowered:
    assert units.look.confidence  # every statement has a label
    interval = interval_of_labels(frame, units.units, units.look.confidence)
    return PredictionPowered(interval.mean, interval.limits, 0.0, interval.clusters)


def _mean_of_labels(frame: UnitFrame, people: Mapping[str, LabelledUnits]) -> dict[str, Any]:
    means = {name: _estimate_of_labels(frame, units) for name, units in people.items()}
    mean = covering(list(means.values()))
    first = next(iter(people.values()))
    return {
        "mean": mean.mean,
        "ci95": mean.limits,
        "by_annotator": _by_annotator(means),
        "clusters": mean.clusters,
        "remark": ALL_LABELLED if mean.limits else ONE_GROUP,
        **_rates(first.units, "zeros" if frame.share_of == "zeros" else "ones"),
    }


def _by_annotator(means: Mapping[str, PredictionPowered]) -> dict[str, LabelledMean] | None:
    if len(means) == 1:
        return None
    return {name: LabelledMean(mean=mean.mean, ci95=mean.limits) for name, mean in means.items()}


def _mean_by_labels(frame: UnitFrame, people: Mapping[str, LabelledUnits]) -> dict[str, Any]:
    first = next(iter(people.values()))
    confidence = first.look.confidence
    means = {name: prediction_powered(side.units, confidence) for name, side in people.items()}
    alones = {name: labels_alone(side.units, confidence) for name, side in people.items()}
    corrected = covering(list(means.values()))
    alone = covering(list(alones.values()))
    saved = labels_saved(
        next(iter(means.values())), next(iter(alones.values())), len(first.counted)
    )
    remark = None
    if corrected.limits is None:
        remark = cannot_correct(frame) or _why_no_interval(first.look)
    elif not saved:
        remark = NO_SAVING
    return {
        "mean": corrected.mean,
        "ci95": corrected.limits,
        "worth_labels": saved,
        "labels_alone": LabelledMean(mean=alone.mean, ci95=alone.limits),
        "by_annotator": _by_annotator(means),
        "clusters": corrected.clusters,
        "power": corrected.ppi_lambda,
        "remark": remark,
        **_rates(first.units, "zeros" if frame.share_of == "zeros" else "ones"),
    }


def _why_no_interval(look: Look) -> str:
    if look.confidence is None:
        return "too few labels for an interval"
    return f"fewer than {MIN_CLUSTERS} samples (or groups of samples) have labels: no interval"


def cannot_correct(frame: UnitFrame) -> str | None:
    if frame.share_of is None:
        return NO_SHARE
    # A shared statement is labelled in one sample only.
    clusters = {frame.clusters[indices[0]] for indices in frame.by_key.values()}
    return TOO_SMALL if len(clusters) < MIN_CLUSTERS else None


def _rates(units: JudgedUnits, good: ShareOf) -> dict[str, Any]:
    rates: dict[str, Any] = {}
    kinds = {"ones": "sensitivity", "zeros": "specificity"}
    for kind, name in kinds.items():
        wanted = float(kind == good)  # units count as 1 if they are good
        of_kind = units.labelled & (units.human == wanted)
        right, weights = of_kind & (units.judged == wanted), units.drawn
        labels = int(of_kind.sum())
        rates[f"right_on_{kind}"] = int(right.sum()), labels
        if labels >= FEW:
            rates[name] = float(weights[right].sum()) / float(weights[of_kind].sum())
    return rates


def _passed_over(frames: Mapping[str, UnitFrame], decisions: Decisions) -> int:
    """Return how many statements were shown and have no label, although later ones of their drawing have.

    A drawing showed its statements up to the last one that was first labelled there: a second
    opinion (`again`) shows only statements that have a label.
    """
    first_drawing: dict[str, tuple[str | None, str | None]] = {}
    for row in decisions.rows:
        first_drawing.setdefault(row.key, (row.draw, row.frame))
    keys: set[str] = set()
    for (name, frame), statements in decisions.drawn.items():
        first_here = [key for key in statements if first_drawing[key] == (name, frame)]
        last = max(
            (statements[key].turn for key in first_here if key in decisions.human), default=0
        )
        drawing = draw_again(name, frames, last) if last else None
        if drawing and drawing.frame == frame:
            keys.update(drawn.key for drawn in drawing.statements if drawn.turn <= last)
    return len(keys - decisions.human.keys())


def _pair_agreement(
    annotators: tuple[str, str], shared: Iterable[Mapping[str, Label]]
) -> PairAgreement | None:
    pairs = [
        [labels[name] for name in annotators]
        for labels in shared
        if labels.keys() >= set(annotators)
    ]
    if not pairs:
        return None
    one, other = (np.array(side, dtype=np.float64) for side in zip(*pairs, strict=True))
    kappa, share = None, float((one == other).mean())
    with suppress(DataError):  # undefined if all labels are equal
        kappa = float(cohen_kappa(one, other))
    return PairAgreement(annotators=annotators, statements=len(pairs), share=share, kappa=kappa)


def pace(rows: Sequence[LabelRow]) -> float:
    """Return the median seconds between decisions of one annotator, without pauses."""
    times: dict[str, list[datetime]] = defaultdict(list)
    for row in rows:
        if row.way != "sheet":
            times[row.annotator].append(datetime.fromisoformat(row.when))
    pauses = [
        seconds
        for of_person in map(sorted, times.values())
        for before, after in pairwise(of_person)
        if _SHORTEST_PAUSE <= (seconds := (after - before).total_seconds()) < _LONGEST_PAUSE
    ]
    return median(pauses) if len(pauses) >= _FEWEST_PAUSES else SECONDS_A_LABEL
