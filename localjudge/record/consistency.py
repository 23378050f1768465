"""Whether the files of a run agree: a number that its own rows contradict is not shown, compared or decided on.

    verdicts.jsonl   label = probability >= threshold, and none where there is an error
         │           the metric's formula
    scores.jsonl     one row for each sample and metric; score = numerator / denominator
         │           counts, mean, bounds, interval
    summary.json     signature, threshold, metrics and number of samples
         │           the same
    manifest.json    signature = sha256 of its parts

Whoever changes all of them together contradicts nothing here: `verify` asks the judge again, and works the files out
from the stored data and answers.

An interval is worked out again to the last digit. Where that cannot be expected, since another version of localjudge
or NumPy drew the resamples, or would take minutes, a limit may be off by a tenth of the interval's width.
"""

import hashlib
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.metadata import version
from itertools import groupby, islice
from typing import Any, NamedTuple

import numpy as np

from localjudge.errors import UsageError
from localjudge.metrics import catalog
from localjudge.metrics.abstention import Abstention
from localjudge.metrics.answer_correctness import AnswerCorrectness
from localjudge.metrics.answer_relevancy import AnswerRelevancy
from localjudge.metrics.citation_support import CitationSupport
from localjudge.metrics.context_precision import ContextPrecision, average_precision
from localjudge.metrics.context_recall import ContextRecall
from localjudge.metrics.context_relevancy import ContextRelevancy, ContextRelevancyChunk
from localjudge.metrics.context_sufficiency import ContextSufficiency
from localjudge.metrics.criterion import Criterion
from localjudge.metrics.faithfulness import Faithfulness
from localjudge.metrics.matrix import MatrixMetric
from localjudge.metrics.refusal import ResponseRefusal
from localjudge.record.calibration import other_calibrations
from localjudge.record.clusters import GroupOf
from localjudge.record.judge_card import in_the_judge
from localjudge.record.kept_criteria import kept_criteria, other_criteria
from localjudge.record.manifest import Manifest, signature
from localjudge.record.result_rows import ScoreRow, VerdictRow
from localjudge.record.summary import MetricSummary, Summary
from localjudge.record.untrusted import shown
from localjudge.types import Label, Outcome, Scored

_CLOSE = 1e-9
_WIDTH_OFF = 0.1
_ID_BYTES = 16
_EXACT_UP_TO = 20_000
_FEWER_RESAMPLES = 2_000
_DRAWN_BY = ("localjudge", "numpy")
_FRACTIONS = (
    ContextRecall,
    Faithfulness,
    ContextRelevancy,
    ContextRelevancyChunk,
    AnswerRelevancy,
    CitationSupport,
    ContextSufficiency,
    ResponseRefusal,
)
"""Metrics whose score is the share of their verdicts that are 1."""
_COUNTED = (*_FRACTIONS, ContextPrecision, MatrixMetric, AnswerCorrectness, Abstention)


class Results(NamedTuple):
    """What is compared; `cluster_of` names the group of each sample by its id, None if each stands alone.

    Scores and verdicts are read once, side by side: both are in the order of the data, then of the metrics.
    """

    summary: Summary
    manifest: Manifest
    scores: Iterable[ScoreRow]
    verdicts: Iterable[VerdictRow]
    cluster_of: GroupOf | None


def contradictions(results: Results) -> Iterator[str]:
    """One line for the first contradiction of each kind. Only the first line is sure: those after it may follow."""
    yield from _in_the_manifest(results.summary, results.manifest)
    yield from contradictions_of_rows(results)


def contradictions_of_rows(results: Results) -> Iterator[str]:
    """The same of what a run that is not finished has so far: the summary, scores and verdicts among themselves."""
    order, verdicts = _Order(results.summary), _Verdicts(results)
    columns = [_Column() for _ in results.summary.metrics]
    in_a_score = _First()
    for number, row in enumerate(results.scores):
        order.add(row)
        in_a_score.of(f"{_place(row)}: {problem}" for problem in _in_a_score(row))
        verdicts.add(row)
        if columns:
            columns[number % len(columns)].add(row, results.cluster_of)
    yield from order.problems()
    yield from in_a_score.found
    yield from _in_the_summary(results, columns)
    yield from verdicts.problems()


class _First:
    """The first of all problems that it is shown, in a list; none if there is none."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def of(self, problems: Iterable[str]) -> None:
        """Look at them unless there is one already."""
        if not self.found:
            self.found.extend(islice(problems, 1))


def _in_the_manifest(summary: Summary, manifest: Manifest) -> Iterator[str]:
    parts = {
        "signature": (summary.signature, manifest.signature),
        "threshold": (summary.threshold, manifest.judge["threshold"]),
        "thresholds": (summary.thresholds, manifest.judge.get("thresholds", {})),
        "number of samples": (summary.samples, manifest.data["rows"]),
        "metrics": (sorted(summary.metrics), sorted(manifest.judge["metrics"])),
    }
    for name, (said, rests_on) in parts.items():
        if said != rests_on:
            yield f"{name}: {shown(said)} in summary.json, {shown(rests_on)} in manifest.json"
    if manifest.signature != signature(manifest.judge, manifest.data):
        yield "the signature in manifest.json is not that of its parts"
    yield from other_criteria(manifest)
    yield from other_calibrations(manifest)
    if summary.judge is None:
        yield "summary.json does not say who judged"
    else:
        yield from in_the_judge(summary.judge, manifest)


class _Order:
    """Whether each sample has one score of each metric, in the order of the metrics. Of an id, 16 bytes are held."""

    def __init__(self, summary: Summary) -> None:
        self._samples = summary.samples
        self._names = list(summary.metrics)
        self._rows = 0
        self._sample = ""
        self._ids = bytearray()
        self._misplaced = _First()

    def add(self, row: ScoreRow) -> None:
        """The next row."""
        place = self._rows % len(self._names) if self._names else 0
        self._rows += 1
        if not self._names:
            return
        if place == 0:
            self._sample = row.sample_id
            self._ids += hashlib.blake2b(row.sample_id.encode(), digest_size=_ID_BYTES).digest()
        if (row.sample_id, row.metric) != (self._sample, self._names[place]):
            expected = f"{shown(self._sample)}, {shown(self._names[place])}"
            self._misplaced.of([f"{_place(row)} stands where the score of {expected} is expected"])

    def problems(self) -> Iterator[str]:
        """What is wrong with the rows so far."""
        if self._rows != self._samples * len(self._names):
            counted = f"{self._samples:,} samples and {len(self._names):,} metrics"
            yield f"scores.jsonl has {self._rows:,} rows for {counted}"
            return
        ids = np.frombuffer(self._ids, dtype=f"S{_ID_BYTES}")
        if len(np.unique(ids)) < len(ids):
            yield "scores.jsonl has a sample twice"
        yield from self._misplaced.found


def _in_a_score(row: ScoreRow) -> Iterator[str]:
    score, numerator, denominator = row.score, row.numerator, row.denominator
    if row.status != "scored":
        if (score, numerator, denominator) != (None, None, None):
            yield f"it is {row.status}, and has a number"
    elif score is None:
        yield "it is scored, and has no score"
    elif denominator == 0:
        yield "it is divided by 0"
    elif numerator is not None and denominator is not None and not _same(score, numerator / denominator):
        yield f"{numerator:g}/{denominator:g} is not {score:g}"


class _Column:
    """Running numbers of one metric: its scores, 8 bytes each, and the groups of their samples."""

    def __init__(self) -> None:
        self.values = array("d")
        self.groups = array("i")
        self._numbers: dict[str, int] = {}
        self.failed = self.undefined = 0

    def add(self, row: ScoreRow, cluster_of: GroupOf | None) -> None:
        """The next row. A score counts whatever its status, as a status counts only without one."""
        if row.score is not None:
            self.values.append(row.score)
            if cluster_of is not None:
                group = cluster_of.get(row.sample_id, "")
                self.groups.append(self._numbers.setdefault(group, len(self._numbers)))
        self.failed += row.status == "failed"
        self.undefined += row.score is None and row.status != "failed"


def _in_the_summary(results: Results, columns: Sequence[_Column]) -> Iterator[str]:
    for (name, found), column in zip(results.summary.metrics.items(), columns, strict=True):
        for part, (said, counted) in _parts(found, column).items():
            if not _same_or_none(said, counted):
                yield f"{shown(name)}: {part} {shown(said)} in summary.json, {shown(counted)} by scores.jsonl"
        yield from (f"{shown(name)}: {problem}" for problem in _in_the_interval(found, column, results))


def _parts(found: MetricSummary, column: _Column) -> dict[str, tuple[Any, Any]]:
    """What the summary says, and what the rows say."""
    scored, failed = len(column.values), column.failed
    known, total = math.fsum(column.values), scored + failed
    bounds = (known / total, (known + failed) / total) if total else None
    return {
        "scored": (found.scored, scored),
        "failed": (found.failed, failed),
        "undefined": (found.undefined, column.undefined),
        "mean": (found.mean, known / scored if scored else None),
        "lower bound": (found.bounds and found.bounds[0], bounds and bounds[0]),
        "upper bound": (found.bounds and found.bounds[1], bounds and bounds[1]),
    }


def _in_the_interval(found: MetricSummary, column: _Column, results: Results) -> Iterator[str]:
    from localjudge.stats import mean_interval
    from localjudge.stats.resampling import RESAMPLES

    if not column.values:
        if found.ci95 is not None:
            yield "an interval without a mean"
        return
    groups = None if results.cluster_of is None else column.groups
    exact = len(column.values) <= _EXACT_UP_TO and _drawn_here(results.manifest)
    resamples = RESAMPLES if exact else _FEWER_RESAMPLES
    interval = mean_interval(column.values, clusters=groups, resamples=resamples)
    slack = _CLOSE if exact else _WIDTH_OFF * (interval.high - interval.low)
    if found.ci95 is None or interval.limits is None:
        if found.ci95 != interval.limits:
            yield "a mean without an interval" if interval.limits else "an interval of one group"
    elif any(abs(said - limit) > slack for said, limit in zip(found.ci95, interval.limits, strict=True)):
        said, counted = (f"{low:g} to {high:g}" for low, high in (found.ci95, interval.limits))
        yield f"interval {said} in summary.json, {counted} by scores.jsonl"
    if found.clusters not in (None, interval.clusters):
        yield f"{found.clusters} groups in summary.json, {interval.clusters} by its samples"


def _drawn_here(manifest: Manifest) -> bool:
    versions = manifest.judge.get("versions")
    return isinstance(versions, dict) and all(versions.get(package) == version(package) for package in _DRAWN_BY)


class _Verdicts:
    """Whether the verdicts are those of the scores; they are read up to the first that are not."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._groups = groupby(results.verdicts, key=lambda row: (row.sample_id, row.metric))
        self._of, self._rows = self._next()
        self._first = _First()
        self._criteria = kept_criteria(results.manifest)

    def add(self, score: ScoreRow) -> None:
        """The next score: its verdicts, if it has any, are the next ones."""
        if self._first.found:
            return
        units: tuple[VerdictRow, ...] = ()
        if self._of == (score.sample_id, score.metric):
            units = tuple(self._rows)
            self._of, self._rows = self._next()
        summary, manifest = self._results.summary, self._results.manifest
        self._first.of(f"{_place(unit)}: {problem}" for unit in units for problem in _in_a_verdict(unit, summary))
        metric = self._criteria.get(score.metric) or _known(score.metric, manifest)
        self._first.of(f"{_place(score)}: {problem}" for problem in _in_a_count(score, units, metric))

    def problems(self) -> Iterator[str]:
        """What is wrong with the verdicts of the scores so far, and whether there are others."""
        yield from self._first.found
        if self._of is not None:
            place = f"{shown(self._of[0])}, {shown(self._of[1])}"
            yield f"verdicts.jsonl has {place} where scores.jsonl has no score of it"

    def _next(self) -> tuple[tuple[str, str] | None, Iterable[VerdictRow]]:
        return next(self._groups, (None, ()))


def _in_a_verdict(unit: VerdictRow, summary: Summary) -> Iterator[str]:
    where = f"{unit.unit} {unit.index}"
    if unit.label is None:
        if unit.error is None or unit.p_yes is not None:
            yield f"{where} has no label, and {'a probability' if unit.error else 'no error'}"
        return
    if unit.error is not None:
        yield f"{where} has a label and an error"
    threshold = summary.threshold_of(unit.metric)
    if unit.label != (0 if unit.p_yes is None else int(unit.p_yes >= threshold)):
        yield f"{where} has label {unit.label}, probability {unit.p_yes}, at threshold {threshold}"


def _in_a_count(score: ScoreRow, units: Sequence[VerdictRow], metric: Any) -> Iterator[str]:
    """Whether the outcome is what the verdicts come to."""
    labels = [unit.label for unit in units if unit.label is not None]
    if len(labels) < len(units):
        if score.status != "failed":
            yield f"it is {score.status}, and {len(units) - len(labels)} of its units have no verdict"
        return
    if metric is None:
        return
    for unit in units:
        if len(unit.text) != unit.end - unit.start:
            yield f"{unit.unit} {unit.index} has {len(unit.text)} characters, from {unit.start} to {unit.end}"
    if labels:
        yield from _in_an_outcome(score, _outcome(metric, units, labels))
    elif score.status == "scored":
        yield "it is scored without a verdict"


def _in_an_outcome(score: ScoreRow, outcome: Outcome | None) -> Iterator[str]:
    """Whether the score is what its verdicts give."""
    if not isinstance(outcome, Scored):
        if score.status != "undefined":
            yield f"it is {score.status}, and its verdicts leave it undefined"
    elif score.score is None or not _same(score.score, outcome.value):
        yield f"it is {score.status if score.score is None else score.score}, its verdicts give {outcome.value:g}"
    elif (score.numerator, score.denominator) != (outcome.numerator, outcome.denominator):
        yield f"its verdicts give {outcome.numerator}/{outcome.denominator}"


def _known(name: str, manifest: Manifest) -> Any:
    """The judged metric of ours with this name, if its formula is still that of the run."""
    metric = _counted(name)
    definition = manifest.judge["metrics"].get(name)
    unchanged = metric is not None and isinstance(definition, dict) and definition.get("version") == metric.version
    return metric if unchanged else None


@lru_cache(maxsize=64)
def _counted(name: str) -> Any:
    """Remembered, since each row asks: to make a metric from its name takes longer than to count its verdicts."""
    try:
        metric = catalog.get(name) if catalog.is_ours(name) else None
    except UsageError:
        return None
    return metric if isinstance(metric, _COUNTED) else None


def _outcome(metric: Any, units: Sequence[VerdictRow], labels: list[Label]) -> Outcome | None:
    """What the formula gives; None for verdicts that are not of the number and kind that it needs."""
    match metric:
        case ContextPrecision():
            return Scored(value=average_precision(labels))
        case AnswerCorrectness():
            placed = list(zip(units, labels, strict=True))
            precise, complete = (
                [label for unit, label in placed if unit.source == source] for source in ("response", "reference")
            )
            return metric.read(precise, complete)
        case Criterion():
            return metric.read(
                labels, [label if unit.p_yes is None else unit.p_yes for unit, label in zip(units, labels, strict=True)]
            )
        case Abstention():
            return metric.read(*labels) if [unit.unit for unit in units] == ["question", "response"] else None
        case MatrixMetric():
            statements = len({unit.index for unit in units})
            table = np.array(labels, dtype=bool)
            return None if len(labels) % statements else metric.read(table.reshape(statements, -1))
    return Scored.fraction(labels)


def _place(row: ScoreRow | VerdictRow) -> str:
    return f"{shown(row.sample_id)}, {shown(row.metric)}"


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE)


def _same_or_none(one: float | None, other: float | None) -> bool:
    return one == other if one is None or other is None else _same(one, other)
