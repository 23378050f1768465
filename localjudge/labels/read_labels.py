"""Read the labels of sheets, of files saved by the labelling page, and of other runs into a run."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.errors import DataError, InputError
from localjudge.labels.annotator_agreement import shorten_name
from localjudge.labels.decisions import Decisions
from localjudge.labels.drawing import draw_again
from localjudge.labels.label_sheet import Sheet, SheetLabel, is_whole, read_sheet
from localjudge.labels.labelling import carry_over
from localjudge.labels.run_labels import check_labels_allowed
from localjudge.labels.units import (
    UnitFrame,
    UnitPlace,
    first_places,
    statement_keys,
    unit_frames,
    verdicts_at,
)
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
_Answer = tuple[str, str]
"""Statement and annotator of an answer."""


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
    sheets: dict[str | Path, Sheet] = {}
    answers: dict[str | Path, set[_Answer]] = {}
    for source in sources:
        if not Path(source).is_dir():
            sheets[source] = read_sheet(source)
            answers[source] = _list_answers(sheets[source].labels, source, annotator, stored)
    decisions = stored
    readings: list[_Reading] = []
    carried_over: list[LabelRow] = []
    new_rows: list[LabelRow] = []
    counts: list[LabelsRead] = []
    for source in sources:
        elsewhere: set[_Answer] = set()
        for other, answers_of_other in answers.items():
            if other != source:
                elsewhere |= answers_of_other
        reading = _read_source(
            run, frames, source, sheets.get(source), annotator, decisions, elsewhere
        )
        new = _select_new(reading.rows, decisions)
        later = Decisions([*decisions.rows, *reading.carried_over, *new])
        counts.append(_count_read(reading, new, decisions, later))
        readings.append(reading)
        carried_over += reading.carried_over
        new_rows += new
        decisions = later
    if not stored.rows and not carried_over and _is_plan(readings):
        new_rows = [row.model_copy(update={"planned": len(new_rows)}) for row in new_rows]
    if carried_over or new_rows:
        append_labels(run.directory, [*carried_over, *new_rows])
    return counts


def _list_answers(
    sheet: Sequence[SheetLabel], source: str | Path, annotator: str | None, decisions: Decisions
) -> set[_Answer]:
    """Return the answers in a sheet, without empty cells."""
    labels = _name_annotators(sheet, source, annotator, decisions)
    return {_as_answer(label) for label in labels if label.is_answered}


def _as_answer(label: SheetLabel) -> _Answer:
    return label.label_id, label.annotator or ""


def _select_new(rows: Iterable[LabelRow], decisions: Decisions) -> list[LabelRow]:
    """Return the rows with a decision that is not stored yet."""
    known = set(map(_decision, decisions.rows))
    return [row for row in rows if _decision(row) not in known]


def _read_source(
    run: RunRecord,
    frames: Mapping[str, UnitFrame],
    source: str | Path,
    sheet: Sheet | None,
    annotator: str | None,
    decisions: Decisions,
    elsewhere: Set[_Answer],
) -> _Reading:
    """Match the decisions of a source. `elsewhere` are answers of files that are read with it."""
    if sheet is None:
        rows = _read_other_run(as_run(source), run, frames)
        return _Reading(_respell(rows, decisions), [], None, [])
    if not any(label.is_answered for label in sheet.labels):
        hint = f"fill in the column human with 1 or 0; to withdraw labels, write ? ({source})"
        raise DataError("the file has no labels yet", hint=hint)
    named = _name_annotators(sheet.labels, source, annotator, decisions)
    labels = []
    for label in named:
        if label.is_answered or _as_answer(label) not in elsewhere:
            labels.append(label)
    carried_over, rows, damaged = _match_sheet(run, frames, labels, decisions)
    remarks = [*sheet.remarks, *_damage_remarks(damaged)]
    return _Reading(_respell(rows, decisions), carried_over, named, remarks)


def _respell(rows: Sequence[LabelRow], decisions: Decisions) -> list[LabelRow]:
    respelled = []
    for row in rows:
        spelling = decisions.spell(row.annotator)
        respelled.append(row.model_copy(update={"annotator": spelling}))
    return respelled


def _count_read(
    reading: _Reading, new: Sequence[LabelRow], before: Decisions, after: Decisions
) -> LabelsRead:
    changes = _changes(reading.rows, before, after)
    humans = [label.human for label in reading.labels or ()]
    unlabelled = max(0, humans.count(None) - changes["withdrawn"])
    remarks = [*reading.remarks, *_name_remarks(after), *_copy_remarks(after, new)]
    return LabelsRead(**changes, unlabelled=unlabelled, remarks=tuple(remarks))


def _is_plan(readings: Sequence[_Reading]) -> bool:
    """Return whether the files are complete, each by itself or all parts of one sheet together."""
    files: list[list[SheetLabel]] = []
    together: list[SheetLabel] = []
    for reading in readings:
        if reading.labels is None:
            return False
        files.append(reading.labels)
        together += reading.labels
    if not files:
        return False
    return all(map(is_whole, files)) or is_whole(together)


def _damage_remarks(damaged: Sequence[SheetLabel]) -> list[str]:
    if not damaged:
        return []
    rows = numbered(len(damaged), "row")
    places = _list_places(damaged)
    return [f"the text of {rows} was changed, so only its label_id counts: {places}"]


def _name_remarks(decisions: Decisions) -> list[str]:
    """Return a remark for annotators with different names that look alike."""
    remarks = []
    for names in look_alikes(decisions.annotators)[:_MAX_REMARKS]:
        spellings = [f"{shorten_name(name)} ({shorten_name(ascii(name))})" for name in names]
        spelled = " and ".join(spellings)
        remarks.append(f"names of annotators look alike and count as different people: {spelled}")
    return remarks


def _copy_remarks(decisions: Decisions, new: Sequence[LabelRow]) -> list[str]:
    """Return a remark for each two annotators with answers of the same moment, one of them new."""
    new_annotators = {row.annotator for row in new}
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
        if not new_annotators.isdisjoint(names):
            spelled = " and ".join(map(shorten_name, names))
            remarks.append(
                f"{spelled} have {numbered(count, 'answer')} with identical times: "
                "one file may be a copy of the other, which is no second opinion"
            )
    return remarks


def _read_other_run(
    other: RunRecord, run: RunRecord, frames: Mapping[str, UnitFrame]
) -> list[LabelRow]:
    labels = stored_labels(other.directory)
    keys = statement_keys(frames.values())
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


def _name_annotators(
    sheet: Sequence[SheetLabel], source: str | Path, annotator: str | None, earlier: Decisions
) -> list[SheetLabel]:
    """Return the rows with their annotator, in the spelling of earlier labels."""
    names: set[str] = set()
    has_unnamed = False
    for label in sheet:
        if label.annotator:
            names.add(earlier.spell(label.annotator))
        elif label.human is not None:
            has_unnamed = True
    stored = {row.annotator for row in earlier.rows}
    others = sorted(stored - {earlier.spell(name_annotator())})
    is_unnamed = annotator is None and len(names) != 1
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
    """Return carried-over decisions, decisions of the sheet, and its rows with a changed text."""
    places = first_places(frames.values())
    texts = _read_texts(run, places)
    labels = [label for label in sheet if label.human is not None]
    _refuse_other_statements(run, labels, texts)
    damaged = _changed_texts(labels, texts)
    drawn, carried_over = _find_drawings(frames, sheet, len(places), decisions)
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


def _find_drawings(
    frames: Mapping[str, UnitFrame], sheet: Sequence[SheetLabel], count: int, decisions: Decisions
) -> tuple[dict[tuple[str, str], dict[str, Any]], list[LabelRow]]:
    """Return the drawing of each drawn statement, by drawing and key, and carried-over decisions.

    `count` is the number of statements in the run.
    """
    labelled: dict[str, set[str]] = {}
    for label in sheet:
        if label.draw:
            keys = labelled.setdefault(label.draw, set())
            if label.human is not None:
                keys.add(label.label_id)
    drawn: dict[tuple[str, str], dict[str, Any]] = {}
    carried_over: list[LabelRow] = []
    for name in sorted(labelled):
        drawing = draw_again(name, frames, count)
        if drawing is None:
            continue
        last = 0
        for statement in drawing.statements:
            drawn[name, statement.key] = drawing.describe(statement)
            if statement.key in labelled[name]:
                last = max(last, statement.draw_index)
        carried_over += carry_over(drawing, last, decisions)
    return drawn, carried_over


def _read_texts(run: RunRecord, places: Mapping[str, UnitPlace]) -> dict[str, str]:
    """Return the text of each statement, by key."""
    keys = {place: key for key, place in places.items()}
    return {key: verdict.text for key, verdict in verdicts_at(run, keys).items()}


def _refuse_other_statements(
    run: RunRecord, labels: Sequence[SheetLabel], texts: Mapping[str, str]
) -> None:
    """Raise DataError for labels of statements that are not in the run."""
    others = [label.place for label in labels if label.label_id not in texts]
    if others:
        raise DataError(
            f"no statement in {run.directory} matches {len(others):,} "
            f"of {numbered(len(labels), 'label')}: {', '.join(others[:_SHOWN])}",
            hint="name the run that was labelled",
        )


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
            f"{_list_places(moved)}",
            hint="undo the sorting of a single column, or read the sheet as it was sent",
        )
    return changed


def _list_places(labels: Sequence[SheetLabel]) -> str:
    return ", ".join(label.place for label in labels[:_SHOWN])


def _comparable(text: str) -> str:
    """Return the text without white space and without the apostrophe before a formula."""
    return "".join(escape_formula(text).split())
