"""A run's directory on disk: private, held by one process at a time, and written so that no file is ever half there.

run.lock        held by the process that is writing (an advisory lock: it goes when the process goes)
NAME.part       a file being written; renamed to NAME once it is whole and on the disk

The directory may have been prepared by a stranger: what is written through is a new file or the lock, never a link.
"""

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from localjudge.errors import OutOfResource, RunDirectoryError
from localjudge.option_spelling import option
from localjudge.record.untrusted import refuse_irregular

MANIFEST = "manifest.json"
STORE = "run.sqlite"
_LOCK = "run.lock"
_PART = ".part"
_PRIVATE = 0o700
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOMEM}


class RunDirectory:
    """A directory made if it is not there and locked for this process; close it to let others in.

    Raises RunDirectoryError if it cannot be written, is held by another process or holds something other than a run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if os.path.lexists(path) and not path.is_dir():
            raise RunDirectoryError(f"{path} is not a directory", hint=f"name another with {option('out')}")
        with _translated(path):
            path.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            self._refuse_foreign()
            self._lock = _locked(path / _LOCK)

    def write(self, name: str, pieces: Iterable[str]) -> None:
        """Replace the file `name` as a whole: readers see the old one or the new one."""
        with closing(self.part(name)) as part:
            part.write(pieces)
            part.finish()

    def part(self, name: str) -> "PartFile":
        """Begin to write the file `name` anew."""
        return PartFile(self.path, name)

    def close(self) -> None:
        """Let other processes in."""
        os.close(self._lock)

    def _refuse_foreign(self) -> None:
        names = {entry.name for entry in self.path.iterdir()}
        if MANIFEST not in names and names - {_LOCK, f"{MANIFEST}{_PART}"}:
            raise RunDirectoryError(
                f"{self.path} is not empty and holds no run", hint=f"name another directory with {option('out')}"
            )


class PartFile:
    """A file that is written piece by piece, and takes its name when it is finished: until then the old one stays."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name
        self._part = directory / f"{name}{_PART}"
        with _translated(directory):
            self._part.unlink(missing_ok=True)
            self._file = open(self._part, "x", encoding="utf-8", newline="\n", opener=_private)  # noqa: SIM115 -- `close`

    def write(self, pieces: Iterable[str]) -> None:
        """Write some more."""
        with _translated(self._directory):
            self._file.writelines(pieces)

    def finish(self) -> None:
        """Replace the file of that name by what was written, once that is on the disk."""
        with _translated(self._directory):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._part.replace(self._directory / self._name)
            _sync_directory(self._directory)

    def close(self) -> None:
        """Write no more. What was not finished stays a part, which the next writing replaces."""
        with _translated(self._directory):
            self._file.close()


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner can read, whatever directory it is in."""
    return os.open(path, flags, 0o600)


def _locked(path: Path) -> int:
    """Descriptor of the lock file, locked. It holds the number of the process, for whoever is refused."""
    refuse_irregular(path)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(descriptor, 32).decode(errors="replace").strip()
        os.close(descriptor)
        raise RunDirectoryError(
            f"{path.parent} is being written by another process ({holder or 'unknown'})",
            hint=f"wait until it is done, or name another directory with {option('out')}",
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()}\n".encode(), 0)
    return descriptor


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise OutOfResource(
                f"{path} cannot be written: {error.strerror}",
                hint="make room, then run the same command again to go on",
            ) from error
        raise RunDirectoryError(
            f"{error.filename or path} cannot be written: {error.strerror}",
            hint=f"make it a writable directory, or name another with {option('out')}",
        ) from error
