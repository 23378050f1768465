"""All errors that localjudge raises deliberately.

    LocaljudgeError
    ├── InputError        the request cannot be met; no sample was judged                  (exit 1)
    │   ├── ArgumentTypeError   an argument is unknown or of a wrong type; a TypeError, too
    │   ├── ArgumentValueError  an argument has an unusable value; a ValueError, too
    │   ├── DataError     a data file or row is invalid
    │   ├── ModelError    a judge's model cannot be found, read or used
    │   └── RunDirectoryError  a run directory belongs to another run or is in use
    │       ├── MissingRun     it holds no run; a FileNotFoundError, too
    │       └── UnfinishedRun  its run can be resumed
    ├── SampleError       one sample cannot be scored: becomes a `Failed` record, never a number
    └── OutOfResource     disk, memory or time ran out: repeat the same command to resume (exit 4)

Each states the problem and its place, and has a `hint` with the next step. Any other exception is a bug.
"""

import errno
from pathlib import Path

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""System error numbers of a full disk, an exhausted quota or a file-size limit."""
RETRY_HINTS = {**dict.fromkeys(NO_ROOM, "make room"), errno.EIO: "look at the disk", errno.ENOMEM: "free memory"}
"""Advice for system errors before repeating the command."""


class LocaljudgeError(Exception):
    """An error with its `message` and a `hint` for the next step."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def in_one_line(self) -> str:
        """Message and hint in one line, as the reason of a failure."""
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class InputError(LocaljudgeError):
    """The request cannot be met; no sample was judged."""


class ArgumentTypeError(InputError, TypeError):
    """An argument is unknown or of a wrong type."""


class ArgumentValueError(InputError, ValueError):
    """An argument has an unusable value. Never raised in validators of pydantic, which convert a ValueError."""


class DataError(InputError):
    """A data file or row is invalid."""


class ModelError(InputError):
    """A judge's model cannot be found, read or used."""


class RunDirectoryError(InputError):
    """A run directory belongs to another run, or another process is writing it."""


class MissingRun(RunDirectoryError, FileNotFoundError):
    """The directory holds no run."""


class UnfinishedRun(RunDirectoryError):
    """The run in the directory is incomplete and can be resumed."""

    def __init__(self, directory: Path, message: str) -> None:
        super().__init__(message, hint="run the command that began it again to go on")
        self.directory = directory


class SampleError(LocaljudgeError):
    """One sample cannot be scored and is recorded as `Failed`."""


class OutOfResource(LocaljudgeError):
    """Disk, memory or time ran out; all answers so far are stored."""
