"""Label a run: choose the next statements and store the decisions.

Terminal, sheets and pages give the same rows. A label from another drawing or run also counts for
the current drawing, and its statement is not shown again.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Literal, NamedTuple

from localjudge.errors import DataError, InputError
from localjudge.labels.annotator_agreement import shorten_name
from localjudge.labels.corrected_mean import cannot_correct
from localjudge.labels.decisions import Decisions, pace
from localjudge.labels.drawing import (
    Drawing,
    DrawingOptions,
    disputed_statements,
    draw_again,
    draw_statements,
    drawing_options,
    sheet_rows,
)
from localjudge.labels.label_sheet import PLANNED, Sheet, SheetLabel, SheetRow, is_whole, read_sheet
from localjudge.labels.run_labels import check_labels_allowed
from localjudge.labels.units import UnitFrame, correctable, first_places, unit_frames, verdicts_at
from localjudge.run_directory.label_rows import (
    Decision,
    LabelRow,
    append_labels,
    name_annotator,
    now,
    stored_labels,
)
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.stats.corrected import MIN_CLUSTERS
from localjudge.stats.interval import CONFIDENCE, two_sided_quantile
from localjudge.stats.looks import MIN_PLANNED_LABELS, look_at
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
        run: RunRecord | str | Path,
        annotator: str | None = None,
        *,
        sample: int | None = None,
        minutes: float | None = None,
        metrics: Sequence[str] | None = None,
        seed: int | None = None,
        again: bool = False,
        disputed: bool = False,
        by: str | None = None,
        more_disagreements: bool = False,
    ) -> None:
        """Draw `sample` statements (default 50), or the number that this annotator can label in `minutes`.

        `by` draws about as many from each slice by a column. `more_disagreements` draws statements
        on which the judges of a jury disagree more often. `again` takes statements that others
        have labelled, by default those of the newest drawing. `disputed` takes all statements with
        different labels, to settle them. Raises InputError for a metric without judge verdicts, a
        count below 1, options that exclude each other, an unsuitable column, more disagreements of
        a single judge, or a run stopped by scores, and RunDirectoryError for a directory without a run.
        """
        choices = {
            "sample": sample is not None,
            "minutes": minutes is not None,
            "disputed": disputed,
        }
        choices |= {
            "seed": disputed and bool(seed),
            "again": disputed and again,
            "by": disputed and by is not None,
            "more_disagreements": disputed and more_disagreements,
        }
        if len(names := [option_name(name) for name, is_given in choices.items() if is_given]) > 1:
            raise InputError(f"{' and '.join(names)} exclude each other", hint="omit one of them")
        if minutes is not None and not 0 < minutes < math.inf:
            raise InputError(f"{option_name('minutes')} must be more than 0, got {minutes}")
        self.run = as_run(run)
        check_labels_allowed(self.run)
        if more_disagreements:
            _check_jury(self.run)
        self._decisions = Decisions(stored_labels(self.run.directory))
        self._named = annotator
        self.annotator = self._decisions.spell(name_annotator(annotator))
        is_plain = seed is None and metrics is None and by is None and not more_disagreements
        if again and is_plain:
            newest = self._newest_drawing()
            if newest is not None:
                options, last_turn = newest
                seed, metrics, by, more_disagreements = options
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
            self._drawing = draw_statements(
                frames,
                DEFAULT_COUNT if sample is None else sample,
                seed or 0,
                by,
                more_disagreements=more_disagreements,
            )
        answered, by_others = self._answered_statements()
        asked = [drawn for drawn in self._drawing.statements if not again or drawn.key in by_others]
        done = (
            self._decisions.settled.keys()
            if disputed
            else answered
            if again
            else answered | by_others
        )
        left = [drawn for drawn in asked if drawn.key not in done][:more]
        self.rows = sheet_rows(self.run, self._drawing, left)
        self.total = asked.index(left[-1]) + 1 if left and more else len(asked)
        self.remarks = [
            f"{name}: {why}" for name, frame in frames.items() if (why := cannot_correct(frame))
        ]
        if by is not None and not disputed:
            is_first = not self._decisions.rows
            self.remarks.append(
                slice_outlook(frames, by, len(self._drawing.statements), is_first=is_first)
            )
        if more_disagreements:
            self.remarks.append(disagreement_remark(frames))
        self._passed: list[SheetRow] = []
        self._again, self.disputed = again, disputed
        statements = {key for frame in frames.values() for key in frame.by_key}
        self._complete = statements <= self._decisions.human.keys()

    def _newest_drawing(self) -> tuple[DrawingOptions, int] | None:
        """Return the options of the newest drawing that others labelled, and the turn of its last label."""
        for row in reversed(self._decisions.rows):
            options = drawing_options(row.draw or "")
            if (
                options
                and row.annotator != self.annotator
                and {*options.metrics} <= {*self.run.summary.metrics}
            ):
                turns = [
                    other.draw_index or 0
                    for other in self._decisions.rows
                    if other.draw == row.draw
                ]
                return options, max(turns)
        return None

    def _answered_statements(self) -> tuple[set[str], set[str]]:
        """Return the statements answered by this annotator, and those labelled by others."""
        people = self._decisions.of.items()
        answered = {key for key, labels in people if self.annotator in labels}
        by_others = {
            key
            for key, labels in people
            if any(labels[name] is not None for name in {*labels} - {self.annotator})
        }
        return answered, by_others

    @property
    def labelled(self) -> int:
        return self.total - len(self.rows)

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

    def parts_of_juries(self) -> dict[str, dict[str, float]]:
        """Return the probability of each judge for the remaining rows by a jury, by `label_id`."""
        places = {drawn.place: drawn.key for drawn in self._drawing.statements}
        parts: dict[str, dict[str, float]] = {}
        for key, verdict in verdicts_at(self.run, places).items():
            if verdict.judges:
                parts[key] = verdict.judges
        return {
            row["label_id"]: parts[row["label_id"]] for row in self.rows if row["label_id"] in parts
        }

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


def _check_jury(run: RunRecord) -> None:
    """Raise InputError for a run by a single judge, which disagrees with no other one."""
    if not run.manifest.judge.jury:
        name = option_name("more_disagreements")
        raise InputError(
            f"{name} is for a jury, and {run.directory} was judged by {run.manifest.card.name} only",
            hint=f"omit {name}, or judge the data with several judges",
        )


def disagreement_remark(frames: Mapping[str, UnitFrame]) -> str:
    """Return on how many of the statements the judges of a jury disagree."""
    statements: set[str] = set()
    divided: set[str] = set()
    for frame in frames.values():
        for key, units in frame.by_key.items():
            statements.add(key)
            if frame.divided[units].any():
                divided.add(key)
    counted = f"{len(divided):,} of {numbered(len(statements), 'statement')}"
    if not divided:
        return f"the judges disagree on {counted}, so none is drawn more often"
    return f"the judges disagree on {counted}; such a statement is drawn about twice as often"


def slice_outlook(frames: Mapping[str, UnitFrame], by: str, labels: int, *, is_first: bool) -> str:
    """Return how wide the intervals of slices will be with this number of labels.

    As many labels go to each slice of enough samples, and to all smaller ones together. The width
    is the one of n labels without a judge at a share of one half, 2 t 0.5 / sqrt(n). The first
    labels of a run are planned, so their intervals are ordinary ones; for later labels the last
    look (`stats.looks`) counts.
    """
    slices = 0
    statements = 0
    for frame in frames.values():
        values = Counter(frame.values_of(by).values())
        large = sum(count >= MIN_CLUSTERS for count in values.values())
        has_small = large < len(values)
        slices = max(slices, large + has_small)
        statements = max(statements, len(frame.by_key))
    each = labels // max(1, slices)
    counted = f"about {numbered(each, 'label')} for each of {numbered(slices, 'slice')}"
    if each < MIN_PLANNED_LABELS:
        needed = MIN_PLANNED_LABELS * slices
        return f"{counted}: too few for intervals of slices, which need {needed:,} labels in all"
    if is_first:
        width = _width_at(each, CONFIDENCE)
        return f"{counted}: their 95 % intervals will be about {width:.2f} wide"
    look = look_at(each, max(each + 1, statements))
    width = _width_at(look.labels, look.confidence or CONFIDENCE)
    reason = f"because the run has labels already, and so {look.labels:,} labels count at this look"
    return f"{counted}: their 95 % intervals will be about {width:.2f} wide, {reason}"


def _width_at(labels: int, confidence: float) -> float:
    return 2 * two_sided_quantile(confidence, labels - 1) * 0.5 / math.sqrt(labels)


def carried(drawing: Drawing, turn: int, decisions: Decisions) -> list[LabelRow]:
    """Return rows that carry existing labels over to this drawing, before a turn."""
    of_drawing = decisions.drawn.get((drawing.name, drawing.frame), {})
    labels = {
        row.key: row
        for row in decisions.rows
        if row.human in (0, 1)
        and not row.adjudicated
        and decisions.of[row.key].get(row.annotator) == row.human
    }
    earlier = (
        drawn for drawn in drawing.statements if drawn.turn < turn and drawn.key not in of_drawing
    )
    return [
        labels[drawn.key].model_copy(update=drawing.of(drawn))
        for drawn in earlier
        if drawn.key in labels
    ]


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
    """Add the labels of sheets, files saved by the labelling page, or other runs' directories to a run.

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
        rows = _labels_of(as_run(source), run, frames)
        return _Reading(_respell(rows, decisions), [], None, [])
    if not any(label.is_answered for label in sheet.labels):
        hint = f"fill in the column human with 1 or 0; to withdraw labels, write ? ({source})"
        raise DataError("the file has no labels yet", hint=hint)
    named = _with_annotators(sheet.labels, source, annotator, decisions)
    labels = []
    for label in named:
        if label.is_answered or (label.label_id, label.annotator or "") not in elsewhere:
            labels.append(label)
    carried_over, rows, damaged = _decisions_in(run, frames, labels, decisions)
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
    return [
        f"the text of {numbered(len(damaged), 'row')} was changed, so only its label_id counts: {places}",
    ]


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
    shared = Counter[tuple[str, ...]](
        tuple(sorted(names)) for names in moments.values() if len(names) > 1
    )
    remarks = []
    for names, count in shared.most_common(_MAX_REMARKS):
        if annotators & {*names}:
            spelled = " and ".join(map(shorten_name, names))
            remarks.append(
                f"{spelled} have {numbered(count, 'answer')} with identical times: one file may be a "
                "copy of the other, which is no second opinion"
            )
    return remarks


def _labels_of(other: RunRecord, run: RunRecord, frames: Mapping[str, UnitFrame]) -> list[LabelRow]:
    labels = stored_labels(other.directory)
    keys = {key for frame in frames.values() for key in frame.by_key}
    rows = [row for row in labels if row.key in keys]
    if not rows:
        raise DataError(
            f"none of the {len(labels):,} labels in {other.directory} is for a statement in {run.directory}",
        )
    return rows


def _decision(row: LabelRow) -> tuple[Any, ...]:
    return row.annotator, row.key, row.draw, row.human, row.when, row.adjudicated


def _changes(rows: Sequence[LabelRow], before: Decisions, after: Decisions) -> Counter[str]:
    counts = Counter[str]()
    latest = {
        (row.key, row.annotator, row.adjudicated): row
        for row in sorted(rows, key=lambda row: row.moment)
    }
    for row in latest.values():
        old, new = (
            side.in_role_of(row).get(row.key, {}).get(row.annotator) for side in (before, after)
        )
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
    if (
        is_unnamed
        and others
        and any(label.human is not None and not label.annotator for label in sheet)
    ):
        shown = ", ".join(map(shorten_name, others[:_SHOWN]))
        problem = f"{source} does not name its annotator, and {shown} labelled this run"
        raise InputError(problem, hint=f"name the annotator with {option('annotator')}")
    only_name = names.pop() if len(names) == 1 else None
    name = earlier.spell(name_annotator(annotator or only_name))
    return [label._replace(annotator=earlier.spell(label.annotator or name)) for label in sheet]


def _decisions_in(
    run: RunRecord,
    frames: Mapping[str, UnitFrame],
    sheet: Sequence[SheetLabel],
    decisions: Decisions,
) -> tuple[list[LabelRow], list[LabelRow], list[SheetLabel]]:
    """Return carried-over decisions, those of the sheet, and its rows with a changed text."""
    places = first_places(frames.values())
    texts = {
        key: row.text
        for key, row in verdicts_at(run, {place: key for key, place in places.items()}).items()
    }
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
            drawn |= {
                (name, statement.key): drawing.of(statement) for statement in drawing.statements
            }
            carried_over += carried(
                drawing, max((statement.turn for statement in of_name), default=0), decisions
            )
    counting = {(row.key, row.annotator, row.adjudicated): row for row in decisions.rows}
    decided, when = list[LabelRow](), now(precise=True)
    for label in sheet:
        key = label.label_id
        if key not in texts:
            continue
        of_drawing = drawn.get((label.draw or "", key), {})
        last = counting.get((key, label.annotator or "", "adjudicated" in of_drawing))
        if (
            label.human is None
            and not label.when
            and not _from_sheet(last, of_drawing.get("draw"), decisions)
        ):
            continue  # left empty
        same = last is not None and last.human == label.human
        values = {
            "human": label.human,
            "annotator": label.annotator,
            "way": "page" if label.when else "sheet",
        }
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

    Raises DataError if it is the text of another statement: a column was sorted separately, so that
    the label may belong to either.
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
