"""Means, and what they are worth: how far they may be from the truth, and what failures could have made of them.

    mean     over the samples that were scored
    ci95     interval of that mean for samples drawn like these (see `localjudge.stats.intervals`)
    bounds   the mean over scored and failed samples if every failed one had been 0, and if it had been 1

`undefined` samples have no value by definition; they are counted and are in no mean.

How decided the judge was stands beside them: verdicts near the threshold would be others at another threshold, and a
judge that gives legal answers little of its probability hardly answers what it is asked.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pydantic import ConfigDict

from localjudge.record.evaluation import Evaluation
from localjudge.types import Failed, JudgeCard, Record, Scored, Undefined, Verdict

SCHEMA_VERSION = 1
NEAR = 0.1
"""How far from the threshold a probability may be to count as near it."""
_MASS_DIGITS = 4


class MetricSummary(Record):
    """One metric over all samples. `method` says how `ci95` was computed, `clusters` how many groups it rests on."""

    model_config = ConfigDict(extra="ignore")

    mean: float | None
    ci95: tuple[float, float] | None
    scored: int
    undefined: int
    failed: int
    bounds: tuple[float, float] | None = None
    method: str | None = None
    clusters: int | None = None


class VerdictSummary(Record):
    """How decided the judge was: the share of its verdicts within `NEAR` of the threshold, and the median legal mass.

    `count` verdicts have a probability. The median is over all answers, also those too small to be one, to four digits;
    both figures are None where there is nothing to count.
    """

    model_config = ConfigDict(extra="ignore")

    count: int
    near_threshold: float | None
    median_legal_mass: float | None


class Summary(Record):
    """The file `summary.json`. `judge` and `verdicts` are None in a run that was made before they were written."""

    model_config = ConfigDict(extra="ignore")

    schema_version: int = SCHEMA_VERSION
    signature: str
    threshold: float
    samples: int
    skipped_rows: int = 0
    judge: JudgeCard | None = None
    verdicts: VerdictSummary | None = None
    metrics: dict[str, MetricSummary]

    def failed_beyond(self, allowed: int) -> tuple[str, ...]:
        """Metrics for which more samples failed than allowed: no headline is printed for them."""
        return tuple(name for name, metric in self.metrics.items() if metric.failed > allowed)


def summarize(
    evaluations: Sequence[Evaluation], metric_names: Sequence[str], cluster_of: Mapping[str, str] | None = None
) -> dict[str, MetricSummary]:
    """Summary of each metric. `cluster_of` names, for each sample id, the group that its sample belongs to."""
    by_metric: dict[str, list[Evaluation]] = {name: [] for name in metric_names}
    for evaluation in evaluations:
        by_metric[evaluation.metric].append(evaluation)
    return {name: _summary(found, cluster_of) for name, found in by_metric.items()}


def decidedness(evaluations: Iterable[Evaluation], threshold: float) -> VerdictSummary:
    """How decided the judge was over all verdicts of a run, each counted once for each metric that it serves."""
    verdicts = [judged.verdict for evaluation in evaluations for judged in evaluation.units]
    near = Counter(
        abs(verdict.p_yes - threshold) <= NEAR
        for verdict in verdicts
        if isinstance(verdict, Verdict) and verdict.p_yes is not None
    )
    masses = Counter(round(verdict.legal_mass, _MASS_DIGITS) for verdict in verdicts if verdict.legal_mass is not None)
    return VerdictSummary(
        count=near.total(),
        near_threshold=near[True] / near.total() if near else None,
        median_legal_mass=_median(masses),
    )


def _median(counts: Counter[float]) -> float | None:
    """The lower of the two middle values where there are two; None of nothing."""
    middle = (counts.total() + 1) // 2
    for value in sorted(counts):
        middle -= counts[value]
        if middle <= 0:
            return value
    return None


def _summary(evaluations: Sequence[Evaluation], cluster_of: Mapping[str, str] | None) -> MetricSummary:
    from localjudge.stats import failure_bounds, mean_interval

    scored = [
        (evaluation.sample_id, evaluation.outcome.value)
        for evaluation in evaluations
        if isinstance(evaluation.outcome, Scored)
    ]
    values = [value for _, value in scored]
    failed = sum(isinstance(evaluation.outcome, Failed) for evaluation in evaluations)
    undefined = sum(isinstance(evaluation.outcome, Undefined) for evaluation in evaluations)
    bounds = failure_bounds(values, failed) if values or failed else None
    if not values:
        return MetricSummary(mean=None, ci95=None, scored=0, undefined=undefined, failed=failed, bounds=bounds)
    clusters = [cluster_of[sample_id] for sample_id, _ in scored] if cluster_of is not None else None
    interval = mean_interval(values, clusters=clusters)
    return MetricSummary(
        mean=interval.mean,
        ci95=(interval.low, interval.high),
        scored=len(values),
        undefined=undefined,
        failed=failed,
        bounds=bounds,
        method=interval.method,
        clusters=interval.clusters,
    )
