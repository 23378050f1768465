"""The result files of a run while they are written, where they go on after a stop, and what the summary says.

    scores.jsonl     one row per sample and metric         ┐
    verdicts.jsonl   one row per judged unit               ├ no times, no names of machines: the same bytes
    summary.json     means, intervals, counts              ┘ however often the run was interrupted
    manifest.json    what the numbers rest on

    block judged ──> rows in NAME.part ──> resume.json        samples, answers; bytes and sha256 of each part

A run that is begun again keeps the rows that `resume.json` vouches for, and works out the rest from the stored answers.
If one byte of them is another, if the store lacks an answer or the data come in another order, it works out all.

    mean     over the samples that were scored; `undefined` samples have no value by definition, and are counted
    ci95     interval of that mean for samples drawn like these; None if all of them are in one group
    bounds   the mean over scored and failed samples if every failed one had been 0, and if it had been 1
"""

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field

from localjudge.errors import RunDirectoryError
from localjudge.record.directory import (
    MANIFEST,
    PartFile,
    RunDirectory,
    Written,
    part_path,
    read_object,
    read_rows,
    validated,
)
from localjudge.record.manifest import Manifest, with_environment
from localjudge.record.result_rows import (
    SCORE_ROWS,
    VERDICT_ROWS,
    Evaluation,
    VerdictRow,
    evaluations_of,
    json_line,
    row_values,
    score_rows,
    verdict_rows,
)
from localjudge.types import Failed, JudgeCard, Record, Scored, Undefined, Verdict, VerdictRule

if TYPE_CHECKING:
    from localjudge.stats.interval import Interval

SUMMARY_VERSION = 1
NEAR = 0.1
"""How far from the threshold a probability may be to count as near it."""


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

    @property
    def interval(self) -> "Interval | None":
        """The mean with all that is known of its interval; None where there is no mean."""
        from localjudge.stats.interval import Interval

        if self.mean is None:
            return None
        clusters = self.clusters or self.scored
        low, high = self.ci95 or (0.0, 1.0)
        return Interval(self.mean, low, high, self.method or "", self.scored, clusters)


class VerdictSummary(Record):
    """How decided the judge was: the share of its verdicts within `NEAR` of the threshold, and the median legal mass.

    `count` verdicts have a probability of 1; `windowed` of them rest on one window of contexts that do not fit. The
    levels of a rubric are none of them, as they have no threshold. The median is over all answers, also those too small
    to be one, to four digits. Both figures are None where there is nothing to count.
    """

    model_config = ConfigDict(extra="ignore")

    count: int
    near_threshold: float | None
    median_legal_mass: float | None
    windowed: int = 0


class Summary(Record):
    """The file `summary.json`."""

    model_config = ConfigDict(extra="ignore")

    schema_version: int = SUMMARY_VERSION
    signature: str
    threshold: float
    thresholds: dict[str, float] = Field(default_factory=dict)
    """Those of metrics that a calibration decides."""
    samples: int
    skipped_rows: int = 0
    judge: JudgeCard
    verdicts: VerdictSummary
    metrics: dict[str, MetricSummary]

    def threshold_of(self, metric: str) -> float:
        """From which probability on a verdict of the metric is 1."""
        return self.thresholds.get(metric, self.threshold)

    def failed_beyond(self, allowed: int) -> tuple[str, ...]:
        """Metrics for which more samples failed than allowed: no headline is printed for them."""
        return tuple(name for name, metric in self.metrics.items() if metric.failed > allowed)


class Totals:
    """Running totals of a run: what a summary is made of. The order in which evaluations are added moves nothing.

    Of each score 8 bytes are held, and 4 more where `cluster_of` names the group of each sample by its id. `rubrics`
    are the metrics whose verdicts are levels.
    """

    def __init__(
        self,
        metric_names: Iterable[str],
        rule: VerdictRule | Summary,
        cluster_of: Mapping[str, str] | None = None,
        rubrics: Collection[str] = (),
    ) -> None:
        self._metrics = {name: _MetricTotals(cluster_of) for name in metric_names}
        self._rule, self._rubrics = rule, rubrics
        self._verdicts = _VerdictTotals()
        self.samples = 0

    def add(self, evaluations: Iterable[Evaluation]) -> None:
        """Count the evaluations of some more samples, all metrics of each."""
        ids = set()
        for evaluation in evaluations:
            ids.add(evaluation.sample_id)
            self._metrics[evaluation.metric].add(evaluation)
            threshold = self._rule.thresholds.get(evaluation.metric, self._rule.threshold)
            for _, verdict in evaluation.units:
                p_yes, window = (verdict.p_yes, verdict.window) if isinstance(verdict, Verdict) else (None, None)
                is_level = evaluation.metric in self._rubrics
                self._verdicts.add(p_yes, verdict.legal_mass, window, None if is_level else threshold)
        self.samples += len(ids)

    @property
    def metrics(self) -> dict[str, MetricSummary]:
        """The summary of each metric."""
        return {name: totals.summary() for name, totals in self._metrics.items()}

    @property
    def verdicts(self) -> VerdictSummary:
        """How decided the judge was over all verdicts, each counted once for each metric that it serves."""
        return self._verdicts.summary()

    def summary(self, signature: str, judge: JudgeCard, skipped_rows: int = 0) -> Summary:
        """The summary of what was added so far."""
        return Summary(
            signature=signature,
            threshold=self._rule.threshold,
            thresholds=dict(self._rule.thresholds),
            samples=self.samples,
            skipped_rows=skipped_rows,
            judge=judge,
            verdicts=self.verdicts,
            metrics=self.metrics,
        )

    @property
    def failed_everywhere(self) -> dict[str, str]:
        """Metrics that failed on every sample for one and the same reason, and that reason."""
        return {
            name: next(iter(totals.reasons))
            for name, totals in self._metrics.items()
            if len(totals.reasons) == 1 and totals.failed == self.samples
        }


class _MetricTotals:
    def __init__(self, cluster_of: Mapping[str, str] | None) -> None:
        self._cluster_of = cluster_of
        self._numbers: dict[str, int] = {}
        self._values = array("d")
        self._clusters = array("i")
        self._undefined = self.failed = 0
        self.reasons: set[str] = set()
        """The first reasons why a sample failed."""

    def add(self, evaluation: Evaluation) -> None:
        match evaluation.outcome:
            case Scored(value=value):
                self._values.append(value)
                if self._cluster_of is not None:
                    group = self._cluster_of[evaluation.sample_id]
                    self._clusters.append(self._numbers.setdefault(group, len(self._numbers)))
            case Undefined():
                self._undefined += 1
            case Failed(reason=reason):
                self.failed += 1
                if len(self.reasons) <= 1:
                    self.reasons.add(reason)

    def summary(self) -> MetricSummary:
        from localjudge.stats.interval import mean_bounds, mean_interval

        groups = None if self._cluster_of is None else self._clusters
        interval = mean_interval(self._values, clusters=groups) if self._values else None
        return MetricSummary(
            mean=interval and interval.mean,
            ci95=interval and interval.limits,
            scored=len(self._values),
            undefined=self._undefined,
            failed=self.failed,
            bounds=mean_bounds(self._values, self.failed) if self._values or self.failed else None,
            method=interval and interval.method,
            clusters=interval and interval.clusters,
        )


class _VerdictTotals:
    def __init__(self) -> None:
        self._count = self._near = self._windowed = 0
        self._masses: Counter[float] = Counter()

    def add(self, p_yes: float | None, legal_mass: float | None, window: int | None, threshold: float | None) -> None:
        if p_yes is not None and threshold is not None:
            self._count += 1
            self._near += abs(p_yes - threshold) <= NEAR
            self._windowed += window is not None
        if legal_mass is not None:
            self._masses[round(legal_mass, 4)] += 1

    def summary(self) -> VerdictSummary:
        middle, median = (self._masses.total() + 1) // 2, None
        for mass in sorted(self._masses):  # the lower of the two middle values where there are two
            middle -= self._masses[mass]
            if middle <= 0:
                median = mass
                break
        return VerdictSummary(
            count=self._count,
            near_threshold=self._near / self._count if self._count else None,
            median_legal_mass=median,
            windowed=self._windowed,
        )


def verdict_summary(rows: Iterable[VerdictRow], threshold: float | None) -> VerdictSummary:
    """How decided the judge was over these verdicts; `threshold` is None for levels."""
    totals = _VerdictTotals()
    for row in rows:
        totals.add(row.p_yes, row.legal_mass, row.window, threshold)
    return totals.summary()


SCORES = "scores.jsonl"
VERDICTS = "verdicts.jsonl"
SUMMARY = "summary.json"
ROW_FILES = (SCORES, VERDICTS)
_RESUME = "resume.json"


class ResumePoint(Record):
    """How far a run has come: so many samples are in the parts, and rest on so many answers in the store."""

    samples: int = Field(ge=1)
    answers: int = Field(ge=0)
    parts: dict[str, Written]


class ResultFiles:
    """The files with rows, as the rows come, and the summary when all of them are there."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._parts: dict[str, PartFile] = {}
        self._opened = ExitStack()

    def begin(self) -> None:
        """Write from the first row on, whatever is there."""
        self.close()
        self._directory.remove(_RESUME)
        self._take({name: self._directory.part(name) for name in ROW_FILES})

    def resume(self, answers: int) -> ResumePoint | None:
        """Go on where the parts are as they were left, and the store has the answers that they rest on, or None."""
        point = resume_point(self._directory.path)
        if point is None or answers < point.answers:
            return None
        parts = {name: self._directory.part_after(name, point.parts[name]) for name in ROW_FILES}
        self._take({name: part for name, part in parts.items() if part is not None})
        return point if None not in parts.values() else None

    def evaluations(self) -> Iterator[Evaluation]:
        """What the rows say, in their order. Raises RunDirectoryError for rows that localjudge does not write."""
        scores, verdicts = (part_path(self._directory.path / name) for name in ROW_FILES)
        return evaluations_of(read_rows(scores, SCORE_ROWS), read_rows(verdicts, VERDICT_ROWS))

    def add(self, evaluations: Sequence[Evaluation], samples: int, answers: int) -> None:
        """Write the rows of some more samples: so many are there now, and rest on so many stored answers."""
        for name, lines in row_lines(evaluations).items():
            self._parts[name].write(lines)
        written = {name: part.written for name, part in self._parts.items()}
        point = ResumePoint(samples=samples, answers=answers, parts=written)
        self._directory.write(_RESUME, [point.model_dump_json()], durable=False)

    def finish(self, summary: Summary, manifest: Manifest) -> Manifest:
        """Let all take the place of what was there, the summary last. The manifest gets their checksums."""
        text = summary_text(summary)
        files = {name: part.written.sha256 for name, part in self._parts.items()}
        files[SUMMARY] = hashlib.sha256(text.encode()).hexdigest()
        manifest = with_environment(manifest, {"files": files})
        for part in self._parts.values():
            part.finish()
        write_manifest(self._directory, manifest)
        self._directory.write(SUMMARY, [text])
        self._directory.remove(_RESUME)
        return manifest

    def close(self) -> None:
        """Write no more."""
        self._opened.close()

    def _take(self, parts: Mapping[str, PartFile]) -> None:
        self._parts = dict(parts)
        for part in parts.values():
            self._opened.enter_context(closing(part))


def resume_point(directory: Path) -> ResumePoint | None:
    """What `resume.json` says; None if it is not there, or not as it was written."""
    file = directory / _RESUME
    try:
        point = validated(ResumePoint, read_object(file), str(file))
    except RunDirectoryError:
        return None
    return point if point.parts.keys() == set(ROW_FILES) else None


def write_manifest(directory: RunDirectory, manifest: Manifest) -> None:
    """Write `manifest.json`."""
    directory.write(MANIFEST, [_pretty(manifest.model_dump(mode="json"))])


def row_lines(evaluations: Sequence[Evaluation]) -> dict[str, Iterator[str]]:
    """Lines of the files that hold rows, by the file's name."""
    return {
        SCORES: (json_line(row_values(row)) for row in score_rows(evaluations)),
        VERDICTS: (json_line(row_values(row)) for row in verdict_rows(evaluations)),
    }


def summary_text(summary: Summary) -> str:
    """The file `summary.json`."""
    return _pretty(summary.model_dump(mode="json"))


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
