"""Label a run, or two runs together: choose the next statements and store the decisions.

Terminal, sheets and pages give the same rows. A label from another drawing or run also counts for
the current drawing, and its statement is not shown again.
"""

import math
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal

import numpy as np

from localjudge.errors import InputError
from localjudge.labels.corrected_mean import cannot_correct
from localjudge.labels.decisions import Decisions
from localjudge.labels.drawing import (
    Drawing,
    DrawingOptions,
    draw_disputed,
    draw_statements,
)
from localjudge.labels.label_sheet import CLOSEST, EVIDENCE_SEEN, PLANNED
from localjudge.labels.label_source import (
    ClosestSentence,
    LabelSource,
    SheetRow,
    require_evidence,
)
from localjudge.labels.matched_labels import carry_over
from localjudge.labels.units import DifferenceFrame, UnitFrame, statement_keys
from localjudge.run_directory.directory import now
from localjudge.run_directory.label_rows import (
    Decision,
    EvidenceSeen,
    LabelRow,
    append_labels,
    name_annotator,
    stored_labels,
)
from localjudge.stats.corrected import MIN_CLUSTERS, drawing_sizes
from localjudge.stats.interval import CONFIDENCE, Z_CONFIDENCE, Z_POWER, two_sided_quantile
from localjudge.stats.repeated_looks import MIN_PLANNED_LABELS, look_at
from localjudge.types import Label
from localjudge.words import numbered, option, option_name

DEFAULT_COUNT = 50
PLAIN_DRAWING = DrawingOptions()
NO_DISPUTE = "no disputed statement remains to be settled"
_DIFFERENCES = (0.05, 0.1)
"""Differences of two means for which the number of labels is told."""


class Labelling:
    """Statements drawn for one annotator, with the decisions so far.

    `rows` remain to be labelled, in order. `remarks` name the means that labels cannot correct.
    """

    def __init__(
        self,
        source: LabelSource,
        annotator: str | None = None,
        options: DrawingOptions = PLAIN_DRAWING,
        *,
        show_evidence: bool = False,
    ) -> None:
        """Draw the statements for this annotator, by default the user of this machine.

        `show_evidence` shows the closest sentences at once, and marks the labels. Raises InputError
        for a metric without judge verdicts, a count below 1, options that exclude each other, an
        unsuitable column, or evidence of a run without.
        """
        _check_options(options)
        if show_evidence:
            for run, _ in source.runs:
                require_evidence(run)
        self.show_evidence = show_evidence
        self.disputed = options.disputed
        self._passed: list[SheetRow] = []
        self._decisions = Decisions(stored_labels(source.directory))
        self._named = annotator
        self.annotator = self._decisions.spell(name_annotator(annotator))
        self._opened = self._opened_earlier()
        frames = source.correctable(options.metrics)
        self.source = source._replace(labelled_for=tuple(frames))
        self._drawing = self._draw(frames, options)
        done = self._answered_statements()
        if self.disputed:
            done = set(self._decisions.settled)
        left = [drawn for drawn in self._drawing.statements if drawn.key not in done]
        self.rows = self.source.sheet_rows(self._drawing, left)
        self.total = len(self._drawing.statements)
        self.remarks = self._list_remarks(frames, options)
        self._complete = statement_keys(frames.values()) <= self._decisions.human.keys()

    def _draw(self, frames: Mapping[str, UnitFrame], options: DrawingOptions) -> Drawing:
        """Draw as many statements as are wanted, or all disputed ones."""
        if options.disputed:
            if options.metrics is None:
                frames = self.source.frames
            return draw_disputed(frames, self._decisions.disputed)
        count = DEFAULT_COUNT
        if options.sample is not None:
            count = options.sample
        return draw_statements(frames, count, options.seed or 0, options.by)

    def _list_remarks(self, frames: Mapping[str, UnitFrame], options: DrawingOptions) -> list[str]:
        """Return what the annotator should know before labelling."""
        remarks = []
        for name, frame in frames.items():
            reason = cannot_correct(frame)
            if reason:
                remarks.append(f"{name}: {reason}")
        if options.by is not None and not options.disputed:
            drawn = len(self._drawing.statements)
            is_first = not self._decisions.rows
            remarks.append(_slice_outlook(frames, options.by, drawn, is_first=is_first))
        if not options.disputed:
            remarks += _difference_outlook(frames)
            others: list[str] = []
            for name, frame in self.source.frames.items():
                if name not in frames and frame.share_of and frame.by_key:
                    others.append(name)
            if others and self.source.is_joint:
                named = option("metrics", others[0])
                remarks.append(
                    f"these labels are for {', '.join(frames)}; for another metric: {named}"
                )
        if self.show_evidence and self.rows and not self.closest_sentences:
            remarks.append("no drawn statement has evidence, so none is shown")
        return remarks

    def _answered_statements(self) -> set[str]:
        """Return the statements that this annotator has answered, or another one labelled."""
        answered: set[str] = set()
        for key, labels in self._decisions.answers.items():
            for annotator, label in labels.items():
                if annotator == self.annotator or label is not None:
                    answered.add(key)
        return answered

    @property
    def labelled(self) -> int:
        return self.total - len(self.rows)

    def rows_to_send(self) -> list[SheetRow]:
        """Return the remaining rows for another annotator. Raises InputError if none is left."""
        if not self.rows:
            hint = f"draw more with {option('sample')}"
            if self.disputed:
                raise InputError(NO_DISPUTE)
            if self._complete:
                hint = "all statements have a label"
            raise InputError("no drawn statement remains to be labelled", hint=hint)
        more = {"annotator": self._named, PLANNED: len(self.rows)}
        rows = [{**row, **more} for row in self.rows]
        if self.show_evidence:
            for row in rows:
                row[CLOSEST] = self.closest_sentences.get(row["label_id"], ())
                row[EVIDENCE_SEEN] = self._evidence_seen(row)
        return rows

    @cached_property
    def closest_sentences(self) -> dict[str, tuple[ClosestSentence, ...]]:
        """The evidence of the drawn statements by `label_id`, without what the judge says."""
        return self.source.closest_sentences(drawn.key for drawn in self._drawing.statements)

    def texts_read(self) -> dict[str, str]:
        """Return what a reader has read for the drawn statements, by `label_id`."""
        return self.source.texts_read(drawn.key for drawn in self._drawing.statements)

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
        parts: dict[str, dict[str, float]] = {}
        for key, verdict in self.source.verdicts(row["label_id"] for row in self.rows).items():
            if verdict.judges:
                parts[key] = verdict.judges
        return parts

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
            **vars(drawn),
            text=row["text"],
            human=label,
            annotator=self.annotator,
            when=now(precise=True),
            way="terminal",
            evidence_seen=self._evidence_seen(row),
        )
        read_at = datetime.now(UTC)
        rows = carry_over(self._drawing, drawn.turn, self._decisions)
        rows += self._decisions.in_order([decision], read_at)
        append_labels(self.source.directory, rows)
        self._decisions = Decisions([*self._decisions.rows, *rows])


def _check_options(options: DrawingOptions) -> None:
    """Raise InputError for options that exclude each other."""
    is_disputed = options.disputed
    choices = {
        "sample": options.sample is not None,
        "disputed": is_disputed,
        "seed": is_disputed and bool(options.seed),
        "by": is_disputed and options.by is not None,
    }
    names = [option_name(name) for name, is_chosen in choices.items() if is_chosen]
    if len(names) > 1:
        raise InputError(f"{' and '.join(names)} exclude each other", hint="omit one of them")


def _difference_outlook(frames: Mapping[str, UnitFrame]) -> list[str]:
    """Return how many labels would show a difference of two runs, for frames of differences."""
    remarks = []
    for name, frame in frames.items():
        if isinstance(frame, DifferenceFrame):
            remarks.append(f"{name}: {_describe_statements(frame)}")
            for difference in _DIFFERENCES:
                labels = labels_to_detect(frame, difference)
                if labels is not None:
                    need = f"about {numbered(labels, 'label')}"
                else:
                    questions = questions_to_detect(frame, difference)
                    need = f"more questions: about {questions:,} like these"
                remarks.append(f"{name}: a difference of {difference} takes {need}")
    return remarks


def labels_to_detect(frame: DifferenceFrame, difference: float) -> int | None:
    """Return how many labels would detect a difference in four of five cases, None if none would.

    It supposes that the judge's probabilities are right. None: more questions are needed.
    """
    most = len(frame.by_key)
    if most == 0 or _detectable(frame, most) > difference:
        return None
    least = min(MIN_PLANNED_LABELS, most)
    while least < most:
        middle = (least + most) // 2
        if _detectable(frame, middle) <= difference:
            most = middle
        else:
            least = middle + 1
    return most


def questions_to_detect(frame: DifferenceFrame, difference: float) -> int:
    """Return how many questions would detect a difference if all of their statements had a label.

    The detectable difference is in proportion to 1 / sqrt(questions).
    """
    questions = len(np.unique(frame.clusters))
    detectable = _detectable(frame, max(1, len(frame.by_key)))
    return math.ceil(questions * (detectable / difference) ** 2)


def _detectable(frame: DifferenceFrame, labels: int) -> float:
    """Return the smallest difference that this number of labels is expected to detect.

        variance    sum over clusters (d - share D)^2 + sum over statements w^2 p (1 - p) / pi
        detectable  (z_confidence + z_power) sqrt(variance + unseen)

    d and D are the differences by probabilities p, w the weights, pi = min(1, labels * size / sum
    of the sizes) the chance of being drawn. Unseen errors count as in `stats.corrected`.
    """
    units = [indices[0] for indices in frame.by_key.values()]
    p = frame.p_yes[units]
    weights = frame.weights[units]
    sizes = drawing_sizes(weights, p)
    chances = np.minimum(1.0, labels * sizes / sizes.sum())
    predicted = np.where(np.isnan(frame.p_yes), frame.judged, frame.p_yes)
    variance = frame.variance_of_clusters(predicted)
    variance += float((weights**2 * p * (1 - p) / chances).sum())
    if labels < len(units):
        variance += float((weights**2 / chances).sum()) / labels
    return math.sqrt(variance) * (Z_CONFIDENCE + Z_POWER)


def _describe_statements(frame: DifferenceFrame) -> str:
    """Return how many statements two runs have, and which of them are never drawn."""
    counted = f"the answers of both have {numbered(len(frame.weights), 'statement')}"
    if frame.statements < len(frame.weights):
        counted = f"{counted}, {frame.statements:,} of them different"
    drawn = f"{len(frame.by_key):,} can change the difference"
    if not frame.uncounted:
        return f"{counted}; {drawn}"
    others = f"the other {frame.uncounted:,} count the same in both and are never asked"
    return f"{counted}; {drawn}, {others}"


def _slice_outlook(frames: Mapping[str, UnitFrame], by: str, labels: int, *, is_first: bool) -> str:
    """Return how wide the intervals of slices will be with this number of labels.

    As many labels go to each slice of enough samples, and to all smaller ones together. The width
    is the one of n labels without a judge at a share of one half, 2 t 0.5 / sqrt(n). The first
    labels of a run are planned, so their intervals are ordinary ones; for later labels the last
    look (`stats.repeated_looks`) counts.
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
