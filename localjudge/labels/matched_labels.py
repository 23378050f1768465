"""Match labels of a run and of others with its statements, by the texts shown, and its drawings.

A label stores the name of its drawing and the frame, which is the hash of the statements that were
drawn from. Only a drawing from the statements of a run can correct its means.

The labels of a metric are counted beside the judge's verdicts on the same statements:

    statement   human   judge            19 labelled statements
    a             0       1              annotators support 0, the judge supports 19
    b             0       1              McNemar's exact test: 2 * 0.5^19 = 0.000004
    ...

Evidence that leads the eye can also mislead it. So labels given with the evidence open are compared
with the verdicts apart from the others.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from localjudge.labels.decisions import Decisions
from localjudge.labels.drawing import Drawing, DrawingName, draw_again, drawn_metrics
from localjudge.labels.units import UnitFrame, statement_keys, unit_frames
from localjudge.metrics import catalog
from localjudge.run_directory.label_rows import (
    DRAWING_KEYS,
    LabelRow,
    planned_statements,
    stored_labels,
)
from localjudge.run_directory.run_record import RunRecord, cached_by_run
from localjudge.stats.agreement import mcnemar_test
from localjudge.types import Record
from localjudge.words import numbered, three_digits

SIGNIFICANT = 0.01
"""Below this p-value the labels contradict the judge."""
SMALLEST_SHOWN = 0.001

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


class LabelCounts(Record):
    """Labelled statements of a metric, and how many of them count for it: by a label of 1, or of 0.

    `supported` statements count by their labels, `supported_by_judge` by the verdicts. Annotators
    differ on `disputed` ones, which count by no label; `undisputed_by_judge` and McNemar's
    `p_value` leave them out. `of` is the number of all statements of the metric. `is_share`: the
    metric's score is the share of the statements that count.
    """

    metric: str
    is_share: bool
    labelled: int
    of: int
    supported: int
    supported_by_judge: int
    undisputed_by_judge: int
    disputed: int
    p_value: float

    @property
    def is_contradiction(self) -> bool:
        return self.p_value < SIGNIFICANT

    @property
    def undisputed(self) -> int:
        return self.labelled - self.disputed

    @property
    def in_words(self) -> str:
        """`0 of 19 labelled statements are supported by the documents, annotators differ on 2`."""
        if not self.undisputed:
            return f"annotators differ on every labelled statement ({self.disputed:,})"
        template = labelled_template(self.metric)
        if template is None or not self.is_share:
            template = "{supported} of {n} labelled statements have the label 1"
        words = template.format(supported=f"{self.supported:,}", n=f"{self.labelled:,}")
        if self.disputed:
            words += f", annotators differ on {self.disputed:,}"
        return words

    @property
    def contradiction(self) -> str | None:
        """`the labels contradict the judge: 0 of 19 labelled statements are ..., ... says 19`.

        With disputes: `..., annotators differ on 2, of the other 17 the judge says 17`.
        """
        if not self.is_contradiction:
            return None
        p_value = f"p = {three_digits(self.p_value)}"
        if self.p_value < SMALLEST_SHOWN:
            p_value = f"p < {SMALLEST_SHOWN:g}"
        judge = f"the judge says {self.undisputed_by_judge:,} ({p_value})"
        if self.disputed:
            judge = f"of the other {self.undisputed:,} {judge}"
        return f"the labels contradict the judge: {self.in_words}, {judge}"


def labelled_template(metric: str) -> str | None:
    """Return the sentence about the labels of a metric, None for one that is no share.

    For example: `{supported} of {n} labelled statements are supported by the documents`.
    """
    headline = catalog.about(metric).headline
    _, _, rest = headline.partition("{} of the ")
    noun, _, predicate = rest.partition(" ")
    if not predicate:
        return None
    if noun == "sentences":
        noun = "statements"
    return f"{{supported}} of {{n}} labelled {noun} {predicate}"


def are_too_many(passed_over: int, counts: LabelCounts | None) -> bool:
    """Return whether more than a tenth of the drawn statements have no label."""
    if counts is None:
        return passed_over > 0
    return 10 * passed_over > counts.labelled + passed_over


def count_labels(frame: UnitFrame, human: Mapping[str, float]) -> LabelCounts | None:
    """Count the labels of a metric's statements, or return None if none has one.

    `human` is the label by key, between 0 and 1 if annotators differ.
    """
    keys = frame.by_key.keys() & human.keys()
    if not keys:
        return None
    supporting_label = 1.0
    if frame.share_of == "zeros":
        supporting_label = 0.0
    supported_by_judge = 0
    # Undisputed statements, by whether annotators support them, and whether the judge does.
    pairs: Counter[tuple[bool, bool]] = Counter()
    for key in keys:
        first_unit = frame.by_key[key][0]
        by_judge = bool(frame.judged[first_unit] == supporting_label)
        supported_by_judge += by_judge
        label = human[key]
        if label in (0.0, 1.0):
            pairs[label == supporting_label, by_judge] += 1
    return LabelCounts(
        metric=frame.metric,
        is_share=frame.share_of is not None,
        labelled=len(keys),
        of=len(frame.by_key),
        supported=pairs[True, True] + pairs[True, False],
        supported_by_judge=supported_by_judge,
        undisputed_by_judge=pairs[True, True] + pairs[False, True],
        disputed=len(keys) - pairs.total(),
        p_value=mcnemar_test(pairs[False, True], pairs[True, False]),
    )


class EvidenceUse(Record):
    """Labels of a metric's statements by whether the evidence was open, and the judge's agreement.

    Of the labels with open evidence, `shown` were made with `--show-evidence`.
    """

    open: int
    open_agreeing: int
    shown: int
    closed: int
    closed_agreeing: int

    @property
    def in_words(self) -> str:
        """`closest sentences open for 12 of 50 labels: the judge agrees with 11 of them ...`."""
        labels = self.open + self.closed
        counted = f"closest sentences open for {self.open:,} of {numbered(labels, 'label')}"
        if self.shown:
            counted += f" (shown at once for {self.shown:,})"
        agreement = f"the judge agrees with {self.open_agreeing:,} of them"
        if self.closed:
            agreement += f", and with {self.closed_agreeing:,} of the other {self.closed:,}"
        return f"{counted}: {agreement}"


def count_evidence_use(
    labelled: Collection[str], frame: UnitFrame, decisions: Decisions
) -> EvidenceUse | None:
    """Count the labels of these statements of a metric, or return None if none used the evidence.

    A label of each annotator counts, and so does one of each adjudicator.
    """
    labels = []
    for row in decisions.latest.values():
        if row.key in labelled and row.human in (0, 1):
            labels.append(row)
    if not any(row.evidence_seen for row in labels):
        return None
    counts = dict.fromkeys(EvidenceUse.model_fields, 0)
    for row in labels:
        kind = "open" if row.evidence_seen else "closed"
        counts[kind] += 1
        counts["shown"] += row.evidence_seen == "shown"
        judged = frame.judged[frame.by_key[row.key][0]]
        counts[f"{kind}_agreeing"] += bool(judged == row.human)
    return EvidenceUse(**counts)
