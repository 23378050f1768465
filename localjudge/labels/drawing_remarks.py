"""What an annotator should know about a drawing before labelling."""

import math
from collections import Counter
from collections.abc import Mapping

from localjudge.labels.corrected_mean import cannot_correct
from localjudge.labels.difference_frame import (
    DifferenceFrame,
    labels_to_detect,
    questions_to_detect,
)
from localjudge.labels.units import UnitFrame
from localjudge.stats.corrected import MIN_CLUSTERS
from localjudge.stats.distributions import CONFIDENCE, two_sided_quantile
from localjudge.stats.sequence import MIN_PLANNED_LABELS, look_at
from localjudge.words import numbered

DIFFERENCES = (0.05, 0.1)
"""Differences of two means for which the number of labels is told."""


def list_obstacles(frames: Mapping[str, UnitFrame]) -> list[str]:
    """Return a remark for each mean that labels of some statements cannot correct."""
    remarks = []
    for name, frame in frames.items():
        reason = cannot_correct(frame)
        if reason:
            remarks.append(f"{name}: {reason}")
    return remarks


def difference_outlook(frames: Mapping[str, UnitFrame]) -> list[str]:
    """Return how many labels would show a difference of two runs, for frames of differences."""
    remarks = []
    for name, frame in frames.items():
        if isinstance(frame, DifferenceFrame):
            remarks.append(
                f"{name}: {len(frame.by_key):,} of {numbered(frame.statements, 'statement')} can "
                "change the difference; the others are equal in both answers and need no label"
            )
            for difference in DIFFERENCES:
                remarks.append(f"{name}: {_describe_need(frame, difference)}")
    return remarks


def _describe_need(frame: DifferenceFrame, difference: float) -> str:
    """Return the number of labels that would probably show a difference, or of questions."""
    labels = labels_to_detect(frame, difference)
    if labels is not None:
        return f"a difference of {difference} takes about {numbered(labels, 'label')}"
    questions = questions_to_detect(frame, difference)
    return f"a difference of {difference} takes more questions: about {questions:,} like these"


def slice_outlook(frames: Mapping[str, UnitFrame], by: str, labels: int, *, is_first: bool) -> str:
    """Return how wide the intervals of slices will be with this number of labels.

    As many labels go to each slice of enough samples, and to all smaller ones together. The width
    is the one of n labels without a judge at a share of one half, 2 t 0.5 / sqrt(n). The first
    labels of a run are planned, so their intervals are ordinary ones; for later labels the last
    look (`stats.sequence`) counts.
    """
    slices = 0
    statements = 0
    for frame in frames.values():
        values = Counter(frame.values_of(by).values())
        large = sum(count >= MIN_CLUSTERS for count in values.values())
        has_small = large < len(values)
        slices = max(slices, large + has_small)
        statements = max(statements, len(frame.by_key))
    each = labels // max(1, slices)
    counted = f"about {numbered(each, 'label')} for each of {numbered(slices, 'slice')}"
    if each < MIN_PLANNED_LABELS:
        needed = MIN_PLANNED_LABELS * slices
        return f"{counted}: too few for intervals of slices, which need {needed:,} labels in all"
    if is_first:
        width = _width_at(each, CONFIDENCE)
        return f"{counted}: their 95 % intervals will be about {width:.2f} wide"
    look = look_at(each, max(each + 1, statements))
    width = _width_at(look.labels, look.confidence or CONFIDENCE)
    reason = f"because the run has labels already, and so {look.labels:,} labels count at this look"
    return f"{counted}: their 95 % intervals will be about {width:.2f} wide, {reason}"


def _width_at(labels: int, confidence: float) -> float:
    return 2 * two_sided_quantile(confidence, labels - 1) * 0.5 / math.sqrt(labels)
