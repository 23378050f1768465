"""Every error that localjudge raises on purpose.

    LocaljudgeError
    ├── InputError        the request cannot be met as it stands; nothing was judged      (exit 1)
    │   ├── DataError     a data file or row is not what it should be
    │   ├── ModelError    a judge's model cannot be found, read or used
    │   └── RunDirectoryError  a run directory belongs to something else or is in use
    ├── SampleError       one sample cannot be scored: becomes a `Failed` record, never a number
    └── OutOfResource     disk, memory or time ran out: run the same command again to go on (exit 4)

Each says what is wrong and where, and carries a `hint`: what to do about it. Anything else that escapes is a bug.
"""

import errno
from pathlib import Path

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Numbers of the system's errors that mean a full disk, a used-up quota or a file-size limit."""
RETRY_HINTS = {**dict.fromkeys(NO_ROOM, "make room"), errno.EIO: "look at the disk", errno.ENOMEM: "free memory"}
"""What to do about an error of the system before the same command is run again."""


class LocaljudgeError(Exception):
    """What went wrong and where, in `message`; `hint` says what to do about it."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def in_one_line(self) -> str:
        """What went wrong and what to do, as the reason of a failure."""
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class InputError(LocaljudgeError):
    """The request cannot be met as it stands; nothing was judged."""


class DataError(InputError):
    """A data file or row is not what it should be."""


class ModelError(InputError):
    """A judge's model cannot be found, read or used."""


class RunDirectoryError(InputError):
    """A run directory belongs to something else, or another process is writing it."""


class UnfinishedRun(RunDirectoryError):
    """The run in the directory has not come to its end, and can be resumed."""

    def __init__(self, directory: Path, message: str) -> None:
        super().__init__(message, hint="run the command that began it again to go on")
        self.directory = directory


class SampleError(LocaljudgeError):
    """One sample cannot be scored: the run layer records it as `Failed`."""


class OutOfResource(LocaljudgeError):
    """Disk, memory or time ran out; everything answered so far is stored."""
