"""Writes a file as a whole, for its owner alone: the one way for every file that is not written piece by piece.

A run's result files, which an interrupted run continues, are parts in its locked directory (`record/directory.py`).
"""

import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from localjudge.errors import RETRY_HINTS, OutOfResource, UsageError

_DEVICES = Path("/dev")


def write_whole(file: Path, parts: Iterable[bytes], *, durable: bool = True) -> int:
    """Replace the file by all parts or leave it as it was; mode 0600 whatever the umask. Returns the number of bytes.

    A link is replaced and not followed; a device or pipe is written through. One that is not `durable` may be lost when
    the machine loses power. Raises OSError.
    """
    if _is_stream(file):
        with file.open("wb") as stream:
            return sum(map(stream.write, parts))
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name[:64]}.", suffix=".part")
    fresh = Path(name)
    try:
        with open(descriptor, "wb") as writer:
            size = sum(map(writer.write, parts))
            if durable:
                writer.flush()
                os.fsync(descriptor)
        fresh.replace(file)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    return size


def write_output(file: Path, parts: Iterable[bytes]) -> int:
    """The same for a file that the user named. Raises UsageError, or OutOfResource where there is no room."""
    try:
        return write_whole(file, parts)
    except OSError as error:
        problem = f"{file} cannot be written: {error.strerror or error}"
        if error.errno in RETRY_HINTS:
            raise OutOfResource(problem, hint=f"{RETRY_HINTS[error.errno]}, then run the same command again") from error
        raise UsageError(problem, hint="name another file") from error


def _is_stream(file: Path) -> bool:
    """Whether it is `/dev/stdout`, a pipe of the shell (`>(gzip)`), or the like: what cannot be replaced."""
    if _DEVICES in file.absolute().parents:
        return True
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
