"""Read the human labels of runs, by question, for measuring their judges.

All runs share the labels of equal statements:

    run A   labels of statements 1 to 60 ──┐
    run B   no labels                      ├── attribution: 60 labels, answers of both judges
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from localjudge.errors import DataError
from localjudge.labels.decisions import Decisions
from localjudge.labels.labelled_question import JudgeAnswers, LabelledQuestion
from localjudge.labels.labelled_units import sampling_weights
from localjudge.labels.matched_labels import labelled_drawings
from localjudge.labels.run_labels import check_labels_allowed, read_run_labels
from localjudge.labels.units import (
    UnitFrame,
    statement_keys,
    unit_frames,
    verdicts_at,
)
from localjudge.metrics.catalog import get_question
from localjudge.progress import Progress
from localjudge.run_directory.calibration import LabelSavings
from localjudge.run_directory.label_rows import (
    LABELS,
    DrawnStatement,
    LabelRow,
    VerdictId,
    stored_labels,
)
from localjudge.run_directory.request_keys import canonical_sha256
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
                clusters[key] = _find_cluster(run, verdict_id.sample_id)
        savings = _find_savings(run, frames_of_run, decisions)
        judges.append(JudgeAnswers(run, verdicts_at(run, keys), savings))
    _require_shared(runs, labels, clusters, judges)
    drawn = _weigh_statements(list(chain.from_iterable(frames)), decisions, drawings)
    weights = {key: drawn.get(key, 1.0) for key in labels}
    labels_and_weights = {key: (label, weights[key]) for key, label in labels.items()}
    labels_used = {
        "file": ", ".join(_label_files(runs)),
        "sha256": canonical_sha256(labels_and_weights),
        "shape": "verdicts",
        "unlabelled": len(tied),
        "clustered_by": _name_clusters(runs[0]),
    }
    undrawn = len(labels.keys() - drawn.keys())
    with_evidence = len(_keys_with_evidence(decisions) & labels.keys())
    remarks = tuple(_remark_on_labels(len(labels), undrawn, with_evidence))
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


def _keys_with_evidence(decisions: Decisions) -> set[str]:
    """Return the statements that an annotator labelled with the evidence open."""
    return {row.key for row in decisions.rows if row.evidence_seen and row.human in (0, 1)}


def _remark_on_labels(labels: int, undrawn: int, with_evidence: int) -> Iterator[str]:
    if undrawn:
        remark = f"{undrawn} of {labels} labels were not drawn from these statements"
        yield f"{remark}, so each counts once"
    if with_evidence:
        remark = f"the evidence was open for {with_evidence} of {labels} labels"
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


def _find_cluster(run: RunRecord, sample_id: str) -> str:
    """Return the group of a sample. Without groups, each sample is one."""
    if run.cluster_of is None:
        return sample_id
    return run.cluster_of.get(sample_id, sample_id)


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


def _label_files(runs: Iterable[RunRecord]) -> list[str]:
    files = []
    for run in runs:
        file = run.directory / LABELS
        if file.exists():
            files.append(str(file))
    return files


def _name_clusters(run: RunRecord) -> str:
    column = run.manifest.environment.settings.cluster_by
    if run.cluster_of is None or not column:
        return "the same sample"
    return str(column)
