"""Difference of two runs, corrected by the labels of both.

Labels match statements by the text shown to the annotator, so a label of A also counts for the same statement of B. A
run uses only labels drawn from its statements (`localjudge.analysis.labels`), or all if every statement has one.
"""

from collections.abc import Mapping, Sequence, Set

from localjudge.analysis.drawing import labels_in
from localjudge.analysis.labels import NO_SHARE, Decisions, LabelledUnits, labelled_units, labels_in_words
from localjudge.analysis.units import UnitFrame, unit_frames
from localjudge.record.label_rows import stored_labels
from localjudge.record.run import Run
from localjudge.stats.corrected import FEWEST_CLUSTERS, corrected_difference, covering, prediction_powered
from localjudge.stats.looks import PLANNED, Look
from localjudge.types import Record
from localjudge.words import numbered


class CorrectedDifference(Record):
    """Corrected means of the same samples in both runs, and their difference with its 95 % interval.

    Of the shared `statements`, `labelled` have a label; `labels` count, in at least `clusters` samples or groups. Both
    runs use the same `look`, with an equal number of labels unless all statements have one. Disagreements are handled
    as in `CorrectedMean`. `remark` explains a missing interval.
    """

    before: float | None = None
    after: float | None = None
    difference: float | None = None
    ci95: tuple[float, float] | None = None
    labels_before: int = 0
    labels_after: int = 0
    labels: int = 0
    labelled: int = 0
    look: int = 0
    unsettled: int = 0
    statements: int = 0
    clusters: int = 0
    remark: str | None = None

    @property
    def in_words(self) -> str:
        """`50 labels`, or `50 of 63 labels` between two looks."""
        return labels_in_words(self.labels, self.labelled)


class BothLabels:
    """Labels and statements of two runs. Samples are read only if a run has labels."""

    def __init__(self, before: Run, after: Run) -> None:
        stopped = before.sampling.by_scores or after.sampling.by_scores  # no correction is valid then
        runs = () if stopped else (before, after)
        is_labelled = any(stored_labels(run.directory) for run in runs)
        self._frames = [unit_frames(run) if is_labelled else {} for run in (before, after)]
        labels = (labels_in(run, frames) for run, frames in zip(runs, self._frames, strict=False))
        self._decisions = Decisions(row for rows in labels for row in rows)
        self._drawings = [self._decisions.drawings(frames) for frames in self._frames]

    def difference(self, metric: str, *clusters: Mapping[str, int]) -> CorrectedDifference | None:
        """Return the corrected difference of a metric, or None if no statement has a label.

        `clusters` maps the samples of the baseline and of the new run to shared cluster numbers from 0.
        """
        if any(metric not in frames for frames in self._frames):
            return None
        frames = [frames[metric].among(of_run) for frames, of_run in zip(self._frames, clusters, strict=True)]
        labelled = [frame.by_key.keys() & self._decisions.human.keys() for frame in frames]
        if not any(labelled) or not all(frame.share_of for frame in frames):
            return CorrectedDifference(remark=NO_SHARE) if any(labelled) else None
        if (agreement := self._decisions.agreement(labelled[0] | labelled[1])) and agreement.is_too_low:
            return CorrectedDifference(remark=agreement.request, unsettled=agreement.unsettled)
        people = self._decisions.by_annotator(labelled[0] | labelled[1]).values()
        looks = [self._at_one_look(frames, labels) for labels in people]
        sides, look = looks[0]
        counted = [side.counted for side in sides]
        corrected = CorrectedDifference(
            labels_before=len(counted[0]),
            labels_after=len(counted[1]),
            labels=len(counted[0] | counted[1]),
            labelled=len(sides[0].labelled | sides[1].labelled),
            look=look.labels,
            statements=len(frames[0].by_key.keys() | frames[1].by_key.keys()),
        )
        if not all(counted):
            return corrected.model_copy(update={"remark": _how_to_add_labels(labelled, 1 if counted[0] else 0)})
        pairs = [(before.units, after.units) for (before, after), _ in looks]
        change = covering([corrected_difference(before, after, look.confidence) for before, after in pairs])
        before, after = (covering([prediction_powered(units) for units in side]) for side in zip(*pairs, strict=True))
        few = f"each run needs labels in {FEWEST_CLUSTERS} samples (or groups of samples), got {change.clusters}"
        if look.confidence is None:
            few = f"each run needs {PLANNED[0].labels} labels, got {min(map(len, counted))}"
        remark = None if change.limits else few
        values = {"before": before.mean, "after": after.mean, "difference": change.mean, "ci95": change.limits}
        return corrected.model_copy(update={**values, "clusters": change.clusters, "remark": remark})

    def _at_one_look(self, frames: Sequence[UnitFrame], human: Mapping[str, float]) -> tuple[list[LabelledUnits], Look]:
        of_runs = zip(frames, self._drawings, strict=True)
        inputs = [(frame, human, drawings[frame.metric]) for frame, drawings in of_runs]
        sides = [labelled_units(*side) for side in inputs]
        unfinished = [side.look for side in sides if side.look.next is not None]
        if not unfinished or not all(side.counted for side in sides):
            return sides, max((side.look for side in sides), key=lambda look: look.labels)
        look = min(unfinished, key=lambda look: look.labels)
        return [labelled_units(*side, look.labels) for side in inputs], look


def _how_to_add_labels(labelled: Sequence[Set[str]], side: int) -> str:
    names, paths = ("the baseline", "this run"), ("BASELINE", "RUN")
    name, path = names[side], paths[side]
    if not (shared := len(labelled[0] & labelled[1])):
        return f"no label corrects {name}; to add labels: `localjudge label {path}`"
    return (
        f"{shared:,} of the {numbered(len(labelled[1 - side]), 'label')} of {names[1 - side]} are for statements of "
        f"{name}, but were not drawn from it; to use them: `localjudge label {path} --read {paths[1 - side]}`, then "
        f"`localjudge label {path}` for the rest"
    )
