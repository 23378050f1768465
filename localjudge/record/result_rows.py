"""The rows of `scores.jsonl` and `verdicts.jsonl`: one JSON object a line, keys in the order of the outside contract.

The same outcomes give the same bytes. Offsets count Unicode code points of the decoded field. As data frames:

    samples     sample_id  user_input  retrieved_contexts  ...  context_recall  context_recall_status  ...
    verdicts    sample_id  metric  unit  index  text  p_yes  label  ...  p_yes of A  p_yes of B     combined

A sample without a score has none there (NaN in pandas, null in polars) and `undefined` or `failed` as its status.
Contexts of which only the ids are known are None. Types of columns do not depend on what is in them.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import dropwhile, groupby, takewhile
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import Field, TypeAdapter

from localjudge.errors import RunDirectoryError, UsageError
from localjudge.types import (
    CONTEXT_FIELDS,
    AgainstText,
    Failed,
    JudgeVote,
    Label,
    NoAnswer,
    Outcome,
    Sample,
    Scored,
    Span,
    Undefined,
    Unit,
    UnitKind,
    UnitSource,
    Verdict,
    known_texts,
)

if TYPE_CHECKING:
    import pandas
    import polars


class JudgedUnit(NamedTuple):
    """A unit of text and what was found, or why nothing was."""

    unit: Unit
    verdict: Verdict | NoAnswer


class Evaluation(NamedTuple):
    """One metric on one sample: the outcome and everything that was judged for it, in the order it was asked."""

    sample_id: str
    metric: str
    outcome: Outcome
    units: tuple[JudgedUnit, ...] = ()


_LARGEST = 2**63 - 1

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Mass = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Place = Annotated[int, Field(ge=0, le=_LARGEST)]
Amount = Annotated[int, Field(ge=-_LARGEST, le=_LARGEST)] | Annotated[float, Field(allow_inf_nan=False)]
"""Whole numbers stay whole when they are read, so that a row is written again as it was."""
Status = Literal["scored", "undefined", "failed"]

# Some readers break lines at these, and some terminals obey them; JSON lets them be written as escapes.
_LINE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(", ", ": "))
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True)
class ScoreRow:
    """One metric on one sample. `detail` says why there is no score."""

    sample_id: str
    metric: str
    status: Status
    score: Share | None
    numerator: Amount | None
    denominator: Amount | None
    detail: str | None


@dataclass(frozen=True)
class VerdictRow:
    """One judged unit: where its text stands, and what was found. `against`: the one context, or which text.

    `position` counts through the verdicts of its metric on its sample, in the order in which they were asked for.
    `judges` is there in the rows of a combined run alone: what each judge gave as `p_yes`, by its name.
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
    legal_mass: Mass | None = None
    position: Place | None = None
    judges: dict[str, Share | None] | None = None


_NO_MORE: tuple[None, Iterator[VerdictRow]] = (None, iter(()))
_Row = TypeVar("_Row", ScoreRow, VerdictRow)
SCORE_ROWS = TypeAdapter(ScoreRow)
VERDICT_ROWS = TypeAdapter(VerdictRow)


def score_rows(evaluations: Sequence[Evaluation]) -> Iterator[ScoreRow]:
    """One row for each evaluation."""
    for evaluation in evaluations:
        yield ScoreRow(evaluation.sample_id, evaluation.metric, *_outcome_columns(evaluation.outcome))


def verdict_rows(evaluations: Sequence[Evaluation]) -> Iterator[VerdictRow]:
    """One row for each judged unit."""
    for evaluation in evaluations:
        for position, judged in enumerate(evaluation.units):
            yield _verdict_row(evaluation, position, judged)


def evaluations_of(scores: Iterable[ScoreRow], verdicts: Iterable[VerdictRow]) -> Iterator[Evaluation]:
    """The evaluations that these rows were made of; both are in the order of the data, then of the metrics.

    Raises RunDirectoryError where a verdict is of no score, and where a score is none.
    """
    groups = groupby(verdicts, key=lambda row: (row.sample_id, row.metric))
    of, rows = next(groups, _NO_MORE)
    for score in scores:
        units: tuple[JudgedUnit, ...] = ()
        if of == (score.sample_id, score.metric):
            units = tuple(JudgedUnit(_unit(row), _verdict(row)) for row in rows)
            of, rows = next(groups, _NO_MORE)
        yield Evaluation(score.sample_id, score.metric, _outcome(score), units)
    if of is not None:
        raise RunDirectoryError("a verdict is of no score", hint="was a file of the run changed by hand?")


def rows_of_sample(rows: Iterable[_Row], sample_id: str) -> Iterator[_Row]:
    """The first rows on end that are of the sample."""
    found = dropwhile(lambda row: row.sample_id != sample_id, rows)
    return takewhile(lambda row: row.sample_id == sample_id, found)


def row_values(row: ScoreRow | VerdictRow) -> dict[str, Any]:
    """The row as an object: without `judges` where there was one."""
    return {name: value for name, value in vars(row).items() if name != "judges" or value is not None}


def flat_values(row: ScoreRow | VerdictRow) -> dict[str, Any]:
    """The same without an object in it, for tables: `p_yes of NAME` for each judge of a combined run."""
    values = row_values(row)
    judges = values.pop("judges", {})
    return values | {f"p_yes of {name}": p_yes for name, p_yes in judges.items()}


def json_line(values: Any) -> str:
    """JSON values on one line, with its end."""
    text = _LINE.encode(values)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", text) + "\n"


def _outcome_columns(outcome: Outcome) -> tuple[Status, float | None, float | None, float | None, str | None]:
    match outcome:
        case Scored():
            return "scored", outcome.value, _count(outcome.numerator), _count(outcome.denominator), outcome.detail
        case Undefined():
            return "undefined", None, None, None, outcome.reason
        case Failed():
            return "failed", None, None, None, outcome.reason


def _outcome(row: ScoreRow) -> Outcome:
    match row.status:
        case "scored" if row.score is not None:
            return Scored(value=row.score, numerator=row.numerator, denominator=row.denominator, detail=row.detail)
        case "scored":
            raise RunDirectoryError("a scored row has no score", hint="was a file of the run changed by hand?")
        case "undefined":
            return Undefined(reason=row.detail or "")
        case "failed":
            return Failed(reason=row.detail or "")


def _unit(row: VerdictRow) -> Unit:
    span = Span(start=row.start, end=row.end, text=row.text)
    return Unit(
        kind=row.unit,
        index=row.index,
        source=row.source,
        source_index=row.source_index,
        span=span,
        against=row.against,
    )


def _verdict(row: VerdictRow) -> Verdict | NoAnswer:
    votes = tuple(JudgeVote(name, p_yes) for name, p_yes in (row.judges or {}).items())
    if row.label is None:
        return NoAnswer(error=row.error or "", legal_mass=row.legal_mass, votes=votes)
    return Verdict(
        label=row.label,
        p_yes=row.p_yes,
        legal_mass=row.legal_mass,
        reason=row.reason,
        window=row.window,
        votes=votes,
    )


def _count(number: float | None) -> float | None:
    return int(number) if number is not None and number.is_integer() else number


def _verdict_row(evaluation: Evaluation, position: int, judged: JudgedUnit) -> VerdictRow:
    unit, verdict = judged
    return VerdictRow(
        sample_id=evaluation.sample_id,
        metric=evaluation.metric,
        unit=unit.kind,
        index=unit.index,
        source=unit.source,
        source_index=unit.source_index,
        start=unit.span.start,
        end=unit.span.end,
        text=unit.span.text,
        p_yes=verdict.p_yes if isinstance(verdict, Verdict) else None,
        label=verdict.label if isinstance(verdict, Verdict) else None,
        reason=verdict.reason if isinstance(verdict, Verdict) else None,
        window=verdict.window if isinstance(verdict, Verdict) else None,
        error=verdict.error if isinstance(verdict, NoAnswer) else None,
        against=unit.against,
        legal_mass=verdict.legal_mass,
        position=position,
        judges=dict(verdict.votes) or None,
    )


TEXTS = ("user_input", "retrieved_contexts", "reference_contexts", "response", "reference")
"""The fields of `sample_texts`, in the order of ragas."""
FrameRows = Literal["samples", "verdicts"]
_Kind = Literal["text", "texts", "share", "whole"]
_KIND_OF_VERDICT_COLUMN: dict[str, _Kind] = {
    "index": "whole",
    "source_index": "whole",
    "start": "whole",
    "end": "whole",
    "p_yes": "share",
    "label": "whole",
    "window": "whole",
    "legal_mass": "share",
    "position": "whole",
}
"""All others are texts; `against`, which is a number or `reference`, is one, too."""


class FrameColumns(NamedTuple):
    """Values of each column, and what kind of values they are."""

    values: dict[str, list[Any]]
    kinds: dict[str, _Kind]


def sample_texts(sample: Sample) -> dict[str, Any]:
    """The texts of a sample by field; None for contexts of which only the ids are known."""
    return {
        "user_input": sample.user_input,
        "retrieved_contexts": known_texts(sample.retrieved_contexts),
        "reference_contexts": known_texts(sample.reference_contexts),
        "response": sample.response,
        "reference": sample.reference,
    }


def sample_row(sample: Sample, scores: Mapping[str, ScoreRow], metrics: Iterable[str]) -> dict[str, Any]:
    """The one row of a sample, for frames and exports: its id, its texts, and of each metric score and status."""
    row = {"sample_id": sample.id, **sample_texts(sample)}
    for metric in metrics:
        score = scores.get(metric)
        row |= {metric: score and score.score, f"{metric}_status": score and score.status}
    return row


def columns_of_samples(scored: Iterable[tuple[Sample, Mapping[str, ScoreRow]]], metrics: Sequence[str]) -> FrameColumns:
    """The `sample_row` of each sample, as columns."""
    kinds: dict[str, _Kind] = {"sample_id": "text"}
    kinds |= {name: "texts" if name in CONTEXT_FIELDS else "text" for name in TEXTS}
    for metric in metrics:
        kinds |= {metric: "share", f"{metric}_status": "text"}
    rows = [sample_row(sample, scores, metrics) for sample, scores in scored]
    return FrameColumns({name: [row[name] for row in rows] for name in kinds}, kinds)


def columns_of_verdicts(verdicts: Iterable[VerdictRow]) -> FrameColumns:
    """One row for each judged unit, as in `verdicts.jsonl`."""
    kinds: dict[str, _Kind] = {
        field.name: _KIND_OF_VERDICT_COLUMN.get(field.name, "text") for field in fields(VerdictRow)
    }
    del kinds["judges"]
    values: dict[str, list[Any]] = {name: [] for name in kinds}
    for verdict in verdicts:
        for name, value in flat_values(verdict).items():
            kind = kinds.setdefault(name, "share")
            values.setdefault(name, []).append(value if value is None or kind != "text" else str(value))
    return FrameColumns(values, kinds)


def pandas_frame(columns: FrameColumns) -> "pandas.DataFrame":
    """The columns as pandas has them. Raises UsageError if it is not installed."""
    try:
        import pandas
    except ImportError as error:
        raise _not_installed("pandas") from error
    types: dict[_Kind, Any] = {"text": object, "texts": object, "share": "float64", "whole": "Int64"}
    return pandas.DataFrame(
        {name: pandas.Series(values, dtype=types[columns.kinds[name]]) for name, values in columns.values.items()}
    )


def polars_frame(columns: FrameColumns) -> "polars.DataFrame":
    """The columns as polars has them. Raises UsageError if it is not installed."""
    try:
        import polars
    except ImportError as error:
        raise _not_installed("polars") from error
    types: dict[_Kind, Any] = {
        "text": polars.String,
        "texts": polars.List(polars.String),
        "share": polars.Float64,
        "whole": polars.Int64,
    }
    return polars.DataFrame(columns.values, schema={name: types[kind] for name, kind in columns.kinds.items()})


def _not_installed(package: str) -> UsageError:
    return UsageError(f"the package {package} is not installed", hint=f"install it with: pip install {package}")
