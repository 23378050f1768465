"""Read the human labels of runs, by question, for measuring their judges.

All runs share the labels of equal statements:

    run A   labels of statements 1 to 60 ──┐
    run B   no labels                      ├── attribution: 60 labels, answers of both judges
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain

from localjudge.errors import DataError
from localjudge.labels.decisions import Decisions
from localjudge.labels.judge_comparison import JudgeAnswers, LabelledQuestion
from localjudge.labels.label_source import check_labels_allowed
from localjudge.labels.labelled_units import sampling_weights
from localjudge.labels.matched_labels import labelled_drawings
from localjudge.labels.run_labels import read_run_labels
from localjudge.labels.units import (
    UnitFrame,
    statement_keys,
    unit_frames,
    verdicts_at,
)
from localjudge.metrics.catalog import get_question
from localjudge.progress import Progress
from localjudge.run_directory.directory import canonical_sha256
from localjudge.run_directory.label_rows import (
    LABELS,
    DrawnStatement,
    LabelRow,
    stored_labels,
)
from localjudge.run_directory.measured_judges import LabelSavings
from localjudge.run_directory.result_rows import VerdictId
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import Label
from localjudge.words import call, numbered

_TIE = 0.5
_Drawings = Mapping[str, Sequence[Sequence[DrawnStatement]]]
"""Drawings by metric."""


def read_labelled_runs(
    runs: Sequence[RunRecord], metrics: Sequence[str] | None, progress: Progress
) -> list[LabelledQuestion]:
    """Return the labels of each question that `metrics` ask, with the answers of all runs.

    None for `metrics` means all. Skips a question that is not labelled in every run. Raises
    DataError without any question.
    """
    rows: list[LabelRow] = []
    frames_by_run: list[dict[str, UnitFrame]] = []
    for run in runs:
        check_labels_allowed(run)
        rows += stored_labels(run.directory)
        frames_by_run.append(unit_frames(run))
    decisions = Decisions(rows)
    drawings = _find_drawings(decisions, frames_by_run)
    questions = []
    for question, frames in _group_by_question(frames_by_run, metrics).items():
        labelled_runs = sum(_has_labels(frames_of_run, decisions) for frames_of_run in frames)
        if labelled_runs == len(runs):
            questions.append(_read_question(question, runs, frames, decisions, drawings))
        elif labelled_runs:
            progress.note(f"{question} skipped: not every run has labelled statements for it")
    if questions:
        return questions
    wanted = ""
    if metrics:
        wanted = f" of {', '.join(metrics)}"
    where = ", ".join(str(run.directory) for run in runs)
    raise DataError(
        f"no labelled statements{wanted} in each of {where}",
        hint=f"label some: {call('label', str(runs[0].directory))}",
    )


def _find_drawings(
    decisions: Decisions, frames_by_run: Iterable[Mapping[str, UnitFrame]]
) -> _Drawings:
    """Return the drawings of the first run that has any."""
    for frames in frames_by_run:
        drawings = labelled_drawings(decisions, frames)
        if any(drawings.values()):
            return drawings
    return {}


def _group_by_question(
    frames_by_run: Sequence[Mapping[str, UnitFrame]], metrics: Sequence[str] | None
) -> dict[str, list[list[UnitFrame]]]:
    """Return the frames that ask each question, for each run."""
    groups: dict[str, list[list[UnitFrame]]] = {}
    for number, frames in enumerate(frames_by_run):
        for name, frame in frames.items():
            if metrics is None or name in metrics:
                question = get_question(name)
                if question not in groups:
                    groups[question] = [[] for _ in frames_by_run]
                groups[question][number].append(frame)
    return groups


def _has_labels(frames: Iterable[UnitFrame], decisions: Decisions) -> bool:
    return not statement_keys(frames).isdisjoint(decisions.human)


def _read_question(
    question: str,
    runs: Sequence[RunRecord],
    frames: Sequence[Sequence[UnitFrame]],
    decisions: Decisions,
    drawings: _Drawings,
) -> LabelledQuestion:
    """Return the labels of one question, with the answers of each run's judge.

    `frames` are the frames of each run that ask it.
    """
    labels: dict[str, Label] = {}
    clusters: dict[str, str] = {}
    judges = []
    tied: set[str] = set()
    for run, frames_of_run in zip(runs, frames, strict=True):
        keys: dict[VerdictId, str] = {}
        for key, verdict_id in _decided_statements(frames_of_run, decisions):
            share = decisions.human.get(key, _TIE)
            if share == _TIE:
                tied.add(key)
                continue
            keys[verdict_id] = key
            if key not in labels:
                labels[key] = 1 if share > _TIE else 0
                # Without groups, each sample is one.
                sample_id = verdict_id.sample_id
                clusters[key] = (run.cluster_of or {}).get(sample_id, sample_id)
        savings = _find_savings(run, frames_of_run, decisions)
        judges.append(JudgeAnswers(run, verdicts_at(run, keys), savings))
    _require_shared(runs, labels, clusters, judges)
    drawn = _weigh_statements(list(chain.from_iterable(frames)), decisions, drawings)
    weights = {key: drawn.get(key, 1.0) for key in labels}
    labels_and_weights = {key: (label, weights[key]) for key, label in labels.items()}
    labels_used = _describe_files(runs) | {
        "sha256": canonical_sha256(labels_and_weights),
        "unlabelled": len(tied),
    }
    remarks = tuple(_remark_on_labels(labels.keys(), drawn.keys(), decisions))
    return LabelledQuestion(question, labels, weights, clusters, judges, labels_used, remarks)


def _require_shared(
    runs: Sequence[RunRecord],
    labels: Mapping[str, Label],
    clusters: Mapping[str, str],
    judges: Iterable[JudgeAnswers],
) -> None:
    """Raise DataError if several runs share too few labelled statements to compare their judges."""
    if len(runs) == 1:
        return
    shared = set(labels)
    for judge in judges:
        shared &= judge.verdicts.keys()
    if len({clusters[key] for key in shared}) > 1:
        return
    statements = numbered(len(labels), "labelled statement")
    problem = f"only {len(shared):,} of {statements} is in each of {len(runs)} runs"
    example = call("calibrate", str(runs[0].directory))
    hint = f"the judges of several runs are compared on the same statements; of one run: {example}"
    raise DataError(problem, hint=hint)


def _remark_on_labels(labels: Set[str], drawn: Set[str], decisions: Decisions) -> Iterator[str]:
    """Yield remarks on labels of these statements: not drawn, or given with the evidence open."""
    undrawn = len(labels - drawn)
    if undrawn:
        remark = f"{undrawn} of {len(labels)} labels were not drawn from these statements"
        yield f"{remark}, so each counts once"
    with_evidence: set[str] = set()
    for row in decisions.rows:
        if row.evidence_seen and row.human in (0, 1) and row.key in labels:
            with_evidence.add(row.key)
    if with_evidence:
        remark = f"the evidence was open for {len(with_evidence)} of {len(labels)} labels"
        yield f"{remark}, which can lead to the judge's answer"


def _weigh_statements(
    frames: Sequence[UnitFrame], decisions: Decisions, drawings: _Drawings
) -> dict[str, float]:
    """Return the weights of drawn statements, by key: 1 if all statements are labelled."""
    keys = statement_keys(frames)
    if keys <= decisions.human.keys():
        return dict.fromkeys(keys, 1.0)
    weights: dict[str, float] = {}
    for metric in dict.fromkeys(frame.metric for frame in frames):
        weights |= sampling_weights(drawings.get(metric, ()))
    return weights


def _decided_statements(
    frames: Iterable[UnitFrame], decisions: Decisions
) -> Iterator[tuple[str, VerdictId]]:
    """Yield the first verdict on each statement that an annotator decided or found undecidable."""
    for frame in frames:
        for key, units in frame.by_key.items():
            if decisions.answers.get(key) or key in decisions.human:
                yield key, frame.verdict_ids[units[0]]


def _find_savings(
    run: RunRecord, frames: Iterable[UnitFrame], decisions: Decisions
) -> LabelSavings | None:
    """Return the labels that the judge saves in the corrected mean with most labels.

    None if no corrected mean has an interval.
    """
    run_labels = read_run_labels(run, decisions.rows)
    if run_labels is None:
        return None
    most: LabelSavings | None = None
    for frame in frames:
        mean = run_labels.corrected.get(frame.metric)
        if mean is None or mean.labels_saved is None:
            continue
        if most is None or mean.labels > most.of:
            most = LabelSavings(labels=mean.labels_saved, of=mean.labels)
    return most


def _describe_files(runs: Sequence[RunRecord]) -> dict[str, str | int]:
    """Return the files of the labels, and the column of the groups of their samples."""
    files = [run.directory / LABELS for run in runs]
    column = runs[0].manifest.environment.settings.cluster_by
    clustered_by = "the same sample"
    if runs[0].cluster_of is not None and column:
        clustered_by = str(column)
    return {
        "file": ", ".join(str(file) for file in files if file.exists()),
        "shape": "verdicts",
        "clustered_by": clustered_by,
    }
