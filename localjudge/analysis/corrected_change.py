"""The difference of two runs, corrected by the labels of both.

                     A      B     B - A     95 % interval
    context_recall   0.641  0.702  +0.061   -0.010 to +0.132    by 50 labels of A and 50 of B
      judge alone    0.708  0.730  +0.022   -0.013 to +0.057

Labels are matched with statements by what the person was shown, so a label of A is one of B where the statement is the
same: of the same data, judged by another judge or by another threshold, all are. As for a mean, those count that were
drawn from the statements of the run (`localjudge.analysis.labels`), or all if every statement has one. Where labels of
one run could serve the other, and were not drawn for it, that is said, and the difference is the judge's.
"""

from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np

from localjudge.analysis.labels import NO_SHARE, Decisions, labelled_units
from localjudge.analysis.units import unit_frames
from localjudge.record.labels import LabelRow, merge_labels, stored_labels
from localjudge.record.run import Run
from localjudge.stats.corrected import FEWEST_CLUSTERS, corrected_difference, prediction_powered
from localjudge.types import Record
from localjudge.words import numbered


class CorrectedDifference(Record):
    """Means of the same samples in both runs, and their difference with its 95 % interval, as labels correct them.

    `ci95` is None where there are too few labels, or none that can; `remark` says why. Of all `statements` of both
    runs `labels` have one that counts, each counted once: `labels_before` of those in the baseline, `labels_after` of
    those in the new run. `clusters` samples, or groups of samples, have labels on either side.
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
    """The labels of two runs, and the statements of each."""

    def __init__(self, before: Run, after: Run, rows: Iterable[LabelRow]) -> None:
        self._decisions = Decisions(rows)
        self._frames = [unit_frames(run) for run in (before, after)]
        self._chances = [self._decisions.chances(frames) for frames in self._frames]

    @classmethod
    def of(cls, before: Run, after: Run) -> "BothLabels | None":
        """The labels that the runs have; None if they have none, without a look at their samples."""
        rows = merge_labels(stored_labels(before.directory), stored_labels(after.directory))
        return cls(before, after, rows) if rows else None

    def difference(
        self, metric: str, before: Mapping[str, int], after: Mapping[str, int]
    ) -> CorrectedDifference | None:
        """The corrected difference of a metric; None if none of its statements has a label.

        `before` and `after` are the samples of each run, one at least, with the numbers of their clusters: the same in
        both, from 0 on.
        """
        if any(metric not in frames for frames in self._frames):
            return None
        clusters = zip(self._frames, (before, after), strict=True)
        frames = [frames[metric].among(of_run) for frames, of_run in clusters]
        keys = [frame.by_key.keys() for frame in frames]
        labelled = [of_run & self._decisions.human.keys() for of_run in keys]
        if not any(labelled) or not all(frame.share_of for frame in frames):
            return CorrectedDifference(remark=NO_SHARE) if any(labelled) else None
        pairs = zip(frames, self._chances, strict=True)
        old, new = (labelled_units(frame, self._decisions, chances).units for frame, chances in pairs)
        counted = [
            {frame.keys[unit] for unit in np.flatnonzero((units.drawn > 0) & ~units.certain)}
            for frame, units in zip(frames, (old, new), strict=True)
        ]
        of_each = CorrectedDifference(
            labels_before=len(counted[0]),
            labels_after=len(counted[1]),
            labels=len(counted[0] | counted[1]),
            statements=len(keys[0] | keys[1]),
        )
        if not all(counted):
            return of_each.model_copy(update={"remark": _missing(labelled, 1 if counted[0] else 0)})
        change = corrected_difference(old, new)
        few = f"{FEWEST_CLUSTERS} samples (or groups of samples) of A and of B need labels, {change.clusters} have some"
        return CorrectedDifference(
            **vars(of_each)
            | {
                "before": prediction_powered(old).mean,
                "after": prediction_powered(new).mean,
                "difference": change.mean,
                "ci95": change.limits,
                "clusters": change.clusters,
                "remark": None if change.limits else few,
            }
        )


def _missing(labelled: Sequence[Set[str]], side: int) -> str:
    """What the side without labels that count can do: 0 is the baseline, A, and 1 the new run, B."""
    name, other = "AB"[side], "BA"[side]
    if not (shared := len(labelled[0] & labelled[1])):
        return f"no label corrects {name}: `localjudge label {name}` asks for some"
    return (
        f"{shared:,} of the {numbered(len(labelled[1 - side]), 'label')} of {other} are of statements in {name}, which "
        f"did not draw them: `localjudge label {name} --read {other}` takes them, and `localjudge label {name}` asks "
        "for the rest"
    )
