"""`summary.json`: the mean of each metric with its interval, and how clear the verdicts are."""

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from localjudge.run_directory.manifest import Sampling
from localjudge.run_directory.result_rows import Evaluation, VerdictRow
from localjudge.run_directory.verdict_rule import is_divided
from localjudge.types import Failed, JudgeCard, Record, Scored, Undefined, VerdictRule

if TYPE_CHECKING:
    from localjudge.stats.interval import Mean


NEAR = 0.1
"""A verdict within this distance is near the threshold."""
_ALL = Sampling()
_ONE_IN = 100
"""One failed sample is allowed among this many samples by default."""
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
    def by_judge(self) -> "Mean | None":
        from localjudge.stats.interval import Mean

        if self.mean is None:
            return None
        clusters = self.clusters or self.scored
        return Mean(self.mean, self.ci95, self.method or "", self.scored, clusters)


class VerdictSummary(Record, extra="ignore"):
    """How clear the verdicts are.

    `near_threshold` is the share within `NEAR` of the threshold, `median_valid_mass` the lower
    median. `count` excludes rubric levels; `windowed` verdicts are about one of several windows.
    `divided` is the share of a jury's verdicts on which the labels of its judges, at one half,
    differ; other judges lack the key.
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

    @property
    def how_it_ended(self) -> str | None:
        if not self.stopped or self.stopped.startswith(ALL_JUDGED):
            return self.stopped
        return f"stopped {self.stopped}"

    def failed_beyond(self, allowed: int) -> tuple[str, ...]:
        return tuple(name for name, metric in self.metrics.items() if metric.failed > allowed)


def allowed_failures(max_failed: int | None, samples: int) -> int:
    """Return the number of samples that may fail before a mean is withheld.

    It is `max_failed`, or 1 % of the samples if None.
    """
    if max_failed is None:
        return samples // _ONE_IN
    return max_failed


class Totals:
    """Running totals for a summary, in 16 to 20 bytes for each score.

    They do not depend on the order of the evaluations. `rule` has the thresholds.
    """

    def __init__(
        self,
        metric_names: Iterable[str],
        rule: VerdictRule,
        cluster_of: Mapping[str, str] | None = None,
        rubrics: Collection[str] = (),
        sampling: Sampling = _ALL,
        max_failed: int | None = None,
    ) -> None:
        self._metrics = {
            name: _MetricTotals(cluster_of, sampling, max_failed) for name in metric_names
        }
        self._rule = rule
        self._rubrics = rubrics
        self._verdicts = _VerdictTotals()
        self.samples = 0

    def add(self, evaluations: Iterable[Evaluation]) -> None:
        ids = set()
        for evaluation in evaluations:
            ids.add(evaluation.sample_id)
            metric = evaluation.metric
            self._metrics[metric].add(evaluation)
            threshold = None
            if metric not in self._rubrics:
                threshold = self._rule.threshold_of(metric)
            for verdict in evaluation.verdicts:
                if verdict.label is not None:
                    self._verdicts.add(verdict, threshold)
                elif verdict.valid_mass is not None:
                    self._verdicts.add_valid_mass(verdict.valid_mass)
        self.samples += len(ids)

    @property
    def metrics(self) -> dict[str, MetricSummary]:
        return {name: totals.summary() for name, totals in self._metrics.items()}

    def summary(
        self,
        signature: str,
        judge: JudgeCard,
        skipped_rows: int = 0,
        stopped: str | None = None,
    ) -> Summary:
        return Summary(
            signature=signature,
            threshold=self._rule.threshold,
            thresholds=dict(self._rule.thresholds),
            samples=self.samples,
            skipped_rows=skipped_rows,
            judge=judge,
            verdicts=self._verdicts.summary(),
            metrics=self.metrics,
            stopped=stopped,
        )


class _MetricTotals:
    def __init__(
        self, cluster_of: Mapping[str, str] | None, sampling: Sampling, max_failed: int | None
    ) -> None:
        self._cluster_of = cluster_of
        self._sampling = sampling
        self._max_failed = max_failed
        self._numbers: dict[str, int] = {}
        self._values = array("d")
        self._expected = array("d")
        self._clusters = array("i")
        self._undefined = self._failed = 0

    def add(self, evaluation: Evaluation) -> None:
        match evaluation.outcome:
            case Scored(value=value, expected=expected):
                self._values.append(value)
                self._expected.append(expected)
                if self._cluster_of is not None:
                    group = self._cluster_of[evaluation.sample_id]
                    self._clusters.append(self._numbers.setdefault(group, len(self._numbers)))
            case Undefined():
                self._undefined += 1
            case Failed():
                self._failed += 1

    def summary(self) -> MetricSummary:
        from localjudge.stats.interval import mean_bounds

        interval = self._interval(self._values)
        expected = interval
        if self._expected != self._values:
            expected = self._interval(self._expected)
        bounds = None
        if self._values or self._failed:
            bounds = mean_bounds(self._values, self._failed)
        return MetricSummary(
            mean=interval and interval.mean,
            ci95=interval and interval.ci95,
            scored=len(self._values),
            undefined=self._undefined,
            failed=self._failed,
            bounds=bounds,
            method=interval and interval.method,
            clusters=interval and interval.clusters,
            expected=expected and expected.mean,
            expected_ci95=expected and expected.ci95,
        )

    def _interval(self, values: "array[float]") -> "Mean | None":
        """Return the interval of the mean, or None without scores or with too many failures."""
        samples = len(self._values) + self._undefined + self._failed
        is_withheld = self._failed > allowed_failures(self._max_failed, samples)
        if not self._values or is_withheld:
            return None
        if self._cluster_of is None:
            return self._sampling.interval(values)
        return self._sampling.interval(values, self._clusters)


class _VerdictTotals:
    def __init__(self) -> None:
        self._count = self._near = self._windowed = 0
        self._of_juries = self._divided = 0
        self._masses: Counter[float] = Counter()

    def add(self, verdict: VerdictRow, threshold: float | None) -> None:
        if verdict.p_yes is not None and threshold is not None:
            self._count += 1
            self._near += abs(verdict.p_yes - threshold) <= NEAR
            self._windowed += verdict.window is not None
        if verdict.judges and threshold is not None:
            self._of_juries += 1
            self._divided += is_divided(verdict.judges)
        if verdict.valid_mass is not None:
            self.add_valid_mass(verdict.valid_mass)

    def add_valid_mass(self, valid_mass: float) -> None:
        self._masses[round(valid_mass, 4)] += 1

    def summary(self) -> VerdictSummary:
        near = None
        if self._count:
            near = self._near / self._count
        divided = None
        if self._of_juries:
            divided = self._divided / self._of_juries
        median = None
        count = 0
        for mass in sorted(self._masses):
            count += self._masses[mass]
            if 2 * count >= self._masses.total():
                median = mass
                break
        return VerdictSummary(
            count=self._count,
            near_threshold=near,
            median_valid_mass=median,
            windowed=self._windowed,
            divided=divided,
        )


def verdict_summary(rows: Iterable[VerdictRow], threshold: float | None) -> VerdictSummary:
    """Summarise these verdicts. `threshold` is None for levels."""
    totals = _VerdictTotals()
    for row in rows:
        totals.add(row, threshold)
    return totals.summary()
