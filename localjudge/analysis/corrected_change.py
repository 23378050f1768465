"""Difference of two runs, corrected by the labels of both.

Labels match statements by the text shown to the annotator, so a label of A also counts for the same
statement of B. A run uses only labels drawn from its statements (`localjudge.labels.decisions`),
or all if every statement has one.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any

from localjudge.labels.corrected_mean import BY_SCORES, NO_SHARE, labels_in_words
from localjudge.labels.decisions import Decisions
from localjudge.labels.label_counts import LabelCounts, count_labels
from localjudge.labels.labelled_units import LabelledMetric, LabelledUnits
from localjudge.labels.units import UnitFrame, unit_frames
from localjudge.run_directory.label_rows import LabelRow, planned_statements, stored_labels
from localjudge.run_directory.run_record import RunRecord
from localjudge.stats.corrected import (
    MIN_CLUSTERS,
    PredictionPowered,
    corrected_difference,
    covering,
    prediction_powered,
)
from localjudge.stats.interval import CONFIDENCE
from localjudge.stats.looks import MIN_PLANNED_LABELS, Look, look_at
from localjudge.stats.paired import paired_difference
from localjudge.types import Record
from localjudge.words import call, numbered


class CorrectedDifference(Record):
    """Corrected means of the same samples in both runs, and their difference with its interval.

    Of the shared `statements`, `labelled` have a label; `labels` count, in at least `clusters`
    samples or groups. Both runs use the same `look`, with an equal number of labels unless all
    statements have one. `counts_before` and `counts_after` are all labels of the statements of each
    run; `own_labels` of the new run's were made in it. Disagreements are handled as in
    `CorrectedMean`. `remark` explains a missing interval.
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
    counts_before: LabelCounts | None = None
    counts_after: LabelCounts | None = None
    own_labels: int = 0
    remark: str | None = None

    @property
    def contradiction(self) -> str | None:
        """How the labels of a run contradict its judge, if they do."""
        for counts in (self.counts_after, self.counts_before):
            if counts and counts.contradiction:
                return counts.contradiction
        return None

    @property
    def is_labelled(self) -> bool:
        """Whether the new run has labels, made in it or drawn from its statements."""
        return self.own_labels > 0 or self.labels_after > 0

    @property
    def in_words(self) -> str:
        """`50 labels`, or `50 of 63 labels` between two looks."""
        return labels_in_words(self.labels, self.labelled)


class BothLabels:
    """Labels and statements of two runs. Samples are read only if a run has labels."""

    def __init__(self, before: RunRecord, after: RunRecord) -> None:
        runs = (before, after)
        self._directories = [str(run.directory) for run in runs]
        self._is_stopped = any(run.sampling.optional_stopping for run in runs)
        stored = [stored_labels(run.directory) for run in runs]
        self._own = {row.key for row in stored[1]}
        self._plans = [planned_statements(rows) for rows in stored]
        self._frames: list[dict[str, UnitFrame]] = [{}, {}]
        labels: list[LabelRow] = []
        if any(stored):
            self._frames = [unit_frames(run) for run in runs]
            for rows in stored:
                labels += rows
        self._decisions = Decisions(labels)
        self._drawings = [self._decisions.drawings(frames) for frames in self._frames]

    def difference(self, metric: str, *clusters: Mapping[str, int]) -> CorrectedDifference | None:
        """Return the corrected difference of a metric, or None if no statement has a label.

        `clusters` maps the samples of the baseline and of the new run to shared cluster numbers
        from 0, with the samples of a pair at the same position.
        """
        if any(metric not in frames for frames in self._frames):
            return None
        frames = []
        for frames_of_run, clusters_of_run in zip(self._frames, clusters, strict=True):
            frames.append(frames_of_run[metric].among(clusters_of_run))
        labelled = [frame.by_key.keys() & self._decisions.human.keys() for frame in frames]
        if not any(labelled):
            return None
        before, after = (count_labels(frame, self._decisions.human) for frame in frames)
        corrected = CorrectedDifference(
            counts_before=before,
            counts_after=after,
            own_labels=len(labelled[1] & self._own),
            statements=len(frames[0].by_key.keys() | frames[1].by_key.keys()),
        )
        return corrected.model_copy(update=self._corrected(frames, labelled, clusters))

    def _corrected(
        self,
        frames: Sequence[UnitFrame],
        labelled: Sequence[Set[str]],
        clusters: Sequence[Mapping[str, int]],
    ) -> dict[str, Any]:
        if self._is_stopped:
            return {"remark": BY_SCORES}
        if not all(frame.share_of for frame in frames):
            return {"remark": NO_SHARE}
        agreement = self._decisions.agreement(labelled[0] | labelled[1])
        if agreement and agreement.is_too_low:
            return {"remark": agreement.request, "unsettled": agreement.unsettled}
        people = self._decisions.by_annotator(labelled[0] | labelled[1]).values()
        sides_of_people = [self._sides(frames, labels) for labels in people]
        sides, look = sides_of_people[0]
        counted = [side.counted for side in sides]
        numbers: dict[str, Any] = {
            "labels_before": len(counted[0]),
            "labels_after": len(counted[1]),
            "labels": len(counted[0] | counted[1]),
            "labelled": len(sides[0].labelled | sides[1].labelled),
            "look": look.labels,
        }
        if not all(counted):
            side = 1 if counted[0] else 0
            return {**numbers, "remark": _explain_adding_labels(labelled, side, self._directories)}
        estimates = [_change(frames, sides, look, clusters) for sides, look in sides_of_people]
        change = covering(estimates)
        before = covering([prediction_powered(sides[0].units) for sides, _ in sides_of_people])
        after = covering([prediction_powered(sides[1].units) for sides, _ in sides_of_people])
        return {
            **numbers,
            "before": before.mean,
            "after": after.mean,
            "difference": change.mean,
            "ci95": change.limits,
            "clusters": change.clusters,
            "remark": None if change.limits else _shortage(look, counted, change.clusters),
        }

    def _sides(
        self, frames: Sequence[UnitFrame], human: Mapping[str, float]
    ) -> tuple[list[LabelledUnits], Look]:
        """Return the units of both runs at the same look."""
        metrics = []
        for frame, drawings in zip(frames, self._drawings, strict=True):
            metrics.append(LabelledMetric(frame, human, drawings[frame.metric], self._plans))
        sides = [metric.units() for metric in metrics]
        if all(side.is_complete for side in sides):
            # The look with the smaller error is valid for both.
            looks = [side.look for side in sides]
            return sides, max(looks, key=lambda look: look.confidence or 0)
        plans = []
        for metric, side in zip(metrics, sides, strict=True):
            plans.append(metric.planned_among(side.labelled))
        if all(plans):
            return _from_plans(metrics, sides, plans)
        return _without_plans(metrics)


def _from_plans(
    metrics: Sequence[LabelledMetric],
    sides: Sequence[LabelledUnits],
    plans: Sequence[Set[str]],
) -> tuple[list[LabelledUnits], Look]:
    planned = min(len(plan) for plan in plans)
    labels = min(len(side.labelled) for side in sides)
    statements = max(len(metric.frame.by_key) for metric in metrics)
    look = look_at(labels, statements, planned)
    if look.labels > planned:
        return [metric.units(look.labels) for metric in metrics], look
    at_plans = [metric.units(len(plan)) for metric, plan in zip(metrics, plans, strict=True)]
    return at_plans, look


def _without_plans(metrics: Sequence[LabelledMetric]) -> tuple[list[LabelledUnits], Look]:
    metrics = [metric._replace(plans=()) for metric in metrics]
    sides = [metric.units() for metric in metrics]
    looks = [side.look for side in sides]
    unfinished = [look for look in looks if look.next is not None]
    if not unfinished or not all(side.counted for side in sides):
        return sides, max(looks, key=lambda look: look.labels)
    look = min(unfinished, key=lambda look: look.labels)
    return [metric.units(look.labels) for metric in metrics], look


def _change(
    frames: Sequence[UnitFrame],
    sides: Sequence[LabelledUnits],
    look: Look,
    clusters: Sequence[Mapping[str, int]],
) -> PredictionPowered:
    """Return the labels' difference if every statement has one, else corrected by the labels."""
    before, after = sides
    is_ordinary = look.confidence == CONFIDENCE
    if is_ordinary and before.is_complete and after.is_complete:
        old_shares = frames[0].share_of_samples(before.units.human)
        new_shares = frames[1].share_of_samples(after.units.human)
        numbers = list(clusters[1].values())
        if len(old_shares) == len(new_shares) == len(numbers):
            old = [old_shares[sample] for sample in clusters[0]]
            new = [new_shares[sample] for sample in clusters[1]]
            is_grouped = len(set(numbers)) < len(numbers)
            paired = paired_difference(old, new, clusters=numbers if is_grouped else None)
            interval = paired.difference
            return PredictionPowered(interval.mean, interval.limits, 0.0, interval.clusters)
    return corrected_difference(before.units, after.units, look.confidence)


def _shortage(look: Look, counted: Sequence[Set[str]], clusters: int) -> str:
    if look.confidence is None:
        fewest = min(len(keys) for keys in counted)
        return f"each run needs {MIN_PLANNED_LABELS} labels, got {fewest}"
    groups = "samples (or groups of samples)"
    return f"each run needs labels in {MIN_CLUSTERS} {groups}, got {clusters}"


def _explain_adding_labels(
    labelled: Sequence[Set[str]], side: int, directories: Sequence[str]
) -> str:
    """Say how labels get to correct one side: 0 is the baseline, 1 this run."""
    names = ("the baseline", "this run")
    name = names[side]
    other = 1 - side
    label = call("label", directories[side])
    shared = len(labelled[0] & labelled[1])
    if not shared:
        return f"no label corrects {name}; to add labels: `{label}`"
    read = call("label", directories[side], "read", directories[other])
    labels = numbered(len(labelled[other]), "label")
    return (
        f"{shared:,} of the {labels} of {names[other]} are for statements of {name}, "
        f"but were not drawn from it; to use them: `{read}`, then `{label}` for the rest"
    )
