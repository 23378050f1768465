"""Match labels of a run, of others and of a sheet with statements, by the text of each.

A label stores the name of its drawing and the frame, which is the hash of the statements that were
drawn from. Only a drawing from the statements of a run can correct its means.

    row of a sheet        label_id ──> statement ──> its first verdict in the run
                          draw     ──> drawing, drawn again ──> number and share of the statement

A label keeps its statement even if the text in the sheet was edited, but not if it is the text of
another statement.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.errors import DataError
from localjudge.labels.decisions import Decisions
from localjudge.labels.drawing import Drawing, DrawingName, draw_again, drawn_metrics
from localjudge.labels.label_sheet import SheetLabel
from localjudge.labels.label_source import LabelSource
from localjudge.labels.units import (
    UnitFrame,
    first_verdicts,
    statement_keys,
    unit_frames,
)
from localjudge.run_directory.directory import now
from localjudge.run_directory.label_rows import (
    DRAWING_KEYS,
    Decision,
    DrawnStatement,
    LabelRow,
    planned_statements,
    stored_labels,
)
from localjudge.run_directory.run_record import RunRecord, cached_by_run
from localjudge.words import escape_formula, numbered

_NameAndFrame = tuple[str, str]
_SHOWN = 3


class MatchedLabels(NamedTuple):
    """Statements of the run in a directory, the decisions on them, and their drawings by metric.

    `undrawn` is the number of the run's own labels that were drawn from other statements. `planned`
    are the statements of first readings that were complete. `passed_over` statements have no label,
    but later ones of their drawing do.
    """

    directory: Path
    frames: dict[str, UnitFrame]
    decisions: Decisions
    drawings: dict[str, list[list[LabelRow]]]
    undrawn: int
    passed_over: Set[str]
    planned: tuple[Set[str], ...]
    own: Mapping[str, Set[str]]
    """Statements with a label in this run's own file, by the metrics they were labelled for."""
    is_stopped: bool
    """Whether scores decided how many samples were judged."""


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
    return _match(run.directory, own, frames, decisions, planned, is_stopped=is_stopped)


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
    matched = []
    for run, rows, frames in (
        (before, rows_before, frames_before),
        (after, rows_after, frames_after),
    ):
        is_stopped = run.sampling.optional_stopping
        matched.append(
            _match(run.directory, rows, frames, decisions, planned, is_stopped=is_stopped)
        )
    return matched[0], matched[1]


def match_joint_labels(
    directory: Path, frames: dict[str, UnitFrame], *, is_stopped: bool
) -> MatchedLabels:
    """Return the labels in the directory of two runs, matched with the statements of both."""
    rows = stored_labels(directory)
    statements = statement_keys(frames.values())
    decisions = Decisions(row for row in rows if row.key in statements)
    planned = (planned_statements(rows),)
    return _match(directory, rows, frames, decisions, planned, is_stopped=is_stopped)


def _match(
    directory: Path,
    own: Sequence[LabelRow],
    frames: dict[str, UnitFrame],
    decisions: Decisions,
    planned: tuple[Set[str], ...],
    *,
    is_stopped: bool,
) -> MatchedLabels:
    return MatchedLabels(
        directory=directory,
        frames=frames,
        decisions=decisions,
        drawings=labelled_drawings(decisions, frames),
        undrawn=count_undrawn(own, frames),
        passed_over=list_passed_over(frames, decisions),
        planned=planned,
        own=_own_statements(own, decisions, frames),
        is_stopped=is_stopped,
    )


def _own_statements(
    rows: Iterable[LabelRow], decisions: Decisions, frames: Mapping[str, UnitFrame]
) -> dict[str, set[str]]:
    """Return the statements of these rows by the metrics that they were labelled for.

    Rows without a drawing, and of drawings for other metrics than these, are for each metric.
    """
    metrics_of_drawing: dict[str | None, Collection[str]] = {}
    own: dict[str, set[str]] = {metric: set() for metric in frames}
    for row in rows:
        if row.draw not in metrics_of_drawing:
            drawing = DrawingName.parse(row.draw or "")
            drawn_for = set(drawing.metrics if drawing else ())
            metrics_of_drawing[row.draw] = frames.keys() & drawn_for or frames.keys()
        if row.key in decisions.human:
            for metric in metrics_of_drawing[row.draw]:
                own[metric].add(row.key)
    return own


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


def count_undrawn(rows: Iterable[LabelRow], frames: Mapping[str, UnitFrame]) -> int:
    """Return how many labels were drawn from another set of statements than these frames."""
    drawings = Counter[_NameAndFrame]()
    for row in rows:
        if row.draw:
            drawings[row.draw, row.frame or ""] += 1
    undrawn = 0
    for (name, frame), count in drawings.items():
        if not drawn_metrics(name, frame, frames):
            undrawn += count
    return undrawn


def list_passed_over(frames: Mapping[str, UnitFrame], decisions: Decisions) -> set[str]:
    """Return the shown statements without a label, although later ones of their drawing have one.

    A drawing showed its statements up to the last one that was first labelled there: the second
    opinions of earlier versions showed only statements that had a label.
    """
    first_drawing: dict[str, tuple[str | None, str | None]] = {}
    for row in decisions.rows:
        first_drawing.setdefault(row.key, (row.draw, row.frame))
    shown: set[str] = set()
    for (name, frame), statements in drawn_statements(decisions.rows).items():
        last = 0
        for key, statement in statements.items():
            if first_drawing[key] == (name, frame) and key in decisions.human:
                last = max(last, statement.turn)
        if not last:
            continue
        drawing = draw_again(name, frames, last)
        if drawing is not None and drawing.frame == frame:
            shown.update(each.key for each in drawing.statements if each.turn <= last)
    return shown - decisions.human.keys()


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


def match_sheet(
    source: LabelSource,
    sheet: Sequence[SheetLabel],
    decisions: Decisions,
) -> tuple[list[LabelRow], list[LabelRow], list[SheetLabel]]:
    """Return carried-over decisions, decisions of the sheet, and its rows with a changed text.

    Raises DataError without labels, or for labels of other statements.
    """
    verdict_ids = first_verdicts(source.frames.values())
    texts = {key: verdict.text for key, verdict in source.verdicts(verdict_ids).items()}
    damaged = _changed_texts(source.directory, sheet, texts)
    drawn, carried_over = _find_drawings(source.frames, sheet, len(verdict_ids), decisions)
    stored = {row.role: row for row in decisions.rows}
    values_of_sheets = {decision_values(row) for row in decisions.rows if row.way == "sheet"}
    when = now(precise=True)
    rows = []
    for label in sheet:
        key = label.label_id
        if key not in texts:
            continue
        statement = drawn.get((label.draw or "", key))
        if statement is None:
            statement = DrawnStatement(key=key, **verdict_ids[key]._asdict())
        last_row = stored.get((key, label.annotator or "", statement.adjudicated))
        is_empty = label.human is None and not label.when and not label.is_undecidable
        if is_empty:
            # It withdraws a label that a sheet gave, and no other.
            if last_row is None or last_row.human not in (0, 1):
                continue
            wanted = decision_values(last_row.model_copy(update={"draw": statement.draw}))
            if wanted not in values_of_sheets:
                continue
        decision = _describe_label(label, last_row, when)
        rows.append(LabelRow(**vars(statement), text=texts[key], **decision))
    if not rows:
        raise DataError("the file has no labels yet", hint="fill in the column human with 1 or 0")
    return carried_over, rows, damaged


def _find_drawings(
    frames: Mapping[str, UnitFrame], sheet: Sequence[SheetLabel], count: int, decisions: Decisions
) -> tuple[dict[tuple[str, str], DrawnStatement], list[LabelRow]]:
    """Return the drawn statements by drawing and key, and carried-over decisions.

    `count` is the number of statements in the run.
    """
    labelled: dict[str, set[str]] = {}
    for label in sheet:
        if label.draw:
            keys = labelled.setdefault(label.draw, set())
            if label.human is not None:
                keys.add(label.label_id)
    drawn: dict[tuple[str, str], DrawnStatement] = {}
    carried_over: list[LabelRow] = []
    for name in sorted(labelled):
        drawing = draw_again(name, frames, count)
        if drawing is None:
            continue
        last = 0
        for statement in drawing.statements:
            drawn[name, statement.key] = statement
            if statement.key in labelled[name]:
                last = max(last, statement.turn)
        carried_over += carry_over(drawing, last, decisions)
    return drawn, carried_over


def _describe_label(label: SheetLabel, stored: LabelRow | None, when: str) -> dict[str, Any]:
    """Return the decision of a row. An unchanged label of a sheet keeps its time."""
    way = "sheet"
    human: Decision = label.human
    if label.is_undecidable:
        human = "?"
    if label.when:
        way = "page"
        when = label.when
    elif stored is not None and stored.human == human:
        when = stored.when
    return {
        "human": human,
        "annotator": label.annotator,
        "way": way,
        "when": when,
        "evidence_seen": label.evidence_seen,
    }


def _changed_texts(
    directory: Path, sheet: Sequence[SheetLabel], texts: Mapping[str, str]
) -> list[SheetLabel]:
    """Return the labels with another text than their statement.

    Raises DataError for labels of statements that are not in the run in this directory, and if the
    text is of another statement: a column was sorted separately, so that the label may belong to
    either.
    """
    labels = [label for label in sheet if label.human is not None]
    others = [label.place for label in labels if label.label_id not in texts]
    if others:
        raise DataError(
            f"no statement in {directory} matches {len(others):,} "
            f"of {numbered(len(labels), 'label')}: {', '.join(others[:_SHOWN])}",
            hint="name the run that was labelled",
        )
    statements = set(map(_comparable, texts.values()))
    changed: list[SheetLabel] = []
    moved: list[SheetLabel] = []
    for label in labels:
        if label.text and _comparable(label.text) != _comparable(texts[label.label_id]):
            if _comparable(label.text) in statements:
                moved.append(label)
            else:
                changed.append(label)
    if moved:
        raise DataError(
            f"{numbered(len(moved), 'row')} has the text of another statement: "
            f"{list_places(moved)}",
            hint="undo the sorting of a single column, or read the sheet as it was sent",
        )
    return changed


def list_places(labels: Sequence[SheetLabel]) -> str:
    """Return the places of the first of these labels."""
    return ", ".join(label.place for label in labels[:_SHOWN])


def _comparable(text: str) -> str:
    """Return the text without white space and without the apostrophe before a formula."""
    return "".join(escape_formula(text).split())


def decision_values(row: LabelRow) -> tuple[Any, ...]:
    """Return what makes two rows the same decision."""
    return row.annotator, row.key, row.draw, row.human, row.when, row.adjudicated
