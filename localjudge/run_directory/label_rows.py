"""Human labels of a run's statements: `labels.jsonl` in its directory, append-only, one row per decision.

    {"key": "9f...", "human": 1, "annotator": "user", "when": "2026-11-22T09:14:03+00:00", "way":
    "terminal", ...}

`key` is the hash of the question and texts shown to the annotator. A decision is 1, 0, "?" for an
undecidable statement, or null to withdraw an earlier one. `draw`, `frame` (hash of the statements),
`share` (of their total size) and `turn` describe the drawing. `drawn_by` is the directory of
another run that drew it. `adjudicated` is true in a decision that settles a dispute, and missing in
all others. `planned`, only in the decisions of the run's first reading if its sheet or page was
complete, is their number. `previous` is the sha256 of the previous row without its line end, so a
changed, removed or moved row contradicts the next one.
"""

import getpass
import hashlib
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field, TypeAdapter

from localjudge.errors import RunDirectoryError
from localjudge.resources import OPEN_SAFELY, unwritable
from localjudge.run_directory.directory import MOST_BYTES_OF_VALUE, held, open_regular, parse_row
from localjudge.run_directory.result_rows import Place, Share, json_line
from localjudge.stats.corrected import MAX_POINTS
from localjudge.text.folding import clean
from localjudge.types import Label, Record

LABELS = "labels.jsonl"
START = "0" * 64
"""`previous` of the first row."""
Way = Literal["terminal", "sheet", "page"]
Decision = Label | Literal["?"] | None


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
    share: Share | None = None
    turn: Annotated[int, Field(ge=1, le=MAX_POINTS)] | None = None
    drawn_by: str | None = None
    adjudicated: bool = False
    planned: Annotated[int, Field(ge=1)] | None = None

    @property
    def moment(self) -> datetime:
        return datetime.fromisoformat(self.when)


class _ChainedRow(LabelRow):
    previous: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class LabelFile(NamedTuple):
    """The rows of a label file, and the sha256 of each.

    `broken` is the number (from 1) of the first row that contradicts the previous one, `size` the
    bytes of complete
    rows. `is_ended`: the last row has a line end.
    """

    rows: tuple[LabelRow, ...] = ()
    digests: tuple[str, ...] = ()
    broken: int | None = None
    size: int = 0
    is_ended: bool = True

    @property
    def head(self) -> str:
        return self.digests[-1] if self.digests else START


_ROWS = TypeAdapter(_ChainedRow)


def now(*, precise: bool = False) -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds" if precise else "seconds")


def name_annotator(name: str | None = None) -> str:
    """Return the annotator's clean name, by default the user of this machine."""
    cleaned = clean(name or "")
    if cleaned:
        return cleaned
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container without such a user
        return "unknown"


def label_file(directory: Path) -> LabelFile:
    """Read the labels in a directory, except an incomplete last row. Raises RunDirectoryError for an invalid row."""
    path = directory / LABELS
    if not os.path.lexists(path):
        return LabelFile()
    rows, digests, broken, size, line = list[LabelRow](), [START], None, 0, b"\n"
    with open_regular(path) as file:
        while (next_line := file.readline(MOST_BYTES_OF_VALUE + 1)) and not _is_cut_off(next_line):
            line, number = next_line, len(rows) + 1
            row = parse_row(line, f"{path}:{number}", _ROWS)
            if broken is None and row.previous != digests[-1]:
                broken = number
            rows.append(LabelRow(**row.model_dump(exclude={"previous"})))
            digests.append(hashlib.sha256(line.removesuffix(b"\n")).hexdigest())
            size += len(line)
    return LabelFile(tuple(rows), tuple(digests[1:]), broken, size, line.endswith(b"\n"))


def _is_cut_off(line: bytes) -> bool:
    if line.endswith(b"\n") or len(line) > MOST_BYTES_OF_VALUE:
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return True
    return False  # complete, without a line end


def planned_statements(rows: Sequence[LabelRow]) -> frozenset[str]:
    """Return the statements with a label in the first reading of a file, if that reading was complete.

    `rows` are in file order. Without all rows of the reading there is no plan.
    """
    if not rows or rows[0].planned is None:
        return frozenset()
    planned = rows[0].planned
    reading = list(takewhile(lambda row: row.planned == planned, rows))
    if len(reading) != planned:
        return frozenset()
    return frozenset(row.key for row in reading if row.human in (0, 1))


def stored_labels(directory: Path) -> list[LabelRow]:
    """Return all decisions in file order. Raises RunDirectoryError for an invalid row or a broken chain."""
    labels = label_file(directory)
    _require_chain(directory, labels)
    return list(labels.rows)


def _require_chain(directory: Path, labels: LabelFile) -> None:
    if labels.broken:
        problem = f"{directory / LABELS}:{labels.broken} does not match the previous row: a row was changed or removed"
        hint = "restore the file, or delete it and read sheets and pages again"
        raise RunDirectoryError(problem, hint=hint)


def append_labels(directory: Path, rows: Sequence[LabelRow]) -> None:
    """Append all decisions or none, under the lock.

    Raises RunDirectoryError for a broken chain or a hard link, InputError or OutOfResource if
    writing fails.
    """
    path = directory / LABELS
    try:
        with held(directory):
            labels = label_file(directory)
            _require_chain(directory, labels)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | OPEN_SAFELY, 0o600)
            with open(descriptor, "ab", buffering=0) as file:
                if os.fstat(descriptor).st_nlink > 1:
                    raise RunDirectoryError(f"{path} is a hard link", hint="replace it with a copy")
                file.truncate(labels.size)  # an incomplete last row
                try:
                    content = memoryview(_chained_lines(rows, labels))
                    while content:
                        content = content[file.write(content) :]
                    os.fsync(descriptor)
                except OSError:
                    file.truncate(labels.size)
                    raise
    except OSError as error:
        raise unwritable(path, error, hint="labels are stored in the run directory") from error


def _optional_fields(row: LabelRow) -> set[str]:
    """Return the fields that this row does not store."""
    absent = {"adjudicated": not row.adjudicated, "planned": row.planned is None}
    return {name for name, is_absent in absent.items() if is_absent}


def _chained_lines(rows: Sequence[LabelRow], labels: LabelFile) -> bytes:
    lines, head = [b"" if labels.is_ended else b"\n"], labels.head
    for row in rows:
        values = row.model_dump(exclude=_optional_fields(row))
        lines.append(json_line(values | {"previous": head}).encode())
        head = hashlib.sha256(lines[-1].removesuffix(b"\n")).hexdigest()
    return b"".join(lines)
