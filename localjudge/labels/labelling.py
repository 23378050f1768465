"""Label a run: choose the next statements and store the decisions.

Terminal, sheets and pages give the same rows. A label from another drawing or run also counts for
the current drawing, and its statement is not shown again.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from localjudge.errors import InputError
from localjudge.labels.closest_sentences import (
    ClosestSentence,
    closest_sentences,
    require_evidence,
)
from localjudge.labels.corrected_mean import cannot_correct
from localjudge.labels.decisions import Decisions, pace
from localjudge.labels.drawing import (
    Drawing,
    DrawingOptions,
    disputed_statements,
    draw_statements,
    drawing_options,
    sheet_rows,
)
from localjudge.labels.label_sheet import EVIDENCE, EVIDENCE_SEEN, PLANNED, SheetRow
from localjudge.labels.run_labels import check_labels_allowed
from localjudge.labels.units import UnitFrame, correctable, unit_frames, verdicts_at
from localjudge.run_directory.label_rows import (
    Decision,
    EvidenceSeen,
    LabelRow,
    append_labels,
    name_annotator,
    now,
    stored_labels,
)
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.stats.corrected import MIN_CLUSTERS
from localjudge.stats.distributions import CONFIDENCE, two_sided_quantile
from localjudge.stats.looks import MIN_PLANNED_LABELS, look_at
from localjudge.types import Label
from localjudge.words import numbered, option, option_name

DEFAULT_COUNT = 50
NO_DISPUTE = "no disputed statement remains to be settled"


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
        show_evidence: bool = False,
    ) -> None:
        """Draw `sample` statements (default 50), or as many as this annotator labels in `minutes`.

        `by` draws about as many from each slice by a column. `more_disagreements` draws statements
        on which the judges of a jury disagree more often. `again` takes statements that others
        have labelled, by default those of the newest drawing. `disputed` takes all statements with
        different labels, to settle them. `show_evidence` shows the closest sentences at once,
        and marks the labels. Raises InputError for a metric without judge verdicts, a count below
        1, options that exclude each other, an unsuitable column, more disagreements of a single
        judge, evidence of a run without, or a run stopped by scores; RunDirectoryError for a
        folder without a run.
        """
        _check_choices(
            sample=sample is not None,
            minutes=minutes is not None,
            disputed=disputed,
            seed=disputed and bool(seed),
            again=disputed and again,
            by=disputed and by is not None,
            more_disagreements=disputed and more_disagreements,
        )
        if minutes is not None and not 0 < minutes < math.inf:
            raise InputError(f"{option_name('minutes')} must be more than 0, got {minutes}")
        self.run = as_run(run)
        check_labels_allowed(self.run)
        if more_disagreements:
            _check_jury(self.run)
        if show_evidence:
            require_evidence(self.run)
        self.show_evidence = show_evidence
        self._again = again
        self.disputed = disputed
        self._passed: list[SheetRow] = []
        self._decisions = Decisions(stored_labels(self.run.directory))
        self._named = annotator
        self.annotator = self._decisions.spell(name_annotator(annotator))
        self._opened = self._opened_earlier()
        is_plain = seed is None and metrics is None and by is None and not more_disagreements
        newest = self._newest_drawing() if again and is_plain else None
        if newest is not None:
            (seed, metrics, by, more_disagreements), last_index = newest
            if sample is None and minutes is None:
                sample = last_index
        frames = correctable(self.run, metrics)
        most = None
        if minutes is not None:
            most = self._labels_in(minutes)
            sample = most + len(self._decisions.answers)
        if disputed:
            shown = unit_frames(self.run) if metrics is None else frames
            self._drawing = disputed_statements(shown, self._decisions.disputed)
        else:
            count = DEFAULT_COUNT if sample is None else sample
            self._drawing = draw_statements(
                frames, count, seed or 0, by, more_disagreements=more_disagreements
            )
        self._select_rows(most)
        self.remarks = list(self._remarks(frames, by, more_disagreements=more_disagreements))
        statements = {key for frame in frames.values() for key in frame.by_key}
        self._complete = statements <= self._decisions.human.keys()

    def _remarks(
        self, frames: Mapping[str, UnitFrame], by: str | None, *, more_disagreements: bool
    ) -> Iterator[str]:
        """Yield what the annotator should know before labelling."""
        yield from _list_obstacles(frames)
        if by is not None and not self.disputed:
            drawn = len(self._drawing.statements)
            is_first = not self._decisions.rows
            yield slice_outlook(frames, by, drawn, is_first=is_first)
        if more_disagreements:
            yield disagreement_remark(frames)
        if self.show_evidence and self.rows and not self.closest_sentences:
            yield "no drawn statement has evidence, so none is shown"

    def _labels_in(self, minutes: float) -> int:
        """Return how many statements this annotator can label in this time."""
        rows = [row for row in self._decisions.rows if row.annotator == self.annotator]
        return max(1, round(60 * minutes / pace(rows)))

    def _select_rows(self, most: int | None) -> None:
        """Choose the drawn statements that remain for this annotator, at most this number."""
        answered, by_others = self._answered_statements()
        asked = self._drawing.statements
        done = answered | by_others
        if self._again:
            asked = [drawn for drawn in asked if drawn.key in by_others]
            done = answered
        if self.disputed:
            done = set(self._decisions.settled)
        left = [drawn for drawn in asked if drawn.key not in done][:most]
        self.rows = sheet_rows(self.run, self._drawing, left)
        self.total = len(asked)
        if left and most:
            self.total = asked.index(left[-1]) + 1

    def _newest_drawing(self) -> tuple[DrawingOptions, int] | None:
        """Return the options of the newest drawing that others labelled.

        Also return the number of its last labelled statement.
        """
        metrics = set(self.run.summary.metrics)
        for row in reversed(self._decisions.rows):
            options = drawing_options(row.draw or "")
            if options is None or row.annotator == self.annotator:
                continue
            if metrics.issuperset(options.metrics):
                rows = [other for other in self._decisions.rows if other.draw == row.draw]
                return options, max(other.draw_index or 0 for other in rows)
        return None

    def _answered_statements(self) -> tuple[set[str], set[str]]:
        """Return the statements answered by this annotator, and those labelled by others."""
        answered: set[str] = set()
        by_others: set[str] = set()
        for key, labels in self._decisions.answers.items():
            for annotator, label in labels.items():
                if annotator == self.annotator:
                    answered.add(key)
                elif label is not None:
                    by_others.add(key)
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
                hint = (
                    "a second opinion needs statements labelled by others "
                    f"and not by {self.annotator}"
                )
            elif self._complete:
                hint = f"all statements have a label; {option('again')} asks for a second opinion"
            raise InputError("no drawn statement remains to be labelled", hint=hint)
        more = {"annotator": self._named, PLANNED: len(self.rows)}
        rows = [{**row, **more} for row in self.rows]
        if self.show_evidence:
            for row in rows:
                row[EVIDENCE] = self.closest_sentences.get(row["label_id"], ())
                row[EVIDENCE_SEEN] = self._evidence_seen(row)
        return rows

    @cached_property
    def closest_sentences(self) -> dict[str, tuple[ClosestSentence, ...]]:
        """The evidence of the drawn statements by `label_id`, without what the judge says."""
        places = {drawn.place: drawn.key for drawn in self._drawing.statements}
        return closest_sentences(self.run, places)

    def open_evidence(self) -> tuple[ClosestSentence, ...]:
        """Return the evidence of the next statement, and remember that it was seen."""
        key = self.rows[0]["label_id"]
        self._opened.add(key)
        return self.closest_sentences.get(key, ())

    def _opened_earlier(self) -> set[str]:
        """Return the statements that this annotator left without an answer, but with evidence."""
        opened: set[str] = set()
        for row in self._decisions.rows:
            is_open = row.human is None and row.evidence_seen is not None
            if is_open and row.annotator == self.annotator:
                opened.add(row.key)
        return opened

    def remember_opened(self) -> None:
        """Store which of the remaining statements have been opened. It cannot be unseen."""
        stored = self._opened_earlier()
        for row in self.rows:
            key = row["label_id"]
            if key in self._opened - stored and self._evidence_seen(row):
                self._keep(row, None)

    def _evidence_seen(self, row: SheetRow) -> EvidenceSeen | None:
        """Return how the annotator has seen the evidence of a statement, or None."""
        if row["label_id"] not in self.closest_sentences:
            return None
        if self.show_evidence:
            return "shown"
        return "opened" if row["label_id"] in self._opened else None

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
            evidence_seen=self._evidence_seen(row),
            **self._drawing.describe(drawn),
        )
        rows = [*carry_over(self._drawing, drawn.draw_index, self._decisions), decision]
        append_labels(self.run.directory, rows)
        self._decisions = Decisions([*self._decisions.rows, *rows])


def _check_choices(**choices: bool) -> None:
    """Raise InputError if more than one of these options is given."""
    names = [option_name(name) for name, is_given in choices.items() if is_given]
    if len(names) > 1:
        raise InputError(f"{' and '.join(names)} exclude each other", hint="omit one of them")


def _list_obstacles(frames: Mapping[str, UnitFrame]) -> list[str]:
    """Return a remark for each mean that labels of some statements cannot correct."""
    remarks = []
    for name, frame in frames.items():
        reason = cannot_correct(frame)
        if reason:
            remarks.append(f"{name}: {reason}")
    return remarks


def _check_jury(run: RunRecord) -> None:
    """Raise InputError for a run by a single judge, which disagrees with no other one."""
    if not run.manifest.judge.jury:
        name = option_name("more_disagreements")
        raise InputError(
            f"{name} is for a jury, and {run.directory} was judged by "
            f"{run.manifest.card.name} only",
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


def carry_over(drawing: Drawing, draw_index: int, decisions: Decisions) -> list[LabelRow]:
    """Return rows that carry existing labels over to this drawing, before a statement of it."""
    labels: dict[str, LabelRow] = {}
    for row in decisions.rows:
        counts = decisions.answers.get(row.key, {}).get(row.annotator) == row.human
        if row.human in (0, 1) and not row.adjudicated and counts:
            labels[row.key] = row
    of_drawing = decisions.drawn.get((drawing.name, drawing.frame), {})
    rows = []
    for drawn in drawing.statements:
        is_earlier = drawn.draw_index < draw_index
        if is_earlier and drawn.key not in of_drawing and drawn.key in labels:
            rows.append(labels[drawn.key].model_copy(update=drawing.describe(drawn)))
    return rows
