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

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from localjudge.errors import UsageError
from localjudge.metrics import catalog
from localjudge.metrics.context_precision import ContextPrecision, average_precision
from localjudge.metrics.context_recall import ContextRecall
from localjudge.metrics.context_relevancy import ContextRelevancy, ContextRelevancyChunk
from localjudge.metrics.faithfulness import Faithfulness
from localjudge.metrics.matrix import MatrixMetric
from localjudge.record.manifest import Manifest, signature
from localjudge.record.result_rows import ScoreRow, VerdictRow
from localjudge.record.summary import MetricSummary, Summary
from localjudge.record.untrusted import shown
from localjudge.types import Label, Outcome, Scored

_CLOSE = 1e-9
_WIDTH_OFF = 0.1
_EXACT_UP_TO = 20_000
_FEWER_RESAMPLES = 2_000
_DRAWN_BY = ("localjudge", "numpy")
_COUNTED = {
    metric.name: metric
    for metric in (ContextRecall(), Faithfulness(), ContextRelevancy(), ContextRelevancyChunk(), ContextPrecision())
}


class Results(NamedTuple):
    """What is compared; `cluster_of` names the group of each sample by its id, None if each stands alone."""

    summary: Summary
    manifest: Manifest
    scores: Sequence[ScoreRow]
    cluster_of: Mapping[str, str] | None


def contradictions(results: Results, verdicts: Iterable[VerdictRow]) -> Iterator[str]:
    """One line for each contradiction. Only the first is sure: those after it may follow from it."""
    yield from _in_the_manifest(results.summary, results.manifest)
    yield from _in_the_order(results.summary, results.scores)
    yield from (f"{_place(row)}: {problem}" for row in results.scores for problem in _in_a_score(row))
    yield from _in_the_summary(results)
    yield from _in_the_verdicts(results, verdicts)


def _in_the_manifest(summary: Summary, manifest: Manifest) -> Iterator[str]:
    parts = {
        "signature": (summary.signature, manifest.signature),
        "threshold": (summary.threshold, manifest.judge["threshold"]),
        "number of samples": (summary.samples, manifest.data["rows"]),
        "metrics": (sorted(summary.metrics), sorted(manifest.judge["metrics"])),
    }
    for name, (said, rests_on) in parts.items():
        if said != rests_on:
            yield f"{name}: {shown(said)} in summary.json, {shown(rests_on)} in manifest.json"
    if manifest.signature != signature(manifest.judge, manifest.data):
        yield "the signature in manifest.json is not that of its parts"


def _in_the_order(summary: Summary, scores: Sequence[ScoreRow]) -> Iterator[str]:
    names = list(summary.metrics)
    if len(scores) != summary.samples * len(names):
        yield f"scores.jsonl has {len(scores):,} rows for {summary.samples:,} samples and {len(names):,} metrics"
        return
    ids = [row.sample_id for row in scores[:: len(names)]] if names else []
    if len(set(ids)) < len(ids):
        yield "scores.jsonl has a sample twice"
    expected = ((sample_id, name) for sample_id in ids for name in names)
    for row, place in zip(scores, expected, strict=True):
        if (row.sample_id, row.metric) != place:
            yield f"{_place(row)} stands where the score of {shown(place[0])}, {shown(place[1])} is expected"


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


def _in_the_summary(results: Results) -> Iterator[str]:
    names = list(results.summary.metrics)
    for place, name in enumerate(names):
        rows = results.scores[place :: len(names)]
        found = results.summary.metrics[name]
        for part, (said, counted) in _parts(found, rows).items():
            if not _same_or_none(said, counted):
                yield f"{shown(name)}: {part} {shown(said)} in summary.json, {shown(counted)} by scores.jsonl"
        yield from (f"{shown(name)}: {problem}" for problem in _in_the_interval(found, rows, results))


def _parts(found: MetricSummary, rows: Sequence[ScoreRow]) -> dict[str, tuple[Any, Any]]:
    """What the summary says, and what the rows say."""
    values = [row.score for row in rows if row.score is not None]
    failed = sum(row.status == "failed" for row in rows)
    known, total = math.fsum(values), len(values) + failed
    bounds = (known / total, (known + failed) / total) if total else None
    return {
        "scored": (found.scored, len(values)),
        "failed": (found.failed, failed),
        "undefined": (found.undefined, len(rows) - total),
        "mean": (found.mean, known / len(values) if values else None),
        "lower bound": (found.bounds and found.bounds[0], bounds and bounds[0]),
        "upper bound": (found.bounds and found.bounds[1], bounds and bounds[1]),
    }


def _in_the_interval(found: MetricSummary, rows: Sequence[ScoreRow], results: Results) -> Iterator[str]:
    from localjudge.stats import mean_interval
    from localjudge.stats.resampling import RESAMPLES

    scores = {row.sample_id: row.score for row in rows if row.score is not None}
    if not scores or found.ci95 is None:
        if scores or found.ci95 is not None:
            yield "an interval without a mean" if found.ci95 else "a mean without an interval"
        return
    groups = None if results.cluster_of is None else [results.cluster_of.get(sample, "") for sample in scores]
    exact = len(scores) <= _EXACT_UP_TO and _drawn_here(results.manifest)
    resamples = RESAMPLES if exact else _FEWER_RESAMPLES
    interval = mean_interval(list(scores.values()), clusters=groups, resamples=resamples)
    slack = _CLOSE if exact else _WIDTH_OFF * (interval.high - interval.low)
    if any(abs(said - limit) > slack for said, limit in zip(found.ci95, interval[1:3], strict=True)):
        said, counted = (f"{low:g} to {high:g}" for low, high in (found.ci95, interval[1:3]))
        yield f"interval {said} in summary.json, {counted} by scores.jsonl"
    if found.clusters not in (None, interval.clusters):
        yield f"{found.clusters} groups in summary.json, {interval.clusters} by its samples"


def _drawn_here(manifest: Manifest) -> bool:
    versions = manifest.judge.get("versions")
    return isinstance(versions, dict) and all(versions.get(package) == version(package) for package in _DRAWN_BY)


def _in_the_verdicts(results: Results, verdicts: Iterable[VerdictRow]) -> Iterator[str]:
    groups = groupby(verdicts, key=lambda row: (row.sample_id, row.metric))
    of, rows = next(groups, (None, iter(())))
    for score in results.scores:
        units: tuple[VerdictRow, ...] = ()
        if of == (score.sample_id, score.metric):
            units = tuple(rows)
            of, rows = next(groups, (None, iter(())))
        yield from (f"{_place(unit)}: {problem}" for unit in units for problem in _in_a_verdict(unit, results.summary))
        yield from (f"{_place(score)}: {problem}" for problem in _in_a_count(score, units, results.manifest))
    if of is not None:
        yield f"verdicts.jsonl has {shown(of[0])}, {shown(of[1])} where scores.jsonl has no score of it"


def _in_a_verdict(unit: VerdictRow, summary: Summary) -> Iterator[str]:
    where = f"{unit.unit} {unit.index}"
    if unit.label is None:
        if unit.error is None or unit.p_yes is not None:
            yield f"{where} has no label, and {'a probability' if unit.error else 'no error'}"
        return
    if unit.error is not None:
        yield f"{where} has a label and an error"
    if unit.label != (0 if unit.p_yes is None else int(unit.p_yes >= summary.threshold)):
        yield f"{where} has label {unit.label}, probability {unit.p_yes}, at threshold {summary.threshold}"


def _in_a_count(score: ScoreRow, units: Sequence[VerdictRow], manifest: Manifest) -> Iterator[str]:
    """Whether the outcome is what the verdicts come to."""
    labels = [unit.label for unit in units if unit.label is not None]
    if len(labels) < len(units):
        if score.status != "failed":
            yield f"it is {score.status}, and {len(units) - len(labels)} of its units have no verdict"
        return
    metric = _known(score.metric, manifest)
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
    metric = _COUNTED.get(name) or _of_the_matrix(name)
    definition = manifest.judge["metrics"].get(name)
    unchanged = metric is not None and isinstance(definition, dict) and definition.get("version") == metric.version
    return metric if unchanged else None


def _of_the_matrix(name: str) -> Any:
    try:
        metric = catalog.get(name) if catalog.is_ours(name) else None
    except UsageError:
        return None
    return metric if isinstance(metric, MatrixMetric) else None


def _outcome(metric: Any, units: Sequence[VerdictRow], labels: list[Label]) -> Outcome | None:
    """What the formula gives; None for verdicts that are no table where one is needed."""
    if isinstance(metric, ContextPrecision):
        return Scored(value=average_precision(labels))
    if not isinstance(metric, MatrixMetric):
        return Scored.fraction(labels)
    statements = len({unit.index for unit in units})
    if len(labels) % statements:
        return None
    return metric.read(np.array(labels, dtype=bool).reshape(statements, -1))


def _place(row: ScoreRow | VerdictRow) -> str:
    return f"{shown(row.sample_id)}, {shown(row.metric)}"


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE)


def _same_or_none(one: float | None, other: float | None) -> bool:
    return one == other if one is None or other is None else _same(one, other)
