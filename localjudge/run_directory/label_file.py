"""Read `labels.jsonl` in a run directory, and append to it.

A process that ends while it writes may leave an incomplete last row. Readers omit it, and the next
writer removes it.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pydantic import TypeAdapter

from localjudge.errors import RunDirectoryError
from localjudge.resources import OPEN_SAFELY, unwritable
from localjudge.run_directory.directory import MAX_VALUE_BYTES, open_regular, parse_row
from localjudge.run_directory.label_rows import LabelRow
from localjudge.run_directory.result_rows import json_line
from localjudge.run_directory.writing import wait_for_lock

LABELS = "labels.jsonl"
_CHUNK_BYTES = 1 << 20
_ROWS = TypeAdapter(LabelRow)


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
            for line in _complete_lines(file):
                rows.append(parse_row(line, f"{path}:{len(rows) + 1}", _ROWS))
                size += len(line)
                digest.update(line)
                is_ended = line.endswith(b"\n")
    return LabelFile(tuple(rows), size, digest.hexdigest(), is_ended)


def _complete_lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(MAX_VALUE_BYTES + 1):
        if _is_cut_off(line):
            return
        yield line


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
        values = row.model_dump(exclude=_optional_fields(row))
        lines.append(json_line(values).encode())
    return b"".join(lines)


def _optional_fields(row: LabelRow) -> set[str]:
    """Return the fields that this row does not store."""
    names = set()
    for name in ("adjudicated", "by_order"):
        if not getattr(row, name):
            names.add(name)
    for name in ("planned", "evidence_seen"):
        if getattr(row, name) is None:
            names.add(name)
    return names
