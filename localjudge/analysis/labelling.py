"""Label a run: choose the next statements and store the decisions.

Terminal, sheets and pages give the same rows. A label from another drawing or run also counts for the current drawing,
and its statement is not shown again.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Literal, NamedTuple

from localjudge.analysis.drawing import (
    Drawing,
    DrawingOptions,
    disputed_statements,
    draw_again,
    draw_statements,
    drawing_options,
    labels_in,
    misdrawn,
    sheet_rows,
)
from localjudge.analysis.label_sheet import PLANNED, SheetLabel, SheetRow, is_whole, read_sheet
from localjudge.analysis.labels import Decisions, cannot_correct, check_labels_allowed, pace, shorten_name
from localjudge.analysis.units import UnitFrame, correctable, first_places, unit_frames, verdicts_at
from localjudge.errors import DataError, InputError
from localjudge.record.label_rows import Decision, LabelRow, append_labels, name_annotator, now, stored_labels
from localjudge.record.run import Run, as_run
from localjudge.stats.corrected import FEWEST_CLUSTERS
from localjudge.stats.interval import CONFIDENCE, two_sided_quantile
from localjudge.stats.looks import MIN_PLANNED_LABELS
from localjudge.text.folding import look_alikes
from localjudge.types import Label
from localjudge.words import escape_formula, numbered, option, option_name

DEFAULT_COUNT = 50
NO_DISPUTE = "no disputed statement remains to be settled"
_SHOWN = 3
_MAX_REMARKS = 5


class Labelling:
    """Statements of a run drawn for one annotator, with the decisions so far.

    `rows` remain to be labelled, in order. `remarks` name the means that labels cannot correct.
    """

    def __init__(  # noqa: PLR0913 # the options of `label`
        self,
        run: Run | str | Path,
        annotator: str | None = None,
        *,
        sample: int | None = None,
        minutes: float | None = None,
        metrics: Sequence[str] | None = None,
        seed: int | None = None,
        again: bool = False,
        disputed: bool = False,
        by: str | None = None,
    ) -> None:
        """Draw `sample` statements (default 50), or the number that this annotator can label in `minutes`.

        `by` draws about as many from each slice by a column. `again` takes statements that others have labelled, by
        default those of the newest drawing. `disputed` takes all statements with different labels, to settle them.
        Raises InputError for a metric without judge verdicts, a count below 1, options that exclude each other, an
        unsuitable column, or a run stopped by scores, and RunDirectoryError for a directory without a run.
        """
        choices = {"sample": sample is not None, "minutes": minutes is not None, "disputed": disputed}
        choices |= {"seed": disputed and bool(seed), "again": disputed and again, "by": disputed and by is not None}
        if len(names := [option_name(name) for name, is_given in choices.items() if is_given]) > 1:
            raise InputError(f"{' and '.join(names)} exclude each other", hint="omit one of them")
        if minutes is not None and not 0 < minutes < math.inf:
            raise InputError(f"{option_name('minutes')} must be more than 0, got {minutes}")
        self.run = as_run(run)
        check_labels_allowed(self.run)
        self._decisions = Decisions(stored_labels(self.run.directory))
        self._named = annotator
        self.annotator = self._decisions.spell(name_annotator(annotator))
        if again and seed is None and metrics is None and by is None:
            newest = self._newest_drawing()
            if newest is not None:
                options, last_turn = newest
                seed, metrics, by = options
                sample = last_turn if sample is None and minutes is None else sample
        frames = correctable(self.run, metrics)
        more = None
        if minutes is not None:
            rows = [row for row in self._decisions.rows if row.annotator == self.annotator]
            more = max(1, round(60 * minutes / pace(rows)))
            sample = more + len(self._decisions.of)
        if disputed:
            shown = unit_frames(self.run) if metrics is None else frames
            self._drawing = disputed_statements(shown, self._decisions.disputed)
        else:
            self._drawing = draw_statements(frames, DEFAULT_COUNT if sample is None else sample, seed or 0, by)
        answered, by_others = self._answered_statements()
        asked = [drawn for drawn in self._drawing.statements if not again or drawn.key in by_others]
        done = self._decisions.settled.keys() if disputed else answered if again else answered | by_others
        left = [drawn for drawn in asked if drawn.key not in done][:more]
        self.rows = sheet_rows(self.run, self._drawing, left)
        self.total = asked.index(left[-1]) + 1 if left and more else len(asked)
        self.remarks = [f"{name}: {why}" for name, frame in frames.items() if (why := cannot_correct(frame))]
        if by is not None and not disputed:
            self.remarks.append(slice_outlook(frames, by, len(self._drawing.statements)))
        self._passed: list[SheetRow] = []
        self._again, self.disputed = again, disputed
        statements = {key for frame in frames.values() for key in frame.by_key}
        self._complete = statements <= self._decisions.human.keys()

    def _newest_drawing(self) -> tuple[DrawingOptions, int] | None:
        """Return the options of the newest drawing that others labelled, and the turn of its last label."""
        for row in reversed(self._decisions.rows):
            options = drawing_options(row.draw or "")
            if options and row.annotator != self.annotator and {*options.metrics} <= {*self.run.summary.metrics}:
                turns = [other.turn or 0 for other in self._decisions.rows if other.draw == row.draw]
                return options, max(turns)
        return None

    def _answered_statements(self) -> tuple[set[str], set[str]]:
        """Return the statements answered by this annotator, and those labelled by others."""
        people = self._decisions.of.items()
        answered = {key for key, labels in people if self.annotator in labels}
        by_others = {
            key for key, labels in people if any(labels[name] is not None for name in {*labels} - {self.annotator})
        }
        return answered, by_others

    @property
    def labelled(self) -> int:
        return self.total - len(self.rows)

    @property
    def title(self) -> str:
        """The names of the data files, or of the run directory for other data."""
        sources = self.run.manifest.environment.sources
        names = [Path(source).name for source in sources]
        return ", ".join(names) or self.run.directory.name

    def rows_to_send(self) -> list[SheetRow]:
        """Return the remaining rows for another annotator. Raises InputError if none is left."""
        if not self.rows:
            hint = f"draw more with {option('sample')}"
            if self.disputed:
                raise InputError(NO_DISPUTE)
            if self._again:
                hint = f"a second opinion needs statements labelled by others and not by {self.annotator}"
            elif self._complete:
                hint = f"all statements have a label; {option('again')} asks for a second opinion"
            raise InputError("no drawn statement remains to be labelled", hint=hint)
        more = {"annotator": self._named, PLANNED: len(self.rows)}
        return [{**row, **more} for row in self.rows]

    def answer(self, label: Label | Literal["?"]) -> None:
        self._keep(self.rows[0], label)
        self._passed.append(self.rows.pop(0))

    def skip(self) -> None:
        self._passed.append(self.rows.pop(0))
        self.rows.append(self._passed[-1])

    def undo(self) -> bool:
        """Take back the last answer or skip. Returns False if there is none."""
        if not self._passed:
            return False
        row = self._passed.pop()
        if row in self.rows:
            self.rows.remove(row)
        else:
            self._keep(row, None)
        self.rows.insert(0, row)
        return True

    def _keep(self, row: SheetRow, label: Decision) -> None:
        drawn = next(drawn for drawn in self._drawing.statements if drawn.key == row["label_id"])
        decision = LabelRow(
            key=drawn.key,
            **{name: row[name] for name in ("sample_id", "metric", "position", "text")},
            human=label,
            annotator=self.annotator,
            when=now(precise=True),
            way="terminal",
            **self._drawing.of(drawn),
        )
        rows = [*carried(self._drawing, drawn.turn, self._decisions), decision]
        append_labels(self.run.directory, rows)
        self._decisions = Decisions([*self._decisions.rows, *rows])


def slice_outlook(frames: Mapping[str, UnitFrame], by: str, labels: int) -> str:
    """Return how wide the intervals of slices will be with this number of labels.

    As many labels go to each slice of enough samples, and to all smaller ones together. The width is
    the one of n labels without a judge at a share of one half, 2 * 1.96 * 0.5 / sqrt(n).
    """
    slices = 0
    for frame in frames.values():
        values = Counter(frame.values_of(by).values())
        large = sum(count >= FEWEST_CLUSTERS for count in values.values())
        has_small = large < len(values)
        slices = max(slices, large + has_small)
    each = labels // max(1, slices)
    counted = f"about {numbered(each, 'label')} for each of {numbered(slices, 'slice')}"
    if each < MIN_PLANNED_LABELS:
        needed = MIN_PLANNED_LABELS * slices
        return f"{counted}: too few for intervals of slices, which need {needed:,} labels in all"
    width = 2 * two_sided_quantile(CONFIDENCE, each - 1) * 0.5 / math.sqrt(each)
    return f"{counted}: their 95 % intervals will be up to {width:.2f} wide"


def carried(drawing: Drawing, turn: int, decisions: Decisions) -> list[LabelRow]:
    """Return rows that carry existing labels over to this drawing, before a turn."""
    of_drawing = decisions.drawn.get((drawing.name, drawing.frame), {})
    labels = {
        row.key: row
        for row in decisions.rows
        if row.human in (0, 1) and not row.adjudicated and decisions.of[row.key].get(row.annotator) == row.human
    }
    earlier = (drawn for drawn in drawing.statements if drawn.turn < turn and drawn.key not in of_drawing)
    return [labels[drawn.key].model_copy(update=drawing.of(drawn)) for drawn in earlier if drawn.key in labels]


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


def read_labels(run: Run | str | Path, source: str | Path, annotator: str | None = None) -> LabelsRead:
    """Add the labels of a sheet, a file saved by the labelling page, or another run's directory to a run.

    `annotator` names the annotator of rows without a name. The latest decision of each annotator counts.
    Raises DataError, and adds no label, for a file without labels or with labels of other statements (ignored if the
    source is a run). Raises InputError for a run stopped by scores, and if the annotator is
    unknown and others have labelled.
    """
    run = as_run(run)
    check_labels_allowed(run)
    frames = unit_frames(run)
    earlier = Decisions(stored_labels(run.directory))
    unlabelled = 0
    remarks: list[str] = []
    carried_over: list[LabelRow] = []
    is_planned = False
    if Path(source).is_dir():
        rows = _labels_of(as_run(source), run, frames)
    else:
        sheet = read_sheet(source)
        unlabelled = sum(label.human is None for label in sheet.labels)
        is_planned = is_whole(sheet.labels) and not earlier.rows
        remarks += sheet.remarks
        labels = _with_annotators(sheet.labels, source, annotator, earlier)
        carried_over, rows, damaged = _decisions_in(run, frames, labels, earlier)
        remarks += _damage_remarks(damaged)
    rows = [row.model_copy(update={"annotator": earlier.spell(row.annotator)}) for row in rows]
    stored_decisions = {_decision(row) for row in earlier.rows}
    new = [row for row in rows if _decision(row) not in stored_decisions]
    if is_planned:
        new = [row.model_copy(update={"planned": len(new)}) for row in new]
    if carried_over or new:
        append_labels(run.directory, [*carried_over, *new])
    later = Decisions([*earlier.rows, *new])
    changes = _changes(rows, earlier, later)
    remarks += [*_name_remarks(later), *_copy_remarks(later, {row.annotator for row in new})]
    unlabelled = max(0, unlabelled - changes["withdrawn"])
    return LabelsRead(**changes, unlabelled=unlabelled, remarks=tuple(remarks))


def _damage_remarks(damaged: Sequence[SheetLabel]) -> list[str]:
    if not damaged:
        return []
    places = ", ".join(label.place for label in damaged[:_SHOWN])
    return [f"the text of {numbered(len(damaged), 'row')} was changed, so only its label_id counts: {places}"]


def _name_remarks(decisions: Decisions) -> list[str]:
    """Return a remark for annotators whose names look alike but differ."""
    remarks = []
    for names in look_alikes(decisions.annotators)[:_MAX_REMARKS]:
        spelled = " and ".join(f"{shorten_name(name)} ({shorten_name(ascii(name))})" for name in names)
        remarks.append(f"names of annotators look alike and count as different people: {spelled}")
    return remarks


def _copy_remarks(decisions: Decisions, annotators: Set[str]) -> list[str]:
    """Return a remark for each two annotators with answers of the same moment, one of them new."""
    moments: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in decisions.rows:
        if row.way != "sheet":
            moments[row.key, row.when].add(row.annotator)
    shared = Counter[tuple[str, ...]](tuple(sorted(names)) for names in moments.values() if len(names) > 1)
    remarks = []
    for names, count in shared.most_common(_MAX_REMARKS):
        if annotators & {*names}:
            spelled = " and ".join(map(shorten_name, names))
            remarks.append(
                f"{spelled} have {numbered(count, 'answer')} with identical times: one file may be a "
                "copy of the other, which is no second opinion"
            )
    return remarks


def _labels_of(other: Run, run: Run, frames: Mapping[str, UnitFrame]) -> list[LabelRow]:
    labels, keys = labels_in(other), {key for frame in frames.values() for key in frame.by_key}
    rows = [row for row in labels if row.key in keys]
    if not rows:
        raise DataError(
            f"none of the {len(labels):,} labels in {other.directory} is for a statement in {run.directory}"
        )
    place, elsewhere = str(other.directory.resolve()), {*misdrawn(rows, frames)}
    drawn_by = (row.drawn_by or place if number in elsewhere else None for number, row in enumerate(rows))
    return [row.model_copy(update={"drawn_by": run}) for row, run in zip(rows, drawn_by, strict=True)]


def _decision(row: LabelRow) -> tuple[Any, ...]:
    return row.annotator, row.key, row.draw, row.human, row.when, row.adjudicated


def _changes(rows: Sequence[LabelRow], before: Decisions, after: Decisions) -> Counter[str]:
    counts = Counter[str]()
    latest = {(row.key, row.annotator, row.adjudicated): row for row in sorted(rows, key=lambda row: row.moment)}
    for row in latest.values():
        old, new = (side.in_role_of(row).get(row.key, {}).get(row.annotator) for side in (before, after))
        if old == new:
            name = "unlabelled" if new is None else "known" if row.human == new else "older"
        else:
            name = "new" if old is None else "withdrawn" if new is None else "changed"
        counts[name] += 1
    del counts["unlabelled"]
    return counts


def _with_annotators(
    sheet: Sequence[SheetLabel], source: str | Path, annotator: str | None, earlier: Decisions
) -> list[SheetLabel]:
    names = {earlier.spell(label.annotator) for label in sheet if label.annotator}
    stored = {row.annotator for row in earlier.rows}
    others = sorted(stored - {earlier.spell(name_annotator())})
    is_unnamed = annotator is None and len(names) != 1
    if is_unnamed and others and any(label.human is not None and not label.annotator for label in sheet):
        shown = ", ".join(map(shorten_name, others[:_SHOWN]))
        problem = f"{source} does not name its annotator, and {shown} labelled this run"
        raise InputError(problem, hint=f"name the annotator with {option('annotator')}")
    only_name = names.pop() if len(names) == 1 else None
    name = earlier.spell(name_annotator(annotator or only_name))
    return [label._replace(annotator=earlier.spell(label.annotator or name)) for label in sheet]


def _decisions_in(
    run: Run, frames: Mapping[str, UnitFrame], sheet: Sequence[SheetLabel], decisions: Decisions
) -> tuple[list[LabelRow], list[LabelRow], list[SheetLabel]]:
    """Return carried-over decisions, those of the sheet, and its rows with a changed text."""
    places = first_places(frames.values())
    texts = {key: row.text for key, row in verdicts_at(run, {place: key for key, place in places.items()}).items()}
    labels = [label for label in sheet if label.human is not None]
    others = [label.place for label in labels if label.label_id not in texts]
    if others:
        raise DataError(
            f"no statement in {run.directory} matches {len(others):,} of {numbered(len(labels), 'label')}: "
            f"{', '.join(others[:_SHOWN])}",
            hint="name the run that was labelled",
        )
    damaged = _changed_texts(labels, texts)
    carried_over, drawn = list[LabelRow](), dict[tuple[str, str], dict[str, Any]]()
    for name in sorted({label.draw for label in sheet if label.draw}):
        if drawing := draw_again(name, frames, len(places)):
            keys = {label.label_id for label in labels if label.draw == name}
            of_name = [statement for statement in drawing.statements if statement.key in keys]
            drawn |= {(name, statement.key): drawing.of(statement) for statement in drawing.statements}
            carried_over += carried(drawing, max((statement.turn for statement in of_name), default=0), decisions)
    counting = {(row.key, row.annotator, row.adjudicated): row for row in decisions.rows}
    decided, when = list[LabelRow](), now(precise=True)
    for label in sheet:
        key = label.label_id
        if key not in texts:
            continue
        of_drawing = drawn.get((label.draw or "", key), {})
        last = counting.get((key, label.annotator or "", "adjudicated" in of_drawing))
        if label.human is None and not label.when and not _from_sheet(last, of_drawing.get("draw"), decisions):
            continue  # left empty
        same = last is not None and last.human == label.human
        values = {"human": label.human, "annotator": label.annotator, "way": "page" if label.when else "sheet"}
        values["when"] = label.when or (last.when if last and same else when)
        where = {"key": key, **places[key]._asdict(), "text": texts[key]}
        decided.append(LabelRow.model_validate({**where, **values, **of_drawing}))
    if not decided:
        raise DataError("the file has no labels yet", hint="fill in the column human with 1 or 0")
    return carried_over, decided, damaged


def _from_sheet(last: LabelRow | None, draw: str | None, decisions: Decisions) -> bool:
    if last is None or last.human not in (0, 1):
        return False
    wanted = _decision(last.model_copy(update={"draw": draw}))
    return any(row.way == "sheet" and _decision(row) == wanted for row in decisions.rows)


def _changed_texts(labels: Sequence[SheetLabel], texts: Mapping[str, str]) -> list[SheetLabel]:
    """Return the labels with another text than their statement.

    Raises DataError if it is the text of another statement: a column was sorted separately, so that the label may
    belong to either.
    """
    statements = {_comparable(text) for text in texts.values()}
    changed: list[SheetLabel] = []
    moved: list[SheetLabel] = []
    for label in labels:
        if label.text and _comparable(label.text) != _comparable(texts[label.label_id]):
            is_moved = _comparable(label.text) in statements
            (moved if is_moved else changed).append(label)
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
