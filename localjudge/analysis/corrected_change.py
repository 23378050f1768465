"""Difference of two runs, corrected by the labels of both.

Labels match statements by the text shown to the annotator, so a label of A also counts for the same
statement of B. A run uses only labels drawn from its statements
(`localjudge.labels.label_drawings`), or all if every statement has one.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Any

from localjudge.labels.corrected_mean import BY_SCORES, NO_SHARE, labels_in_words
from localjudge.labels.decisions import Decisions
from localjudge.labels.label_counts import LabelCounts, count_labels
from localjudge.labels.label_drawings import labelled_drawings
from localjudge.labels.labelled_units import LabelledUnits, find_plan, label_units
from localjudge.labels.units import UnitFrame, unit_frames
from localjudge.run_directory.label_file import stored_labels
from localjudge.run_directory.label_rows import planned_statements
from localjudge.run_directory.run_record import RunRecord
from localjudge.stats.corrected import (
    MIN_CLUSTERS,
    PredictionPowered,
    corrected_difference,
    covering,
    prediction_powered,
)
from localjudge.stats.distributions import CONFIDENCE
from localjudge.stats.looks import MIN_PLANNED_LABELS, Look, look_at
from localjudge.stats.paired import paired_difference
from localjudge.types import Record
from localjudge.words import call, numbered

_Clusters = Mapping[str, int]
"""Number of the cluster of each sample, from 0."""


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
        self._before = before
        self._after = after
        labels_before = stored_labels(before.directory)
        labels_after = stored_labels(after.directory)
        self._own = {row.key for row in labels_after}
        self._plans = (planned_statements(labels_before), planned_statements(labels_after))
        self._decisions = Decisions([*labels_before, *labels_after])
        self._frames_before: dict[str, UnitFrame] = {}
        self._frames_after: dict[str, UnitFrame] = {}
        if self._decisions.rows:
            self._frames_before = unit_frames(before)
            self._frames_after = unit_frames(after)
        self._drawings_before = labelled_drawings(self._decisions, self._frames_before)
        self._drawings_after = labelled_drawings(self._decisions, self._frames_after)

    def difference(
        self, metric: str, clusters_before: _Clusters, clusters_after: _Clusters
    ) -> CorrectedDifference | None:
        """Return the corrected difference of a metric, or None if no statement has a label.

        The clusters map the samples of each run to shared numbers from 0, with the samples of a
        pair at the same position.
        """
        if metric not in self._frames_before or metric not in self._frames_after:
            return None
        before = self._frames_before[metric].among(clusters_before)
        after = self._frames_after[metric].among(clusters_after)
        human = self._decisions.human
        labelled_before = before.by_key.keys() & human.keys()
        labelled_after = after.by_key.keys() & human.keys()
        labelled = labelled_before | labelled_after
        if not labelled:
            return None
        corrected = CorrectedDifference(
            counts_before=count_labels(before, human),
            counts_after=count_labels(after, human),
            own_labels=len(labelled_after & self._own),
            statements=len(before.by_key.keys() | after.by_key.keys()),
        )
        update = self._find_obstacle(before, after, labelled)
        if not update:
            update = self._estimate(before, after, clusters_before, clusters_after)
        return corrected.model_copy(update=update)

    def _find_obstacle(
        self, before: UnitFrame, after: UnitFrame, labelled: Set[str]
    ) -> dict[str, Any]:
        """Return why no label can correct the difference, {} if labels can."""
        if self._before.sampling.optional_stopping or self._after.sampling.optional_stopping:
            return {"remark": BY_SCORES}
        if before.share_of is None or after.share_of is None:
            return {"remark": NO_SHARE}
        agreement = self._decisions.agreement(labelled)
        if agreement and agreement.is_too_low:
            return {"remark": agreement.request, "unsettled": agreement.unsettled}
        return {}

    def _estimate(
        self,
        before: UnitFrame,
        after: UnitFrame,
        clusters_before: _Clusters,
        clusters_after: _Clusters,
    ) -> dict[str, Any]:
        """Return the fields with the estimate, which covers the labels of each annotator."""
        labelled_before = before.by_key.keys() & self._decisions.human.keys()
        labelled_after = after.by_key.keys() & self._decisions.human.keys()
        people = []
        labels = self._decisions.by_annotator(labelled_before | labelled_after)
        for human in labels.values():
            people.append(self._units_at_look(before, after, human))
        first_before, first_after, look = people[0]
        counted_before = first_before.counted
        counted_after = first_after.counted
        fields: dict[str, Any] = {
            "labels_before": len(counted_before),
            "labels_after": len(counted_after),
            "labels": len(counted_before | counted_after),
            "labelled": len(first_before.labelled | first_after.labelled),
            "look": look.labels,
        }
        shared = len(labelled_before & labelled_after)
        if not counted_before:
            remark = _explain_adding_labels(
                "the baseline", self._before, self._after, shared, len(labelled_after)
            )
            return fields | {"remark": remark}
        if not counted_after:
            remark = _explain_adding_labels(
                "this run", self._after, self._before, shared, len(labelled_before)
            )
            return fields | {"remark": remark}
        fewest = min(len(counted_before), len(counted_after))
        return fields | _cover(people, fewest, clusters_before, clusters_after)

    def _units_at_look(
        self, before: UnitFrame, after: UnitFrame, human: Mapping[str, float]
    ) -> tuple[LabelledUnits, LabelledUnits, Look]:
        """Return the units of both runs with one annotator's labels, at the same look."""
        label_before = partial(label_units, before, human, self._drawings_before[before.metric])
        label_after = partial(label_units, after, human, self._drawings_after[after.metric])
        units_before = label_before(self._plans)
        units_after = label_after(self._plans)
        if units_before.is_complete and units_after.is_complete:
            # The look with the smaller error is valid for both.
            look = max(units_before.look, units_after.look, key=lambda each: each.confidence or 0)
            return units_before, units_after, look
        plan_before = find_plan(before, self._plans, units_before.labelled)
        plan_after = find_plan(after, self._plans, units_after.labelled)
        if not plan_before or not plan_after:
            return _look_without_plans(label_before, label_after)
        planned = min(len(plan_before), len(plan_after))
        labels = min(len(units_before.labelled), len(units_after.labelled))
        statements = max(len(before.by_key), len(after.by_key))
        look = look_at(labels, statements, planned)
        labels_before = len(plan_before)
        labels_after = len(plan_after)
        if look.labels > planned:
            labels_before = look.labels
            labels_after = look.labels
        units_before = label_before(self._plans, labels_before)
        units_after = label_after(self._plans, labels_after)
        return units_before, units_after, look


def _cover(
    people: Sequence[tuple[LabelledUnits, LabelledUnits, Look]],
    fewest: int,
    clusters_before: _Clusters,
    clusters_after: _Clusters,
) -> dict[str, Any]:
    """Return the fields of the means and the difference, which cover each annotator's.

    `fewest` is the number of labels of the run with fewer of them.
    """
    changes = []
    means_before = []
    means_after = []
    for before, after, look in people:
        changes.append(_estimate_change(before, after, look, clusters_before, clusters_after))
        means_before.append(prediction_powered(before.units))
        means_after.append(prediction_powered(after.units))
    change = covering(changes)
    remark = None
    if change.limits is None:
        _, _, first_look = people[0]
        remark = _explain_missing_interval(first_look, fewest, change.clusters)
    return {
        "before": covering(means_before).mean,
        "after": covering(means_after).mean,
        "difference": change.mean,
        "ci95": change.limits,
        "clusters": change.clusters,
        "remark": remark,
    }


def _look_without_plans(
    label_before: Callable[..., LabelledUnits], label_after: Callable[..., LabelledUnits]
) -> tuple[LabelledUnits, LabelledUnits, Look]:
    """Return the units of both runs at the earlier one of their looks."""
    units_before = label_before()
    units_after = label_after()
    looks = [units_before.look, units_after.look]
    unfinished = [look for look in looks if look.next is not None]
    if not unfinished or not units_before.counted or not units_after.counted:
        return units_before, units_after, max(looks, key=lambda look: look.labels)
    look = min(unfinished, key=lambda look: look.labels)
    units_before = label_before(most=look.labels)
    units_after = label_after(most=look.labels)
    return units_before, units_after, look


def _estimate_change(
    before: LabelledUnits,
    after: LabelledUnits,
    look: Look,
    clusters_before: _Clusters,
    clusters_after: _Clusters,
) -> PredictionPowered:
    """Return the labels' difference if every statement has one, else corrected by the labels."""
    is_ordinary = look.confidence == CONFIDENCE
    if is_ordinary and before.is_complete and after.is_complete:
        shares_before = before.frame.share_of_samples(before.units.human)
        shares_after = after.frame.share_of_samples(after.units.human)
        numbers = list(clusters_after.values())
        if len(shares_before) == len(shares_after) == len(numbers):
            interval = paired_difference(
                [shares_before[sample] for sample in clusters_before],
                [shares_after[sample] for sample in clusters_after],
                clusters=numbers if len(set(numbers)) < len(numbers) else None,
            )
            return PredictionPowered(interval.mean, interval.limits, 0.0, interval.clusters)
    return corrected_difference(before.units, after.units, look.confidence)


def _explain_missing_interval(look: Look, fewest: int, clusters: int) -> str:
    if look.confidence is None:
        return f"each run needs {MIN_PLANNED_LABELS} labels, got {fewest}"
    groups = "samples (or groups of samples)"
    return f"each run needs labels in {MIN_CLUSTERS} {groups}, got {clusters}"


def _explain_adding_labels(
    name: str, run: RunRecord, other: RunRecord, shared: int, other_labels: int
) -> str:
    """Say how labels get to correct a run, the one with this name.

    The other run has `other_labels`, `shared` of them for statements of both runs.
    """
    label = call("label", str(run.directory))
    if not shared:
        return f"no label corrects {name}; to add labels: `{label}`"
    other_name = "this run"
    if name == other_name:
        other_name = "the baseline"
    read = call("label", str(run.directory), "read", str(other.directory))
    labels = numbered(other_labels, "label")
    return (
        f"{shared:,} of the {labels} of {other_name} are for statements of {name}, "
        f"but were not drawn from it; to use them: `{read}`, then `{label}` for the rest"
    )
