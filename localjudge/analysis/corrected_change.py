"""The difference of two runs, corrected by the labels of both.

                         A      B   B - A     95 % interval
    context_recall   0.641  0.702  +0.061  -0.010 to +0.132    by 50 labels of A and 50 of B
      judge alone    0.708  0.730  +0.022  -0.013 to +0.057

Labels are matched with statements by what the person was shown, so a label of A is one of B where the statement is the
same: of the same data, judged by another judge or by another threshold, all are. As for a mean, those count that were
drawn from the statements of the run (`localjudge.analysis.labels`), or all if every statement has one.
"""

from collections.abc import Mapping, Sequence, Set

from localjudge.analysis.labels import NO_SHARE, Decisions, labelled_units
from localjudge.analysis.units import unit_frames
from localjudge.record.label_rows import stored_labels
from localjudge.record.run import Run
from localjudge.stats.corrected import FEWEST_CLUSTERS, corrected_difference, prediction_powered
from localjudge.types import Record
from localjudge.words import numbered


class CorrectedDifference(Record):
    """Means of the same samples in both runs, and their difference with its 95 % interval, as labels correct them.

    `ci95` is None where there are too few labels, or none that can; `remark` says why. Of the `statements` of both runs
    `labels` count, each once: `labels_before` are of some in the baseline, `labels_after` of some in the new run, in
    `clusters` samples, or groups of samples, at least.
    """

    before: float | None = None
    after: float | None = None
    difference: float | None = None
    ci95: tuple[float, float] | None = None
    labels_before: int = 0
    labels_after: int = 0
    labels: int = 0
    statements: int = 0
    clusters: int = 0
    remark: str | None = None


class BothLabels:
    """The labels of two runs, and the statements of each; without labels no sample is looked at."""

    def __init__(self, before: Run, after: Run) -> None:
        stopped = before.largest_draw or after.largest_draw  # no correction holds then
        rows = () if stopped else (*stored_labels(before.directory), *stored_labels(after.directory))
        self._decisions = Decisions(rows)
        self._frames = [unit_frames(run) if rows else {} for run in (before, after)]
        self._chances = [self._decisions.chances(frames) for frames in self._frames]

    def difference(self, metric: str, *clusters: Mapping[str, int]) -> CorrectedDifference | None:
        """The corrected difference of a metric; None if none of its statements has a label.

        `clusters` are the samples of the baseline, then of the new run, one at least, with the numbers of their
        clusters: the same in both, from 0 on.
        """
        if any(metric not in frames for frames in self._frames):
            return None
        frames = [frames[metric].among(of_run) for frames, of_run in zip(self._frames, clusters, strict=True)]
        labelled = [frame.by_key.keys() & self._decisions.human.keys() for frame in frames]
        if not any(labelled) or not all(frame.share_of for frame in frames):
            return CorrectedDifference(remark=NO_SHARE) if any(labelled) else None
        sides = zip(frames, self._chances, strict=True)
        units, counted = zip(
            *(labelled_units(of_run, self._decisions, chances) for of_run, chances in sides), strict=True
        )
        corrected = CorrectedDifference(
            labels_before=len(counted[0]),
            labels_after=len(counted[1]),
            labels=len(counted[0] | counted[1]),
            statements=len(frames[0].by_key.keys() | frames[1].by_key.keys()),
        )
        if not all(counted):
            return corrected.model_copy(update={"remark": _missing(labelled, 1 if counted[0] else 0)})
        change, (before, after) = corrected_difference(*units), map(prediction_powered, units)
        few = f"{FEWEST_CLUSTERS} samples (or groups of samples) of each run need labels, {change.clusters} have some"
        remark = None if change.limits else few
        values = {"before": before.mean, "after": after.mean, "difference": change.mean, "ci95": change.limits}
        return corrected.model_copy(update={**values, "clusters": change.clusters, "remark": remark})


def _missing(labelled: Sequence[Set[str]], side: int) -> str:
    """What to do for the side without labels that count: 0 is the baseline, and 1 this run."""
    names, paths = ("the baseline", "this run"), ("BASELINE", "RUN")
    name, path = names[side], paths[side]
    if not (shared := len(labelled[0] & labelled[1])):
        return f"no label corrects {name}: `localjudge label {path}` asks for some"
    return (
        f"{shared:,} of the {numbered(len(labelled[1 - side]), 'label')} of {names[1 - side]} are of statements in "
        f"{name}, which did not draw them: `localjudge label {path} --read {paths[1 - side]}` takes them, and "
        f"`localjudge label {path}` asks for the rest"
    )
