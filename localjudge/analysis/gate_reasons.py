"""The reasons of decisions of gates, in words.

corrected by 20 labels: 0.650, 95 % interval 0.181 to 0.940, 90 samples: too few labels to
decide; if the mean stays at 0.650, about 50 labels (9 minutes more) would decide it
"""

import math
from collections.abc import Callable, Collection, Mapping

from localjudge.analysis.comparison import Obstacle
from localjudge.analysis.corrected_change import CorrectedDifference
from localjudge.analysis.gates import Gate
from localjudge.labels.corrected_mean import CorrectedMean
from localjudge.labels.labelling_time import SECONDS_A_LABEL
from localjudge.labels.run_labels import RunLabels
from localjudge.run_directory.summary import MetricSummary
from localjudge.stats.interval import Mean
from localjudge.words import numbered, option, signed, three_digits

Corrected = CorrectedMean | CorrectedDifference
"""A mean or a difference corrected by labels."""


def explain_obstacles(obstacles: Mapping[Obstacle, str], allowed: Collection[Obstacle]) -> str:
    """Say that the scores are not comparable, or return ""."""
    forbidden = {kind: words for kind, words in obstacles.items() if kind not in allowed}
    if not forbidden:
        return ""
    allow = option("allow_different", list(forbidden))
    return f"not comparable: {'; '.join(forbidden.values())} (to decide it anyway: {allow})"


def explain_failures(failed: int, allowed: int) -> str:
    """Say that too many samples failed, or return ""."""
    if failed <= allowed:
        return ""
    return f"failed samples: {failed:,}, more than allowed ({allowed:,})"


def describe_failures(summary: MetricSummary) -> str:
    """Return the effect of allowed failures on the mean, or ""."""
    if not summary.failed or summary.bounds is None:
        return ""
    low, high = summary.bounds
    mean = f"the mean would be {three_digits(low)} to {three_digits(high)}"
    return f"failed samples: {summary.failed:,}, with whose scores {mean}"


def describe_interval(gate: Gate, mean: Mean) -> str:
    write = _number_format(gate)
    value = write(mean.mean)
    samples = numbered(mean.n, "sample")
    if mean.one_cluster:
        return f"{value}, {samples}, all in one group: a decision needs more groups"
    words = f"{value}, 95 % interval {write(mean.low)} to {write(mean.high)}, {samples}"
    if mean.basis == "labels":
        return f"corrected by {mean.based_on}: {words}"
    return words


def describe_shortage(
    gate: Gate,
    mean: Mean,
    larger_sample: int | None,
    labels_to_decide: int | None,
    corrected: Corrected | None,
    labels: RunLabels | None,
) -> str:
    """Say what would decide the gate: a sample size, or a number of labels with the time left."""
    quantity = "mean"
    if gate.delta:
        quantity = "difference"
    if larger_sample is None:
        return f"the {quantity} equals the threshold, which no number of samples can decide"
    shortage = "samples"
    needed = f"{larger_sample:,}"
    if labels_to_decide and corrected:
        pace = SECONDS_A_LABEL
        if labels:
            pace = labels.seconds_a_label
        minutes = math.ceil((labels_to_decide - corrected.labelled) * pace / 60)
        shortage = "labels"
        needed = f"{labels_to_decide:,} labels ({numbered(minutes, 'minute')} more)"
    elif corrected:
        needed = f"{needed} with proportionally more labels"
    condition = f"if the {quantity} stays at {_number_format(gate)(mean.mean)}"
    return f"too few {shortage} to decide; {condition}, about {needed} would decide it"


def _number_format(gate: Gate) -> Callable[[float], str]:
    if gate.delta:
        return signed
    return three_digits
