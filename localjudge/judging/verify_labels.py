"""Compare the labels of a run with its last successful verification (`verification.json`).

    labels.jsonl              still begins with the same bytes
    settings of the drawings  are the same: metrics, seed, sizes, column, and statements of the run

Labels may be added between two verifications. Changes before the first verification remain
unnoticed, and whoever changes both files can hide any change.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from localjudge.errors import LocaljudgeError, RunDirectoryError
from localjudge.labels.drawing import hash_frames, parse_metrics
from localjudge.labels.run_labels import RunLabels, read_run_labels
from localjudge.labels.units import unit_frames
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.files import last_verification
from localjudge.run_directory.label_file import LabelFile, hash_first_labels, label_file
from localjudge.run_directory.label_rows import LabelRow, now
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.verification import VerifiedLabels
from localjudge.types import Record
from localjudge.words import numbered


class LabelsCheck(Record):
    """The `current` labels, unless they cannot be read, and the ones `verified` last.

    `problems` state what was changed. `means` are the recomputed corrected means.
    """

    current: VerifiedLabels | None = None
    verified: VerifiedLabels | None = None
    problems: tuple[str, ...] = ()
    means: RunLabels | None = None


def check_labels(run: RunRecord) -> LabelsCheck:
    """Compare the labels of a run with the ones at its last successful verification."""
    verified = None
    damage: list[str] = []
    try:
        verified = _read_verified(run.directory)
    except RunDirectoryError as error:
        damage.append(error.message)
    try:
        labels = label_file(run.directory)
    except RunDirectoryError as error:
        return LabelsCheck(verified=verified, problems=(error.message, *damage))
    try:
        current = _describe(run, labels)
    except LocaljudgeError as error:
        problem = f"its drawings cannot be checked: {excerpt(error.message)}"
        return LabelsCheck(verified=verified, problems=(problem, *damage))
    if not labels.rows:
        damage = []  # without labels nothing depends on the file
    problems = [*damage, *_find_changes(run, labels, verified)]
    means = None
    if not problems:
        means = read_run_labels(run)
    return LabelsCheck(current=current, verified=verified, problems=tuple(problems), means=means)


def _read_verified(directory: Path) -> VerifiedLabels | None:
    verification = last_verification(directory)
    if verification is None:
        return None
    return verification.labels


def _describe(run: RunRecord, labels: LabelFile) -> VerifiedLabels:
    return VerifiedLabels(
        rows=len(labels.rows),
        size=labels.size,
        sha256=labels.sha256,
        drawings_sha256=_hash_drawings(run, labels.rows),
        when=now(),
    )


def _find_changes(run: RunRecord, labels: LabelFile, verified: VerifiedLabels | None) -> list[str]:
    if verified is None or not verified.rows:
        return []
    rows = f"the {numbered(verified.rows, 'row')} verified on {verified.when}"
    if labels.size < verified.size:
        return [f"differs from {rows}"]
    if hash_first_labels(run.directory, verified.size) != verified.sha256:
        return [f"differs from {rows}"]
    if _hash_drawings(run, labels.rows[: verified.rows]) != verified.drawings_sha256:
        return [f"the settings of its drawings differ from those of {rows}"]
    return []


def _hash_drawings(run: RunRecord, rows: Sequence[LabelRow]) -> str:
    """Return the sha256 of the settings of the drawings that these labels name.

    The settings are the drawing's name, which states seed, metrics, sizes and column, and the
    checksum of the run's statements.
    """
    names = {row.draw for row in rows if row.draw}
    settings = []
    if names:
        frames = unit_frames(run)
        for name in sorted(names):
            metrics = [metric for metric in parse_metrics(name) if metric in frames]
            settings.append([name, hash_frames(frames[metric] for metric in metrics)])
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()
