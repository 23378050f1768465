"""The labelled statements of a run, with each annotator's answer and the label that counts."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from localjudge.labels.decisions import Decisions
from localjudge.labels.units import UnitPlace, unit_frames
from localjudge.run_directory.label_file import stored_labels
from localjudge.run_directory.label_rows import LabelRow
from localjudge.run_directory.result_rows import VerdictRow
from localjudge.run_directory.run_cache import cached_by_run
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import Label, Record


class LabelledStatement(Record):
    """A labelled statement, at its first place in the run.

    `answers` are the annotators' labels, None for "cannot tell". `human` is the label that counts:
    the adjudicator's, else the label that all annotators gave, or None while they differ.
    """

    sample_id: str
    metric: str
    position: int
    text: str
    answers: dict[str, Label | None]
    human: Label | None
    adjudicator: str | None = None

    @property
    def answers_line(self) -> str:
        """All answers, such as `ann 1, bob 0`."""
        answers = []
        for name, label in self.answers.items():
            if label is None:
                answers.append(f"{name} ?")
            else:
                answers.append(f"{name} {label}")
        return ", ".join(answers)

    @property
    def label_line(self) -> str:
        """The label that counts, such as `1 by ann, bob`, or `no` while annotators differ."""
        if self.human is None:
            return "no"
        return f"{self.human} by {self.adjudicator or self.annotators}"

    @property
    def annotators(self) -> str:
        """Names of the annotators with a label, and the adjudicator."""
        names = [name for name, label in self.answers.items() if label is not None]
        if self.adjudicator and self.adjudicator not in names:
            names.append(self.adjudicator)
        return ", ".join(names)

    @property
    def is_disputed(self) -> bool:
        """Whether two annotators gave different labels, settled by now or not."""
        labels = {label for label in self.answers.values() if label is not None}
        return len(labels) > 1


class LabelledVerdict(NamedTuple):
    """A verdict with its labelled statement, if it has one.

    `certainty` is the distance of its probability from the threshold, if it differs from the human
    label.
    """

    row: VerdictRow
    statement: LabelledStatement | None
    certainty: float | None

    @property
    def remark(self) -> str | None:
        """The human label, such as `differs from human label 0 by ann, bob`."""
        if self.statement is None:
            return None
        if self.statement.human is None:
            return f"annotators differ: {self.statement.answers_line}"
        label = f"human label {self.statement.label_line}"
        if self.certainty is None:
            return label
        return f"differs from {label}"

    @property
    def values(self) -> dict[str, Any]:
        """The verdict with the columns `human` and `annotators`, None without a label."""
        values = {**vars(self.row), "human": None, "annotators": None}
        del values["evidence"]
        if self.statement:
            values["human"] = self.statement.human
            values["annotators"] = self.statement.annotators
        return values


def with_labels(
    run: RunRecord,
    rows: Iterable[VerdictRow],
    labelled: Mapping[UnitPlace, LabelledStatement] | None = None,
) -> Iterator[LabelledVerdict]:
    """Yield these verdicts of a run with their labels, by default from its directory."""
    if labelled is None:
        labelled = labelled_statements(run)
    for row in rows:
        statement = labelled.get(UnitPlace(row.sample_id, row.metric, row.position or 0))
        certainty = None
        if statement and _is_wrong(row, statement) and row.p_yes is not None:
            certainty = abs(row.p_yes - run.summary.threshold_of(row.metric))
        yield LabelledVerdict(row, statement, certainty)


def _is_wrong(row: VerdictRow, statement: LabelledStatement) -> bool:
    """Return whether a verdict differs from the human label."""
    if statement.human is None or row.label is None:
        return False
    return row.label != statement.human


def disagreements(run: RunRecord, metrics: Collection[str]) -> list[LabelledVerdict]:
    """Return the verdicts of these metrics that differ from their human label, the surest first."""
    differing = []
    for verdict in with_labels(run, run.iter_verdicts()):
        if verdict.row.metric in metrics and verdict.certainty is not None:
            differing.append(verdict)
    return sorted(differing, key=lambda verdict: -(verdict.certainty or 0))


def labelled_statements(run: RunRecord) -> Mapping[UnitPlace, LabelledStatement]:
    """Return the labelled statements by the place of their verdicts. An unfinished run has none.

    Raises RunDirectoryError for an invalid label.
    """
    if run.so_far is not None:
        return {}
    rows = stored_labels(run.directory)
    if not rows:
        return {}
    return _statements(run, tuple(rows))


@cached_by_run
def _statements(
    run: RunRecord, rows: tuple[LabelRow, ...]
) -> Mapping[UnitPlace, LabelledStatement]:
    decisions = Decisions(rows)
    texts = {row.key: row.text for row in rows}
    by_key: dict[str, LabelledStatement] = {}
    by_place: dict[UnitPlace, LabelledStatement] = {}
    for frame in unit_frames(run).values():
        for key, indices in frame.by_key.items():
            if key not in decisions.human:
                continue
            if key not in by_key:
                by_key[key] = _statement(key, texts[key], frame.places[indices[0]], decisions)
            for index in indices:
                by_place[frame.places[index]] = by_key[key]
    return by_place


def _statement(key: str, text: str, place: UnitPlace, decisions: Decisions) -> LabelledStatement:
    adjudicator, label = decisions.settled.get(key, (None, decisions.human[key]))
    human: Label | None = None  # while annotators differ, the label is between 0 and 1
    if label == 0:
        human = 0
    elif label == 1:
        human = 1
    return LabelledStatement(
        **place._asdict(),
        text=text,
        answers=decisions.answers[key],
        human=human,
        adjudicator=adjudicator,
    )


def disputed_statements(run: RunRecord, metrics: Collection[str]) -> list[LabelledStatement]:
    """Return the statements of these metrics with different labels, in the order of the run."""
    disputed: dict[int, LabelledStatement] = {}
    for place, statement in labelled_statements(run).items():
        if place.metric in metrics and statement.is_disputed:
            disputed[id(statement)] = statement  # the same statement has several places
    return list(disputed.values())
