"""Match labels of a run and of others with its statements, by the texts shown, and its drawings.

A label stores the name of its drawing and the frame, which is the hash of the statements that were
drawn from. Only a drawing from the statements of a run can correct its means.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from localjudge.labels.decisions import Decisions
from localjudge.labels.drawing import Drawing, DrawingName, draw_again, drawn_metrics
from localjudge.labels.units import UnitFrame, statement_keys, unit_frames
from localjudge.run_directory.label_rows import (
    DRAWING_KEYS,
    LabelRow,
    planned_statements,
    stored_labels,
)
from localjudge.run_directory.run_record import RunRecord, cached_by_run

_NameAndFrame = tuple[str, str]


@dataclass(frozen=True, eq=False)
class MatchedLabels:
    """The decisions on the statements of a run, or of two runs together, and their drawings.

    `rows` are the labels in the file of the directory. `planned` are the statements of first
    readings that were complete. `is_stopped`: scores decided how many samples were judged.
    """

    directory: Path
    rows: Sequence[LabelRow]
    frames: dict[str, UnitFrame]
    decisions: Decisions
    planned: tuple[Set[str], ...]
    is_stopped: bool

    @cached_property
    def drawings(self) -> dict[str, list[list[LabelRow]]]:
        """The labelled statements of each drawing, by metric."""
        return labelled_drawings(self.decisions, self.frames)

    @cached_property
    def own(self) -> dict[str, set[str]]:
        """The statements of the rows by the metrics that they were labelled for.

        Rows without a drawing, and of drawings for other metrics than these, are for each metric.
        """
        metrics_of_drawing: dict[str | None, Collection[str]] = {}
        own: dict[str, set[str]] = {metric: set() for metric in self.frames}
        for row in self.rows:
            if row.draw not in metrics_of_drawing:
                drawing = DrawingName.parse(row.draw or "")
                drawn_for = set(drawing.metrics if drawing else ())
                metrics = self.frames.keys() & drawn_for or self.frames.keys()
                metrics_of_drawing[row.draw] = metrics
            if row.key in self.decisions.human:
                for metric in metrics_of_drawing[row.draw]:
                    own[metric].add(row.key)
        return own

    @property
    def undrawn(self) -> int:
        """The number of the rows that were drawn from another set of statements."""
        drawings = Counter[_NameAndFrame]()
        for row in self.rows:
            if row.draw:
                drawings[row.draw, row.frame or ""] += 1
        undrawn = 0
        for (name, frame), count in drawings.items():
            if not drawn_metrics(name, frame, self.frames):
                undrawn += count
        return undrawn

    @cached_property
    def passed_over(self) -> set[str]:
        """The shown statements without a label, although later ones of their drawing have one.

        A drawing showed its statements up to the last one that was first labelled there: the second
        opinions of earlier versions showed only statements that had a label.
        """
        human = self.decisions.human
        first_drawing: dict[str, tuple[str | None, str | None]] = {}
        for row in self.decisions.rows:
            first_drawing.setdefault(row.key, (row.draw, row.frame))
        shown: set[str] = set()
        for (name, frame), statements in drawn_statements(self.decisions.rows).items():
            last = 0
            for key, statement in statements.items():
                if first_drawing[key] == (name, frame) and key in human:
                    last = max(last, statement.turn)
            if not last:
                continue
            drawing = draw_again(name, self.frames, last)
            if drawing is not None and drawing.frame == frame:
                shown.update(each.key for each in drawing.statements if each.turn <= last)
        return shown - human.keys()


@cached_by_run
def match_labels(
    run: RunRecord, own: tuple[LabelRow, ...], others: tuple[LabelRow, ...]
) -> MatchedLabels:
    """Return the run's own labels, and labels of other runs for its statements."""
    frames = unit_frames(run)
    statements = statement_keys(frames.values())
    decisions = Decisions(row for row in (*own, *others) if row.key in statements)
    planned = (planned_statements(own), planned_statements(others))
    is_stopped = run.sampling.optional_stopping
    return MatchedLabels(run.directory, own, frames, decisions, planned, is_stopped)


def match_labels_of_both(
    before: RunRecord, after: RunRecord
) -> tuple[MatchedLabels, MatchedLabels]:
    """Return the labels of both runs together, matched with the statements of each.

    Statements are read only if a run has labels.
    """
    rows_before = stored_labels(before.directory)
    rows_after = stored_labels(after.directory)
    decisions = Decisions([*rows_before, *rows_after])
    planned = (planned_statements(rows_before), planned_statements(rows_after))
    frames_before: dict[str, UnitFrame] = {}
    frames_after: dict[str, UnitFrame] = {}
    if decisions.rows:
        frames_before = unit_frames(before)
        frames_after = unit_frames(after)
    is_stopped = before.sampling.optional_stopping
    matched_before = MatchedLabels(
        before.directory, rows_before, frames_before, decisions, planned, is_stopped
    )
    is_stopped = after.sampling.optional_stopping
    matched_after = MatchedLabels(
        after.directory, rows_after, frames_after, decisions, planned, is_stopped
    )
    return matched_before, matched_after


def match_joint_labels(
    directory: Path, frames: dict[str, UnitFrame], *, is_stopped: bool
) -> MatchedLabels:
    """Return the labels in the directory of two runs, matched with the statements of both."""
    rows = stored_labels(directory)
    statements = statement_keys(frames.values())
    decisions = Decisions(row for row in rows if row.key in statements)
    planned = (planned_statements(rows),)
    return MatchedLabels(directory, rows, frames, decisions, planned, is_stopped)


def drawn_statements(rows: Iterable[LabelRow]) -> dict[_NameAndFrame, dict[str, LabelRow]]:
    """Return the last row of each statement of each drawing, by key."""
    drawn: dict[_NameAndFrame, dict[str, LabelRow]] = defaultdict(dict)
    for row in rows:
        if row.is_drawn:
            drawn[row.draw or "", row.frame or ""][row.key] = row
    return dict(drawn)


def labelled_drawings(
    decisions: Decisions, frames: Mapping[str, UnitFrame]
) -> dict[str, list[list[LabelRow]]]:
    """Return the labelled statements of each drawing of these frames.

    They are by metric and in drawing order. A metric uses only drawings that include it, because
    others could not reach all of its statements.
    """
    drawn = drawn_statements(decisions.rows)
    drawings: dict[str, list[list[LabelRow]]] = {metric: [] for metric in frames}
    drawing_of_answer: dict[tuple[str, str, str], _NameAndFrame] = {}
    for row in decisions.rows:
        if row.is_drawn:
            answer = (row.key, row.annotator, row.when)
            drawing_of_answer.setdefault(answer, (row.draw or "", row.frame or ""))
    begun = list(dict.fromkeys(drawing_of_answer.values()))
    for name, frame in begun:
        metrics = drawn_metrics(name, frame, frames)
        if not metrics:
            continue
        statements = drawn[name, frame].values()
        labelled = [statement for statement in statements if statement.key in decisions.human]
        labelled.sort(key=lambda statement: (statement.turn, statement.key))
        for metric in metrics:
            by_key = frames[metric].by_key
            drawings[metric].append([each for each in labelled if each.key in by_key])
    return drawings


def carry_over(drawing: Drawing, draw_index: int, decisions: Decisions) -> list[LabelRow]:
    """Return rows that carry existing labels over to this drawing, before a statement of it."""
    labels: dict[str, LabelRow] = {}
    for row in decisions.rows:
        is_label = row.human in (0, 1) and not row.adjudicated
        if is_label and decisions.current_answer(row) == row.human:
            labels[row.key] = row
    stored = drawn_statements(decisions.rows).get((drawing.name, drawing.frame), {})
    rows = []
    for statement in drawing.statements:
        is_earlier = statement.turn < draw_index
        if is_earlier and statement.key not in stored and statement.key in labels:
            label = labels[statement.key]
            of_drawing = {name: getattr(statement, name) for name in DRAWING_KEYS}
            rows.append(label.model_copy(update=of_drawing))
    return rows
