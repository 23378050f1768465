"""Compare the labels of a run with its last successful verification (`verification.json`).

    labels.jsonl              still begins with the same bytes
    settings of the drawings  are the same: metrics, seed, sizes, column, and statements of the run
    sizes of the statements   are those of their drawing, also before the first verification

Labels may be added between two verifications. Other changes before the first verification
remain unnoticed, and whoever changes both files can hide any change.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from math import isclose
from pathlib import Path

from localjudge.analysis.compare import join_statements
from localjudge.errors import LocaljudgeError, RunDirectoryError
from localjudge.labels.drawing import DISPUTED, DrawingName, draw_again, hash_frames
from localjudge.labels.run_labels import RunLabels, read_run_labels
from localjudge.labels.units import UnitFrame, unit_frames
from localjudge.resources import write_output
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.directory import excerpt, now
from localjudge.run_directory.files import (
    VERIFICATION,
    VerifiedLabels,
    are_altered,
    verified_labels,
)
from localjudge.run_directory.label_rows import (
    LabelFile,
    LabelRow,
    label_file,
)
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import Record
from localjudge.words import numbered

_TOLERANCE = 1e-4
"""Of a size, relative: its last digits differ between machines."""


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
    is_altered = is_altered or _count_wrong_sizes(labels.rows, frames) > 0
    problems = [*damage, *_find_changes(run.directory, labels, frames, verified)]
    means = None
    if not problems:
        means = read_run_labels(run)
    return LabelsCheck(
        current=current,
        verified=verified,
        problems=tuple(problems),
        is_file_altered=is_altered and bool(problems),
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
    is_altered = is_altered or _count_wrong_sizes(labels.rows, frames) > 0
    problems = _find_changes(directory, labels, frames, verified)
    return LabelsCheck(
        current=_describe_labels(labels, frames, verified),
        verified=verified,
        problems=tuple(problems),
        is_file_altered=is_altered,
    )


def verify_joint_labels(directory: Path, *, keep: bool) -> LabelsCheck:
    """Check the labels in the directory of two runs.

    Keeps what they are now for the next verification, if they have no problem and `keep` says that
    both runs were verified.
    """
    check = check_joint_labels(ComparisonDirectory.open(directory))
    if keep and not check.problems and check.current and check.current.rows:
        content = f"{check.current.model_dump_json(indent=2)}\n"
        write_output(directory / VERIFICATION, [content.encode()])
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
    directory: Path,
    labels: LabelFile,
    frames: Mapping[str, UnitFrame],
    verified: VerifiedLabels | None,
) -> list[str]:
    wrong = _count_wrong_sizes(labels.rows, frames)
    if wrong:
        return [f"size_share of {numbered(wrong, 'row')} is not that of the drawing"]
    if verified is None or not verified.rows:
        return []
    rows = f"the {numbered(verified.rows, 'row')} verified on {verified.when}"
    if are_altered(directory, verified):
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
