"""Means, and what they are worth: how far they may be from the truth, and what failures could have made of them.

    mean     over the samples that were scored
    ci95     interval of that mean for samples drawn like these (see `localjudge.stats.intervals`)
    bounds   the mean over scored and failed samples if every failed one had been 0, and if it had been 1

`undefined` samples have no value by definition; they are counted and are in no mean.
"""

from collections.abc import Mapping, Sequence

from pydantic import ConfigDict

from localjudge.run.evaluate import Evaluation
from localjudge.types import Failed, Record, Scored, Undefined

SCHEMA_VERSION = 1


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


class Summary(Record):
    """The file `summary.json`."""

    model_config = ConfigDict(extra="ignore")

    schema_version: int = SCHEMA_VERSION
    signature: str
    threshold: float
    samples: int
    skipped_rows: int = 0
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
