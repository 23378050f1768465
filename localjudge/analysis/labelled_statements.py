"""The labelled statements of a run, with each annotator's answer and the label that counts."""

from collections.abc import Collection, Mapping
from functools import lru_cache

from localjudge.analysis.labels import Decisions
from localjudge.analysis.units import UnitPlace, unit_frames
from localjudge.record.label_rows import LabelRow, stored_labels
from localjudge.record.run import Run
from localjudge.types import Label, Record


class LabelledStatement(Record):
    """A labelled statement, at its first place in the run.

    `answers` are the annotators' labels, None for "cannot tell". `human` is the label that counts: the one of all
    annotators, or that of the adjudicator, or None while annotators differ.
    """

    sample_id: str
    metric: str
    position: int
    text: str
    answers: dict[str, Label | None]
    human: Label | None
    adjudicator: str | None = None

    @property
    def is_disputed(self) -> bool:
        return len(set(self.answers.values()) - {None}) > 1

    @property
    def answers_line(self) -> str:
        """All answers, such as `ann 1, bob 0`."""
        return ", ".join(f"{name} {'?' if label is None else label}" for name, label in self.answers.items())

    @property
    def settled_line(self) -> str:
        return "no" if self.adjudicator is None else f"{self.human} by {self.adjudicator}"

    @property
    def annotators(self) -> str:
        """Names of those who gave a label, such as `ann, bob`."""
        names = [name for name, label in self.answers.items() if label is not None]
        return ", ".join(dict.fromkeys([*names, *filter(None, [self.adjudicator])]))


def labelled_statements(run: Run) -> Mapping[UnitPlace, LabelledStatement]:
    """Return the labelled statement of each verdict that has one. Raises RunDirectoryError for an invalid label."""
    rows = stored_labels(run.directory) if run.so_far is None else []
    return _statements(run, tuple(rows)) if rows else {}


@lru_cache(maxsize=8)
def _statements(run: Run, rows: tuple[LabelRow, ...]) -> Mapping[UnitPlace, LabelledStatement]:
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


def disputed_statements(run: Run, metrics: Collection[str]) -> list[LabelledStatement]:
    """Return the statements of these metrics with different labels, in the order of the run, settled or not."""
    labelled = labelled_statements(run).items()
    of_metrics = (statement for place, statement in labelled if place.metric in metrics and statement.is_disputed)
    return list({id(statement): statement for statement in of_metrics}.values())
