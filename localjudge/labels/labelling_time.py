"""The time that an annotator needs for one label."""

import math
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise
from statistics import median

from localjudge.run_directory.label_rows import LabelRow

SECONDS_A_LABEL = 18.0
"""Default until there are a few labels: 50 in a quarter of an hour."""
_MIN_PAUSE = 1.0
"""Seconds. A shorter or longer time between two labels is not the time for one statement."""
_MAX_PAUSE = 300.0
_MIN_PAUSES = 5


def seconds_a_label(rows: Iterable[LabelRow]) -> float:
    """Return the median seconds between decisions of one annotator, without pauses."""
    moments: dict[str, list[datetime]] = defaultdict(list)
    for row in rows:
        if row.way != "sheet":
            moments[row.annotator].append(row.moment)
    pauses = []
    for moments_of_annotator in moments.values():
        for earlier, later in pairwise(sorted(moments_of_annotator)):
            seconds = (later - earlier).total_seconds()
            if _MIN_PAUSE <= seconds < _MAX_PAUSE:
                pauses.append(seconds)
    if len(pauses) < _MIN_PAUSES:
        return SECONDS_A_LABEL
    return median(pauses)


def labelling_minutes(labels: int, seconds: float = SECONDS_A_LABEL) -> int:
    """Return the minutes that so many labels take, at least 1."""
    return max(1, math.ceil(labels * seconds / 60))
