"""The number that a metric is quoted by: by labels, by the judge, or none if labels are too few."""

from typing import Literal, NamedTuple

from localjudge.labels.corrected_mean import NO_SHARE, CorrectedMean
from localjudge.run_directory.summary import MetricSummary

Basis = Literal["labels", "too few labels", "judge"]


class Headline(NamedTuple):
    """A mean with its interval, None if it has none, and what it is based on."""

    mean: float | None
    ci95: tuple[float, float] | None
    basis: Basis


def choose_headline(summary: MetricSummary, corrected: CorrectedMean | None) -> Headline:
    """Return the headline of a metric of a run or a slice.

    Labels of the run that give no interval leave no number: the judge's mean is never quoted
    against labels. The judge decides without labels, with labels of another run only, and if labels
    can never correct the metric and do not contradict the judge.
    """
    if corrected and corrected.mean is not None and (corrected.ci95 or corrected.is_complete):
        return Headline(corrected.mean, corrected.ci95, "labels")
    if corrected and withholds_mean(corrected):
        return Headline(None, None, "too few labels")
    return Headline(summary.mean, summary.ci95, "judge")


def withholds_mean(corrected: CorrectedMean) -> bool:
    """Return whether labels without an interval keep the judge's mean from being quoted."""
    if corrected.counts is None or corrected.ci95:
        return False
    if corrected.contradiction:
        return True
    return corrected.is_labelled and corrected.remark != NO_SHARE
