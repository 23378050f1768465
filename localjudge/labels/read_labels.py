"""Read the labels of sheets, of files saved by the labelling page, and of other runs into a run.

    row of a sheet        label_id ──> statement ──> its first verdict in the run
                          draw     ──> drawing, drawn again ──> number and share of the statement

A label keeps its statement even if the text in the sheet was edited, but not if it is the text of
another statement.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.errors import DataError, InputError
from localjudge.labels.decisions import Decisions, shorten_name
from localjudge.labels.drawing import draw_again
from localjudge.labels.label_sheet import SheetLabel, read_sheet
from localjudge.labels.label_source import LabelSource
from localjudge.labels.matched_labels import carry_over
from localjudge.labels.units import UnitFrame, first_verdicts, statement_keys
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.directory import now
from localjudge.run_directory.label_rows import (
    Decision,
    DrawnStatement,
    LabelRow,
    append_labels,
    name_annotator,
    stored_labels,
)
from localjudge.run_directory.run_record import as_run
from localjudge.text.names import clean, damaged_forms, look_alikes
from localjudge.words import escape_formula, numbered, option

_SHOWN = 3
_MAX_REMARKS = 5
_Answer = tuple[str, str]
"""Statement and annotator of an answer."""


class UnnamedAnnotator(InputError):
    """Labels of a sheet that does not say who gave them."""


class LabelsRead(NamedTuple):
    """Number of statements by the effect of reading a source, counted for each annotator.

    `undecidable` ones are `?` and withdraw no label. `remarks` name damaged texts, annotators who
    look alike, and answers that may be copies.
    """

    new: int = 0
    changed: int = 0
    withdrawn: int = 0
    known: int = 0
    older: int = 0
    undecidable: int = 0
    unlabelled: int = 0
    remarks: tuple[str, ...] = ()


def read_labels(
    labelled: LabelSource, sources: Sequence[str | Path], annotator: str | None = None
) -> list[LabelsRead]:
    """Add the labels of sheets, files saved by the label page, or other runs' directories.

    `annotator` names the annotator of rows without a name. The latest decision of each annotator
    counts; for equal times, the one of the later source. If the first files that a run reads are
    complete, each or together, their number of labels was planned. If a time is in the future, the
    order of reading decides. An empty cell withdraws no label of another file that is read with it.

    Adds no label of any source if one is refused. Raises DataError for a file without labels or
    with labels of other statements (ignored if the source is a run). Raises UnnamedAnnotator for
    labels without the name of an annotator.
    """
    reader = _Reader(labelled, sources, annotator)
    counts = [reader.read(source) for source in sources]
    reader.store(len(sources))
    return counts


class _Reader:
    """Reads sources one after another. Decisions of earlier ones count when later ones are read.

    `new` are the decisions that were not stored, `carried_over` earlier ones, for the drawings of
    sheets. `signed` are the rows of each sheet with their annotators.
    """

    def __init__(
        self, labelled: LabelSource, sources: Iterable[str | Path], annotator: str | None
    ) -> None:
        """Read each source that is a file.

        Raises DataError for an annotator whose name is another one's, damaged by an encoding.
        """
        self.labelled = labelled
        self.annotator = annotator
        self.stored = Decisions(stored_labels(labelled.directory))
        self.decisions = self.stored
        self.carried_over: list[LabelRow] = []
        self.new: list[LabelRow] = []
        self.signed: list[list[SheetLabel]] = []
        self._sheets: dict[str | Path, tuple[list[SheetLabel], list[str]]] = {}
        self._answers: dict[str | Path, set[_Answer]] = {}
        for source in sources:
            if not Path(source).is_dir():
                labels, remarks = read_sheet(source)
                self._sheets[source] = (labels, remarks)
                named = _name_annotators(labels, source, annotator, self.stored)
                self._answers[source] = {_as_answer(label) for label in named if label.is_answered}
        labels_of_sheets = chain.from_iterable(labels for labels, _ in self._sheets.values())
        _refuse_damaged_names(labels_of_sheets, self.stored)
        self.read_at = datetime.now(UTC)

    def read(self, source: str | Path) -> LabelsRead:
        """Add what a source adds to the decisions of earlier ones, and count its statements."""
        earlier = self.decisions
        signed: list[SheetLabel] = []
        carried_over: list[LabelRow] = []
        remarks: list[str] = []
        if source in self._sheets:
            labels, remarks_on_sheet = self._sheets[source]
            _require_answers(labels, source)
            signed = _name_annotators(labels, source, self.annotator, earlier)
            self.signed.append(signed)
            counting = self._without_cells_of_others(signed, source)
            carried_over, rows, damaged = _match_sheet(self.labelled, counting, earlier)
            remarks += remarks_on_sheet
            if damaged:
                changed = f"the text of {numbered(len(damaged), 'row')} was changed"
                remarks.append(f"{changed}, so only its label_id counts: {_list_places(damaged)}")
        else:
            rows = _select_labels(source, self.labelled)
        rows = list(map(earlier.respell, rows))
        stored_values = set(map(_decision_values, earlier.rows))
        new_rows = [row for row in rows if _decision_values(row) not in stored_values]
        new = earlier.in_order(new_rows, self.read_at)
        self.decisions = Decisions([*earlier.rows, *carried_over, *new])
        self.carried_over += carried_over
        self.new += new
        effects = _count_effects(rows, earlier, self.decisions, signed)
        remarks += [*_remarks_on_new(new, self.decisions), *_copy_remarks(self.decisions, new)]
        return LabelsRead(**effects, remarks=tuple(remarks))

    def _without_cells_of_others(
        self, signed: Iterable[SheetLabel], source: str | Path
    ) -> list[SheetLabel]:
        """Return the rows of a sheet without empty cells that another source answers."""
        elsewhere: set[_Answer] = set()
        for other, answers in self._answers.items():
            if other != source:
                elsewhere |= answers
        labels = []
        for label in signed:
            if label.is_answered or _as_answer(label) not in elsewhere:
                labels.append(label)
        return labels

    def store(self, sources: int) -> None:
        """Store all decisions, marked as planned if these sources are the first, and complete.

        Each sheet is complete, or all are parts of one sheet and complete together.
        """
        new = self.new
        is_first = not any(row.human is not None for row in self.stored.rows)
        if is_first and len(self.signed) == sources and not self.carried_over:
            together = list(chain.from_iterable(self.signed))
            if all(map(_is_whole, self.signed)) or _is_whole(together):
                new = [row.model_copy(update={"planned": len(new)}) for row in new]
        if self.carried_over or new:
            append_labels(self.labelled.directory, [*self.carried_over, *new])


def _is_whole(labels: Sequence[SheetLabel]) -> bool:
    """Return whether every statement of the written sheet or page is here, with an answer."""
    statements = {label.label_id for label in labels}
    answered = {label.label_id for label in labels if label.is_answered}
    return answered == statements and all(label.planned == len(statements) for label in labels)


def _refuse_damaged_names(labels: Iterable[SheetLabel], stored: Decisions) -> None:
    places: dict[str, str] = {}
    for label in labels:
        if label.annotator:
            places.setdefault(clean(label.annotator), label.place)
    names = {clean(row.annotator) for row in stored.rows}
    for name in sorted(names | places.keys()):
        for damaged in sorted(damaged_forms(name) & places.keys() - names):
            raise DataError(
                f"{places[damaged]}: the annotator {shorten_name(damaged)} looks like "
                f"{shorten_name(name)}, damaged by another encoding",
                hint="correct the name in the column annotator, or save the sheet as UTF-8",
            )


def _as_answer(label: SheetLabel) -> _Answer:
    return label.label_id, label.annotator or ""


def _require_answers(sheet: Sequence[SheetLabel], source: str | Path) -> None:
    if not any(label.is_answered for label in sheet):
        hint = f"fill in the column human with 1 or 0; to withdraw labels, write ? ({source})"
        raise DataError("the file has no labels yet", hint=hint)


def _select_labels(source: str | Path, labelled: LabelSource) -> list[LabelRow]:
    """Return the labels of a run, or of two runs together, for these statements."""
    comparison = ComparisonDirectory.find(source)
    if comparison is not None:
        other = comparison.path
    else:
        other = as_run(source).directory
    statements = statement_keys(labelled.frames.values())
    labels = stored_labels(other)
    rows = [row for row in labels if row.key in statements]
    if not rows:
        raise DataError(
            f"none of the {len(labels):,} labels in {other} is for a statement "
            f"in {labelled.directory}",
        )
    return rows


def _remarks_on_new(new: Iterable[LabelRow], decisions: Decisions) -> Iterator[str]:
    """Yield remarks for labels with a time in the future, and for annotators who look alike."""
    count = sum(row.by_order for row in new)
    if count:
        time = f"{numbered(count, 'label')} with a time in the future, or in place of one"
        yield f"{time}: the order of reading decides"
    for names in look_alikes(decisions.annotators)[:_MAX_REMARKS]:
        spellings = [f"{shorten_name(name)} ({shorten_name(ascii(name))})" for name in names]
        spelled = " and ".join(spellings)
        yield f"names of annotators look alike and count as different people: {spelled}"


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


def _count_effects(
    rows: Sequence[LabelRow], before: Decisions, after: Decisions, sheet: Iterable[SheetLabel]
) -> Counter[str]:
    """Count the statements of each annotator by the effect of these rows.

    `unlabelled` are the rows of the sheet without an answer, except for those that withdraw one.
    """
    latest: dict[tuple[str, str, bool], LabelRow] = {}
    for row in sorted(rows, key=lambda row: row.moment):
        latest[row.role] = row
    counts: Counter[str] = Counter()
    for row in latest.values():
        old = before.current_answer(row)
        new = after.current_answer(row)
        if old == new is None:
            counts["undecidable"] += row.human == "?"
        elif old == new:
            counts["known" if row.human == new else "older"] += 1
        elif old is None:
            counts["new"] += 1
        else:
            counts["withdrawn" if new is None else "changed"] += 1
    humans = [label.human for label in sheet]
    without = humans.count(None) - counts["withdrawn"] - counts["undecidable"]
    counts["unlabelled"] = max(0, without)
    return counts


def _name_annotators(
    sheet: Sequence[SheetLabel], source: str | Path, annotator: str | None, earlier: Decisions
) -> list[SheetLabel]:
    """Return the rows with their annotator, in the spelling of earlier labels."""
    names: set[str] = set()
    has_unnamed = False
    for label in sheet:
        if label.annotator:
            names.add(earlier.spell(label.annotator))
        elif label.is_answered:
            has_unnamed = True
    if not annotator and len(names) != 1 and has_unnamed:
        problem = f"{source} does not name its annotator"
        others = sorted({row.annotator for row in earlier.rows})
        if others:
            shown = ", ".join(map(shorten_name, others[:_SHOWN]))
            problem = f"{problem}, and {shown} labelled this run"
        hint = f"fill in its column annotator, or name the annotator with {option('annotator')}"
        raise UnnamedAnnotator(problem, hint=hint)
    if not annotator and len(names) == 1:
        annotator = names.pop()
    name = earlier.spell(name_annotator(annotator))
    return [label._replace(annotator=earlier.spell(label.annotator or name)) for label in sheet]


def _match_sheet(
    source: LabelSource, sheet: Sequence[SheetLabel], decisions: Decisions
) -> tuple[list[LabelRow], list[LabelRow], list[SheetLabel]]:
    """Return carried-over decisions, decisions of the sheet, and its rows with a changed text.

    Raises DataError without labels, or for labels of other statements.
    """
    verdict_ids = first_verdicts(source.frames.values())
    texts = {key: verdict.text for key, verdict in source.verdicts(verdict_ids).items()}
    damaged = _changed_texts(source.directory, sheet, texts)
    drawn, carried_over = _find_drawings(source.frames, sheet, len(verdict_ids), decisions)
    values_of_sheets = {_decision_values(row) for row in decisions.rows if row.way == "sheet"}
    when = now(precise=True)
    rows = []
    for label in sheet:
        key = label.label_id
        if key not in texts:
            continue
        statement = drawn.get((label.draw or "", key))
        if statement is None:
            statement = DrawnStatement(key=key, **verdict_ids[key]._asdict())
        last_row = decisions.latest.get((key, label.annotator or "", statement.adjudicated))
        is_empty = label.human is None and not label.when and not label.is_undecidable
        if is_empty:
            # It withdraws a label that a sheet gave, and no other.
            if last_row is None or last_row.human not in (0, 1):
                continue
            wanted = _decision_values(last_row.model_copy(update={"draw": statement.draw}))
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
            f"{_list_places(moved)}",
            hint="undo the sorting of a single column, or read the sheet as it was sent",
        )
    return changed


def _list_places(labels: Sequence[SheetLabel]) -> str:
    """Return the places of the first of these labels."""
    return ", ".join(label.place for label in labels[:_SHOWN])


def _comparable(text: str) -> str:
    """Return the text without white space and without the apostrophe before a formula."""
    return "".join(escape_formula(text).split())


def _decision_values(row: LabelRow) -> tuple[Any, ...]:
    """Return what makes two rows the same decision."""
    return row.annotator, row.key, row.draw, row.human, row.when, row.adjudicated
