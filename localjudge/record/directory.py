"""A run's directory on disk: private, held by one process at a time, no file ever half there; read as a stranger's.

    run.lock        held by the process that is writing (an advisory lock: it goes when the process goes)
    NAME.part       a file being written; renamed to NAME once it is whole and on the disk

    bound           every file is a regular file and no link, 64 GiB; manifest.json and summary.json 16 MiB;
                    a row of the others, and a value of run.sqlite, 64 MiB

What is beyond a bound, not JSON, or not of the shape that localjudge writes is a RunDirectoryError of one line; so is a
number that is not finite. A link leads out of the directory: a run that is passed on could show the files of whoever
opens it, or be written through. The directory itself may be named by a link, since whoever opens it says where it is.
"""

import hashlib
import json
import math
import os
import stat
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from filelock import lock_descriptor
from pydantic import BaseModel, TypeAdapter, ValidationError

from localjudge.dataset.problems import reason, unique_keys
from localjudge.errors import RETRY_HINTS, OutOfResource, RunDirectoryError
from localjudge.resources import OPEN_SAFELY
from localjudge.words import option, printable

MOST_BYTES = 64 << 30
MOST_BYTES_OF_OBJECT = 16 << 20
MOST_BYTES_OF_VALUE = 64 << 20
BY_HAND = "was it changed by hand?"
WRITE_ANEW = "run the same command again to write it anew"

_SHOWN = 200
_BEHIND_LOCK = 1
"""Windows lets nobody else read the first byte of a locked file."""
_Model = TypeVar("_Model", bound=BaseModel)
_Row = TypeVar("_Row")


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading. Raises RunDirectoryError for anything else, and never waits for a writer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | OPEN_SAFELY)
    except OSError as error:
        if path.is_symlink() or path.exists():
            refuse_irregular(path)
        raise RunDirectoryError(f"{path} cannot be read: {error.strerror}", hint=WRITE_ANEW) from error
    facts = os.fstat(descriptor)
    if stat.S_ISREG(facts.st_mode) and facts.st_size <= MOST_BYTES:
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise _not_regular(path) if not stat.S_ISREG(facts.st_mode) else too_much(path, f"{MOST_BYTES >> 30} GiB")


def refuse_irregular(path: Path) -> None:
    """Raise RunDirectoryError if there is something at the path that is not a regular file; a link is none."""
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        raise _not_regular(path)


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object that a file holds. Raises RunDirectoryError if it holds anything else, or too much."""
    with open_regular(path) as file:
        content = file.read(MOST_BYTES_OF_OBJECT + 1)
    if len(content) > MOST_BYTES_OF_OBJECT:
        raise too_much(path, f"{MOST_BYTES_OF_OBJECT >> 20} MiB")
    return decoded_object(content, path)


def decoded_object(content: bytes | str, where: Path) -> dict[str, Any]:
    """The JSON object that is written there. Raises RunDirectoryError if something else is."""
    try:
        value = _DECODER.decode(content.decode("utf-8") if isinstance(content, bytes) else content)
    except (ValueError, RecursionError) as error:
        raise RunDirectoryError(f"{where} cannot be read: {excerpt(reason(error))}", hint=BY_HAND) from error
    if not isinstance(value, dict):
        raise RunDirectoryError(f"{where} cannot be read: it is not a JSON object", hint=BY_HAND)
    return value


def read_rows(path: Path, kind: TypeAdapter[_Row]) -> Iterator[_Row]:
    """The rows of a JSONL file, one by one. Raises RunDirectoryError for the first that is not of the kind."""
    return (row for _, row in placed_rows(path, kind))


def placed_rows(
    path: Path, kind: TypeAdapter[_Row], start: int = 0, end: int = MOST_BYTES
) -> Generator[tuple[int, _Row], None, None]:
    """The rows with the places where they begin, from such a place on up to another. Raises as `read_rows` does."""
    with open_regular(path) as file:
        file.seek(start)
        place, number = start, 0
        while line := file.readline(min(MOST_BYTES_OF_VALUE + 1, end - place)):
            number += 1
            if len(line) > MOST_BYTES_OF_VALUE:
                raise too_much(f"{path}:{number}", f"{MOST_BYTES_OF_VALUE >> 20} MiB in a row")
            try:
                row = kind.validate_json(line, strict=True)
            except ValidationError as error:
                message = f"{path}:{number} is not a row that localjudge writes: {first_problem(error)}"
                raise RunDirectoryError(message, hint=WRITE_ANEW) from error
            yield place, row
            place += len(line)


def validated(kind: type[_Model], value: Any, where: str) -> _Model:
    """The value as a record of the kind. Raises RunDirectoryError that names the first field that cannot be."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise RunDirectoryError(f"{where} cannot be read: {first_problem(error)}", hint=BY_HAND) from error


def too_much(where: Path | str, bound: str) -> RunDirectoryError:
    """The error for what is larger than anything that localjudge reads."""
    return RunDirectoryError(f"{where} holds more than localjudge reads ({bound})", hint="is it the file of a run?")


def first_problem(error: ValidationError) -> str:
    """The first thing that is wrong with a value, in one line: `metrics.faithfulness.mean: Input should be ...`."""
    problem = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, problem["loc"]))
    return excerpt(f"{place}: {problem['msg']}" if place else problem["msg"])


def excerpt(value: object) -> str:
    """A value from a file, safe to print and not longer than a message should be."""
    text = str(value)
    return printable(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _not_regular(path: Path) -> RunDirectoryError:
    kind = "a link" if path.is_symlink() else "not a regular file"
    return RunDirectoryError(f"{path} is {kind}", hint="a run consists of regular files: copy the files themselves")


def _finite(digits: str) -> float:
    """The number that the digits, or one of JSON's constants, stand for. Raises ValueError unless it is finite."""
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"{excerpt(digits)} is {'too large for' if digits[-1].isdigit() else 'not'} a number")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_finite, parse_float=_finite)


MANIFEST = "manifest.json"
STORE = "run.sqlite"
_LOCK = "run.lock"
_PART = ".part"
_AT_ONCE = 1 << 20


class Written(NamedTuple):
    """What is written of a file: bytes, and their sha256."""

    size: int
    sha256: str


class RunDirectory:
    """A directory made if it is not there and locked for this process; close it to let others in.

    Raises RunDirectoryError if it cannot be written, is held by another process or holds something other than a run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if os.path.lexists(path) and not path.is_dir():
            raise RunDirectoryError(f"{path} is not a directory", hint=f"name another with {option('out')}")
        with _translated(path):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            names = {entry.name for entry in path.iterdir()}
            if MANIFEST not in names and names - {_LOCK, f"{MANIFEST}{_PART}"}:
                hint = f"name another directory with {option('out')}"
                raise RunDirectoryError(f"{path} is not empty and holds no run", hint=hint)
            self._lock = _locked(path / _LOCK)

    def write(self, name: str, pieces: Iterable[str], *, durable: bool = True) -> None:
        """Replace the file `name` as a whole: readers see the old one or the new one.

        One that is not `durable` may be lost or half there when the machine itself loses power.
        """
        with closing(self.part(name)) as part:
            part.write(pieces)
            part.finish(durable=durable)

    def part(self, name: str) -> "PartFile":
        """Begin to write the file `name` anew."""
        path = part_path(self.path / name)
        with _translated(self.path):
            path.unlink(missing_ok=True)
            return PartFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | OPEN_SAFELY, 0o600))

    def part_after(self, name: str, written: Written) -> "PartFile | None":
        """Go on with the part of `name` after what was written; None if it is not there, or not what was written."""
        path = part_path(self.path / name)
        with _translated(self.path), ExitStack() as undo:
            descriptor = _own_file(path)
            if descriptor is None:
                return None
            part = undo.enter_context(closing(PartFile(path, descriptor)))
            if not part.skip(written):
                return None
            undo.pop_all()
            return part

    def remove(self, name: str) -> None:
        """Remove the file `name` if it is there."""
        with _translated(self.path):
            (self.path / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Let other processes in."""
        os.close(self._lock)


def part_path(file: Path) -> Path:
    """Where a file is as long as it is not whole."""
    return file.with_name(f"{file.name}{_PART}")


def starts_with(path: Path, written: Written) -> bool:
    """Whether a regular file begins with what was written. Raises RunDirectoryError if it cannot be read."""
    sha256, left = hashlib.sha256(), written.size
    with open_regular(path) as file:
        while left > 0 and (content := file.read(min(_AT_ONCE, left))):
            sha256.update(content)
            left -= len(content)
    return left == 0 and sha256.hexdigest() == written.sha256


class PartFile:
    """A file that is written piece by piece, and takes its name when it is finished: until then the old one stays."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._file = os.fdopen(descriptor, "r+b")
        self._sha256 = hashlib.sha256()
        self._size = 0

    def skip(self, written: Written) -> bool:
        """Keep so much of what is there, and write on after it; False if there is something else."""
        with _translated(self._path.parent):
            while content := self._file.read(min(_AT_ONCE, written.size - self._size)):
                self._count(content)
            if self.written != written:
                return False
            self._file.truncate(written.size)
        return True

    def write(self, pieces: Iterable[str]) -> None:
        """Write some more."""
        with _translated(self._path.parent):
            for piece in pieces:
                content = piece.encode()
                self._file.write(content)
                self._count(content)

    @property
    def written(self) -> Written:
        """What there is so far, handed to the system: a process that ends from here on leaves it behind."""
        with _translated(self._path.parent):
            self._file.flush()
        return Written(self._size, self._sha256.hexdigest())

    def finish(self, *, durable: bool = True) -> None:
        """Replace the file of that name by what was written, once that is on the disk."""
        with _translated(self._path.parent):
            self._file.flush()
            if durable:
                os.fsync(self._file.fileno())
            self._file.close()  # Windows renames no open file
            self._path.replace(self._path.with_name(self._path.name.removesuffix(_PART)))
            if durable and sys.platform != "win32":  # Windows opens no directory, and need not
                descriptor = os.open(self._path.parent, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def close(self) -> None:
        """Write no more. What was not finished stays a part, for the next writing to replace or to go on with."""
        with _translated(self._path.parent):
            self._file.close()

    def _count(self, content: bytes) -> None:
        self._sha256.update(content)
        self._size += len(content)


def _own_file(path: Path) -> int | None:
    """Descriptor of a regular file that has this name alone; None if there is none: a link leads to another's file."""
    try:
        descriptor = os.open(path, os.O_RDWR | OPEN_SAFELY)
    except OSError:
        return None
    facts = os.fstat(descriptor)
    if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    return None


def _locked(path: Path) -> int:
    """Descriptor of the lock file, locked. It holds the number of the process, for whoever is refused."""
    refuse_irregular(path)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | OPEN_SAFELY, 0o600)
    if not lock_descriptor(descriptor, blocking=False):
        os.lseek(descriptor, _BEHIND_LOCK, os.SEEK_SET)
        holder = os.read(descriptor, 32).decode(errors="replace").strip()
        os.close(descriptor)
        raise RunDirectoryError(
            f"{path.parent} is being written by another process ({holder or 'unknown'})",
            hint=f"wait until it is done, or name another directory with {option('out')}",
        )
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"\nprocess {os.getpid()}\n".encode())
    return descriptor


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in RETRY_HINTS:
            raise OutOfResource(
                f"{path} cannot be written: {error.strerror}",
                hint=f"{RETRY_HINTS[error.errno]}, then run the same command again to go on",
            ) from error
        raise RunDirectoryError(
            f"{error.filename or path} cannot be written: {error.strerror}",
            hint=f"make it a writable directory, or name another with {option('out')}",
        ) from error
