"""Match the labels of a run, and of others, with its statements by the text shown to annotators."""

from collections.abc import Set
from typing import NamedTuple

from localjudge.labels.decisions import Decisions
from localjudge.labels.drawing import DrawnStatement
from localjudge.labels.label_drawings import count_undrawn, labelled_drawings
from localjudge.labels.units import UnitFrame, statement_keys, unit_frames
from localjudge.run_directory.label_rows import LabelRow, planned_statements
from localjudge.run_directory.run_cache import cached_by_run
from localjudge.run_directory.run_record import RunRecord


class MatchedLabels(NamedTuple):
    """Statements of a run, the decisions on them, and their drawings by metric."""

    frames: dict[str, UnitFrame]
    decisions: Decisions
    drawings: dict[str, list[list[DrawnStatement]]]
    undrawn: int
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
    return MatchedLabels(
        frames=frames,
        decisions=decisions,
        drawings=labelled_drawings(decisions, frames),
        undrawn=count_undrawn(own, frames),
        plans=(planned_statements(own), planned_statements(others)),
        own={row.key for row in own} & decisions.human.keys(),
        is_stopped=run.sampling.optional_stopping,
    )
