"""Write in a run directory, which is private, and locked by one process.

    run.lock         advisory lock of the writing process
    NAME.part        rows written so far, which others may read; renamed to NAME at the end
    .NAME.*.part     another file being written

Problems of the disk raise OutOfResource, and an unusable directory RunDirectoryError.
"""

import hashlib
import logging
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from time import monotonic, sleep

from localjudge.errors import RETRY_HINTS, OutOfResource, RunDirectoryError
from localjudge.resources import OPEN_SAFELY, part_names, replace_file, replace_whole, try_lock
from localjudge.run_directory.directory import LOCK, MANIFEST, part_path, refuse_irregular
from localjudge.words import option

_POLL_SECONDS = 0.01
_PATIENCE_SECONDS = 1
_log = logging.getLogger(__name__)


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
    with _translated_errors(path):
        if path.is_dir():
            _refuse_other_content(path)
        if (path / LOCK).exists():
            os.close(_locked(path / LOCK))


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
        hint = f"make it a writable directory, or name another with {option('out')}"
        raise RunDirectoryError(problem, hint=hint) from error
