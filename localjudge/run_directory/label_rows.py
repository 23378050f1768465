"""Rows of `labels.jsonl`: the human labels of a run's statements, one row per decision.

    {"key": "9f...", "human": 1, "annotator": "user", "when": "2026-11-22T09:14:03+00:00",
     "way": "terminal", ...}

`key` is the hash of the question and texts shown to the annotator. A decision is 1, 0, "?" for an
undecidable statement, or null to withdraw an earlier one. `draw`, `frame` (hash of the statements),
`size_share` (of their total size) and `draw_index` (from 1) describe the drawing. `adjudicated` is
true in a decision that settles a dispute, and missing in all others. `by_order` is true, else
missing, if the decision has or replaces a time that was in the future: the order of the rows then
decides. `planned`, only in the
decisions of the run's first reading if its sheet or page was complete, is their number.
`evidence_seen` is "opened" if the annotator asked for the evidence of the statement before the
decision, "shown" if it was shown at once, and missing if it was not visible. In a row with null it
remembers what the annotator has seen, until the next decision.
"""

import getpass
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import dropwhile, takewhile
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from localjudge.run_directory.result_rows import Place, Share
from localjudge.stats.drawing import MAX_POINTS
from localjudge.text.folding import clean
from localjudge.types import Label, Record

Way = Literal["terminal", "sheet", "page"]
Decision = Label | Literal["?"] | None
EvidenceSeen = Literal["opened", "shown"]


def _in_utc(when: str) -> str:
    moment = datetime.fromisoformat(when)
    if moment.tzinfo is None:
        raise ValueError("a time without a time zone")
    try:
        return moment.astimezone(UTC).isoformat()
    except OverflowError as error:  # in the year 1 or 9999
        raise ValueError("not a time in UTC") from error


class LabelRow(Record):
    """One decision of an annotator on a statement."""

    key: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    sample_id: str
    metric: str
    position: Place
    text: str
    human: Decision
    annotator: Annotated[str, AfterValidator(clean)]
    when: Annotated[str, AfterValidator(_in_utc)]
    way: Way
    draw: str | None = None
    frame: str | None = None
    size_share: Share | None = None
    draw_index: Annotated[int, Field(ge=1, le=MAX_POINTS)] | None = None
    adjudicated: bool = False
    by_order: bool = False
    planned: Annotated[int, Field(ge=1)] | None = None
    evidence_seen: EvidenceSeen | None = None

    @property
    def moment(self) -> datetime:
        return datetime.fromisoformat(self.when)


def now(*, precise: bool = False) -> str:
    """Return the time in UTC."""
    timespec = "microseconds" if precise else "seconds"
    return datetime.now(UTC).isoformat(timespec=timespec)


def name_annotator(name: str | None = None) -> str:
    """Return the annotator's clean name, by default the user of this machine."""
    cleaned = clean(name or "")
    if cleaned:
        return cleaned
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container without such a user
        return "unknown"


def planned_statements(rows: Sequence[LabelRow]) -> frozenset[str]:
    """Return the statements with a label in the first reading of a file, if it was complete.

    `rows` are in file order. Without all rows of the reading there is no plan. Statements whose
    evidence was opened before, without an answer, do not count as read.
    """
    from_first_answer = list(dropwhile(_only_opened, rows))
    if not from_first_answer or from_first_answer[0].planned is None:
        return frozenset()
    planned = from_first_answer[0].planned
    reading = list(takewhile(lambda row: row.planned == planned, from_first_answer))
    if len(reading) != planned:
        return frozenset()
    return frozenset(row.key for row in reading if row.human in (0, 1))


def _only_opened(row: LabelRow) -> bool:
    return row.human is None and row.planned is None
