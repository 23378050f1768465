"""Read the human labels for measuring judges: of runs, by question, or of a file of texts.

All runs share the labels of equal statements:

    run A   labels of statements 1 to 60 ──┐
    run B   no labels                      ├── attribution: 60 labels, answers of both judges

The columns of a file determine what its texts are labelled for:

    attribution   context (or contexts), statement, label       do the contexts support it?
    relevance     question, sentences, relevant                 which sentences answer it?
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any, Literal, NamedTuple

from localjudge.dataset.contexts import read_printed
from localjudge.dataset.formats import read
from localjudge.dataset.rows import Problem, Problems, RawRow, Report, check_text, describe, shown
from localjudge.dataset.sources import Source
from localjudge.errors import DataError
from localjudge.labels.decisions import Decisions
from localjudge.labels.drawing import sampling_weights
from localjudge.labels.judge_comparison import JudgeAnswers, LabelledQuestion
from localjudge.labels.label_sheet import read_label
from localjudge.labels.label_source import check_labels_allowed
from localjudge.labels.matched_labels import labelled_drawings
from localjudge.labels.run_labels import read_run_labels
from localjudge.labels.units import (
    UnitFrame,
    statement_keys,
    unit_frames,
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
LabelShape = Literal["attribution", "relevance"]
_LISTS = ("contexts", "sentences", "relevant")
_LABELS_OF_SENTENCES = "1, 0 or null for each sentence"
_ROWS_FOR_SHAPE = 100
"""Number of rows that decide the shape of a file by their columns."""


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
        are_labelled = [not statement_keys(each).isdisjoint(decisions.human) for each in frames]
        if all(are_labelled):
            questions.append(_read_question(question, runs, frames, decisions, drawings))
        elif any(are_labelled):
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
        judges.append(JudgeAnswers(run, run.verdicts_at(keys), savings))
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


class LabelledText(NamedTuple):
    """A statement with its contexts and one label, or sentences of a passage with a label each."""

    place: str
    columns: Mapping[str, Any]
    texts: tuple[str, ...]
    labels: tuple[Label | None, ...]
    statement: str | None
    question: str | None

    @property
    def shape(self) -> LabelShape:
        if self.statement is None:
            return "relevance"
        return "attribution"


def hash_content(source: Source) -> str:
    """Return the sha256 of the decompressed content of a file."""
    sha256 = hashlib.sha256()
    with source.open() as opened:
        for chunk in iter(lambda: opened.stream.read(2**20), b""):
            sha256.update(chunk)
    return sha256.hexdigest()


def read_labelled_texts(source: Source) -> tuple[list[LabelledText], int]:
    """Read the rows of a file, except unlabelled statements, and count the missing labels.

    Raises DataError if it cannot be read, has an unknown shape, has invalid rows, or has no label.
    """
    rows = list(read(source, {}))
    shape = _find_shape(rows, source.name)
    texts: list[LabelledText] = []
    problems = Problems()
    for row in rows:
        if isinstance(row, Problem):
            problems.add_row([row])
            continue
        text, problems_of_row = _read_row(row, shape)
        if problems_of_row:
            problems.add_row(problems_of_row)
        else:
            texts.append(text)
    if problems.count:
        raise problems.error(
            f"{problems.bad_rows} of {len(rows)} labelled rows cannot be used",
            "correct the rows",
        )
    unlabelled = sum(text.labels.count(None) for text in texts)
    if unlabelled == sum(len(text.labels) for text in texts):
        raise DataError(
            "the file has no labels",
            hint="fill in the labels, 1 or 0, and run the command again",
        )
    if shape == "attribution":
        texts = [text for text in texts if None not in text.labels]
    return texts, unlabelled


def _find_shape(rows: Sequence[RawRow | Problem], name: str) -> LabelShape:
    if not rows:
        raise DataError(f"{name} has no rows")
    columns: dict[str, None] = {}
    for row in rows[:_ROWS_FOR_SHAPE]:
        if isinstance(row, RawRow):
            columns |= dict.fromkeys(row.values)
    has_context = "context" in columns or "contexts" in columns
    if not columns or (has_context and columns.keys() >= {"statement", "label"}):
        return "attribution"
    if columns.keys() >= {"question", "sentences", "relevant"}:
        return "relevance"
    raise DataError(
        f"{name} has no labelled texts (columns: {', '.join(map(shown, columns))})",
        hint="use the columns context, statement and label, or question, sentences and relevant; "
        "to read labels of a run's verdicts: localjudge label RUN --read FILE",
    )


def _read_row(row: RawRow, shape: LabelShape) -> tuple[LabelledText, list[Problem]]:
    """Return the texts and labels of a row, and its problems."""
    problems: list[Problem] = []

    def report(column: str, value: str, expected: str) -> None:
        problems.append(Problem.at(row.place, column, value, expected))

    cells = _read_cells(row, report)
    if shape == "relevance":
        text = _read_passage(row, cells, report)
    else:
        contexts = _as_list(cells.get("contexts"))
        _check_texts(contexts, "contexts", report)
        _require_text(cells.get("statement"), "statement", report)
        if "question" in cells:
            _require_text(cells["question"], "question", report)
        label = read_label(cells.get("label"), "label", report)
        text = LabelledText(
            str(row.place),
            row.values,
            tuple(contexts),
            (label,),
            cells.get("statement"),
            cells.get("question"),
        )
    return text, problems


def _read_cells(row: RawRow, report: Report) -> dict[str, Any]:
    """Return the filled cells, with the lists in them. A single context becomes `contexts`."""
    cells: dict[str, Any] = {}
    for name, value in row.values.items():
        is_nan = isinstance(value, float) and math.isnan(value)  # an empty cell of a pandas table
        if value is not None and value != "" and not is_nan:
            cells[name] = value
    if "context" in cells:
        cells["contexts"] = cells.pop("context")
    if not row.typed:
        for name in _LISTS:
            if name in cells:
                cells[name] = read_printed(cells[name], name, report)
    return cells


def _read_passage(row: RawRow, cells: Mapping[str, Any], report: Report) -> LabelledText:
    """Read a row with a question and the sentences of a passage, with a label each."""
    sentences = _as_list(cells.get("sentences"))
    _check_texts(sentences, "sentences", report)
    _require_text(cells.get("question"), "question", report)
    marks = _as_list(cells.get("relevant"))
    if len(marks) != len(sentences):
        report("relevant", describe(cells.get("relevant")), _LABELS_OF_SENTENCES)
    labels = [read_label(mark, "relevant", report, _LABELS_OF_SENTENCES) for mark in marks]
    return LabelledText(
        str(row.place),
        row.values,
        tuple(sentences),
        tuple(labels),
        None,
        cells.get("question"),
    )


def _check_texts(texts: Sequence[Any], column: str, report: Report) -> None:
    for text in texts:
        _require_text(text, column, report)
    if not texts:
        report(column, describe(texts), "texts")


def _require_text(value: Any, column: str, report: Report) -> None:
    if check_text(value, column, report, "text") is None and value is None:
        report(column, describe(None), "text")


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    return [value]
