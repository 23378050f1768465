"""Difference of two runs, corrected by the labels of both.

Labels match statements by the text shown to the annotator, so a label of A also counts for the same
statement of B. A run uses only labels drawn from its statements
(`localjudge.labels.matched_labels`), or all if every statement has one.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from localjudge.labels.corrected_mean import NO_SHARE, find_obstacle, labels_in_words
from localjudge.labels.labelled_units import (
    LabelCounts,
    LabelledUnits,
    are_too_many,
    count_labels,
    find_planned,
    label_units,
)
from localjudge.labels.matched_labels import MatchedLabels
from localjudge.labels.units import UnitFrame
from localjudge.stats.corrected import (
    MIN_CLUSTERS,
    corrected_difference,
    covering,
    prediction_powered,
)
from localjudge.stats.distributions import CONFIDENCE
from localjudge.stats.interval import Mean
from localjudge.stats.paired import paired_difference
from localjudge.stats.planned_looks import MIN_PLANNED_LABELS, Look, look_at
from localjudge.types import Record
from localjudge.words import call, numbered

Clusters = Mapping[str, int]
"""Number of the cluster of each sample, from 0."""


class CorrectedDifference(Record):
    """Corrected means of the same samples in both runs, and their difference with its interval.

    Of the shared `statements`, `labelled` have a label; `labels` count, in at least `clusters`
    samples or groups. Both runs use the same `look`, with an equal number of labels unless all
    statements have one. `counts_before` and `counts_after` are all labels of the statements of each
    run; `own_labels` of the new run's were made in it. Statements that were `passed_over` have no
    label, but later ones of their drawing do. Disagreements are handled as in
    `CorrectedMean`. `annotators` have labelled one of the statements. `remark` explains a missing
    interval. More labels count at the `next_look`. `planned` labels were to be read first, None
    without a plan. `is_joint`: the statements were drawn from both runs together
    (`localjudge.analysis.joint_labels`), by what each changes in the difference. `uncounted` ones
    change nothing and are never drawn, so that there are no means with any of them.
    `half_width_of_all` is then the expected half width if every statement had a label.
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
    next_look: int | None = None
    planned: int | None = None
    half_width_of_all: float | None = None
    unsettled: int = 0
    statements: int = 0
    uncounted: int = 0
    clusters: int = 0
    counts_before: LabelCounts | None = None
    counts_after: LabelCounts | None = None
    own_labels: int = 0
    passed_over_before: int = 0
    passed_over_after: int = 0
    annotators: int = 0
    is_joint: bool = False
    remark: str | None = None

    @property
    def passed_over(self) -> int:
        return self.passed_over_before + self.passed_over_after

    @property
    def has_gaps(self) -> bool:
        """Whether too many of the drawn statements of a run have no label to decide a gate."""
        before = are_too_many(self.passed_over_before, self.counts_before)
        return before or are_too_many(self.passed_over_after, self.counts_after)

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
    def waiting(self) -> str | None:
        """Which labels do not count yet, and when they will, or None."""
        if self.labels >= self.labelled or self.next_look is None:
            return None
        more = numbered(self.next_look - self.labelled, "more label")
        return (
            f"{self.in_words} count; the interval is computed again at planned numbers only: "
            f"{more} to reach {self.next_look:,}"
        )

    @property
    def in_words(self) -> str:
        """`50 labels`, or `50 of 63 labels` between two looks."""
        return labels_in_words(self.labels, self.labelled)


def withholds_difference(
    corrected: CorrectedDifference | None, whole: CorrectedDifference | None
) -> bool:
    """Return whether labels without an interval keep the judges' difference from being quoted.

    `corrected` is the difference of a slice, and `whole` the one of the runs.
    """
    if whole is None or (corrected and corrected.ci95):
        return False
    if whole.contradiction:
        return True
    remark = whole.remark
    if corrected:
        remark = corrected.remark
    return remark != NO_SHARE and whole.is_labelled


def correct_difference(
    metric: str,
    both: tuple[MatchedLabels, MatchedLabels],
    clusters_before: Clusters,
    clusters_after: Clusters,
) -> CorrectedDifference | None:
    """Return the corrected difference of a metric, or None if no statement has a label.

    `both` are the labels of the baseline and of the new run. The clusters map the samples of each
    run to shared numbers from 0, with the samples of a pair at the same position.
    """
    matched_before, matched_after = both
    if metric not in matched_before.frames or metric not in matched_after.frames:
        return None
    before = matched_before.frames[metric].among(clusters_before)
    after = matched_after.frames[metric].among(clusters_after)
    decisions = matched_before.decisions
    labelled_before = before.by_key.keys() & decisions.human.keys()
    labelled_after = after.by_key.keys() & decisions.human.keys()
    labelled = labelled_before | labelled_after
    if not labelled:
        return None
    corrected = CorrectedDifference(
        counts_before=count_labels(before, decisions.human),
        counts_after=count_labels(after, decisions.human),
        own_labels=len(labelled_after & matched_after.own),
        annotators=decisions.count_annotators(labelled),
        passed_over_before=len(before.by_key.keys() & matched_before.passed_over),
        passed_over_after=len(after.by_key.keys() & matched_after.passed_over),
        statements=len(before.by_key.keys() | after.by_key.keys()),
    )
    obstacle = find_obstacle(both, [before, after], labelled)
    if obstacle:
        return corrected.model_copy(update=obstacle)
    people = []
    for human in decisions.by_annotator(labelled).values():
        people.append(_units_at_look(both, before, after, human))
    update = _count_used_labels(both, people[0])
    shared = len(labelled_before & labelled_after)
    if not update["labels_before"]:
        update["remark"] = _explain_adding_labels(
            "the baseline", matched_before, matched_after, shared, len(labelled_after)
        )
    elif not update["labels_after"]:
        update["remark"] = _explain_adding_labels(
            "this run", matched_after, matched_before, shared, len(labelled_before)
        )
    else:
        update |= _cover(people, clusters_before, clusters_after)
    return corrected.model_copy(update=update)


def _count_used_labels(
    both: tuple[MatchedLabels, MatchedLabels], units: tuple[LabelledUnits, LabelledUnits, Look]
) -> dict[str, Any]:
    """Return the fields with the numbers of labels that count at the look of both runs.

    `planned` labels were planned for each run, None without a plan of both.
    """
    before, after, look = units
    planned_sets = both[0].planned  # of both runs
    numbers = []
    for labelled in (before, after):
        numbers.append(len(find_planned(labelled.frame, planned_sets, labelled.labelled)))
    return {
        "planned": min(numbers) or None,
        "labels_before": len(before.counted),
        "labels_after": len(after.counted),
        "labels": len(before.counted | after.counted),
        "labelled": len(before.labelled | after.labelled),
        "look": look.labels,
        "next_look": look.next,
    }


def _units_at_look(
    both: tuple[MatchedLabels, MatchedLabels],
    before: UnitFrame,
    after: UnitFrame,
    human: Mapping[str, float],
) -> tuple[LabelledUnits, LabelledUnits, Look]:
    """Return the units of both runs with one annotator's labels, at the same look."""
    matched_before, matched_after = both
    drawings_before = matched_before.drawings[before.metric]
    drawings_after = matched_after.drawings[after.metric]
    label_before = partial(label_units, before, human, drawings_before)
    label_after = partial(label_units, after, human, drawings_after)
    planned_sets = matched_before.planned  # of both runs
    units_before = label_before(planned_sets)
    units_after = label_after(planned_sets)
    if units_before.is_complete and units_after.is_complete:
        # The look with the smaller error is valid for both.
        look = max(units_before.look, units_after.look, key=lambda each: each.confidence or 0)
        return units_before, units_after, look
    planned_before = find_planned(before, planned_sets, units_before.labelled)
    planned_after = find_planned(after, planned_sets, units_after.labelled)
    if not planned_before or not planned_after:
        return _look_without_plan(label_before, label_after)
    planned = min(len(planned_before), len(planned_after))
    labels = min(len(units_before.labelled), len(units_after.labelled))
    statements = max(len(before.by_key), len(after.by_key))
    look = look_at(labels, statements, planned)
    labels_before = len(planned_before)
    labels_after = len(planned_after)
    if look.labels > planned:
        labels_before = look.labels
        labels_after = look.labels
    units_before = label_before(planned_sets, labels_before)
    units_after = label_after(planned_sets, labels_after)
    return units_before, units_after, look


def _cover(
    people: Sequence[tuple[LabelledUnits, LabelledUnits, Look]],
    clusters_before: Clusters,
    clusters_after: Clusters,
) -> dict[str, Any]:
    """Return the fields of the means and the difference, which cover each annotator's."""
    changes = []
    means_before = []
    means_after = []
    for before, after, look in people:
        changes.append(_estimate_change(before, after, look, clusters_before, clusters_after))
        means_before.append(prediction_powered(before.units))
        means_after.append(prediction_powered(after.units))
    first_before, first_after, first_look = people[0]
    fewest = min(len(first_before.counted), len(first_after.counted))
    means = {"before": covering(means_before).mean, "after": covering(means_after).mean}
    return means | describe_change(changes, first_look, fewest)


def describe_change(changes: Sequence[Mean], look: Look, fewest: int) -> dict[str, Any]:
    """Return the fields of the difference that covers each annotator's.

    A run has the `fewest` labels at this look.
    """
    change = covering(changes)
    remark = None
    if change.ci95 is None and look.confidence is None:
        remark = f"each run needs {MIN_PLANNED_LABELS} labels, got {fewest}"
    elif change.ci95 is None:
        groups = "samples (or groups of samples)"
        remark = f"each run needs labels in {MIN_CLUSTERS} {groups}, got {change.clusters}"
    return {
        "difference": change.mean,
        "ci95": change.ci95,
        "clusters": change.clusters,
        "remark": remark,
    }


def _look_without_plan(
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
    clusters_before: Clusters,
    clusters_after: Clusters,
) -> Mean:
    """Return the labels' difference if every statement has one, else corrected by the labels."""
    is_ordinary = look.confidence == CONFIDENCE
    if is_ordinary and before.is_complete and after.is_complete:
        shares_before = before.frame.share_of_samples(before.units.human)
        shares_after = after.frame.share_of_samples(after.units.human)
        if len(shares_before) == len(shares_after) == len(clusters_after):
            return subtract_shares(shares_before, shares_after, clusters_before, clusters_after)
    unshared = max(
        _weigh_unshared(before.frame, after.frame), _weigh_unshared(after.frame, before.frame)
    )
    return corrected_difference(before.units, after.units, look.confidence, unshared=unshared)


def subtract_shares(
    before: Mapping[str, float],
    after: Mapping[str, float],
    clusters_before: Clusters,
    clusters_after: Clusters,
) -> Mean:
    """Return the mean difference of the shares of paired samples."""
    numbers = list(clusters_after.values())
    clusters = None
    if len(set(numbers)) < len(numbers):
        clusters = numbers
    return paired_difference(
        [before[sample] for sample in clusters_before],
        [after[sample] for sample in clusters_after],
        clusters=clusters,
    )


def _weigh_unshared(frame: UnitFrame, other: UnitFrame) -> float:
    """Return the weight of the statements that the other run does not have."""
    total = 0.0
    for key, indices in frame.by_key.items():
        if key not in other.by_key:
            total += float(frame.weights[indices].sum())
    return total


def _explain_adding_labels(
    name: str, run: MatchedLabels, other: MatchedLabels, shared: int, other_labels: int
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
