"""Difference of two runs, corrected by the labels of both.

Labels match statements by the text shown to the annotator, so a label of A also counts for the same
statement of B. A run uses only labels drawn from its statements
(`localjudge.labels.matched_labels`), or all if every statement has one.

Other labels are of the statements of both runs together. These are drawn by what each adds to the
difference (`localjudge.labels.units`), so their labels correct the difference and not
the mean of a run. They are stored in the directory of both runs.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Any

import numpy as np

from localjudge.analysis.comparison import CorrectedDifference
from localjudge.analysis.pairing import Clusters
from localjudge.labels.corrected_mean import find_obstacle
from localjudge.labels.drawing import LabelledUnits, label_units
from localjudge.labels.matched_labels import MatchedLabels, count_labels
from localjudge.labels.units import DifferenceFrame, UnitFrame
from localjudge.stats.corrected import (
    MIN_CLUSTERS,
    JudgedUnits,
    corrected_change,
    corrected_difference,
    covering,
    prediction_powered,
)
from localjudge.stats.interval import CONFIDENCE, Z_CONFIDENCE, Mean
from localjudge.stats.paired import paired_difference
from localjudge.stats.repeated_looks import MIN_PLANNED_LABELS, Look, look_at
from localjudge.words import call, numbered


def correct_difference(
    metric: str, both: tuple[MatchedLabels, MatchedLabels], clusters: Clusters
) -> CorrectedDifference | None:
    """Return the corrected difference of a metric, or None if no statement has a label.

    `both` are the labels of the baseline and of the new run. The clusters have the samples of a
    pair at the same position.
    """
    matched_before, matched_after = both
    if metric not in matched_before.frames or metric not in matched_after.frames:
        return None
    before = matched_before.frames[metric].among(clusters[0])
    after = matched_after.frames[metric].among(clusters[1])
    decisions = matched_before.decisions
    labelled_before = before.by_key.keys() & decisions.human.keys()
    labelled_after = after.by_key.keys() & decisions.human.keys()
    labelled = labelled_before | labelled_after
    if not labelled:
        return None
    corrected = CorrectedDifference(
        counts_before=count_labels(before, decisions.human),
        counts_after=count_labels(after, decisions.human),
        own_labels=len(labelled_after & matched_after.own[metric]),
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
    update = _count_used_labels(*people[0])
    shared = labelled_before & labelled_after
    if not update["labels_before"]:
        update["remark"] = _explain_adding_labels(
            "the baseline", matched_before, matched_after, shared, labelled_after
        )
    elif not update["labels_after"]:
        update["remark"] = _explain_adding_labels(
            "this run", matched_after, matched_before, shared, labelled_before
        )
    else:
        update |= _cover(people, clusters)
    return corrected.model_copy(update=update)


def _count_used_labels(before: LabelledUnits, after: LabelledUnits, look: Look) -> dict[str, Any]:
    """Return the fields with the numbers of labels that count at the look of both runs.

    `planned` labels were planned for each run, None without a plan of both.
    """
    return {
        "planned": min(len(before.planned), len(after.planned)) or None,
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
    labels_before = len(units_before.planned)
    labels_after = len(units_after.planned)
    planned = min(labels_before, labels_after)
    if not planned:
        return _look_without_plan(label_before, label_after)
    labels = min(len(units_before.labelled), len(units_after.labelled))
    statements = max(len(before.by_key), len(after.by_key))
    look = look_at(labels, statements, planned)
    if look.labels > planned:
        labels_before = look.labels
        labels_after = look.labels
    units_before = label_before(planned_sets, labels_before)
    units_after = label_after(planned_sets, labels_after)
    return units_before, units_after, look


def _cover(
    people: Sequence[tuple[LabelledUnits, LabelledUnits, Look]], clusters: Clusters
) -> dict[str, Any]:
    """Return the fields of the means and the difference, which cover each annotator's."""
    changes = []
    means_before = []
    means_after = []
    for before, after, look in people:
        changes.append(_estimate_change(before, after, look, clusters))
        means_before.append(prediction_powered(before.units))
        means_after.append(prediction_powered(after.units))
    first_before, first_after, first_look = people[0]
    fewest = min(len(first_before.counted), len(first_after.counted))
    means = {"before": covering(means_before).mean, "after": covering(means_after).mean}
    return means | describe_change(changes, first_look, fewest, needing="each run")


def describe_change(
    changes: Sequence[Mean], look: Look, fewest: int, *, needing: str
) -> dict[str, Any]:
    """Return the fields of the difference that covers each annotator's.

    A run, or both together, has the `fewest` labels at this look, as `needing` says.
    """
    change = covering(changes)
    remark = None
    if change.ci95 is None and look.confidence is None:
        remark = f"{needing} needs {MIN_PLANNED_LABELS} labels, got {fewest}"
    elif change.ci95 is None:
        groups = "samples (or groups of samples)"
        remark = f"{needing} needs labels in {MIN_CLUSTERS} {groups}, got {change.clusters}"
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
    before: LabelledUnits, after: LabelledUnits, look: Look, clusters: Clusters
) -> Mean:
    """Return the labels' difference if every statement has one, else corrected by the labels."""
    is_ordinary = look.confidence == CONFIDENCE
    if is_ordinary and before.is_complete and after.is_complete:
        shares_before = before.frame.share_of_samples(before.units.human)
        shares_after = after.frame.share_of_samples(after.units.human)
        if len(shares_before) == len(shares_after) == len(clusters[1]):
            return subtract_shares(shares_before, shares_after, clusters)
    unshared = max(
        _weigh_unshared(before.frame, after.frame), _weigh_unshared(after.frame, before.frame)
    )
    return corrected_difference(before.units, after.units, look.confidence, unshared=unshared)


def subtract_shares(
    before: Mapping[str, float], after: Mapping[str, float], clusters: Clusters
) -> Mean:
    """Return the mean difference of the shares of paired samples."""
    clusters_before, clusters_after = clusters
    numbers = list(clusters_after.values())
    groups = None
    if len(set(numbers)) < len(numbers):
        groups = numbers
    return paired_difference(
        [before[sample] for sample in clusters_before],
        [after[sample] for sample in clusters_after],
        clusters=groups,
    )


def _weigh_unshared(frame: UnitFrame, other: UnitFrame) -> float:
    """Return the weight of the statements that the other run does not have."""
    total = 0.0
    for key, indices in frame.by_key.items():
        if key not in other.by_key:
            total += float(frame.weights[indices].sum())
    return total


def _explain_adding_labels(
    name: str, run: MatchedLabels, other: MatchedLabels, shared: Set[str], labelled: Set[str]
) -> str:
    """Say how labels get to correct a run, the one with this name.

    Of the statements of the other run, these are `labelled`, `shared` by both runs.
    """
    label = call("label", str(run.directory))
    of_other: set[str] = set().union(*other.own.values())
    usable = len(shared & of_other)
    if not usable:
        return f"no label corrects {name}; to add labels: `{label}`"
    other_name = "this run"
    if name == other_name:
        other_name = "the baseline"
    read = call("label", str(run.directory), read=str(other.directory))
    labels = numbered(len(labelled & of_other), "label")
    return (
        f"{usable:,} of the {labels} of {other_name} are for statements of {name}, "
        f"but were not drawn from it; to use them: `{read}`, then `{label}` for the rest"
    )


def join_frames(before: UnitFrame, after: UnitFrame, clusters: Clusters) -> DifferenceFrame:
    """Return the statements of a metric on the pairs of both runs."""
    return DifferenceFrame(before.among(clusters[0]), after.among(clusters[1]))


def correct_jointly(
    frame: DifferenceFrame, matched: MatchedLabels, clusters: Clusters
) -> CorrectedDifference | None:
    """Return the difference corrected by labels drawn from both runs, None without labels.

    `frame` may be a part of the statements that were drawn from.
    """
    decisions = matched.decisions
    keys = frame.by_key.keys() & decisions.human.keys()
    if not keys:
        return None
    corrected = CorrectedDifference(
        is_joint=True,
        counts_before=count_labels(frame.before, decisions.human),
        counts_after=count_labels(frame.after, decisions.human),
        own_labels=len(keys),
        annotators=decisions.count_annotators(keys),
        passed_over_after=len(frame.by_key.keys() & matched.passed_over),
        statements=len(frame.by_key),
        uncounted=frame.uncounted,
    )
    obstacle = find_obstacle([matched], [frame], keys)
    if obstacle:
        return corrected.model_copy(update=obstacle)
    drawings = matched.drawings[frame.metric]
    people = []
    for human in decisions.by_annotator(keys).values():
        people.append(label_units(frame, human, drawings, matched.planned))
    first = people[0]
    update: dict[str, Any] = {
        "labels_before": len(first.counted & frame.before.by_key.keys()),
        "labels_after": len(first.counted & frame.after.by_key.keys()),
        "labels": len(first.counted),
        "labelled": len(first.labelled),
        "look": first.look.labels,
        "next_look": first.look.next,
        "planned": len(first.planned) or None,
    }
    if first.counted:
        changes = []
        for units in people:
            changes.append(_estimate_joint_change(frame, units, clusters))
        update |= describe_change(changes, first.look, len(first.counted), needing="the difference")
        update |= _estimate_means(frame, people, update["difference"])
        update["half_width_of_all"] = half_width_of_all_labels(frame, first.units)
    return corrected.model_copy(update=update)


def _estimate_joint_change(
    frame: DifferenceFrame, labelled: LabelledUnits, clusters: Clusters
) -> Mean:
    """Return the difference by one annotator's labels.

    If every statement that changes the difference has one, it is the difference of the samples.
    """
    units = labelled.units
    if not labelled.is_complete:
        return corrected_change(units, frame.signs, frame.shares, labelled.look.confidence)
    before, after = frame.shares_of_samples(units.human)
    return subtract_shares(before, after, clusters)


def half_width_of_all_labels(frame: DifferenceFrame, units: JudgedUnits) -> float:
    """Return the expected half width of the interval if every statement had a label.

        variance   sum over clusters (d - share D)^2 + sum over statements w^2 s (1 - s)

    s is the share of labels of 1 among the drawn statements of a system, and d and D are the
    differences that these shares give. The first statement to be drawn has a share of one half.
    """
    values = np.where(units.certain, units.human, 0.0)
    for sign in (-1.0, 1.0):
        of_system = (frame.signs == sign) & ~units.certain
        drawn = units.drawn[of_system]
        labels = np.count_nonzero(drawn)
        share = 0.5
        if labels:
            share = float((drawn * units.human[of_system]).sum() / drawn.sum())
        values[of_system] = (labels * share + 0.5) / (labels + 1)
    variance = frame.variance_of_clusters(values)
    variance += float((frame.weights**2 * values * (1 - values)).sum())
    return Z_CONFIDENCE * math.sqrt(variance)


def _estimate_means(
    frame: DifferenceFrame, people: Iterable[LabelledUnits], difference: float
) -> dict[str, Any]:
    """Return the mean of each run by the labels, at this difference.

    Returns {} if a statement could not be drawn, because it changes no difference, or if all labels
    are of one run.
    """
    if frame.uncounted:
        return {}
    means: list[float] = []
    for labelled in people:
        units = labelled.units
        drawn = np.divide(
            units.drawn, frame.weights, out=np.zeros_like(units.drawn), where=frame.weights > 0
        )
        for weights in frame.weights_of_runs():
            of_run = units._replace(weights=weights, drawn=weights * drawn)
            if not of_run.labelled.any():
                return {}
            means.append(prediction_powered(of_run, None).mean)
    before = sum(means) / len(means) - difference / 2
    before = min(max(before, 0.0, -difference), 1.0, 1.0 - difference)
    return {"before": before, "after": before + difference}
