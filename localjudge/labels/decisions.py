"""The decisions that count: the latest of each annotator on each statement, and their drawings."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median

from localjudge.labels.annotator_agreement import Agreement, compute_agreement, is_disputed
from localjudge.labels.drawing import DrawnStatement, draw_again, hash_frames, parse_metrics
from localjudge.labels.units import UnitFrame, UnitPlace
from localjudge.run_directory.label_rows import LabelRow
from localjudge.text.folding import fold
from localjudge.types import Label

SECONDS_A_LABEL = 18.0
"""Default until there are a few labels: 50 in a quarter of an hour."""
_MIN_PAUSE = 1.0
"""Seconds. A shorter or longer time between two labels is not the time for one statement."""
_MAX_PAUSE = 300.0
_MIN_PAUSES = 5


class Decisions:
    """The latest decision of each annotator on each statement, and its drawing.

    For equal times the last row counts. The latest adjudicated label of a statement replaces the
    labels of its annotators, except in their agreement. Names that differ in case only are one
    annotator, in the spelling of the first row.
    """

    def __init__(self, rows: Iterable[LabelRow]) -> None:
        in_file_order = list(rows)
        self._spellings: dict[str, str] = {}
        for row in in_file_order:
            self._spellings.setdefault(fold(row.annotator), row.annotator)
        respelled = map(self._respell, in_file_order)
        self.rows = sorted(respelled, key=lambda row: row.moment)
        self.answers: dict[str, dict[str, Label | None]] = defaultdict(dict)
        """By statement, then by annotator. None for undecidable."""
        self.adjudications: dict[str, dict[str, Label | None]] = defaultdict(dict)
        """The same for adjudicated labels, the latest last."""
        self.drawn: dict[tuple[str, str], dict[str, DrawnStatement]] = defaultdict(dict)
        """By name and frame of the drawing, then by statement."""
        self._begun: list[tuple[str, str]] = []
        """Drawings in the order of their first label that was not carried over."""
        for row in self.rows:
            self._add_answer(row)
        self._add_drawings()
        self.labels = {key: _drop_undecided(answers) for key, answers in self.answers.items()}
        """By statement, then by annotator, without undecided and adjudicated ones."""
        self.settled = self._find_settled()
        """Adjudicator and adjudicated label of each labelled statement that has one."""
        self.human = self._average_labels()
        """Mean label of each labelled statement, or the adjudicated one."""
        self.annotators = self._count_labels()
        """Number of labels of each annotator, most first."""

    def _add_answer(self, row: LabelRow) -> None:
        """Replace the earlier answer of the annotator. An empty row withdraws it."""
        answers = self.select_role(row)[row.key]
        answers.pop(row.annotator, None)
        if row.human == "?":
            answers[row.annotator] = None
        elif row.human is not None:
            answers[row.annotator] = row.human

    def _add_drawings(self) -> None:
        """Note the drawings of the labels. A later row with the same time was carried over."""
        drawing_of_answer: dict[tuple[str, str, str], tuple[str, str]] = {}
        for row in self.rows:
            if row.draw and row.frame and row.size_share and row.draw_index:
                drawing = (row.draw, row.frame)
                place = UnitPlace(row.sample_id, row.metric, row.position)
                self.drawn[drawing][row.key] = DrawnStatement(
                    row.key, place, row.size_share, row.draw_index
                )
                answer = (row.key, row.annotator, row.when)
                drawing_of_answer.setdefault(answer, drawing)
        self._begun = list(dict.fromkeys(drawing_of_answer.values()))

    def _find_settled(self) -> dict[str, tuple[str, Label]]:
        settled: dict[str, tuple[str, Label]] = {}
        for key, people in self.adjudications.items():
            labels = list(_drop_undecided(people).items())
            if labels and self.labels.get(key):
                settled[key] = labels[-1]
        return settled

    def _average_labels(self) -> dict[str, float]:
        human: dict[str, float] = {}
        for key, people in self.labels.items():
            if people:
                human[key] = sum(people.values()) / len(people)
        for key, (_, label) in self.settled.items():
            human[key] = float(label)
        return human

    def _count_labels(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for labels in self.labels.values():
            counts.update(labels.keys())
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

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
        return [key for key, labels in self.labels.items() if is_disputed(labels)]

    def spell(self, annotator: str) -> str:
        """Return the name of an annotator as their first row spells it."""
        return self._spellings.get(fold(annotator), annotator)

    def _respell(self, row: LabelRow) -> LabelRow:
        spelling = self.spell(row.annotator)
        if row.annotator == spelling:
            return row
        return row.model_copy(update={"annotator": spelling})

    def select_role(self, row: LabelRow) -> dict[str, dict[str, Label | None]]:
        """Return the decisions of annotators, or the adjudications if the row is one."""
        if row.adjudicated:
            return self.adjudications
        return self.answers

    def by_annotator(self, keys: Collection[str]) -> dict[str, dict[str, float]]:
        """Return the labels of these statements by annotator.

        Missing ones are from the annotator with the most. One entry if no statement is disputed. An
        adjudicated label replaces the annotators' labels.
        """
        by_name: dict[str, dict[str, float]] = {}
        labels_by_key = {key: self._labels_by_annotator(key) for key in keys}
        for name in self._list_disputing(labels_by_key.values()):
            by_name[name] = {}
            for key, labels in labels_by_key.items():
                label = labels.get(name)
                if label is None:
                    label = self._label_of_most_active(labels)
                by_name[name][key] = float(label)
        return by_name

    def _list_disputing(self, statements: Iterable[Mapping[str, Label]]) -> list[str]:
        """Return the annotators of disputed statements, or one without a name if none is."""
        disputing: set[str] = set()
        for labels in statements:
            if is_disputed(labels):
                disputing |= labels.keys()
        if not disputing:
            return [""]
        return [name for name in self.annotators if name in disputing]

    def _label_of_most_active(self, labels: Mapping[str, Label]) -> Label:
        """Return the label by the annotator with the most labels in all."""
        return next(labels[name] for name in self.annotators if name in labels)

    def _labels_by_annotator(self, key: str) -> dict[str, Label]:
        labels = self.labels[key]
        if key not in self.settled:
            return labels
        _, adjudicated = self.settled[key]
        return dict.fromkeys(labels, adjudicated)

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

    def drawings(self, frames: Mapping[str, UnitFrame]) -> dict[str, list[list[DrawnStatement]]]:
        """Return the labelled statements of each drawing of these frames.

        They are by metric and in drawing order. A metric uses only drawings that include it,
        because others could not reach all of its statements.
        """
        drawings: dict[str, list[list[DrawnStatement]]] = defaultdict(list)
        for name, frame in self._begun:
            if not _is_drawn_from(frames, name, frame):
                continue
            statements = self.drawn[name, frame].values()
            labelled = [drawn for drawn in statements if drawn.key in self.human]
            labelled.sort(key=lambda drawn: (drawn.draw_index, drawn.key))
            for metric in parse_metrics(name):
                by_key = frames[metric].by_key
                drawings[metric].append([drawn for drawn in labelled if drawn.key in by_key])
        return drawings


def _drop_undecided(people: Mapping[str, Label | None]) -> dict[str, Label]:
    return {name: label for name, label in people.items() if label is not None}


def _is_drawn_from(frames: Mapping[str, UnitFrame], name: str, frame: str) -> bool:
    """Return whether the named drawing was made from the statements of these frames."""
    metrics = parse_metrics(name)
    if not metrics or not frames.keys() >= set(metrics):
        return False
    return frame == hash_frames(frames[metric] for metric in metrics)


def count_undrawn(rows: Iterable[LabelRow], frames: Mapping[str, UnitFrame]) -> int:
    """Return how many labels were drawn from another set of statements than these frames."""
    drawings = Counter[tuple[str, str]]()
    for row in rows:
        if row.draw:
            drawings[row.draw, row.frame or ""] += 1
    undrawn = 0
    for (name, frame), count in drawings.items():
        if not _is_drawn_from(frames, name, frame):
            undrawn += count
    return undrawn


def count_passed_over(frames: Mapping[str, UnitFrame], decisions: Decisions) -> int:
    """Return how many shown statements have no label, although later ones of their drawing have.

    A drawing showed its statements up to the last one that was first labelled there: a second
    opinion (`again`) shows only statements that have a label.
    """
    first_drawing: dict[str, tuple[str | None, str | None]] = {}
    for row in decisions.rows:
        first_drawing.setdefault(row.key, (row.draw, row.frame))
    shown: set[str] = set()
    for (name, frame), statements in decisions.drawn.items():
        last = 0
        for key, drawn in statements.items():
            if first_drawing[key] == (name, frame) and key in decisions.human:
                last = max(last, drawn.draw_index)
        if last:
            shown |= _list_shown(name, frame, frames, last)
    return len(shown - decisions.human.keys())


def _list_shown(name: str, frame: str, frames: Mapping[str, UnitFrame], last: int) -> set[str]:
    """Return the statements of a drawing up to a number, if these frames reproduce it."""
    drawing = draw_again(name, frames, last)
    if drawing is None or drawing.frame != frame:
        return set()
    return {drawn.key for drawn in drawing.statements if drawn.draw_index <= last}


def pace(rows: Sequence[LabelRow]) -> float:
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
