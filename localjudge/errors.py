"""All errors that localjudge raises deliberately.

    LocaljudgeError
    ├── InputError        the request cannot be met; no sample was judged                  (exit 1)
    │   ├── ArgumentTypeError, ArgumentValueError   also a TypeError or ValueError
    │   ├── DataError, ModelError
    │   └── RunDirectoryError
    │       ├── ChangedFile
    │       ├── MissingRun     also a FileNotFoundError
    │       └── UnfinishedRun
    ├── SampleError       one sample cannot be scored: becomes a `Failed` record, never a number
    └── OutOfResource     disk, memory or time ran out: repeat the same command to resume (exit 4)

Any other exception is a bug.
"""

import errno
from pathlib import Path

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""A full disk, an exhausted quota, a file-size limit."""
RETRY_HINTS = {
    **dict.fromkeys(NO_ROOM, "free disk space"),
    errno.EIO: "check the disk",
    errno.ENOMEM: "free memory",
}
"""What to do before the same command is repeated."""


class LocaljudgeError(Exception):
    """An error: `message` states the problem and its place, `hint` the next step."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def in_one_line(self) -> str:
        if not self.hint:
            return self.message
        return f"{self.message} ({self.hint})"

    def __str__(self) -> str:
        if not self.hint:
            return self.message
        return f"{self.message}\n  hint: {self.hint}"


class InputError(LocaljudgeError):
    """The request cannot be met; no sample was judged."""


class ArgumentTypeError(InputError, TypeError):
    """An argument is unknown or of a wrong type."""


class ArgumentValueError(InputError, ValueError):
    """An argument has an unusable value.

    Not for validators of pydantic, which swallow a ValueError.
    """


class DataError(InputError):
    """A data file or row is invalid."""


class ModelError(InputError):
    """A judge's model cannot be found, read or used."""


class RunDirectoryError(InputError):
    """A run directory belongs to another run or is in use."""


class MissingRun(RunDirectoryError, FileNotFoundError):
    """The directory holds no run."""


class ChangedFile(RunDirectoryError):
    """A `file` of a run has another sha256 than in its manifest."""

    def __init__(self, path: Path, hint: str) -> None:
        super().__init__(
            f"{path} was changed: its sha256 differs from manifest.json",
            hint=hint,
        )
        self.file = path.name


class UnfinishedRun(RunDirectoryError):
    """The run can be resumed."""

    def __init__(self, directory: Path, message: str) -> None:
        super().__init__(message, hint="repeat the command that started it to resume")
        self.directory = directory


class SampleError(LocaljudgeError):
    """One sample cannot be scored."""


class OutOfResource(LocaljudgeError):
    """Disk, memory or time ran out; all answers are stored."""
