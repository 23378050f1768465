"""Read the labels of sheets, of files saved by the labelling page, and of other runs into a run."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.errors import DataError, InputError
from localjudge.labels.annotator_agreement import shorten_name
from localjudge.labels.decisions import Decisions
from localjudge.labels.drawing import (
    draw_again,
)
from localjudge.labels.label_sheet import Sheet, SheetLabel, is_whole, read_sheet
from localjudge.labels.labelling import carry_over
from localjudge.labels.run_labels import check_labels_allowed
from localjudge.labels.units import UnitFrame, first_places, unit_frames, verdicts_at
from localjudge.run_directory.label_rows import (
    LabelRow,
    append_labels,
    name_annotator,
    now,
    stored_labels,
)
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.text.folding import look_alikes
from localjudge.types import Label
from localjudge.words import escape_formula, numbered, option

_SHOWN = 3
_MAX_REMARKS = 5


class LabelsRead(NamedTuple):
    """Number of statements by the effect of reading a source, counted for each annotator.

    `remarks` name damaged texts, annotators who look alike, and answers that may be copies.
    """

    new: int = 0
    changed: int = 0
    withdrawn: int = 0
    known: int = 0
    older: int = 0
    unlabelled: int = 0
    remarks: tuple[str, ...] = ()


class _Reading(NamedTuple):
    """The decisions of one source. Rows of `carried_over` and `rows` are not stored yet.

    `labels` are the rows of a sheet or page, None for a run.
    """

    rows: list[LabelRow]
    carried_over: list[LabelRow]
    labels: list[SheetLabel] | None
    remarks: list[str]


def read_labels(
    run: RunRecord | str | Path, source: str | Path, annotator: str | None = None
) -> LabelsRead:
    """Add the labels of one source to a run; see `read_all_labels`."""
    (labels_read,) = read_all_labels(run, [source], annotator)
    return labels_read


def read_all_labels(
    run: RunRecord | str | Path, sources: Sequence[str | Path], annotator: str | None = None
) -> list[LabelsRead]:
    """Add the labels of sheets, files saved by the label page, or other runs' directories to a run.

    `annotator` names the annotator of rows without a name. The latest decision of each annotator
    counts; for equal times, the one of the later source. If the first files that a run reads are
    complete, each or together, their number of labels was planned. An empty cell withdraws no label
    of another file that is read with it.

    Adds no label of any source if one is refused. Raises DataError for a file without labels or
    with labels of other statements (ignored if the source is a run). Raises InputError for a run
    stopped by scores, and if the annotator is unknown and others have labelled.
    """
    run = as_run(run)
    check_labels_allowed(run)
    frames = unit_frames(run)
    stored = Decisions(stored_labels(run.directory))
    decisions = stored
    readings: list[_Reading] = []
    new_rows: list[LabelRow] = []
    counts: list[LabelsRead] = []
    sheets = {source: read_sheet(source) for source in sources if not Path(source).is_dir()}
    answered = _answered_by_source(sheets, annotator, stored)
    for source in sources:
        others = [places for other, places in answered.items() if other != source]
        elsewhere = frozenset[tuple[str, str]]().union(*others)
        reading = _read_source(
            run, frames, source, sheets.get(source), annotator, decisions, elsewhere
        )
        known = {_decision(row) for row in decisions.rows}
        new = [row for row in reading.rows if _decision(row) not in known]
        later = Decisions([*decisions.rows, *reading.carried_over, *new])
        counts.append(_count_read(reading, new, decisions, later))
        readings.append(reading)
        new_rows += new
        decisions = later
    carried_over = [row for reading in readings for row in reading.carried_over]
    if not stored.rows and not carried_over and _is_plan(readings):
        new_rows = [row.model_copy(update={"planned": len(new_rows)}) for row in new_rows]
    if carried_over or new_rows:
        append_labels(run.directory, [*carried_over, *new_rows])
    return counts


def _answered_by_source(
    sheets: Mapping[str | Path, Sheet], annotator: str | None, decisions: Decisions
) -> dict[str | Path, frozenset[tuple[str, str]]]:
    """Return statement and annotator of each answer, by source."""
    answered: dict[str | Path, frozenset[tuple[str, str]]] = {}
    for source, sheet in sheets.items():
        labels = _with_annotators(sheet.labels, source, annotator, decisions)
        places = ((label.label_id, label.annotator or "") for label in labels if label.is_answered)
        answered[source] = frozenset(places)
    return answered


def _read_source(
    run: RunRecord,
    frames: Mapping[str, UnitFrame],
    source: str | Path,
    sheet: Sheet | None,
    annotator: str | None,
    decisions: Decisions,
    elsewhere: Set[tuple[str, str]],
) -> _Reading:
    """Match the decisions of a source. `elsewhere` are answers of files that are read with it."""
    if sheet is None:
        rows = _read_other_run(as_run(source), run, frames)
        return _Reading(_respell(rows, decisions), [], None, [])
    if not any(label.is_answered for label in sheet.labels):
        hint = f"fill in the column human with 1 or 0; to withdraw labels, write ? ({source})"
        raise DataError("the file has no labels yet", hint=hint)
    named = _with_annotators(sheet.labels, source, annotator, decisions)
    labels = []
    for label in named:
        if label.is_answered or (label.label_id, label.annotator or "") not in elsewhere:
            labels.append(label)
    carried_over, rows, damaged = _match_sheet(run, frames, labels, decisions)
    remarks = [*sheet.remarks, *_damage_remarks(damaged)]
    return _Reading(_respell(rows, decisions), carried_over, named, remarks)


def _respell(rows: Sequence[LabelRow], decisions: Decisions) -> list[LabelRow]:
    return [row.model_copy(update={"annotator": decisions.spell(row.annotator)}) for row in rows]


def _count_read(
    reading: _Reading, new: Sequence[LabelRow], before: Decisions, after: Decisions
) -> LabelsRead:
    changes = _changes(reading.rows, before, after)
    empty = sum(label.human is None for label in reading.labels or ())
    unlabelled = max(0, empty - changes["withdrawn"])
    copies = _copy_remarks(after, {row.annotator for row in new})
    remarks = [*reading.remarks, *_name_remarks(after), *copies]
    return LabelsRead(**changes, unlabelled=unlabelled, remarks=tuple(remarks))


def _is_plan(readings: Sequence[_Reading]) -> bool:
    """Return whether the files are complete, each by itself or all parts of one sheet together."""
    files = [reading.labels for reading in readings if reading.labels is not None]
    if not files or len(files) < len(readings):
        return False
    together = [label for labels in files for label in labels]
    return all(map(is_whole, files)) or is_whole(together)


def _damage_remarks(damaged: Sequence[SheetLabel]) -> list[str]:
    if not damaged:
        return []
    places = ", ".join(label.place for label in damaged[:_SHOWN])
    rows = numbered(len(damaged), "row")
    return [f"the text of {rows} was changed, so only its label_id counts: {places}"]


def _name_remarks(decisions: Decisions) -> list[str]:
    """Return a remark for annotators whose names look alike but differ."""
    remarks = []
    for names in look_alikes(decisions.annotators)[:_MAX_REMARKS]:
        spelled = " and ".join(
            f"{shorten_name(name)} ({shorten_name(ascii(name))})" for name in names
        )
        remarks.append(f"names of annotators look alike and count as different people: {spelled}")
    return remarks


def _copy_remarks(decisions: Decisions, annotators: Set[str]) -> list[str]:
    """Return a remark for each two annotators with answers of the same moment, one of them new."""
    moments: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in decisions.rows:
        if row.way != "sheet":
            moments[row.key, row.when].add(row.annotator)
    shared: Counter[tuple[str, ...]] = Counter()
    for names_at_once in moments.values():
        if len(names_at_once) > 1:
            shared[tuple(sorted(names_at_once))] += 1
    remarks = []
    for names, count in shared.most_common(_MAX_REMARKS):
        if annotators & {*names}:
            spelled = " and ".join(map(shorten_name, names))
            remarks.append(
                f"{spelled} have {numbered(count, 'answer')} with identical times: "
                "one file may be a "
                "copy of the other, which is no second opinion"
            )
    return remarks


def _read_other_run(
    other: RunRecord, run: RunRecord, frames: Mapping[str, UnitFrame]
) -> list[LabelRow]:
    labels = stored_labels(other.directory)
    keys = {key for frame in frames.values() for key in frame.by_key}
    rows = [row for row in labels if row.key in keys]
    if not rows:
        raise DataError(
            f"none of the {len(labels):,} labels in {other.directory} is for a statement "
            f"in {run.directory}",
        )
    return rows


def _decision(row: LabelRow) -> tuple[Any, ...]:
    return row.annotator, row.key, row.draw, row.human, row.when, row.adjudicated


def _changes(rows: Sequence[LabelRow], before: Decisions, after: Decisions) -> Counter[str]:
    """Count the statements of each annotator by the effect of these rows."""
    latest: dict[tuple[str, str, bool], LabelRow] = {}
    for row in sorted(rows, key=lambda row: row.moment):
        latest[row.key, row.annotator, row.adjudicated] = row
    counts: Counter[str] = Counter()
    for row in latest.values():
        old = before.select_role(row).get(row.key, {}).get(row.annotator)
        new = after.select_role(row).get(row.key, {}).get(row.annotator)
        effect = _name_effect(old, new, row)
        if effect is not None:
            counts[effect] += 1
    return counts


def _name_effect(old: Label | None, new: Label | None, row: LabelRow) -> str | None:
    if old == new:
        if new is None:
            return None
        if row.human == new:
            return "known"
        return "older"
    if old is None:
        return "new"
    if new is None:
        return "withdrawn"
    return "changed"


def _with_annotators(
    sheet: Sequence[SheetLabel], source: str | Path, annotator: str | None, earlier: Decisions
) -> list[SheetLabel]:
    names = {earlier.spell(label.annotator) for label in sheet if label.annotator}
    stored = {row.annotator for row in earlier.rows}
    others = sorted(stored - {earlier.spell(name_annotator())})
    is_unnamed = annotator is None and len(names) != 1
    has_unnamed = any(label.human is not None and not label.annotator for label in sheet)
    if is_unnamed and others and has_unnamed:
        shown = ", ".join(map(shorten_name, others[:_SHOWN]))
        problem = f"{source} does not name its annotator, and {shown} labelled this run"
        raise InputError(problem, hint=f"name the annotator with {option('annotator')}")
    if not annotator and len(names) == 1:
        annotator = names.pop()
    name = earlier.spell(name_annotator(annotator))
    return [label._replace(annotator=earlier.spell(label.annotator or name)) for label in sheet]


def _match_sheet(
    run: RunRecord,
    frames: Mapping[str, UnitFrame],
    sheet: Sequence[SheetLabel],
    decisions: Decisions,
) -> tuple[list[LabelRow], list[LabelRow], list[SheetLabel]]:
    """Return carried-over decisions, those of the sheet, and its rows with a changed text."""
    places = first_places(frames.values())
    verdicts = verdicts_at(run, {place: key for key, place in places.items()})
    texts = {key: verdict.text for key, verdict in verdicts.items()}
    labels = [label for label in sheet if label.human is not None]
    others = [label.place for label in labels if label.label_id not in texts]
    if others:
        raise DataError(
            f"no statement in {run.directory} matches {len(others):,} "
            f"of {numbered(len(labels), 'label')}: "
            f"{', '.join(others[:_SHOWN])}",
            hint="name the run that was labelled",
        )
    damaged = _changed_texts(labels, texts)
    carried_over: list[LabelRow] = []
    drawn: dict[tuple[str, str], dict[str, Any]] = {}
    for name in sorted({label.draw for label in sheet if label.draw}):
        drawing = draw_again(name, frames, len(places))
        if drawing is None:
            continue
        keys = {label.label_id for label in labels if label.draw == name}
        last = 0
        for statement in drawing.statements:
            drawn[name, statement.key] = drawing.describe(statement)
            if statement.key in keys:
                last = max(last, statement.draw_index)
        carried_over += carry_over(drawing, last, decisions)
    stored = {(row.key, row.annotator, row.adjudicated): row for row in decisions.rows}
    when = now(precise=True)
    rows = []
    for label in sheet:
        key = label.label_id
        if key not in texts:
            continue
        of_drawing = drawn.get((label.draw or "", key), {})
        last_row = stored.get((key, label.annotator or "", "adjudicated" in of_drawing))
        is_empty = label.human is None and not label.when
        if is_empty and not _from_sheet(last_row, of_drawing.get("draw"), decisions):
            continue
        statement_values = {"key": key, **places[key]._asdict(), "text": texts[key]}
        label_values = _describe_label(label, last_row, when)
        rows.append(LabelRow.model_validate({**statement_values, **label_values, **of_drawing}))
    if not rows:
        raise DataError("the file has no labels yet", hint="fill in the column human with 1 or 0")
    return carried_over, rows, damaged


def _describe_label(label: SheetLabel, stored: LabelRow | None, when: str) -> dict[str, Any]:
    """Return the decision of a row. An unchanged label of a sheet keeps its time."""
    way = "sheet"
    if label.when:
        way = "page"
        when = label.when
    elif stored is not None and stored.human == label.human:
        when = stored.when
    return {
        "human": label.human,
        "annotator": label.annotator,
        "way": way,
        "when": when,
        "evidence_seen": label.evidence_seen,
    }


def _from_sheet(last: LabelRow | None, draw: str | None, decisions: Decisions) -> bool:
    if last is None or last.human not in (0, 1):
        return False
    wanted = _decision(last.model_copy(update={"draw": draw}))
    return any(row.way == "sheet" and _decision(row) == wanted for row in decisions.rows)


def _changed_texts(labels: Sequence[SheetLabel], texts: Mapping[str, str]) -> list[SheetLabel]:
    """Return the labels with another text than their statement.

    Raises DataError if it is the text of another statement: a column was sorted separately, so that
    the label may belong to either.
    """
    statements = {_comparable(text) for text in texts.values()}
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
            f"{', '.join(label.place for label in moved[:_SHOWN])}",
            hint="undo the sorting of a single column, or read the sheet as it was sent",
        )
    return changed


def _comparable(text: str) -> str:
    """Return the text without white space and without the apostrophe before a formula."""
    return "".join(escape_formula(text).split())
