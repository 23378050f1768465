"""Verify the labels of a run as far as the run allows.

    labels.jsonl  ──each row has the hash of the previous one──> no row was changed, removed or moved
                  ──drawn again────────────────────────────────> each label has the drawing that it
                  names ──verification.json──────────────────────────> the rows of the last
                  verification come first

Rows that were never verified may have been rewritten with new checksums.
"""

from collections import defaultdict
from pathlib import Path

from localjudge.errors import LocaljudgeError, RunDirectoryError
from localjudge.labels.drawing import misdrawn
from localjudge.labels.run_labels import RunLabels, labels_of
from localjudge.labels.units import unit_frames
from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.label_rows import START, LabelFile, label_file
from localjudge.run_directory.run_record import RunRecord, as_run
from localjudge.run_directory.verification import VerifiedLabels, last_verification
from localjudge.types import Record
from localjudge.words import numbered


class LabelsCheck(Record):
    """Labels in the directory: `rows` in one chain with this `head`, and the labels verified `before`.

    `problems` lists altered rows. `means` are the recomputed corrected means.
    """

    rows: int = 0
    head: str = START
    before: VerifiedLabels | None = None
    problems: tuple[str, ...] = ()
    means: RunLabels | None = None


def check_labels(run: RunRecord) -> LabelsCheck:
    before, damaged = None, list[str]()
    try:
        if verification := last_verification(run.directory):
            before = verification.labels
    except RunDirectoryError as error:
        damaged.append(error.message)
    try:
        labels = label_file(run.directory)
    except RunDirectoryError as error:
        return LabelsCheck(before=before, problems=(error.message, *damaged))
    problems = damaged if labels.rows else []  # without labels nothing rests on it
    problems += (
        [f"row {labels.broken} does not match the previous row"]
        if labels.broken
        else _misdrawn(run, labels)
    )
    if before and not before.begin(labels):
        problems.append(
            f"differs from the {numbered(before.rows, 'row')} verified on {before.when}"
        )
    means = None if problems else labels_of(run)
    return LabelsCheck(
        rows=len(labels.rows),
        head=labels.head,
        before=before,
        problems=tuple(problems),
        means=means,
    )


def _misdrawn(run: RunRecord, labels: LabelFile) -> list[str]:
    numbers: dict[str | None, list[int]] = defaultdict(list)
    for number, row in enumerate(labels.rows, 1):
        numbers[row.drawn_by].append(number)
    problems = list[str]()
    for place, of_run in numbers.items():
        try:
            frames = unit_frames(as_run(Path(place)) if place else run)
            wrong = misdrawn([labels.rows[number - 1] for number in of_run], frames)
            problems += [f"row {of_run[index]}" for index in wrong]
        except LocaljudgeError as error:
            by = "another" if place else "this"
            problems.append(
                f"{numbered(len(of_run), 'row')} drawn by {by} run: {excerpt(error.message)}"
            )
    return problems
