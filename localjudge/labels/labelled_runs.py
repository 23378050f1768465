"""Read the human labels of runs, by question, for measuring their judges.

All runs share the labels of equal statements:

    run A   labels of statements 1 to 60 ──┐
    run B   no labels                      ├── attribution: 60 labels, answers of both judges
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from localjudge.errors import DataError
from localjudge.labels.decisions import Decisions
from localjudge.labels.labelled_question import (
    HumanLabel,
    JudgeAnswers,
    LabelledQuestion,
)
from localjudge.labels.labelled_units import sampling_weights
from localjudge.labels.run_labels import check_labels_allowed, read_run_labels
from localjudge.labels.units import UnitFrame, UnitPlace, unit_frames, verdicts_at
from localjudge.metrics.catalog import get_question
from localjudge.progress import Progress
from localjudge.run_directory.calibration import LabelSavings
from localjudge.run_directory.label_rows import LABELS, stored_labels
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.store import canonical_sha256
from localjudge.words import call

_TIE = 0.5


def read_labelled_runs(
    runs: Sequence[RunRecord], metrics: Sequence[str] | None, progress: Progress
) -> list[LabelledQuestion]:
    """Return the labels of each question that `metrics` ask, with the answers of all runs.

    None for `metrics` stands for all.

    Skips a question that is not labelled in every run. Raises DataError without any question.
    """
    for run in runs:
        check_labels_allowed(run)
    frames = [unit_frames(run) for run in runs]
    rows = []
    for run in runs:
        rows += stored_labels(run.directory)
    decisions = Decisions(rows)
    drawings = _find_drawings(decisions, frames)
    questions = []
    for question, names in _group_by_question(frames, metrics).items():
        asked = [_select(frames_of_run, names) for frames_of_run in frames]
        is_labelled = [_has_labels(frames_of_run, decisions) for frames_of_run in asked]
        if all(is_labelled):
            questions.append(_read_question(question, runs, asked, decisions, drawings))
        elif any(is_labelled):
            progress.note(f"{question} skipped: not every run has labelled statements for it")
    if not questions:
        wanted = f" of {', '.join(metrics)}" if metrics else ""
        where = ", ".join(str(run.directory) for run in runs)
        raise DataError(
            f"no labelled statements{wanted} in each of {where}",
            hint=f"label some: {call('label', str(runs[0].directory))}",
        )
    return questions


def _find_drawings(
    decisions: Decisions, frames: Sequence[Mapping[str, UnitFrame]]
) -> Mapping[str, Any]:
    """Return the drawings of the first run from which statements were drawn, by metric."""
    for frames_of_run in frames:
        drawings = decisions.drawings(frames_of_run)
        if drawings:
            return drawings
    return {}


def _group_by_question(
    frames: Sequence[Mapping[str, UnitFrame]], metrics: Sequence[str] | None
) -> dict[str, set[str]]:
    """Return the names of the metrics that ask each question."""
    names: dict[str, set[str]] = {}
    for frames_of_run in frames:
        for name in frames_of_run:
            if metrics is None or name in metrics:
                names.setdefault(get_question(name), set()).add(name)
    return names


def _select(frames: Mapping[str, UnitFrame], names: set[str]) -> list[UnitFrame]:
    return [frame for name, frame in frames.items() if name in names]


def _has_labels(frames: Iterable[UnitFrame], decisions: Decisions) -> bool:
    return any(frame.by_key.keys() & decisions.human.keys() for frame in frames)


def _read_question(
    question: str,
    runs: Sequence[RunRecord],
    frames: Sequence[Sequence[UnitFrame]],
    decisions: Decisions,
    drawings: Mapping[str, Any],
) -> LabelledQuestion:
    """Return the labels of one question. Statements with a tie between annotators have none."""
    every_frame = [frame for frames_of_run in frames for frame in frames_of_run]
    is_census = all(frame.by_key.keys() <= decisions.human.keys() for frame in every_frame)
    weights: dict[str, float] = {}
    if not is_census:
        for metric in dict.fromkeys(frame.metric for frame in every_frame):
            weights |= sampling_weights(drawings.get(metric, ()))
    labels: dict[str, HumanLabel] = {}
    ties: set[str] = set()
    judges = []
    for run, frames_of_run in zip(runs, frames, strict=True):
        clusters = run.cluster_of or {}
        places: dict[UnitPlace, str] = {}
        for key, place in _decided_statements(frames_of_run, decisions):
            share = decisions.human.get(key, _TIE)
            if share == _TIE:
                ties.add(key)
                continue
            cluster = clusters.get(place.sample_id, place.sample_id)
            label = HumanLabel(int(share > _TIE), weights.get(key, 1.0), cluster)
            labels.setdefault(key, label)
            places[place] = key
        savings = _find_savings(run, frames_of_run, decisions)
        judges.append(JudgeAnswers(run, verdicts_at(run, places), savings))
    remarks = []
    undrawn = len(labels.keys() - weights.keys())
    if undrawn and not is_census:
        undrawn_labels = f"{undrawn} of {len(labels)} labels"
        remarks.append(
            f"{undrawn_labels} were not drawn from these statements, so each counts once"
        )
    labels_used = {
        "file": ", ".join(_label_files(runs)),
        "sha256": canonical_sha256({str(key): label[:2] for key, label in labels.items()}),
        "shape": "verdicts",
        "unlabelled": len(ties),
        "clustered_by": _name_clusters(runs[0]),
    }
    return LabelledQuestion(question, labels, judges, labels_used, tuple(remarks))


def _decided_statements(
    frames: Iterable[UnitFrame], decisions: Decisions
) -> Iterable[tuple[str, UnitPlace]]:
    """Yield each statement that an annotator decided or found undecidable, with its first place."""
    for frame in frames:
        for key, units in frame.by_key.items():
            if decisions.answers.get(key):
                yield key, frame.places[units[0]]


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
    files = [run.directory / LABELS for run in runs]
    return [str(file) for file in files if file.exists()]


def _name_clusters(run: RunRecord) -> str:
    column = run.manifest.environment.settings.cluster_by
    if run.cluster_of is None or not column:
        return "the same sample"
    return str(column)
