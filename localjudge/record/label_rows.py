"""What people decided about a run's statements: `labels.jsonl` in its directory, one row a decision, never rewritten.

    {"key": "9f...", "human": 1, "labeller": "user", "when": "2026-11-22T09:14:03+00:00", "way": "terminal", ...}

A decision is about what the person was shown, which `key` is the hash of: 1, 0, or "?" if it cannot be told. The last
one of a person about it counts, and null takes an earlier one back. It was drawn by a drawing (`draw`), of statements
that `frame` is the hash of, as a `share` of all their sizes, at its `turn`; null for all four: a label that no drawing
asked for.

The numbers of the run do not depend on this file: it is not among those that its manifest signs.
"""

import getpass
import heapq
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from io import BufferedIOBase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, TypeAdapter

from localjudge.errors import InputError
from localjudge.record.directory import MOST_BYTES_OF_VALUE, held, open_regular, placed_rows
from localjudge.record.result_rows import Place, Share, json_line
from localjudge.resources import OPEN_SAFELY
from localjudge.stats.corrected import MOST_POINTS
from localjudge.types import Label, Record

LABELS = "labels.jsonl"
Way = Literal["terminal", "sheet", "page"]
Decision = Label | Literal["?"] | None


def _moment(when: str) -> str:
    if datetime.fromisoformat(when).tzinfo is None:
        raise ValueError("a time without a time zone")
    return when


class LabelRow(Record):
    """One decision of a person about one statement, named by the first verdict in the run that is about it."""

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


_ROWS = TypeAdapter(LabelRow)


def now() -> str:
    """The time in UTC to the second, as the files of a run have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def user_name() -> str:
    """Who labels where no name is given: the user of this machine."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container without such a user
        return "unknown"


def stored_labels(directory: Path) -> list[LabelRow]:
    """All decisions in their order; none for a run without labels. A row that a kill cut off is left out.

    Raises RunDirectoryError for a row that localjudge does not write.
    """
    path = directory / LABELS
    if not os.path.lexists(path):
        return []
    with open_regular(path) as file:
        whole = _end_of_rows(file)
    return [row for _, row in placed_rows(path, _ROWS, end=whole)]


def merge_labels(rows: Iterable[LabelRow], others: Iterable[LabelRow]) -> tuple[LabelRow, ...]:
    """Decisions of two runs by their time; those of each stay in their order."""
    return tuple(heapq.merge(rows, others, key=lambda row: row.when))


def append_labels(directory: Path, rows: Sequence[LabelRow]) -> None:
    """Append decisions, private and on the disk; one process at a time. Raises InputError if they cannot be written."""
    path = directory / LABELS
    try:
        with held(directory):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | OPEN_SAFELY, 0o600)
            with open(descriptor, "ab+") as file:
                file.truncate(_end_of_rows(file))  # what a kill cut off
                file.write("".join(json_line(row.model_dump()) for row in rows).encode())
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        problem = f"{path} cannot be written: {error.strerror or error}"
        raise InputError(problem, hint="labels are kept in the directory of the run") from error


def _end_of_rows(file: BufferedIOBase) -> int:
    """Where the last row that has an end, ends."""
    start = max(0, file.seek(0, os.SEEK_END) - MOST_BYTES_OF_VALUE)
    file.seek(start)
    return start + file.read().rfind(b"\n") + 1
