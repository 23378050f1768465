"""Match the labels of a run, and of others, with its statements by the text shown to annotators."""

from collections.abc import Sequence, Set
from pathlib import Path
from typing import NamedTuple

from localjudge.labels.decisions import Decisions
from localjudge.labels.drawing import DrawnStatement
from localjudge.labels.label_drawings import count_undrawn, labelled_drawings, list_passed_over
from localjudge.labels.units import UnitFrame, statement_keys, unit_frames
from localjudge.run_directory.label_rows import LabelRow, planned_statements, stored_labels
from localjudge.run_directory.run_record import RunRecord, cached_by_run


class MatchedLabels(NamedTuple):
    """Statements of the run in a directory, the decisions on them, and their drawings by metric.

    `undrawn` is the number of the run's own labels that were drawn from other statements. `plans`
    are the statements of first readings that were complete. `passed_over` statements have no label,
    but later ones of their drawing do.
    """

    directory: Path
    frames: dict[str, UnitFrame]
    decisions: Decisions
    drawings: dict[str, list[list[DrawnStatement]]]
    undrawn: int
    passed_over: Set[str]
    plans: tuple[Set[str], ...]
    own: Set[str]
    """Statements with a label in this run's own file."""
    is_stopped: bool
    """Whether scores decided how many samples were judged."""


@cached_by_run
def match_labels(
    run: RunRecord, own: tuple[LabelRow, ...], others: tuple[LabelRow, ...]
) -> MatchedLabels:
    """Return the run's own labels, and labels of other runs for its statements."""
    frames = unit_frames(run)
    statements = statement_keys(frames.values())
    decisions = Decisions(row for row in (*own, *others) if row.key in statements)
    plans = (planned_statements(own), planned_statements(others))
    is_stopped = run.sampling.optional_stopping
    return _match(run.directory, own, frames, decisions, plans, is_stopped=is_stopped)


def match_labels_of_both(
    before: RunRecord, after: RunRecord
) -> tuple[MatchedLabels, MatchedLabels]:
    """Return the labels of both runs together, matched with the statements of each.

    Statements are read only if a run has labels.
    """
    rows_before = stored_labels(before.directory)
    rows_after = stored_labels(after.directory)
    decisions = Decisions([*rows_before, *rows_after])
    plans = (planned_statements(rows_before), planned_statements(rows_after))
    frames_before: dict[str, UnitFrame] = {}
    frames_after: dict[str, UnitFrame] = {}
    if decisions.rows:
        frames_before = unit_frames(before)
        frames_after = unit_frames(after)
    matched = []
    for run, rows, frames in (
        (before, rows_before, frames_before),
        (after, rows_after, frames_after),
    ):
        is_stopped = run.sampling.optional_stopping
        matched.append(_match(run.directory, rows, frames, decisions, plans, is_stopped=is_stopped))
    return matched[0], matched[1]


def match_joint_labels(
    directory: Path, frames: dict[str, UnitFrame], *, is_stopped: bool
) -> MatchedLabels:
    """Return the labels in the directory of two runs, matched with the statements of both."""
    rows = stored_labels(directory)
    statements = statement_keys(frames.values())
    decisions = Decisions(row for row in rows if row.key in statements)
    plans = (planned_statements(rows),)
    return _match(directory, rows, frames, decisions, plans, is_stopped=is_stopped)


def _match(
    directory: Path,
    own: Sequence[LabelRow],
    frames: dict[str, UnitFrame],
    decisions: Decisions,
    plans: tuple[Set[str], ...],
    *,
    is_stopped: bool,
) -> MatchedLabels:
    return MatchedLabels(
        directory=directory,
        frames=frames,
        decisions=decisions,
        drawings=labelled_drawings(decisions, frames),
        undrawn=count_undrawn(own, frames),
        passed_over=list_passed_over(frames, decisions),
        plans=plans,
        own={row.key for row in own} & decisions.human.keys(),
        is_stopped=is_stopped,
    )
