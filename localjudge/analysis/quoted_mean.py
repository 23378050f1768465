"""The mean to quote: by labels, by the judge, or none if labels are too few."""

from localjudge.labels.corrected_mean import NO_SHARE, CorrectedMean
from localjudge.run_directory.summary import MetricSummary
from localjudge.stats.interval import Mean, NoMean


def quote_mean(summary: MetricSummary, corrected: CorrectedMean | None) -> Mean | NoMean:
    """Return the mean to quote of a metric, in a run or a slice.

    Labels of the run that give no interval leave no number: the judge's mean is never quoted
    against labels. The judge decides without labels, with labels of another run only, and if labels
    can never correct the metric and do not contradict the judge.
    """
    by_judge = summary.by_judge
    if corrected and corrected.mean is not None and (corrected.ci95 or corrected.is_complete):
        return Mean(
            mean=corrected.mean,
            ci95=corrected.ci95,
            method="labels",
            n=summary.scored,
            clusters=corrected.clusters,
            basis="labels",
            based_on=corrected.in_words,
        )
    if corrected and withholds_mean(corrected):
        return NoMean("too few labels", corrected.shortage or "too few labels")
    return by_judge or NoMean()


def withholds_mean(corrected: CorrectedMean) -> bool:
    """Return whether labels without an interval keep the judge's mean from being quoted."""
    if corrected.counts is None or corrected.ci95:
        return False
    if corrected.contradiction:
        return True
    return corrected.is_labelled and corrected.remark != NO_SHARE
