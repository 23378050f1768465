"""The decisions that count, the latest of each annotator on each statement, and their agreement.

    ann   1, later 0      ──> 0
    bob   1, later "?"    ──> None, undecidable
    cy    1, later null   ──> no answer

Labels of several annotators count with their mean, until somebody settles the dispute by an
adjudicated label. Where the annotators' labels are missing or withdrawn, an adjudicated label
counts as one.

The latest label counts by its time, unless a time cannot be right: a decision with `by_order` has
or replaces a time in the future, and counts from the place where it was read.

The times between decisions also tell how long a label takes.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from statistics import fmean, median

import numpy as np

from localjudge.errors import DataError
from localjudge.run_directory.label_rows import LOGIN_NAME, LabelRow
from localjudge.stats.agreement import cohen_kappa, krippendorff_alpha
from localjudge.text.names import fold
from localjudge.types import Label, Record
from localjudge.words import numbered, percent, printable, three_digits

Answers = dict[str, dict[str, Label | None]]
"""Answers by statement, then by annotator. None for undecidable."""
_CLOCKS_DIFFER_BY = timedelta(minutes=1)
SECONDS_A_LABEL = 18.0
"""Default until there are a few labels: 50 in a quarter of an hour."""
_MIN_PAUSE = 1.0
"""Seconds. A shorter or longer time between two labels is not the time for one statement."""
_MAX_PAUSE = 300.0
_MIN_PAUSES = 5
MIN_SHARED = 10
MIN_AGREEMENT = 0.70
"""Below this agreement, on that number of statements or more, no mean is corrected."""
_MAX_NAME = 40
_MAX_PAIRS = 5
"""Most pairs of annotators in a text: those with the most common statements."""


class PairAgreement(Record):
    """Share of equal labels of two annotators, and Cohen's kappa, if defined."""

    annotators: tuple[str, str]
    statements: int
    share: float
    kappa: float | None

    @property
    def line(self) -> str:
        names = " and ".join(map(shorten_name, self.annotators))
        statements = numbered(self.statements, "statement")
        line = f"{names}: {percent(self.share)} % agreement on {statements}"
        if self.kappa is None:
            return line
        return f"{line}, Cohen's kappa {three_digits(self.kappa)}"


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
        is_low = self.statements >= MIN_SHARED and self.share < MIN_AGREEMENT
        return is_low and self.unsettled > 0

    @property
    def lines(self) -> list[str]:
        statements = numbered(self.statements, "statement")
        summary = f"{statements} with several labels: {percent(self.share)} % agreement"
        if self.alpha is not None:
            summary += f", Krippendorff's alpha {three_digits(self.alpha)}"
        lines = [summary]
        lines += [pair.line for pair in self.pairs[:_MAX_PAIRS]]
        if len(self.pairs) > _MAX_PAIRS:
            others = numbered(len(self.pairs) - _MAX_PAIRS, "more pair")
            lines.append(f"and {others} of annotators")
        if self.settled:
            disputed = numbered(self.disputed, "disputed statement")
            lines.append(f"{self.settled:,} of {disputed} settled by adjudication")
        return lines

    @property
    def request(self) -> str:
        disputed = numbered(self.unsettled, "disputed statement")
        return (
            f"annotators agree on {percent(self.share)} % of {self.statements:,} statements with "
            f"several labels, less than {percent(MIN_AGREEMENT)} %: settle the {disputed} first: "
            "`localjudge label RUN --disputed`"
        )


class Decisions:
    """The latest decision of each annotator on each statement.

    For equal times the last row counts. The latest adjudicated label of a statement replaces the
    labels of its annotators, except in their agreement. Names that differ in case only are one
    annotator, in the spelling of the first row.

        rows           all decisions by time, with these spellings
        latest         the last one of each annotator or adjudicator on each statement, by role
        answers        the annotators' answers, by statement
        adjudications  the same for adjudicated labels, the latest last
        labels         by statement, then by annotator: answers without undecidable ones
        settled        adjudicator and adjudicated label, by statement
        human          mean label of each labelled statement, or the adjudicated one
        annotators     number of labels of each annotator, most first
    """

    def __init__(self, rows: Iterable[LabelRow]) -> None:
        in_file_order = list(rows)
        self._spellings: dict[str, str] = {}
        for row in in_file_order:
            self._spellings[_fold_name(row.annotator)] = self.spell(row.annotator)
        respelled = [self.respell(row) for row in in_file_order]
        self._last_moments: dict[tuple[str, str, bool], datetime] = {}
        moments: list[datetime] = []
        for row in respelled:
            moment = row.moment
            last = self._last_moments.get(row.role, moment)
            if row.by_order:  # it counts after the rows before it
                moment = max(moment, last)
            self._last_moments[row.role] = max(moment, last)
            moments.append(moment)
        order = sorted(range(len(respelled)), key=moments.__getitem__)
        self.rows = [respelled[number] for number in order]
        self.latest = {row.role: row for row in self.rows}
        self.answers = _latest_answers(row for row in self.rows if not row.adjudicated)
        self.adjudications = _latest_answers(row for row in self.rows if row.adjudicated)
        self._settle()

    def spell(self, annotator: str) -> str:
        """Return the name of an annotator as their first row spells it, without a login name.

        The user of a machine is one annotator, with and without a name that equals the login name.
        """
        spelling = self._spellings.get(_fold_name(annotator), annotator)
        if spelling.endswith(LOGIN_NAME):
            return annotator
        return spelling

    def in_order(self, rows: Iterable[LabelRow], read_at: datetime) -> list[LabelRow]:
        """Return new rows, marked `by_order` if they have or replace a time after `read_at`."""
        latest = read_at + _CLOCKS_DIFFER_BY
        marked = []
        for row in rows:
            respelled = self.respell(row)
            replaced = self._last_moments.get(respelled.role, row.moment)
            by_order = max(row.moment, replaced) > latest
            marked.append(row.model_copy(update={"by_order": by_order}))
        return marked

    def _settle(self) -> None:
        """Find the labels of each statement; without any, its latest adjudicated label."""
        self.labels = {key: _drop_undecided(answers) for key, answers in self.answers.items()}
        self.settled: dict[str, tuple[str, Label]] = {}
        for key, answers in self.adjudications.items():
            adjudicated = list(_drop_undecided(answers).items())
            if adjudicated and not self.labels.get(key):
                self.labels[key] = dict(adjudicated[-1:])
            if adjudicated:
                self.settled[key] = adjudicated[-1]
        self.human: dict[str, float] = {}
        counts: Counter[str] = Counter()
        for key, labels in self.labels.items():
            counts.update(labels.keys())
            if labels:
                self.human[key] = sum(labels.values()) / len(labels)
        for key, (_, label) in self.settled.items():
            self.human[key] = float(label)
        self.annotators = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def respell(self, row: LabelRow) -> LabelRow:
        """Return a row with the name of its annotator as their first row spells it."""
        spelling = self.spell(row.annotator)
        if row.annotator == spelling:
            return row
        return row.model_copy(update={"annotator": spelling})

    def count_annotators(self, keys: Iterable[str]) -> int:
        """Return how many annotators have labelled one of these statements."""
        names: set[str] = set()
        for key in keys:
            names.update(self.labels.get(key, ()))
        return len(names)

    def count_ones(self) -> dict[str, int]:
        """Return the number of labels of 1 of each annotator."""
        ones = dict.fromkeys(sorted(self.annotators), 0)
        for labels in self.labels.values():
            for name, label in labels.items():
                ones[name] += label
        return ones

    @property
    def undecidable(self) -> set[str]:
        """Statements with answers, none of which is a label."""
        answered = {key for key, answers in self.answers.items() if answers}
        return answered - self.human.keys()

    def current_answer(self, row: LabelRow) -> Label | None:
        """Return the answer that counts in place of a row: by its annotator, in the same role."""
        latest = self.latest.get(row.role)
        if latest is None or latest.human == "?":
            return None
        return latest.human

    @property
    def disputed(self) -> list[str]:
        """Statements with different labels, settled or not."""
        return [key for key, labels in self.labels.items() if is_disputed(labels)]

    def agreement(self, keys: Collection[str] | None = None) -> Agreement | None:
        """Return the agreement on these or all statements, or None without two labels of one."""
        if keys is None:
            keys = self.labels.keys()
        labels = []
        settled = 0
        for key, labels_of_statement in self.labels.items():
            if key in keys:
                labels.append(labels_of_statement)
                settled += key in self.settled and is_disputed(labels_of_statement)
        return compute_agreement(labels, self.annotators, settled=settled)

    def by_annotator(self, keys: Collection[str]) -> dict[str, dict[str, float]]:
        """Return the labels of these statements by annotator.

        Missing ones are from the annotator with the most. One entry if no statement is disputed. An
        adjudicated label replaces the annotators' labels.
        """
        labels_by_key: dict[str, dict[str, Label]] = {}
        for key in keys:
            labels_by_key[key] = self.labels[key]
            if key in self.settled:
                _, adjudicated = self.settled[key]
                labels_by_key[key] = dict.fromkeys(self.labels[key], adjudicated)
        disputing: set[str] = set()
        for labels in labels_by_key.values():
            if is_disputed(labels):
                disputing |= labels.keys()
        names = [name for name in self.annotators if name in disputing] or [""]
        by_name: dict[str, dict[str, float]] = {}
        for name in names:
            by_name[name] = {}
            for key, labels in labels_by_key.items():
                annotator = next(each for each in (name, *self.annotators) if each in labels)
                by_name[name][key] = float(labels[annotator])
        return by_name


def _latest_answers(rows: Iterable[LabelRow]) -> Answers:
    """Return the last answer of each annotator, in the order of time."""
    answers: Answers = {}
    for row in rows:
        answers_of_statement = answers.setdefault(row.key, {})
        answers_of_statement.pop(row.annotator, None)  # a later answer comes last
        if row.human == "?":
            answers_of_statement[row.annotator] = None
        elif row.human is not None:
            answers_of_statement[row.annotator] = row.human
    return answers


def _fold_name(annotator: str) -> str:
    return fold(annotator.removesuffix(LOGIN_NAME))


def _drop_undecided(answers: Mapping[str, Label | None]) -> dict[str, Label]:
    return {name: label for name, label in answers.items() if label is not None}


def seconds_a_label(rows: Iterable[LabelRow]) -> float:
    """Return the median seconds between decisions of one annotator, without pauses."""
    moments: dict[str, list[datetime]] = defaultdict(list)
    for row in rows:
        if row.way != "sheet":
            moments[row.annotator].append(row.moment)
    pauses = []
    for moments_of_annotator in moments.values():
        for earlier, later in pairwise(sorted(moments_of_annotator)):
            seconds = (later - earlier).total_seconds()
            if _MIN_PAUSE <= seconds < _MAX_PAUSE:
                pauses.append(seconds)
    if len(pauses) < _MIN_PAUSES:
        return SECONDS_A_LABEL
    return median(pauses)


def labelling_minutes(labels: int, seconds: float = SECONDS_A_LABEL) -> int:
    """Return the minutes that so many labels take, at least 1."""
    return max(1, math.ceil(labels * seconds / 60))


def shorten_name(annotator: str) -> str:
    """Return an annotator's name for a text: escaped, and with at most 40 characters."""
    if len(annotator) > _MAX_NAME:
        annotator = f"{annotator[: _MAX_NAME - 3]}..."
    return printable(annotator)


def compute_agreement(
    labels: Sequence[Mapping[str, Label]], annotators: Collection[str], *, settled: int
) -> Agreement | None:
    """Return the agreement of the labels of statements, by annotator, or None without two of one.

    `settled` is the number of disputes that were settled by an adjudicated label.
    """
    shared = [by_annotator for by_annotator in labels if len(by_annotator) > 1]
    if not shared:
        return None
    ratings = [list(by_annotator.values()) for by_annotator in shared]
    alpha = None
    with suppress(DataError):  # undefined if all labels are equal
        alpha = krippendorff_alpha(ratings)
    pairs = []
    for names in combinations(sorted(annotators), 2):
        pair = _compare_pair(names, shared)
        if pair is not None:
            pairs.append(pair)
    pairs.sort(key=lambda pair: -pair.statements)
    shares_of_equal_pairs = []
    for labels_of_statement in ratings:
        count = len(labels_of_statement)
        ones = sum(labels_of_statement)
        shares_of_equal_pairs.append(1 - 2 * ones * (count - ones) / (count * (count - 1)))
    return Agreement(
        statements=len(shared),
        share=fmean(shares_of_equal_pairs),
        alpha=alpha,
        disputed=sum(map(is_disputed, shared)),
        settled=settled,
        pairs=tuple(pairs),
    )


def is_disputed(labels: Mapping[str, Label]) -> bool:
    """Return whether annotators gave a statement different labels."""
    return len(set(labels.values())) > 1


def _compare_pair(
    annotators: tuple[str, str], shared: Sequence[Mapping[str, Label]]
) -> PairAgreement | None:
    first, second = annotators
    pairs = []
    for labels in shared:
        if first in labels and second in labels:
            pairs.append((labels[first], labels[second]))
    if not pairs:
        return None
    first_labels, second_labels = np.array(pairs, dtype=np.float64).T
    kappa = None
    with suppress(DataError):  # undefined if all labels are equal
        kappa = float(cohen_kappa(first_labels, second_labels))
    return PairAgreement(
        annotators=annotators,
        statements=len(pairs),
        share=float((first_labels == second_labels).mean()),
        kappa=kappa,
    )
