"""Check a finished run as far as possible without its judge.

    manifest.json ──sha256──> result files        samples ──sha256──> the data in the manifest
    samples, stored answers ──rule, count again──> the same files?

`verify` also builds the questions again and asks the judge. Labels are compared with the last
successful verification (`verification.json`):

    labels.jsonl              still begins with the same bytes
    settings of the drawings  are the same: metrics, seed, sizes, column, and statements of the run
    sizes of the statements   are those of their drawing, also before the first verification

Labels may be added between two verifications. Other changes before the first verification
remain unnoticed, and whoever changes both files can hide any change.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from math import isclose
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from localjudge.analysis.compare import join_statements
from localjudge.dataset.samples import (
    columns_fingerprint,
    fingerprint,
)
from localjudge.errors import ChangedFile, LocaljudgeError, RunDirectoryError
from localjudge.judging.evaluate import evaluate
from localjudge.judging.evidence import find_evidence
from localjudge.judging.settings import RunSettings
from localjudge.judging.stored_data import read_run_settings
from localjudge.judging.verify_answers import StoredVerdicts
from localjudge.labels.drawing import DISPUTED, DrawingName, draw_again, hash_frames
from localjudge.labels.run_labels import RunLabels, read_run_labels
from localjudge.labels.units import UnitFrame, unit_frames
from localjudge.metrics import Metric
from localjudge.run_directory import directory as run_directory
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.differences import Difference, differences
from localjudge.run_directory.directory import STORE, excerpt, now, open_regular
from localjudge.run_directory.files import (
    VerifiedLabels,
    are_altered,
    object_text,
    row_lines,
    verified_labels,
    write_verified_labels,
)
from localjudge.run_directory.identity import DataIdentity
from localjudge.run_directory.label_rows import LABELS, LabelFile, LabelRow, label_file
from localjudge.run_directory.result_rows import Evaluation, row_files
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.store_reader import stored_rows
from localjudge.run_directory.summary import SUMMARY, Totals
from localjudge.types import Record
from localjudge.words import numbered

MAX_CHANGES = 20
"""Differences of a file that are listed."""
_UNREADABLE = "it cannot be read"
_TOLERANCE = 1e-4
"""Of a size, relative: its last digits differ between machines."""
Reason = Literal[
    "checksum",
    "stored_data",
    "results",
    "labels",
    "labelled_run",
    "report_differs",
    "report_inputs",
    "file",
    "not_reproduced",
    "error",
]


class Alteration(NamedTuple):
    """What was changed in a run, as a reason for which the report has a sentence.

    `details` are rows, names of values, or the message of an error. `side` is A or B on a page
    about two runs.
    """

    reason: Reason
    file: str = ""
    details: str = ""
    side: str = ""


def alterations(run: RunRecord, metrics: Sequence[Metric] = ()) -> tuple[Alteration, ...]:
    """Return the differences in the files of a run, of which some `metrics` are not installed.

    Raises InputError for a metric that is not installed, RunDirectoryError for settings that this
    version cannot read.
    """
    altered: list[Alteration] = []
    read_run_settings(run.manifest)
    for check in (_check_data, partial(_recompute, metrics=metrics), _check_labels):
        try:
            altered += check(run)
        except ChangedFile as error:
            altered.append(Alteration("checksum", error.file))
        except RunDirectoryError as error:
            altered.append(Alteration("error", details=error.message))
        except LocaljudgeError as error:
            if not altered:
                raise
            altered.append(Alteration("error", details=error.message))
    without_paths: list[Alteration] = []
    for each in altered:
        details = each.details.replace(f"{run.directory}{os.sep}", "")
        details = details.replace(str(run.directory), "RUN")
        without_paths.append(each._replace(details=details))
    return tuple(dict.fromkeys(without_paths))


def _check_data(run: RunRecord) -> Iterator[Alteration]:
    """Compare the checksums in the manifest, and the stored samples."""
    RunRecord.open(run.directory)
    if data_differences(run, run.summary.samples):
        yield Alteration("stored_data", STORE)


def data_differences(run: RunRecord, samples: int) -> list[Difference]:
    """Compare the stored samples and their columns with the manifest."""
    data = DataIdentity.of(
        fingerprint(run.iter_samples()),
        samples,
        run.cluster_of,
        run.sampling.max_cluster_size,
    )
    before = run.manifest.data.as_json
    before["columns_sha256"] = run.manifest.environment.columns_sha256
    after = data.as_json
    after["columns_sha256"] = columns_fingerprint(stored_rows(run.directory / STORE))
    return differences(before, after)


def _recompute(run: RunRecord, metrics: Sequence[Metric]) -> Iterator[Alteration]:
    """Compute the result files from the stored answers, and compare them."""
    manifest = run.manifest
    computed = run.find_metrics(metrics)
    settings = read_run_settings(manifest)
    totals = run.totals(run)
    answers = StoredVerdicts(run)
    evaluated = evaluate(run.iter_samples(), computed, answers, settings.sentences)
    files = changed_rows(run, evaluated, totals, settings)
    files[SUMMARY] = changed_values(run, totals, manifest.signature, run.summary.judge.name)
    for name, changes in files.items():
        if changes:
            yield Alteration("results", name, ", ".join(changes))


def _check_labels(run: RunRecord) -> Iterator[Alteration]:
    check = check_labels(run)
    reason: Reason = "labels" if check.is_file_altered else "labelled_run"
    for problem in check.problems:
        yield Alteration(reason, LABELS, excerpt(problem))


def changed_rows(
    run: RunRecord,
    evaluated: Iterable[Sequence[Evaluation]],
    totals: Totals,
    settings: RunSettings,
) -> dict[str, list[str]]:
    """Return the first rows of each file that differ from the evaluations, and add these up."""
    names = row_files(with_evidence=run.has_evidence)
    changes: dict[str, list[str]] = {name: [] for name in names}
    counts = dict.fromkeys(names, 0)
    samples = run.iter_samples()
    with ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        for name in names:
            try:
                files[name] = stack.enter_context(open_regular(run.directory / name))
            except RunDirectoryError:
                changes[name].append(_UNREADABLE)
        for evaluations in evaluated:
            totals.add(evaluations)
            evidence = None
            if run.has_evidence:
                evidence = find_evidence(
                    evaluations, samples, settings, run.manifest.judge.letters_read
                )
            lines_by_file = row_lines(evaluations, evidence, with_expected=run.has_expected)
            for name, file in files.items():
                for line in lines_by_file[name]:
                    counts[name] += 1
                    is_same = file.readline(run_directory.MAX_VALUE_BYTES) == line.encode()
                    if not is_same and len(changes[name]) < MAX_CHANGES:
                        changes[name].append(f"row {counts[name]}")
        for name, file in files.items():
            if file.read(1):
                changes[name].append(f"row {counts[name] + 1}")
    return changes


def changed_values(run: RunRecord, totals: Totals, signature: str, judge: str) -> list[str]:
    """Return the names of values in `summary.json`, such as `judge.caution`, that differ from the
    totals with this signature and name of the judge.

    Returns "formatting" if only bytes differ.
    """
    path = run.directory / SUMMARY
    environment = run.manifest.environment
    card = run.manifest.card.model_copy(update={"name": judge})
    summary = totals.summary(signature, card, environment.skipped_rows, environment.stopped)
    values = summary.model_dump(mode="json")
    if not run.has_expected:
        for metric in values["metrics"].values():
            del metric["expected"], metric["expected_ci95"]
    try:
        with open_regular(path) as file:
            content = file.read(run_directory.MAX_OBJECT_BYTES)
        if content == object_text(values).encode():
            return []
        changes = differences(run_directory.read_object(path), values)
    except RunDirectoryError:
        return [_UNREADABLE]
    if not changes:
        return ["formatting"]
    return [excerpt(change.ingredient) for change in changes]


class LabelsCheck(Record):
    """The `current` labels, unless they cannot be read, and the ones `verified` last.

    `problems` state what was changed: rows of the file (`is_file_altered`), or only the statements
    of the run. `means` are the recomputed corrected means.
    """

    current: VerifiedLabels | None = None
    verified: VerifiedLabels | None = None
    problems: tuple[str, ...] = ()
    is_file_altered: bool = False
    means: RunLabels | None = None


def check_labels(run: RunRecord) -> LabelsCheck:
    """Compare the labels of a run with the ones at its last successful verification."""
    verified = None
    damage: list[str] = []
    try:
        verified = verified_labels(run.directory)
    except RunDirectoryError as error:
        damage.append(error.message)
    try:
        labels = label_file(run.directory)
    except RunDirectoryError as error:
        problems = [error.message, *damage]
        return LabelsCheck(verified=verified, problems=tuple(problems), is_file_altered=True)
    is_altered = bool(damage) or (verified is not None and are_altered(run.directory, verified))
    frames: dict[str, UnitFrame] = {}
    try:
        if labels.rows:
            frames = unit_frames(run)
        current = _describe_labels(labels, frames, verified)
    except LocaljudgeError as error:
        problems = [f"its drawings cannot be checked: {excerpt(error.message)}", *damage]
        return LabelsCheck(verified=verified, problems=tuple(problems), is_file_altered=is_altered)
    if not labels.rows:
        damage = []  # without labels nothing depends on the file
    wrong = _count_wrong_sizes(labels.rows, frames)
    problems = [*damage, *_find_changes(labels, frames, verified, wrong, is_altered=is_altered)]
    means = None
    if not problems:
        means = read_run_labels(run)
    return LabelsCheck(
        current=current,
        verified=verified,
        problems=tuple(problems),
        is_file_altered=(is_altered or wrong > 0) and bool(problems),
        means=means,
    )


def check_joint_labels(comparison: ComparisonDirectory) -> LabelsCheck:
    """Compare the labels in the directory of two runs with the ones verified there last."""
    directory = comparison.path
    verified = None
    frames: Mapping[str, UnitFrame] = {}
    is_altered = True
    try:
        verified = verified_labels(directory)
        labels = label_file(directory)
        is_altered = verified is not None and are_altered(directory, verified)
        if labels.rows:
            frames = join_statements(comparison).frames
    except LocaljudgeError as error:
        return LabelsCheck(verified=verified, problems=(error.message,), is_file_altered=is_altered)
    wrong = _count_wrong_sizes(labels.rows, frames)
    problems = _find_changes(labels, frames, verified, wrong, is_altered=is_altered)
    return LabelsCheck(
        current=_describe_labels(labels, frames, verified),
        verified=verified,
        problems=tuple(problems),
        is_file_altered=is_altered or wrong > 0,
    )


def verify_joint_labels(directory: Path, *, keep: bool) -> LabelsCheck:
    """Check the labels in the directory of two runs.

    Keeps what they are now for the next verification, if they have no problem and `keep` says that
    both runs were verified.
    """
    check = check_joint_labels(ComparisonDirectory.open(directory))
    if keep and not check.problems and check.current and check.current.rows:
        write_verified_labels(directory, check.current)
    return check


def _describe_labels(
    labels: LabelFile, frames: Mapping[str, UnitFrame], verified: VerifiedLabels | None
) -> VerifiedLabels:
    when = now()
    first = when
    if verified and verified.rows:
        first = verified.first or verified.when
    return VerifiedLabels(
        rows=len(labels.rows),
        size=labels.size,
        sha256=labels.sha256,
        drawings_sha256=_hash_drawings(labels.rows, frames),
        when=when,
        first=first,
    )


def _find_changes(
    labels: LabelFile,
    frames: Mapping[str, UnitFrame],
    verified: VerifiedLabels | None,
    wrong: int,
    *,
    is_altered: bool,
) -> list[str]:
    """Say what was changed. `wrong` labels have another size than in their drawing.

    `is_altered` says that the file does not begin with the rows that were verified.
    """
    if wrong:
        return [f"size_share of {numbered(wrong, 'row')} is not that of the drawing"]
    if verified is None or not verified.rows:
        return []
    rows = f"the {numbered(verified.rows, 'row')} verified on {verified.when}"
    if is_altered:
        return [f"differs from {rows}"]
    if _hash_drawings(labels.rows[: verified.rows], frames) != verified.drawings_sha256:
        return [f"the settings of its drawings differ from those of {rows}"]
    return []


def _count_wrong_sizes(rows: Sequence[LabelRow], frames: Mapping[str, UnitFrame]) -> int:
    """Return how many labels have another size than in their drawing, if it can be repeated."""
    statements = sum(len(frame.by_key) for frame in frames.values())
    wrong = 0
    by_name = groupby(sorted(rows, key=lambda row: row.draw or ""), key=lambda row: row.draw)
    for name, drawn_rows in by_name:
        if not name or name == DISPUTED:
            continue
        drawing = draw_again(name, frames, statements)
        if drawing is None:
            continue
        shares = {each.key: each.size_share for each in drawing.statements}
        for row in drawn_rows:
            share = shares.get(row.key)
            if row.frame == drawing.frame and row.size_share and share is not None:
                wrong += not isclose(row.size_share, share, rel_tol=_TOLERANCE)
    return wrong


def _hash_drawings(rows: Sequence[LabelRow], frames: Mapping[str, UnitFrame]) -> str:
    """Return the sha256 of the settings of the drawings that these labels name.

    The settings are the drawing's name, which states seed, metrics, sizes and column, and the
    checksum of the statements.
    """
    names = {row.draw for row in rows if row.draw}
    settings = []
    for name in sorted(names):
        drawing = DrawingName.parse(name)
        drawn_frames = []
        if drawing is not None:
            drawn_frames = [frames[metric] for metric in drawing.metrics if metric in frames]
        settings.append([name, hash_frames(drawn_frames)])
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()
