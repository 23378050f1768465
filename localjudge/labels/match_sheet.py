"""Match the labels of a sheet or page with the statements of a run.

    row of the sheet      label_id ──> statement ──> its first verdict in the run
                          draw     ──> drawing, drawn again ──> number and share of the statement

A label keeps its statement even if the text in the sheet was edited, but not if it is the text of
another statement.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from localjudge.errors import DataError
from localjudge.labels.decisions import Decisions
from localjudge.labels.drawing import draw_again
from localjudge.labels.label_sheet import SheetLabel
from localjudge.labels.label_source import LabelSource
from localjudge.labels.matched_labels import carry_over
from localjudge.labels.units import UnitFrame, first_verdicts
from localjudge.run_directory.label_rows import Decision, DrawnStatement, LabelRow, now
from localjudge.words import escape_formula, numbered

_SHOWN = 3


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
    stored = {(row.key, row.annotator, row.adjudicated): row for row in decisions.rows}
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
