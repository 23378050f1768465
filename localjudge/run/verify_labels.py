"""Verify the labels of a run as far as the run allows.

    labels.jsonl  ──each row has the hash of the previous one──> no row was changed, removed or moved
                  ──drawn again────────────────────────────────> each label has the drawing that it names
                  ──verification.json──────────────────────────> the rows of the last verification come first

Rows that were never verified may have been rewritten with new checksums, which is not detected.
"""

from collections import defaultdict
from pathlib import Path

from localjudge.analysis.drawing import misdrawn
from localjudge.analysis.labels import RunLabels, run_labels
from localjudge.analysis.units import unit_frames
from localjudge.errors import LocaljudgeError, RunDirectoryError
from localjudge.record.directory import excerpt
from localjudge.record.label_rows import START, LabelFile, LabelRow, label_file, now
from localjudge.record.run import Run, as_run
from localjudge.record.verification import VerifiedLabels, last_verification
from localjudge.types import Record
from localjudge.words import numbered


class LabelsCheck(Record):
    """Result for the labels: `rows` in one chain with this `head`, and those of the verification `before`.

    `problems` lists altered rows. `means` are the recomputed corrected means.
    """

    rows: int = 0
    head: str = START
    before: VerifiedLabels | None = None
    problems: tuple[str, ...] = ()
    means: RunLabels | None = None

    def to_record(self) -> VerifiedLabels:
        """Return the state for a later verification."""
        return VerifiedLabels(rows=self.rows, head=self.head, when=now())


def check_labels(run: Run) -> LabelsCheck:
    """Compare the labels in a run's directory with their chain, their drawings and the last verification."""
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
    problems += [f"row {labels.broken} does not follow the row before"] if labels.broken else _misdrawn(run, labels)
    if before and not before.begin(labels):
        problems.append(f"not the {numbered(before.rows, 'row')} of the verification of {before.when}")
    is_correctable = labels.rows and not problems and not run.sampling.by_scores
    means = run_labels(run, labels.rows) if is_correctable else None
    return LabelsCheck(rows=len(labels.rows), head=labels.head, before=before, problems=tuple(problems), means=means)


def _misdrawn(run: Run, labels: LabelFile) -> list[str]:
    """Return rows whose drawing, by this run or the named one, does not match."""
    rows: dict[str | None, dict[int, LabelRow]] = defaultdict(dict)
    for number, row in enumerate(labels.rows, 1):
        rows[row.drawn_by][number] = row
    problems = list[str]()
    for place, of_run in rows.items():
        try:
            frames = unit_frames(as_run(Path(place)) if place else run)
        except LocaljudgeError as error:
            by = "another" if place else "this"
            problems.append(f"{numbered(len(of_run), 'row')} drawn by {by} run: {excerpt(error.message)}")
            continue
        numbers = [*of_run]
        problems += [f"row {numbers[index]}" for index in misdrawn([*of_run.values()], frames)]
    return problems
