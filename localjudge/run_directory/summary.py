"""`summary.json`: the mean of each metric with its interval, and how clear the verdicts are."""

from typing import TYPE_CHECKING, Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from localjudge.types import JudgeCard, Record

if TYPE_CHECKING:
    from localjudge.stats.interval import Interval

SUMMARY = "summary.json"
SUMMARY_VERSION = 1
ALL_JUDGED = "all samples are judged"
"""Beginning of `Summary.stopped` for a run that could stop early and did not."""


class MetricSummary(Record, extra="ignore"):
    """One metric over all samples: the mean of the scored samples with its interval.

    `ci95` is None if all samples are in one group. `bounds` are the means if all failed samples
    scored 0, or 1. `expected` is the mean of the expected scores, with its interval. Files of
    earlier versions lack it.
    """

    mean: float | None
    ci95: tuple[float, float] | None
    scored: int
    undefined: int
    failed: int
    bounds: tuple[float, float] | None = None
    method: str | None = None
    clusters: int | None = None
    expected: float | None = None
    expected_ci95: tuple[float, float] | None = None

    @property
    def interval(self) -> "Interval | None":
        from localjudge.stats.interval import Interval

        if self.mean is None:
            return None
        clusters = self.clusters or self.scored
        low, high = self.ci95 or (0.0, 1.0)
        return Interval(self.mean, low, high, self.method or "", self.scored, clusters)

    @property
    def expected_interval(self) -> "Interval | None":
        from localjudge.stats.interval import Interval

        if self.expected is None:
            return None
        clusters = self.clusters or self.scored
        low, high = self.expected_ci95 or (0.0, 1.0)
        return Interval(self.expected, low, high, self.method or "", self.scored, clusters)


class VerdictSummary(Record, extra="ignore"):
    """How clear the verdicts are.

    `near_threshold` is the share within `NEAR` of the threshold, `median_valid_mass` the lower
    median.
    `count` excludes rubric levels; `windowed` verdicts are about one of several windows. `divided`
    is the share of a jury's verdicts on which the labels of its judges, at one half, differ; other
    judges lack the key.
    """

    count: int
    near_threshold: float | None
    median_valid_mass: float | None
    windowed: int = 0
    divided: float | None = None

    @model_serializer(mode="wrap")
    def _without_division_of_a_single_judge(
        self, serialize: SerializerFunctionWrapHandler
    ) -> dict[str, Any]:
        values: dict[str, Any] = serialize(self)
        if self.divided is None:
            del values["divided"]
        return values


class Summary(Record, extra="ignore"):
    """The file `summary.json`."""

    schema_version: int = SUMMARY_VERSION
    signature: str
    threshold: float
    thresholds: dict[str, float] = Field(default_factory=dict)
    """Thresholds from calibrations, by metric."""
    samples: int
    skipped_rows: int = 0
    judge: JudgeCard
    verdicts: VerdictSummary
    metrics: dict[str, MetricSummary]
    stopped: str | None = None
    """Sample size and reason of an early stop, or `ALL_JUDGED`.

    None if the run could not stop early.
    """

    def threshold_of(self, metric: str) -> float:
        return self.thresholds.get(metric, self.threshold)

    @property
    def how_it_ended(self) -> str | None:
        if not self.stopped or self.stopped.startswith(ALL_JUDGED):
            return self.stopped
        return f"stopped {self.stopped}"

    def failed_beyond(self, allowed: int) -> tuple[str, ...]:
        return tuple(name for name, metric in self.metrics.items() if metric.failed > allowed)
