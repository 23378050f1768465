"""Rows of `scores.jsonl` and `verdicts.jsonl`: one JSON object per line, keys in a fixed order.

Equal outcomes give equal bytes. Text offsets count Unicode code points.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, TypeAdapter

from localjudge.errors import RunDirectoryError
from localjudge.types import (
    AgainstText,
    Failed,
    Label,
    NoAnswer,
    Outcome,
    Scored,
    Span,
    Undefined,
    Unit,
    UnitKind,
    UnitSource,
    Verdict,
)


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


_LARGEST = 2**63 - 1

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Mass = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Place = Annotated[int, Field(ge=0, le=_LARGEST)]
Amount = (
    Annotated[int, Field(ge=-_LARGEST, le=_LARGEST)] | Annotated[float, Field(allow_inf_nan=False)]
)
"""Keeps integers as integers, so that a row is rewritten unchanged."""
Status = Literal["scored", "undefined", "failed"]

# Some readers break lines at these characters, and some terminals interpret them: JSON escapes
# them.
_LINE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(", ", ": "))
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True)
class ScoreRow:
    """One metric on one sample. `detail` explains a missing score."""

    sample_id: str
    metric: str
    status: Status
    score: Share | None
    numerator: Amount | None
    denominator: Amount | None
    detail: str | None


@dataclass(frozen=True)
class EvidenceRow:
    """A sentence that comes close to a judged statement, and its score in [0, 1].

    `context` counts the retrieved contexts from 0; it is None if the statement was compared with
    the reference or the response, as `against` of its verdict says. `supports` is False for the
    closest sentence of a statement that nothing supports. `position` is the verdict's.

    For a metric about citations, `cited` says whether the statement cites the context, `cites` has
    the names that it cites, and `name` is the one by which the response would cite this context.
    They are None for other metrics.
    """

    sample_id: str
    metric: str
    source: UnitSource
    source_index: Place | None
    index: Place
    position: Place
    rank: Place
    context: Place | None
    start: Place
    end: Place
    text: str
    score: Share
    supports: bool
    cited: bool | None
    cites: tuple[str, ...] | None = None
    name: str | None = None


@dataclass(frozen=True)
class VerdictRow:
    """One judged unit: the place of its text and its verdict.

    `against` is the context or field that it was compared with. `position` counts the verdicts of a
    metric on a sample. `judges` has the probability of each judge of a jury; the file of another
    judge lacks the key. `evidence` has the sentences that come closest to a statement, the closest
    first; they are in another file.
    """

    sample_id: str
    metric: str
    unit: UnitKind
    index: Place
    source: UnitSource
    source_index: Place | None
    start: Place
    end: Place
    text: str
    p_yes: Share | None
    label: Label | None
    reason: str | None
    window: Place | None
    error: str | None
    against: Place | AgainstText | None = None
    valid_mass: Mass | None = None
    position: Place | None = None
    judges: dict[str, Share] | None = None
    evidence: tuple["EvidenceRow", ...] = ()

    @property
    def values(self) -> dict[str, Any]:
        """Values of the row in the file."""
        values = dict(vars(self))
        del values["evidence"]
        if self.judges is None:
            del values["judges"]
        return values

    @property
    def values_with_evidence(self) -> dict[str, Any]:
        """Values of the row in the file, and a list of those of its evidence."""
        return {**self.values, "evidence": [dict(vars(row)) for row in self.evidence]}


_OF_VERDICT = ("p_yes", "label", "reason", "window", "error", "judges")
_NO_MORE: tuple[None, Iterator[VerdictRow]] = (None, iter(()))
SCORE_ROWS = TypeAdapter(ScoreRow)
VERDICT_ROWS = TypeAdapter(VerdictRow)


def score_rows(evaluations: Sequence[Evaluation]) -> Iterator[ScoreRow]:
    for sample_id, metric, outcome, _ in evaluations:
        match outcome:
            case Scored(value=value, detail=detail):
                fraction = _count(outcome.numerator), _count(outcome.denominator)
                yield ScoreRow(sample_id, metric, "scored", value, *fraction, detail)
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
        raise RunDirectoryError(
            "a verdict has no score", hint="was a file of the run changed by hand?"
        )


def json_line(values: Any) -> str:
    text = _LINE.encode(values)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", text) + "\n"


def _outcome(row: ScoreRow) -> Outcome:
    match row.status:
        case "scored" if row.score is not None:
            return Scored(
                value=row.score,
                numerator=row.numerator,
                denominator=row.denominator,
                detail=row.detail,
            )
        case "scored":
            raise RunDirectoryError(
                "a scored row has no score", hint="was a file of the run changed by hand?"
            )
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
