"""The human labels of a run's statements: `labels.jsonl` in its directory, one row for each decision, never rewritten.

    {"key": "9f...", "human": 1, "labeller": "user", "when": "2026-11-22T09:14:03+00:00", "way": "terminal", ...}

A decision is about what the annotator was shown, and `key` is the hash of that: 1, 0, or "?" for a statement that
cannot be decided; null withdraws an earlier decision. A drawing (`draw`) of statements (hash `frame`) asked for it, as
a `share` of all their sizes, at its `turn`; null for all four: a label that no drawing asked for. `drawn_by` is the
directory of the run that drew it, null for this one.

The rows are a chain: `previous` is the sha256 of the row before without its line end, 64 zeros in the first row. So a
changed, removed or moved row contradicts the next one. The chain does not protect the last row, and anybody can write a
new chain: `verify` records its head (`record/verification.py`), and compares it later.

The numbers of the run do not depend on this file: its manifest does not sign it.
"""

import getpass
import hashlib
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field, TypeAdapter

from localjudge.errors import RunDirectoryError
from localjudge.record.directory import MOST_BYTES_OF_VALUE, held, open_regular, parse_row
from localjudge.record.result_rows import Place, Share, json_line
from localjudge.resources import OPEN_SAFELY, unwritable
from localjudge.stats.corrected import MOST_POINTS
from localjudge.types import Label, Record

LABELS = "labels.jsonl"
START = "0" * 64
"""What the first row names as the one before."""
Way = Literal["terminal", "sheet", "page"]
Decision = Label | Literal["?"] | None


def _moment(when: str) -> str:
    moment = datetime.fromisoformat(when)
    if moment.tzinfo is None:
        raise ValueError("a time without a time zone")
    try:
        return moment.astimezone(UTC).isoformat()
    except OverflowError as error:  # in the year 1 or 9999
        raise ValueError("not a time in UTC") from error


class LabelRow(Record):
    """One decision of an annotator about one statement, named by the first verdict in the run that is about it."""

    key: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    sample_id: str
    metric: str
    position: Place
    text: str
    human: Decision
    labeller: str
    when: Annotated[str, AfterValidator(_moment)]
    way: Way
    draw: str | None = None
    frame: str | None = None
    share: Share | None = None
    turn: Annotated[int, Field(ge=1, le=MOST_POINTS)] | None = None
    drawn_by: str | None = None

    @property
    def moment(self) -> datetime:
        """When it was decided."""
        return datetime.fromisoformat(self.when)


class _ChainedRow(LabelRow):
    previous: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class LabelFile(NamedTuple):
    """The rows of a file of labels, and the sha256 of each.

    `broken` is the number, from 1 on, of the first row that does not follow the one before. `size` counts the bytes of
    whole rows, and the last row has a line end if `is_ended`.
    """

    rows: tuple[LabelRow, ...] = ()
    digests: tuple[str, ...] = ()
    broken: int | None = None
    size: int = 0
    is_ended: bool = True

    @property
    def head(self) -> str:
        """What the next row has to name."""
        return self.digests[-1] if self.digests else START


_ROWS = TypeAdapter(_ChainedRow)


def now(*, precise: bool = False) -> str:
    """Return the time in UTC to the second, as the files of a run have it; of labels to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds" if precise else "seconds")


def user_name() -> str:
    """Who labels where no name is given: the user of this machine."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container without such a user
        return "unknown"


def label_file(directory: Path) -> LabelFile:
    """Read the labels in a directory, in the order of the file. A last row that a kill cut off is left out.

    Raises RunDirectoryError for a row that localjudge does not write.
    """
    path = directory / LABELS
    if not os.path.lexists(path):
        return LabelFile()
    rows, digests, broken, size, line = list[LabelRow](), [START], None, 0, b"\n"
    with open_regular(path) as file:
        while line_after := file.readline(MOST_BYTES_OF_VALUE + 1):
            if _is_cut_off(line_after):
                break
            line, number = line_after, len(rows) + 1
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
    return False  # whole, without a line end


def stored_labels(directory: Path) -> list[LabelRow]:
    """Return all decisions in the order of the file; none for a run without labels.

    Raises RunDirectoryError for a row that localjudge does not write, and for one that does not follow the row before.
    """
    labels = label_file(directory)
    _require_chain(directory, labels)
    return list(labels.rows)


def _require_chain(directory: Path, labels: LabelFile) -> None:
    if labels.broken:
        problem = f"{directory / LABELS}:{labels.broken} does not follow the row before: a row was changed or removed"
        hint = "put the file back as it was, or delete it and read sheets and pages again"
        raise RunDirectoryError(problem, hint=hint)


def append_labels(directory: Path, rows: Sequence[LabelRow]) -> None:
    """Append decisions, all or none, private and on the disk; one process at a time.

    Raises InputError (RunDirectoryError for a broken chain or a hard link, OutOfResource) if they cannot be written.
    """
    path = directory / LABELS
    try:
        with held(directory):
            before = label_file(directory)
            _require_chain(directory, before)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | OPEN_SAFELY, 0o600)
            with open(descriptor, "ab", buffering=0) as file:
                if os.fstat(descriptor).st_nlink > 1:
                    raise RunDirectoryError(f"{path} is a hard link", hint="put a copy in its place")
                file.truncate(before.size)  # what a kill cut off
                try:
                    content = memoryview(_chained(rows, before))
                    while content:
                        content = content[file.write(content) :]
                    os.fsync(descriptor)
                except OSError:
                    file.truncate(before.size)
                    raise
    except OSError as error:
        raise unwritable(path, error, hint="labels are kept in the directory of the run") from error


def _chained(rows: Sequence[LabelRow], before: LabelFile) -> bytes:
    lines, head = [b"" if before.is_ended else b"\n"], before.head
    for row in rows:
        lines.append(json_line(row.model_dump() | {"previous": head}).encode())
        head = hashlib.sha256(lines[-1].removesuffix(b"\n")).hexdigest()
    return b"".join(lines)
