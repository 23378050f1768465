"""The human labels of a run: annotators, times, agreement, and its means corrected by them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field

from localjudge.errors import InputError
from localjudge.labels.annotator_agreement import Agreement
from localjudge.labels.corrected_mean import CorrectedMean, correct_mean
from localjudge.labels.decisions import seconds_a_label
from localjudge.labels.matched_labels import match_labels
from localjudge.run_directory.files import describe_altered_labels
from localjudge.run_directory.label_rows import LabelRow, stored_labels
from localjudge.run_directory.run_record import RunRecord, as_run, cached_by_run
from localjudge.types import Record
from localjudge.words import numbered, option_name

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
    run: RunRecord, own: tuple[LabelRow, ...], others: tuple[LabelRow, ...] = ()
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


def check_labels_allowed(run: RunRecord) -> None:
    """Raise InputError for a run that scores stopped: labels cannot correct it."""
    if run.sampling.optional_stopping:
        problem = f"labels cannot correct {run.directory}, because its size depends on its scores"
        raise InputError(problem, hint=how_to_label(run))


def how_to_label(run: RunRecord) -> str:
    """Return what to do instead of labelling a run that was stopped by its scores."""
    resume = "judge all samples"
    if run.manifest.environment.settings.until:
        effect = "to get ordinary intervals (it asks no more questions)"
        if run.part:
            effect = "to judge all samples"
        resume = f"run the same command without {option_name('until')} {effect}"
    return f"{resume}; for fewer samples, use {option_name('sample')} or {option_name('budget')}"
