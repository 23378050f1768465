"""Read `run.sqlite`, which may be foreign or damaged.

A foreign file cannot run code (SQLite's documentation, "Defense Against The Dark Arts"), and a
rollback journal is refused, because a crafted one deletes a file of its choice.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from localjudge.errors import RunDirectoryError
from localjudge.run_directory.directory import (
    BY_HAND,
    MAX_BYTES,
    MAX_VALUE_BYTES,
    excerpt,
    first_problem,
    refuse_irregular,
    too_much,
)
from localjudge.run_directory.store_tables import VERSION
from localjudge.types import Answer, NoAnswer

_NAMED_AT_ONCE = 500
DAMAGED = (sqlite3.Error, UnicodeDecodeError)
"""Exceptions of SQLite for a damaged file."""
_Value = TypeVar("_Value")
_adapter: Callable[[Any], TypeAdapter[Any]] = lru_cache(TypeAdapter)


class AskedUnit(NamedTuple):
    """A unit of a run, asked of one of its judges."""

    sample_id: str
    metric: str
    position: int
    judge: int


class AskedWindow(NamedTuple):
    """A window of a unit with the key of its request, and None without an answer."""

    number: int
    key: str
    answer: Answer | NoAnswer | None


class Reader:
    """Typed reader of an open database."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._path = path
        self._connection = connection

    def rows(
        self, kind: type[_Value], query: str, parameters: Sequence[Any] = ()
    ) -> Iterator[_Value]:
        for row in self._connection.execute(query, parameters):
            yield _checked(kind, row, self._path)

    def rows_named(self, kind: type[_Value], query: str, names: Iterable[str]) -> Iterator[_Value]:
        """Yield the rows of a query that ends in `IN`, for these names."""
        rest = iter(names)
        while batch := list(islice(rest, _NAMED_AT_ONCE)):
            places = ", ".join("?" * len(batch))
            yield from self.rows(kind, f"{query} ({places})", batch)

    def answers_by(self, keys: Iterable[str]) -> dict[str, Answer | NoAnswer]:
        answers: dict[str, Answer | NoAnswer] = {}
        query = (
            "SELECT key, p_yes, valid_mass, raw, reason, error FROM answer"
            " JOIN request ON request = id WHERE key IN"
        )
        rows = self.rows_named(
            tuple[str, float | None, float | None, str | None, str | None, str | None],
            query,
            keys,
        )
        for key, p_yes, mass, raw, reason, error in rows:
            if error is None:
                answer = {"p_yes": p_yes, "valid_mass": mass, "raw": raw, "reason": reason}
                answers[key] = _checked(Answer, answer, self._path)
            else:
                answers[key] = _checked(NoAnswer, {"error": error, "valid_mass": mass}, self._path)
        return answers


def answers_about(reader: Reader, samples: Iterable[str]) -> dict[AskedUnit, list[AskedWindow]]:
    """Return the windows of each unit of these samples, with the answers so far."""
    query = (
        "SELECT sample_id, metric, position, judge, window, key"
        " FROM unit JOIN request ON id = request WHERE sample_id IN"
    )
    rows = sorted(reader.rows_named(tuple[str, str, int, int, int, str], query, samples))
    answers = reader.answers_by(dict.fromkeys(key for *_, key in rows))
    windows_by_unit: dict[AskedUnit, list[AskedWindow]] = {}
    for sample_id, metric, position, judge, number, key in rows:
        unit = AskedUnit(sample_id, metric, position, judge)
        window = AskedWindow(number, key, answers.get(key))
        windows_by_unit.setdefault(unit, []).append(window)
    return windows_by_unit


def checked_json(kind: type[_Value], text: str, path: Path) -> _Value:
    return _checked(kind, text, path, is_json=True)


def _checked(kind: type[_Value], value: Any, path: Path, *, is_json: bool = False) -> _Value:
    adapter: TypeAdapter[_Value] = _adapter(kind)
    try:
        if is_json:
            return adapter.validate_json(value, strict=True)
        return adapter.validate_python(value, strict=True)
    except ValidationError as error:
        message = f"{path} has invalid content: {first_problem(error)}"
        raise RunDirectoryError(message, hint=BY_HAND) from error


@contextmanager
def reading(path: Path) -> Iterator[Reader]:
    """Open the store for reading. Raises RunDirectoryError for a foreign or damaged file."""
    refuse_strange_files(path)
    # A file that no process is writing is opened as immutable, also on a read-only disk.
    written_now = path.with_name(f"{path.name}-wal").exists()
    address = f"{path.absolute().as_uri()}?mode=ro"
    if not written_now:
        address += "&immutable=1"
    state = _file_state(path)
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            guard(connection)
            connection.execute("PRAGMA query_only = ON")
            check_version(connection, path)
            yield Reader(connection, path)
            if not written_now:
                _refuse_changed(path, state)
    except DAMAGED as error:
        if not written_now:
            _refuse_changed(path, state)
        hint = "is it a run directory?"
        raise RunDirectoryError(f"{path} cannot be read: {excerpt(error)}", hint=hint) from error


def _file_state(path: Path) -> tuple[int, int] | None:
    """Return the size and the time of the last change, or None without the file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _refuse_changed(path: Path, state: tuple[int, int] | None) -> None:
    """Raise RunDirectoryError if a process wrote after the file was opened as immutable."""
    if _file_state(path) != state:
        problem = f"{path} was changed by another process while it was read"
        raise RunDirectoryError(problem, hint="repeat the command when the other process is done")


def refuse_strange_files(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        refuse_irregular(path.with_name(path.name + suffix))
    journal = path.with_name(f"{path.name}-journal")
    if os.path.lexists(journal):
        hint = "remove it if you know its origin"
        raise RunDirectoryError(f"{journal} is not a file of localjudge", hint=hint)
    if path.exists() and path.stat().st_size > MAX_BYTES:
        raise too_much(path, f"{MAX_BYTES >> 30} GiB")


def guard(connection: sqlite3.Connection) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {setting}")


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        raise RunDirectoryError(
            f"{path} has schema version {version}, expected {VERSION}",
            hint="read it with the version of localjudge that wrote it",
        )
