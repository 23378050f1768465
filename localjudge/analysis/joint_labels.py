"""Labels of the statements of two runs together, and the difference that they correct.

The statements are drawn by what each adds to the difference (`localjudge.labels.difference_frame`),
so their labels correct the difference and not the mean of a run. They are stored in the directory
of both runs.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from localjudge.analysis.corrected_change import (
    Clusters,
    CorrectedDifference,
    describe_change,
    subtract_shares,
)
from localjudge.labels.corrected_mean import find_obstacle
from localjudge.labels.difference_frame import DifferenceFrame, half_width_of_all_labels
from localjudge.labels.labelled_units import LabelledUnits, count_labels, find_planned, label_units
from localjudge.labels.matched_labels import MatchedLabels
from localjudge.labels.units import UnitFrame
from localjudge.stats.corrected import corrected_change, prediction_powered
from localjudge.stats.interval import Mean


def join_frames(
    before: UnitFrame, after: UnitFrame, clusters_before: Clusters, clusters_after: Clusters
) -> DifferenceFrame:
    """Return the statements of a metric on the pairs of both runs.

    The clusters are those of `correct_difference`.
    """
    return DifferenceFrame(before.among(clusters_before), after.among(clusters_after))


def correct_jointly(
    frame: DifferenceFrame,
    matched: MatchedLabels,
    clusters_before: Clusters,
    clusters_after: Clusters,
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
    drawings = []
    for drawing in matched.drawings[frame.metric]:
        drawings.append([drawn for drawn in drawing if drawn.key in frame.by_key])
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
        "planned": len(find_planned(frame, matched.planned, first.labelled)) or None,
    }
    if first.counted:
        changes = []
        for units in people:
            changes.append(_estimate(frame, units, clusters_before, clusters_after))
        update |= describe_change(changes, first.look, len(first.counted))
        update |= _estimate_means(frame, people, update["difference"])
        update["half_width_of_all"] = half_width_of_all_labels(frame, first.units)
    return corrected.model_copy(update=update)


def _estimate(
    frame: DifferenceFrame,
    labelled: LabelledUnits,
    clusters_before: Clusters,
    clusters_after: Clusters,
) -> Mean:
    """Return the difference by one annotator's labels.

    If every statement that changes the difference has one, it is the difference of the samples.
    """
    units = labelled.units
    if not labelled.is_complete:
        return corrected_change(units, frame.signs, frame.shares, labelled.look.confidence)
    before, after = frame.shares_of_samples(units.human)
    return subtract_shares(before, after, clusters_before, clusters_after)


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
