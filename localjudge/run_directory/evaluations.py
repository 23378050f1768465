"""Evaluations as rows of the result files, and back.

evaluation   sample, metric, outcome ──────────> a row of scores.jsonl
             units with their verdicts ────────> rows of verdicts.jsonl
rows of evidence.jsonl ──with_evidence────────> verdicts with their evidence
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from localjudge.errors import RunDirectoryError
from localjudge.run_directory.directory import BY_HAND
from localjudge.run_directory.result_rows import EVIDENCE, EvidenceRow, ScoreRow, VerdictRow
from localjudge.types import (
    Failed,
    NoAnswer,
    Outcome,
    Scored,
    Span,
    Undefined,
    Unit,
    Verdict,
)

_CHANGED = "was a file of the run changed by hand?"
_OF_VERDICT = ("p_yes", "label", "reason", "window", "error", "judges")
_NO_MORE: tuple[None, Iterator[Any]] = (None, iter(()))


class JudgedUnit(NamedTuple):
    """A unit of text with its verdict, or the reason why it has none."""

    unit: Unit
    verdict: Verdict | NoAnswer


class Evaluation(NamedTuple):
    """One metric on one sample: the outcome and all judged units in the order of asking."""

    sample_id: str
    metric: str
    outcome: Outcome
    units: tuple[JudgedUnit, ...] = ()


def score_rows(evaluations: Sequence[Evaluation]) -> Iterator[ScoreRow]:
    for sample_id, metric, outcome, _ in evaluations:
        match outcome:
            case Scored(value=value, detail=detail):
                fraction = _count(outcome.numerator), _count(outcome.denominator)
                expected = outcome.expected
                yield ScoreRow(sample_id, metric, "scored", value, *fraction, detail, expected)
            case Undefined(reason=reason):
                yield ScoreRow(sample_id, metric, "undefined", None, None, None, reason)
            case Failed(reason=reason):
                yield ScoreRow(sample_id, metric, "failed", None, None, None, reason)


def verdict_rows(evaluations: Sequence[Evaluation]) -> Iterator[VerdictRow]:
    for evaluation in evaluations:
        for position, (unit, verdict) in enumerate(evaluation.units):
            parts: dict[str, Any] = {name: getattr(verdict, name, None) for name in _OF_VERDICT}
            yield VerdictRow(
                sample_id=evaluation.sample_id,
                metric=evaluation.metric,
                unit=unit.kind,
                index=unit.index,
                source=unit.source,
                source_index=unit.source_index,
                start=unit.span.start,
                end=unit.span.end,
                text=unit.span.text,
                against=unit.against,
                position=position,
                valid_mass=verdict.valid_mass,
                **parts,
            )


def join_rows(scores: Iterable[ScoreRow], verdicts: Iterable[VerdictRow]) -> Iterator[Evaluation]:
    """Rebuild the evaluations from rows in the order of the data, then of the metrics.

    Raises RunDirectoryError for a verdict without a score row, and for an invalid score.
    """
    groups = groupby(verdicts, key=lambda row: (row.sample_id, row.metric))
    key, rows = next(groups, _NO_MORE)
    for score in scores:
        units: tuple[JudgedUnit, ...] = ()
        if key == (score.sample_id, score.metric):
            units = tuple(map(_judged_unit, rows))
            key, rows = next(groups, _NO_MORE)
        yield Evaluation(score.sample_id, score.metric, _outcome(score), units)
    if key is not None:
        raise RunDirectoryError("a verdict has no score", hint=_CHANGED)


def with_evidence(
    verdicts: Iterable[VerdictRow], evidence: Iterable[EvidenceRow]
) -> Iterator[VerdictRow]:
    """Yield the verdicts with their evidence. Both are in the order of the run's files.

    Raises RunDirectoryError for evidence without a verdict.
    """
    groups = groupby(evidence, key=lambda row: (row.sample_id, row.metric, row.position))
    key, rows = next(groups, _NO_MORE)
    for verdict in verdicts:
        if key == (verdict.sample_id, verdict.metric, verdict.position):
            yield replace(verdict, evidence=tuple(rows))
            key, rows = next(groups, _NO_MORE)
        else:
            yield verdict
    if key is not None:
        raise RunDirectoryError(f"a row of {EVIDENCE} has no verdict", hint=BY_HAND)


def _outcome(row: ScoreRow) -> Outcome:
    match row.status:
        case "scored" if row.score is not None:
            expected = row.expected
            if expected is None:
                expected = row.score
            return Scored(
                value=row.score,
                expected=expected,
                numerator=row.numerator,
                denominator=row.denominator,
                detail=row.detail,
            )
        case "scored":
            raise RunDirectoryError("a scored row has no score", hint=_CHANGED)
        case "undefined":
            return Undefined(reason=row.detail or "")
        case "failed":
            return Failed(reason=row.detail or "")


def _judged_unit(row: VerdictRow) -> JudgedUnit:
    span = Span(start=row.start, end=row.end, text=row.text)
    unit = Unit(
        kind=row.unit,
        index=row.index,
        source=row.source,
        source_index=row.source_index,
        span=span,
        against=row.against,
    )
    if row.label is None:
        return JudgedUnit(unit, NoAnswer(error=row.error or "", valid_mass=row.valid_mass))
    verdict = Verdict(
        label=row.label,
        p_yes=row.p_yes,
        valid_mass=row.valid_mass,
        reason=row.reason,
        window=row.window,
        judges=row.judges,
    )
    return JudgedUnit(unit, verdict)


def _count(number: float | None) -> float | None:
    if number is not None and number.is_integer():
        return int(number)
    return number
