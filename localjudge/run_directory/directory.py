"""Read the files of a run directory as untrusted input, and write them under a lock.

    run.lock         advisory lock of the writing process
    NAME.part        rows written so far, which others may read; renamed to NAME at the end
    .NAME.*.part     another file being written

Links, oversized content, invalid JSON, unexpected shapes, non-finite numbers and an unusable
directory raise RunDirectoryError, and problems of the disk OutOfResource. The directory is private.
"""

import hashlib
import json
import logging
import math
import os
import stat
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cache
from io import BufferedReader
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from localjudge.dataset.rows import reason, unique_keys
from localjudge.errors import RETRY_HINTS, InputError, OutOfResource, RunDirectoryError
from localjudge.resources import (
    OPEN_SAFELY,
    obstacle,
    part_names,
    replace_file,
    replace_whole,
    try_lock,
)
from localjudge.words import option, printable

MANIFEST = "manifest.json"
STORE = "run.sqlite"
MAX_BYTES = 64 << 30
MAX_OBJECT_BYTES = 16 << 20
MAX_VALUE_BYTES = 64 << 20
BY_HAND = "was it changed by hand?"

LOCK = "run.lock"
_PART = ".part"
_SHOWN = 200
_POLL_SECONDS = 0.01
_PATIENCE_SECONDS = 1
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_log = logging.getLogger(__name__)
_Model = TypeVar("_Model", bound=BaseModel)
_Row = TypeVar("_Row")


def now(*, precise: bool = False) -> str:
    """Return the time in UTC, as every file of a run has it."""
    timespec = "microseconds" if precise else "seconds"
    return datetime.now(UTC).isoformat(timespec=timespec)


def part_path(file: Path) -> Path:
    return file.with_name(f"{file.name}{_PART}")


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading. Never blocks on a pipe."""
    refuse_irregular(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | OPEN_SAFELY)
    except OSError as error:
        hint = "run the same command again to rewrite it"
        if isinstance(error, PermissionError):
            hint = "make it readable for you, or copy the run as its owner"
        raise RunDirectoryError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_BYTES:
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise too_much(path, f"{MAX_BYTES >> 30} GiB")


def file_sha256(path: Path) -> str:
    """Return the sha256 of a regular file. Raises RunDirectoryError if it cannot be read."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical_sha256(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """Return the sha256 (hexadecimal) of JSON values, independent of key order."""
    return hashlib.sha256(_CANONICAL.encode(value).encode()).hexdigest()


def refuse_irregular(path: Path) -> None:
    """Raise RunDirectoryError for a link, directory or device."""
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        kind = "a link" if path.is_symlink() else "not a regular file"
        raise RunDirectoryError(
            f"{path} is {kind}",
            hint="a run consists of regular files: copy the files themselves",
        )


def read_object(path: Path) -> dict[str, Any]:
    with open_regular(path) as file:
        content = file.read(MAX_OBJECT_BYTES + 1)
    if len(content) > MAX_OBJECT_BYTES:
        raise too_much(path, f"{MAX_OBJECT_BYTES >> 20} MiB")
    return decoded_object(content, path)


def decoded_object(content: bytes | str, where: Path) -> dict[str, Any]:
    try:
        if isinstance(content, bytes):
            content = content.decode()
        value = _DECODER.decode(content)
    except (ValueError, RecursionError) as error:
        problem = f"{where} cannot be read: {excerpt(reason(error))}"
        raise RunDirectoryError(problem, hint=BY_HAND) from error
    if not isinstance(value, dict):
        raise RunDirectoryError(f"{where} cannot be read: it is not a JSON object", hint=BY_HAND)
    return value


def placed_rows(
    path: Path, kind: TypeAdapter[_Row], start: int = 0, end: int = MAX_BYTES
) -> Generator[tuple[int, _Row], None, None]:
    """Yield the rows of a JSONL file between two byte offsets, each with its offset."""
    with open_regular(path) as file:
        file.seek(start)
        offset = start
        number = 0
        while line := file.readline(min(MAX_VALUE_BYTES + 1, end - offset)):
            number += 1
            yield offset, parse_row(line, f"{path}:{number}", kind)
            offset += len(line)


def parse_row(line: bytes, where: str, kind: TypeAdapter[_Row]) -> _Row:
    if len(line) > MAX_VALUE_BYTES:
        raise too_much(where, f"{MAX_VALUE_BYTES >> 20} MiB in a row")
    try:
        return kind.validate_json(line, strict=True)
    except ValidationError as error:
        message = f"{where} is not a row of localjudge: {first_problem(error)}"
        raise RunDirectoryError(message, hint=BY_HAND) from error


def validated(kind: type[_Model], value: Any, where: str) -> _Model:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        problem = f"{where} cannot be read: {first_problem(error)}"
        raise RunDirectoryError(problem, hint=BY_HAND) from error
    except InputError as error:
        problem = f"{where} cannot be read: {excerpt(error.message)}"
        raise RunDirectoryError(problem, hint=BY_HAND) from error


def too_much(where: Path | str, bound: str) -> RunDirectoryError:
    return RunDirectoryError(
        f"{where} exceeds the limit of {bound}", hint="is it the file of a run?"
    )


def first_problem(error: ValidationError) -> str:
    """Return the first validation error as `metrics.faithfulness.mean: Input should be ...`."""
    problem = error.errors(include_url=False, include_input=False)[0]
    message = problem["msg"]
    field = ".".join(map(str, problem["loc"]))
    if field:
        message = f"{field}: {message}"
    return excerpt(message)


def excerpt(value: object) -> str:
    """Shorten a value from a file and make it safe to print."""
    text = str(value)
    if len(text) > _SHOWN:
        text = f"{text[:_SHOWN]}..."
    return printable(text)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{excerpt(digits)} is not a finite number")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=unique_keys, parse_constant=_finite, parse_float=_finite
)


@contextmanager
def locked_directory(path: Path) -> Iterator[None]:
    """Create the directory if it is missing, and lock it for this process.

    Raises RunDirectoryError if it is not writable, locked by another process or has other content.
    """
    make_directory(path)
    with _translated_errors(path):
        _refuse_other_content(path)
        lock = _locked(path / LOCK)
    try:
        yield
    finally:
        os.close(lock)


def make_directory(path: Path) -> None:
    """Create a private directory if it is missing."""
    with _translated_errors(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_file(path: Path, text: str, *, durable: bool = True) -> None:
    """Replace a file of a run directory, see `replace_whole`."""
    with _translated_errors(path.parent):
        replace_whole(path, [text.encode()], durable=durable)


def remove_file(path: Path) -> None:
    with _translated_errors(path.parent):
        path.unlink(missing_ok=True)


class PartFile:
    """A file written in pieces, which others may read. It replaces the old file when finished."""

    def __init__(self, file: Path) -> None:
        self._name = file
        self._path = part_path(file)
        self.sha256 = hashlib.sha256()
        self.size = 0
        with _translated_errors(file.parent):
            self._path.unlink(missing_ok=True)
            descriptor = os.open(
                self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN_SAFELY, 0o600
            )
        self._file = os.fdopen(descriptor, "wb")

    def write(self, pieces: Iterable[str]) -> None:
        """Write and flush pieces, so that they survive the end of this process."""
        with _translated_errors(self._name.parent):
            for piece in pieces:
                content = piece.encode()
                self.size += self._file.write(content)
                self.sha256.update(content)
            self._file.flush()

    def finish(self) -> None:
        with _translated_errors(self._name.parent):
            os.fsync(self._file.fileno())
            self._file.close()  # Windows cannot rename an open file
            # The manifest, which names the file, syncs the directory.
            replace_file(self._path, self._name, durable=False)

    def close(self) -> None:
        """Stop writing. An unfinished part remains."""
        with _translated_errors(self._name.parent):
            self._file.close()


def refuse_unusable(path: Path) -> None:
    """Raise RunDirectoryError if the directory has other content or another process is writing.

    Creates no file.
    """
    refuse_obstacle(path)
    with _translated_errors(path):
        if path.is_dir():
            _refuse_other_content(path)
        if (path / LOCK).exists():
            os.close(_locked(path / LOCK))


def refuse_obstacle(path: Path) -> None:
    """Raise RunDirectoryError if a file has the name of the directory or of one above it."""
    in_the_way = obstacle(path)
    if in_the_way is not None:
        hint = f"name another directory with {option('out')}"
        raise RunDirectoryError(in_the_way, hint=hint)


def _refuse_other_content(path: Path) -> None:
    names = {entry.name for entry in path.iterdir()}
    if MANIFEST in names:
        return
    first_writes = part_names(MANIFEST)
    others = {name for name in names if not fnmatchcase(name, first_writes)}
    if others - {LOCK}:
        hint = f"name another directory with {option('out')}"
        raise RunDirectoryError(f"{path} is not empty and contains no run", hint=hint)


@contextmanager
def wait_for_lock(directory: Path) -> Iterator[None]:
    """Lock a run directory for this block, when no other process writes. Raises OSError."""
    lock = _locked(directory / LOCK, waiting=True)
    try:
        yield
    finally:
        os.close(lock)


def _locked(path: Path, *, waiting: bool = False) -> int:
    refuse_irregular(path)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | OPEN_SAFELY, 0o600)
    problem = f"{path.parent} is being written by another process"
    warn_at = monotonic() + _PATIENCE_SECONDS
    state = try_lock(descriptor)
    while state == "busy":
        if not waiting:
            os.close(descriptor)
            hint = f"wait until it is done, or name another directory with {option('out')}"
            raise RunDirectoryError(problem, hint=hint)
        if monotonic() > warn_at:
            _log.warning("%s: waiting until it is done", problem)
            warn_at = math.inf
        sleep(_POLL_SECONDS)
        state = try_lock(descriptor)
    if state == "unsupported":
        _warn_without_locks(path.parent)
    return descriptor


@cache
def _warn_without_locks(directory: Path) -> None:
    _log.warning(
        "%s is on a file system without locks: let only one process at a time write there",
        directory,
    )


@contextmanager
def _translated_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = f"{error.filename or path} cannot be written: {error.strerror}"
        if error.errno in RETRY_HINTS:
            hint = f"{RETRY_HINTS[error.errno]}, then run the same command again to resume"
            raise OutOfResource(problem, hint=hint) from error
        refuse_obstacle(path)
        hint = f"make it a writable directory, or name another with {option('out')}"
        raise RunDirectoryError(problem, hint=hint) from error
