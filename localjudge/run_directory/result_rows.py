"""Rows of `scores.jsonl`, `verdicts.jsonl` and `evidence.jsonl`.

    scores.jsonl     sample_id, metric
    verdicts.jsonl   sample_id, metric, position         for each judged unit of text
    evidence.jsonl   sample_id, metric, position, rank   0 to 2 for each judged statement

A line is a JSON object with its keys in a fixed order, and equal outcomes give equal bytes. The
rows have the order of the data, then of the metrics, positions and ranks. Text offsets count
Unicode code points.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from localjudge.errors import RunDirectoryError
from localjudge.run_directory.directory import BY_HAND
from localjudge.types import AgainstText, Label, UnitKind, UnitSource

SCORES = "scores.jsonl"
VERDICTS = "verdicts.jsonl"
EVIDENCE = "evidence.jsonl"
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
