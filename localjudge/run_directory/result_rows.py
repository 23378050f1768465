"""Rows of `scores.jsonl`, `verdicts.jsonl` and `evidence.jsonl`.

    scores.jsonl     sample_id, metric
    verdicts.jsonl   sample_id, metric, position         for each judged unit of text
    evidence.jsonl   sample_id, metric, position, rank   0 to 2 for each judged statement

A line is a JSON object with its keys in a fixed order, and equal outcomes give equal bytes. The
rows have the order of the data, then of the metrics, positions and ranks. Text offsets count
Unicode code points.

evaluation   sample, metric, outcome ──────────> a row of scores.jsonl
             verdicts ─────────────────────────> the rows of verdicts.jsonl, as they are
rows of evidence.jsonl ──with_evidence────────> verdicts with their evidence

An expected score is what the judge knows in place of what it decides:

    verdicts ──labels──────────────> formula of the metric ──> score           2/3 = 0.667
       └──────probabilities of 1──> the same formula ───────> expected score   0.610

A sample without a score has no expected score. A verdict without a question keeps its label, such
as 0 without any context text. A jury always has a probability: the one after its judges are
combined. A score without verdicts, a rubric's, and one of another package that does not give it,
is also the expected score.

A calibration of a single judge moves its probabilities p by the odds of its threshold t, so that t
becomes one half: p (1 - t) / (p (1 - t) + (1 - p) t). A calibration of several judges needs no
move, because its weights and bias were fitted to labels. A threshold set by hand moves none.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import fsum
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, TypeAdapter

from localjudge.errors import RunDirectoryError
from localjudge.metrics.criterion import Criterion
from localjudge.metrics.metric import BuiltIn, Metric
from localjudge.run_directory.directory import BY_HAND
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
    VerdictRule,
)

_CHANGED = "was a file of the run changed by hand?"
_NO_MORE: tuple[None, Iterator[Any]] = (None, iter(()))
SCORES = "scores.jsonl"
VERDICTS = "verdicts.jsonl"
EVIDENCE = "evidence.jsonl"
_LARGEST = 2**63 - 1
_OF_VERDICT = ("p_yes", "label", "reason", "window", "error", "valid_mass", "judges")

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Mass = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Index = Annotated[int, Field(ge=0, le=_LARGEST)]
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
    """One metric on one sample. `detail` explains a missing score.

    `expected` is the score with probabilities in place of labels. Files of earlier versions lack
    it.
    """

    sample_id: str
    metric: str
    status: Status
    score: Share | None
    numerator: Amount | None
    denominator: Amount | None
    detail: str | None
    expected: Share | None = None


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
    source_index: Index | None
    index: Index
    position: Index
    rank: Index
    context: Index | None
    start: Index
    end: Index
    text: str
    score: Share
    supports: bool
    cited: bool | None
    cites: tuple[str, ...] | None = None
    name: str | None = None


class VerdictId(NamedTuple):
    """A verdict of a run: its sample, metric and position among the sample's verdicts."""

    sample_id: str
    metric: str
    position: int


@dataclass(frozen=True)
class VerdictRow:
    """One judged unit: the place of its text and its verdict.

    `against` is the context or field that it was compared with. `position` counts the verdicts of a
    metric on a sample. `judges` has the probability of each judge of a jury; the file of another
    judge lacks the key. Without a verdict, `label` is None and `error` is the reason. `evidence`
    has the sentences that come closest to a statement, the closest first; they are in another
    file. `shown` is the text for the judge if it differs from `text`; no file has it.
    """

    sample_id: str
    metric: str
    unit: UnitKind
    index: Index
    source: UnitSource
    source_index: Index | None
    start: Index
    end: Index
    text: str
    p_yes: Share | None
    label: Label | None
    reason: str | None
    window: Index | None
    error: str | None
    against: Index | AgainstText | None = None
    valid_mass: Mass | None = None
    position: Index | None = None
    judges: dict[str, Share] | None = None
    evidence: tuple["EvidenceRow", ...] = ()
    shown: str | None = None

    @classmethod
    def of(
        cls, sample_id: str, metric: str, position: int, unit: Unit, verdict: Verdict | NoAnswer
    ) -> Self:
        """Return the row of a unit with its verdict, or with the reason why it has none."""
        decided: dict[str, Any] = {name: getattr(verdict, name, None) for name in _OF_VERDICT}
        return cls(
            sample_id=sample_id,
            metric=metric,
            unit=unit.kind,
            index=unit.index,
            source=unit.source,
            source_index=unit.source_index,
            start=unit.span.start,
            end=unit.span.end,
            text=unit.span.text,
            against=unit.against,
            position=position,
            shown=unit.shown,
            **decided,
        )

    @property
    def verdict_id(self) -> VerdictId:
        return VerdictId(self.sample_id, self.metric, self.position or 0)

    @property
    def judged_unit(self) -> Unit:
        """The unit of text, for the formula of a metric."""
        return Unit(
            kind=self.unit,
            index=self.index,
            source=self.source,
            source_index=self.source_index,
            span=Span(start=self.start, end=self.end, text=self.text),
            against=self.against,
            shown=self.shown,
        )

    @property
    def values(self) -> dict[str, Any]:
        """Values of the row in the file."""
        values = dict(vars(self))
        del values["evidence"], values["shown"]
        if self.judges is None:
            del values["judges"]
        return values

    @property
    def values_with_evidence(self) -> dict[str, Any]:
        """Values of the row in the file, and a list of those of its evidence."""
        return {**self.values, "evidence": [dict(vars(row)) for row in self.evidence]}


SCORE_ROWS = TypeAdapter(ScoreRow)
VERDICT_ROWS = TypeAdapter(VerdictRow)
EVIDENCE_ROWS = TypeAdapter(EvidenceRow)


def json_line(values: Any) -> str:
    text = _LINE.encode(values)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", text) + "\n"


def row_files(*, with_evidence: bool) -> tuple[str, ...]:
    """Return the names of a run's files with rows."""
    if with_evidence:
        return (SCORES, VERDICTS, EVIDENCE)
    return (SCORES, VERDICTS)


def select_context(texts: Sequence[str], context: int) -> str:
    """Return the context that a row names, from 0. Raises RunDirectoryError if there is none."""
    if context >= len(texts):
        problem = f"a row of {EVIDENCE} names context {context} of {len(texts)}, counted from 0"
        raise RunDirectoryError(problem, hint=BY_HAND)
    return texts[context]


class Evaluation(NamedTuple):
    """One metric on one sample: the outcome and the verdicts in the order of asking."""

    sample_id: str
    metric: str
    outcome: Outcome
    verdicts: tuple[VerdictRow, ...] = ()


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


def join_rows(scores: Iterable[ScoreRow], verdicts: Iterable[VerdictRow]) -> Iterator[Evaluation]:
    """Rebuild the evaluations from rows in the order of the data, then of the metrics.

    Raises RunDirectoryError for a verdict without a score row, and for an invalid score.
    """
    groups = groupby(verdicts, key=lambda row: (row.sample_id, row.metric))
    key, rows = next(groups, _NO_MORE)
    for score in scores:
        verdicts_of_score: tuple[VerdictRow, ...] = ()
        if key == (score.sample_id, score.metric):
            verdicts_of_score = tuple(rows)
            key, rows = next(groups, _NO_MORE)
        yield Evaluation(score.sample_id, score.metric, _outcome(score), verdicts_of_score)
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


def with_expected(evaluation: Evaluation, metric: Metric, rule: VerdictRule) -> Evaluation:
    """Return the evaluation with the expected score of its verdicts."""
    outcome = evaluation.outcome
    if not isinstance(outcome, Scored) or not isinstance(metric, BuiltIn | Criterion):
        return evaluation
    verdicts = [verdict for verdict in evaluation.verdicts if verdict.label is not None]
    probabilities = [_find_probability(verdict, metric.name, rule) for verdict in verdicts]
    if metric.formula is not None and verdicts:
        units = [verdict.judged_unit for verdict in verdicts]
        expected = metric.formula(units, probabilities)
    elif isinstance(metric, BuiltIn) and verdicts and outcome.denominator:
        expected = fsum(probabilities) / outcome.denominator
    else:
        return evaluation
    return evaluation._replace(outcome=outcome.model_copy(update={"expected": expected}))


def _find_probability(verdict: VerdictRow, metric: str, rule: VerdictRule) -> float:
    """Return the probability of 1, moved by the calibration of a single judge."""
    p_yes = verdict.p_yes
    if p_yes is None:
        return float(verdict.label or 0)
    if metric not in rule.thresholds or metric in rule.combinations:
        return p_yes
    threshold = rule.thresholds[metric]
    for_one = p_yes * (1 - threshold)
    for_zero = (1 - p_yes) * threshold
    if not for_one + for_zero:
        return float(verdict.label or 0)
    return for_one / (for_one + for_zero)


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


def _count(number: float | None) -> float | None:
    if number is not None and number.is_integer():
        return int(number)
    return number
