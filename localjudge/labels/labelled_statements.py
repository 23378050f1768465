"""The labelled statements of a run, with each annotator's answer and the label that counts."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from localjudge.labels.run_labels import Decisions
from localjudge.labels.units import UnitPlace, unit_frames
from localjudge.run_directory.label_rows import LabelRow, stored_labels
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
        return ", ".join(
            f"{name} {'?' if label is None else label}" for name, label in self.answers.items()
        )

    @property
    def label_line(self) -> str:
        """The label that counts, such as `1 by ann, bob`, or `no` while annotators differ."""
        return (
            "no" if self.human is None else f"{self.human} by {self.adjudicator or self.annotators}"
        )

    @property
    def annotators(self) -> str:
        """Names of the annotators with a label, and the adjudicator."""
        names = [name for name, label in self.answers.items() if label is not None]
        return ", ".join(dict.fromkeys([*names, *filter(None, [self.adjudicator])]))


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
        return f"{'' if self.certainty is None else 'differs from '}human label {self.statement.label_line}"

    @property
    def values(self) -> dict[str, Any]:
        """The verdict with the columns `human` and `annotators`, None without a label."""
        human, annotators = (
            (self.statement.human, self.statement.annotators) if self.statement else (None, None)
        )
        return {**vars(self.row), "human": human, "annotators": annotators}


def with_labels(
    run: RunRecord,
    rows: Iterable[VerdictRow],
    labelled: Mapping[UnitPlace, LabelledStatement] | None = None,
) -> Iterator[LabelledVerdict]:
    """Yield these verdicts of a run with their labels, by default from its directory."""
    labelled = labelled_statements(run) if labelled is None else labelled
    for row in rows:
        statement, certainty = (
            labelled.get(UnitPlace(row.sample_id, row.metric, row.position or 0)),
            None,
        )
        human = statement.human if statement else None
        if row.p_yes is not None and human is not None and row.label not in (None, human):
            certainty = abs(row.p_yes - run.summary.threshold_of(row.metric))
        yield LabelledVerdict(row, statement, certainty)


def disagreements(run: RunRecord, metrics: Collection[str]) -> list[LabelledVerdict]:
    """Return the verdicts of these metrics that differ from their human label, the most certain first."""
    rows = (row for row in run.iter_verdicts() if row.metric in metrics)
    differing = (verdict for verdict in with_labels(run, rows) if verdict.certainty is not None)
    return sorted(differing, key=lambda verdict: -(verdict.certainty or 0))


def labelled_statements(run: RunRecord) -> Mapping[UnitPlace, LabelledStatement]:
    """Return the labelled statements by the place of their verdicts. Raises RunDirectoryError for an invalid label."""
    rows = stored_labels(run.directory) if run.so_far is None else []
    return _statements(run, tuple(rows)) if rows else {}


@cached_by_run
def _statements(
    run: RunRecord, rows: tuple[LabelRow, ...]
) -> Mapping[UnitPlace, LabelledStatement]:
    decisions, texts = Decisions(rows), {row.key: row.text for row in rows}
    by_key, by_place = dict[str, LabelledStatement](), dict[UnitPlace, LabelledStatement]()
    for frame in unit_frames(run).values():
        for key, indices in frame.by_key.items():
            if key in decisions.human:
                adjudicator, label = decisions.settled.get(key, (None, decisions.human[key]))
                statement = LabelledStatement(
                    **frame.places[indices[0]]._asdict(),
                    text=texts[key],
                    answers=decisions.of[key],
                    human=None if 0 < label < 1 else 1 if label else 0,
                    adjudicator=adjudicator,
                )
                statement = by_key.setdefault(key, statement)
                by_place |= {frame.places[index]: statement for index in indices}
    return by_place


def disputed_statements(run: RunRecord, metrics: Collection[str]) -> list[LabelledStatement]:
    """Return the statements of these metrics with different labels, in the order of the run, settled or not."""
    labelled = labelled_statements(run).items()
    of_metrics = {
        id(statement): statement for place, statement in labelled if place.metric in metrics
    }
    return [
        statement
        for statement in of_metrics.values()
        if len({*statement.answers.values()} - {None}) > 1
    ]
