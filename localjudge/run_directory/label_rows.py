"""Rows of `labels.jsonl`: the human labels of a run's statements, one row per decision.

    {"key": "9f...", "human": 1, "annotator": "user", "when": "2026-11-22T09:14:03+00:00",
     "way": "terminal", ...}

`key` is the hash of the question and texts shown to the annotator. A decision is 1, 0, "?" for an
undecidable statement, or null to withdraw an earlier one. `draw`, `frame` (hash of the statements),
`size_share` (of their total size) and `draw_index` (from 1) describe the drawing. `adjudicated` is
true in a decision that settles a dispute, and missing in all others. `by_order` is true, else
missing, if the decision has or replaces a time that was in the future: the order of the rows then
decides. `planned`, only in the decisions of the run's first reading if its sheet or page was
complete, is their number. `evidence_seen` is "opened" if the annotator asked for the evidence of
the statement before the decision, "shown" if it was shown at once, and missing if it was not
visible. In a row with null it remembers what the annotator has seen, until the next decision.

A process that ends while it writes may leave an incomplete last row. Readers omit it, and the next
writer removes it.
"""

import getpass
import hashlib
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field, TypeAdapter

from localjudge.errors import RunDirectoryError
from localjudge.resources import OPEN_SAFELY, unwritable
from localjudge.run_directory.directory import (
    MAX_VALUE_BYTES,
    open_regular,
    parse_row,
    wait_for_lock,
)
from localjudge.run_directory.result_rows import Index, Share, VerdictId, json_line
from localjudge.stats.corrected import MAX_POINTS
from localjudge.text.names import clean
from localjudge.types import Label, Record

LABELS = "labels.jsonl"
LOGIN_NAME = " (login name)"
"""Ending of an annotator's name that nobody gave."""
_CHUNK_BYTES = 1 << 20
Way = Literal["terminal", "sheet", "page"]
Decision = Label | Literal["?"] | None
EvidenceSeen = Literal["opened", "shown"]
DRAWING_KEYS = ("draw", "frame", "size_share", "draw_index")


def _in_utc(when: str) -> str:
    moment = datetime.fromisoformat(when)
    if moment.tzinfo is None:
        raise ValueError("a time without a time zone")
    try:
        return moment.astimezone(UTC).isoformat()
    except OverflowError as error:  # in the year 1 or 9999
        raise ValueError("not a time in UTC") from error


class DrawnStatement(Record):
    """A statement to label: its key, its first verdict, and its drawing, if it has one.

    `adjudicated`: it has labels of several annotators, between which the next one decides.
    """

    key: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    sample_id: str
    metric: str
    position: Index
    draw: str | None = None
    frame: str | None = None
    size_share: Share | None = None
    draw_index: Annotated[int, Field(ge=1, le=MAX_POINTS)] | None = None
    adjudicated: bool = False

    @property
    def verdict_id(self) -> VerdictId:
        return VerdictId(self.sample_id, self.metric, self.position)

    @property
    def is_drawn(self) -> bool:
        """Whether the chance of being drawn is known."""
        return bool(self.draw and self.frame and self.size_share and self.draw_index)

    @property
    def turn(self) -> int:
        """The number of points until it was drawn, 0 if it was not."""
        return self.draw_index or 0


class LabelRow(DrawnStatement):
    """A statement with one decision of an annotator: a row of the file."""

    text: str
    human: Decision
    annotator: Annotated[str, AfterValidator(clean)]
    when: Annotated[str, AfterValidator(_in_utc)]
    way: Way
    by_order: bool = False
    planned: Annotated[int, Field(ge=1)] | None = None
    evidence_seen: EvidenceSeen | None = None

    @property
    def role(self) -> tuple[str, str, bool]:
        """What a later row replaces: the answer of one annotator or adjudicator to a statement."""
        return self.key, self.annotator, self.adjudicated

    @property
    def moment(self) -> datetime:
        return datetime.fromisoformat(self.when)


def name_annotator(name: str | None = None) -> str:
    """Return the annotator's clean name, by default the login name, marked as such."""
    cleaned = clean(name or "")
    if cleaned:
        return cleaned
    try:
        return f"{getpass.getuser()}{LOGIN_NAME}"
    except (ImportError, KeyError, OSError):  # a container without such a user
        return "unknown"


def planned_statements(rows: Sequence[LabelRow]) -> frozenset[str]:
    """Return the statements with a label in the first reading of a file, if it was complete.

    `rows` are in file order. Without all rows of the reading there is no plan. Statements whose
    evidence was opened before, without an answer, do not count as read.
    """
    opened = dropwhile(lambda row: row.human is None and row.planned is None, rows)
    from_first_answer = list(opened)
    if not from_first_answer or from_first_answer[0].planned is None:
        return frozenset()
    planned = from_first_answer[0].planned
    reading = list(takewhile(lambda row: row.planned == planned, from_first_answer))
    if len(reading) != planned:
        return frozenset()
    return frozenset(row.key for row in reading if row.human in (0, 1))


_ROWS = TypeAdapter(LabelRow)
_KEYS = (
    *("key", "sample_id", "metric", "position", "text", "human", "annotator", "when", "way"),
    *DRAWING_KEYS,
)
"""Keys of each row, in the order of the file."""
_KEYS_IF_SET = ("adjudicated", "by_order", "planned", "evidence_seen")


class LabelFile(NamedTuple):
    """The complete rows of a label file: their number of bytes (`size`) and their sha256.

    `is_ended`: the last row has a line end.
    """

    rows: tuple[LabelRow, ...]
    size: int
    sha256: str
    is_ended: bool


def label_file(directory: Path) -> LabelFile:
    """Read the labels in a directory, except an incomplete last row.

    Raises RunDirectoryError for an invalid row.
    """
    path = directory / LABELS
    rows: list[LabelRow] = []
    size = 0
    digest = hashlib.sha256()
    is_ended = True
    if os.path.lexists(path):
        with open_regular(path) as file:
            line = file.readline(MAX_VALUE_BYTES + 1)
            while line and not _is_cut_off(line):
                rows.append(parse_row(line, f"{path}:{len(rows) + 1}", _ROWS))
                size += len(line)
                digest.update(line)
                is_ended = line.endswith(b"\n")
                line = file.readline(MAX_VALUE_BYTES + 1)
    return LabelFile(tuple(rows), size, digest.hexdigest(), is_ended)


def _is_cut_off(line: bytes) -> bool:
    if line.endswith(b"\n") or len(line) > MAX_VALUE_BYTES:
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return True
    return False  # complete, without a line end


def stored_labels(directory: Path) -> list[LabelRow]:
    """Return all decisions in file order. Raises RunDirectoryError for an invalid row."""
    return list(label_file(directory).rows)


def hash_first_labels(directory: Path, size: int) -> str:
    """Return the sha256 of the first `size` bytes of the label file."""
    digest = hashlib.sha256()
    with open_regular(directory / LABELS) as file:
        while size and (chunk := file.read(min(size, _CHUNK_BYTES))):
            digest.update(chunk)
            size -= len(chunk)
    return digest.hexdigest()


def append_labels(directory: Path, rows: Sequence[LabelRow]) -> None:
    """Append all decisions or none, under the lock.

    Raises RunDirectoryError for an invalid row in the file or a hard link, InputError or
    OutOfResource if writing fails.
    """
    path = directory / LABELS
    try:
        with wait_for_lock(directory):
            labels = label_file(directory)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | OPEN_SAFELY, 0o600)
            with open(descriptor, "ab", buffering=0) as file:
                if os.fstat(descriptor).st_nlink > 1:
                    raise RunDirectoryError(f"{path} is a hard link", hint="replace it with a copy")
                file.truncate(labels.size)  # an incomplete last row
                try:
                    content = memoryview(_format_rows(rows, labels))
                    while content:
                        content = content[file.write(content) :]
                    os.fsync(descriptor)
                except OSError:
                    file.truncate(labels.size)
                    raise
    except OSError as error:
        raise unwritable(path, error, hint="labels are stored in the run directory") from error


def _format_rows(rows: Sequence[LabelRow], labels: LabelFile) -> bytes:
    """Return the lines of new rows, after the line end that the last row may lack."""
    lines = []
    if not labels.is_ended:
        lines.append(b"\n")
    for row in rows:
        values = {name: getattr(row, name) for name in _KEYS}
        values |= {name: getattr(row, name) for name in _KEYS_IF_SET if getattr(row, name)}
        lines.append(json_line(values).encode())
    return b"".join(lines)
