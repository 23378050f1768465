"""The human labels of a run: annotators, times, agreement, means corrected by them, statements."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from localjudge.labels.corrected_mean import CorrectedMean, correct_mean
from localjudge.labels.decisions import Agreement, Decisions, seconds_a_label
from localjudge.labels.matched_labels import match_labels
from localjudge.labels.units import unit_frames
from localjudge.run_directory.files import describe_altered_labels
from localjudge.run_directory.label_rows import LabelRow, stored_labels
from localjudge.run_directory.result_rows import VerdictId, VerdictRow
from localjudge.run_directory.run_record import RunRecord, as_run, cached_by_run
from localjudge.types import Label, Record
from localjudge.words import numbered

_COUNTED = ("counts", "evidence_use", "own_labels", "passed_over")
"""Fields of a slice's mean that remain its own while annotators differ too much."""


class RunLabels(Record):
    """Human labels of a run and the corrected means.

    `annotators` counts their labels, `ones` their labels of 1. `statements` have a label, `unsure`
    ones were undecidable. `passed_over` statements have no label, but later ones of their drawing
    do. `undrawn` labels were drawn from another set of statements, and correct no mean. `altered`
    says how the file differs from the labels verified last.
    """

    statements: int
    annotators: dict[str, int]
    ones: dict[str, int]
    first: str
    last: str
    unsure: int
    passed_over: int
    undrawn: int
    agreement: Agreement | None
    seconds_a_label: float
    corrected: dict[str, CorrectedMean]
    altered: str | None = Field(default=None, exclude=True)
    are_of_baseline: bool = Field(default=False, exclude=True)
    """Whether the run has no labels, so that those of its baseline count."""
    open_disputes: int = Field(default=0, exclude=True)
    """Disputed statements that nobody has been asked to settle."""

    @property
    def without_names(self) -> Self:
        """The same with numbers in place of the annotators' names."""
        agreement = self.agreement and self.agreement.model_copy(update={"pairs": ()})
        corrected: dict[str, CorrectedMean] = {}
        for name, mean in self.corrected.items():
            by_number = None
            if mean.by_annotator:
                means = enumerate(mean.by_annotator.values(), start=1)
                by_number = {f"annotator {number}": each for number, each in means}
            corrected[name] = mean.model_copy(update={"by_annotator": by_number})
        return self.model_copy(update={"agreement": agreement, "corrected": corrected})

    @property
    def is_incomplete(self) -> bool:
        """Whether more than a tenth of the drawn statements of a metric are unlabelled."""
        return any(mean.has_gaps for mean in self.corrected.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        warnings = []
        if self.altered:
            warnings.append(self.altered)
        if self.passed_over:
            missing = numbered(self.passed_over, "drawn statement")
            warnings.append(f"{missing} without a label, which may be harder than the rest")
        if self.undrawn:
            labels = numbered(self.undrawn, "label")
            warnings.append(f"{labels} drawn from other statements than this run's, so not used")
        return tuple(warnings)


def find_corrected(labels: RunLabels | None, metric: str) -> CorrectedMean | None:
    """Return the corrected mean of a metric, or None without labels that can correct it."""
    if labels is None:
        return None
    return labels.corrected.get(metric)


def read_run_labels(
    run: RunRecord | str | Path, others: Sequence[LabelRow] = ()
) -> RunLabels | None:
    """Return the labels of a run and its corrected means, or None without labels.

    If scores stopped the run, no mean is corrected. `others` are labels of other runs for equal
    statements, which count only in a run without labels: they may contradict its judge. Raises
    RunDirectoryError for an invalid row.
    """
    run = as_run(run)
    rows, other_rows = _rows_that_count(run, others)
    if run.so_far is not None or not (rows or other_rows):
        return None
    labels = _correct_means(run, rows, other_rows)
    altered = describe_altered_labels(run.directory)
    if labels and altered:
        return labels.model_copy(update={"altered": altered})
    return labels


def _rows_that_count(
    run: RunRecord, others: Sequence[LabelRow]
) -> tuple[tuple[LabelRow, ...], tuple[LabelRow, ...]]:
    """Return the labels of a run, and those of others if it has none."""
    rows = tuple(stored_labels(run.directory))
    if rows:
        return rows, ()
    return rows, tuple(others)


@cached_by_run
def _correct_means(
    run: RunRecord, own: tuple[LabelRow, ...], others: tuple[LabelRow, ...]
) -> RunLabels | None:
    """Return the corrected means by the run's own and other labels, or None if none match."""
    matched = match_labels(run, own, others)
    decisions = matched.decisions
    if not decisions.human:
        return None
    seconds = seconds_a_label(decisions.rows)
    failed = run.summary.failed_beyond(run.max_failed)
    corrected: dict[str, CorrectedMean] = {}
    for name, frame in matched.frames.items():
        if frame.by_key:
            is_failed = name in failed
            corrected[name] = correct_mean(frame, matched, seconds, too_many_failed=is_failed)
    labelled = [row for row in decisions.rows if row.key in decisions.human]
    return RunLabels(
        statements=len(decisions.human),
        annotators=dict(sorted(decisions.annotators.items())),
        ones=decisions.count_ones(),
        first=labelled[0].when,
        last=labelled[-1].when,
        unsure=len(decisions.undecidable),
        passed_over=len(matched.passed_over),
        undrawn=matched.undrawn,
        agreement=decisions.agreement(),
        seconds_a_label=seconds,
        corrected=corrected,
        are_of_baseline=not own,
        open_disputes=len(set(decisions.disputed) - decisions.adjudications.keys()),
    )


def slice_means(
    run: RunRecord, value_of: Mapping[str, str | None], others: Sequence[LabelRow] = ()
) -> dict[str | None, dict[str, CorrectedMean]]:
    """Return the corrected means of each slice by metric, {} without labels.

    `value_of` is the slice of each sample. Looks are separate for each slice.
    """
    labels = read_run_labels(run, others)
    means: dict[str | None, dict[str, CorrectedMean]] = {value: {} for value in value_of.values()}
    if labels is None:
        return means
    matched = match_labels(run, *_rows_that_count(run, others))
    for name, frame in matched.frames.items():
        for value, part in frame.by_value(value_of).items():
            if not part.by_key:
                continue
            mean = correct_mean(part, matched, labels.seconds_a_label)
            of_whole = labels.corrected[name]
            if of_whole.unsettled:
                counted = {name: getattr(mean, name) for name in _COUNTED}
                mean = of_whole.model_copy(update=counted)
            means[value][name] = mean
    return means


class LabelledStatement(Record):
    """A labelled statement, with its first verdict.

    `answers` are the annotators' labels, None for "cannot tell". `human` is the label that counts:
    the adjudicator's, else the label that all annotators gave, or None while they differ.
    """

    sample_id: str
    metric: str
    position: int
    text: str
    answers: dict[str, Label | None]
    human: Label | None
    adjudicator: str | None = None

    @property
    def answers_line(self) -> str:
        """All answers, such as `ann 1, bob 0`."""
        answers = []
        for name, label in self.answers.items():
            if label is None:
                answers.append(f"{name} ?")
            else:
                answers.append(f"{name} {label}")
        return ", ".join(answers)

    @property
    def label_line(self) -> str:
        """The label that counts, such as `1 by ann, bob`, or `no` while annotators differ."""
        if self.human is None:
            return "no"
        return f"{self.human} by {self.adjudicator or self.annotators}"

    @property
    def annotators(self) -> str:
        """Names of the annotators with a label, and the adjudicator."""
        names = [name for name, label in self.answers.items() if label is not None]
        if self.adjudicator and self.adjudicator not in names:
            names.append(self.adjudicator)
        return ", ".join(names)

    @property
    def is_disputed(self) -> bool:
        """Whether two annotators gave different labels, settled by now or not."""
        labels = {label for label in self.answers.values() if label is not None}
        return len(labels) > 1

    def contradicts(self, row: VerdictRow) -> bool:
        """Return whether the label that counts differs from the judge's verdict.

        A verdict without a probability is not by a judge.
        """
        if self.human is None or row.label is None or row.p_yes is None:
            return False
        return row.label != self.human

    def remark_on(self, row: VerdictRow) -> str:
        """Return the human label, such as `differs from human label 0 by ann, bob`."""
        if self.human is None:
            return f"annotators differ: {self.answers_line}"
        label = f"human label {self.label_line}"
        if self.contradicts(row):
            return f"differs from {label}"
        return label


def with_labels(
    run: RunRecord,
    rows: Iterable[VerdictRow],
    labelled: Mapping[VerdictId, LabelledStatement] | None = None,
) -> Iterator[tuple[VerdictRow, LabelledStatement | None]]:
    """Yield these verdicts of a run with their labelled statements, if they have one.

    The labels are by default from the run directory.
    """
    if labelled is None:
        labelled = labelled_statements(run)
    for row in rows:
        yield row, labelled.get(row.verdict_id)


def values_with_labels(row: VerdictRow, statement: LabelledStatement | None) -> dict[str, Any]:
    """Return the verdict with the columns `human` and `annotators`, None without a label."""
    values = {**vars(row), "human": None, "annotators": None}
    del values["evidence"]
    if statement:
        values["human"] = statement.human
        values["annotators"] = statement.annotators
    return values


def measure_certainty(run: RunRecord, row: VerdictRow) -> float:
    """Return how far the probability of a verdict is from the threshold, 0 without one."""
    if row.p_yes is None:
        return 0.0
    return abs(row.p_yes - run.manifest.judge.rule.threshold_of(row.metric))


def disagreements(
    run: RunRecord, metrics: Collection[str]
) -> list[tuple[VerdictRow, LabelledStatement]]:
    """Return the verdicts of these metrics that differ from their human label, the surest first."""
    differing: list[tuple[VerdictRow, LabelledStatement]] = []
    for row, statement in with_labels(run, run.iter_verdicts()):
        if row.metric in metrics and statement and statement.contradicts(row):
            differing.append((row, statement))
    return sorted(differing, key=lambda verdict: -measure_certainty(run, verdict[0]))


def labelled_statements(run: RunRecord) -> Mapping[VerdictId, LabelledStatement]:
    """Return the labelled statements by verdict. An unfinished run has none.

    Raises RunDirectoryError for an invalid label.
    """
    if run.so_far is not None:
        return {}
    rows = stored_labels(run.directory)
    if not rows:
        return {}
    return _statements(run, tuple(rows))


@cached_by_run
def _statements(
    run: RunRecord, rows: tuple[LabelRow, ...]
) -> Mapping[VerdictId, LabelledStatement]:
    decisions = Decisions(rows)
    texts = {row.key: row.text for row in rows}
    by_key: dict[str, LabelledStatement] = {}
    by_verdict: dict[VerdictId, LabelledStatement] = {}
    for frame in unit_frames(run).values():
        for key, indices in frame.by_key.items():
            if key not in decisions.human:
                continue
            if key not in by_key:
                by_key[key] = _statement(key, texts[key], frame.verdict_ids[indices[0]], decisions)
            for index in indices:
                by_verdict[frame.verdict_ids[index]] = by_key[key]
    return by_verdict


def _statement(key: str, text: str, first: VerdictId, decisions: Decisions) -> LabelledStatement:
    adjudicator, label = decisions.settled.get(key, (None, decisions.human[key]))
    human: Label | None = None  # while annotators differ, the label is between 0 and 1
    if label == 0:
        human = 0
    elif label == 1:
        human = 1
    return LabelledStatement(
        **first._asdict(),
        text=text,
        answers=decisions.answers.get(key, {}),
        human=human,
        adjudicator=adjudicator,
    )


def disputed_statements(run: RunRecord, metrics: Collection[str]) -> list[LabelledStatement]:
    """Return the statements of these metrics with different labels, in the order of the run."""
    disputed: dict[int, LabelledStatement] = {}
    for verdict_id, statement in labelled_statements(run).items():
        if verdict_id.metric in metrics and statement.is_disputed:
            disputed[id(statement)] = statement  # the same statement has several verdicts
    return list(disputed.values())
