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
    """A window of a unit with the key of its request, and None without an answer.

    `number` counts the parts of a long input from 0. It is None for a whole input.
    """

    number: int | None
    key: str
    answer: Answer | NoAnswer | None = None


def select(
    connection: sqlite3.Connection,
    kind: type[_Value],
    query: str,
    parameters: Sequence[Any] = (),
) -> Iterator[_Value]:
    """Yield the rows of a query. Raises ValidationError for a row of another kind."""
    adapter: TypeAdapter[_Value] = _adapter(kind)
    for row in connection.execute(query, parameters):
        yield adapter.validate_python(row, strict=True)


def select_named(
    connection: sqlite3.Connection, kind: type[_Value], query: str, names: Iterable[str]
) -> Iterator[_Value]:
    """Yield the rows of a query that ends in `IN`, for these names."""
    rest = iter(names)
    while batch := list(islice(rest, _NAMED_AT_ONCE)):
        places = ", ".join("?" * len(batch))
        yield from select(connection, kind, f"{query} ({places})", batch)


def select_answers(
    connection: sqlite3.Connection, keys: Iterable[str]
) -> dict[str, Answer | NoAnswer]:
    """Return the answers to these requests, by key. Raises ValidationError for an invalid one."""
    query = (
        "SELECT key, p_yes, valid_mass, raw, reason, error FROM answer"
        " JOIN request ON request = id WHERE key IN"
    )
    rows = select_named(
        connection,
        tuple[str, float | None, float | None, str | None, str | None, str | None],
        query,
        keys,
    )
    answers: dict[str, Answer | NoAnswer] = {}
    for key, p_yes, mass, raw, reason, error in rows:
        if error is None:
            answer = {"p_yes": p_yes, "valid_mass": mass, "raw": raw, "reason": reason}
            answers[key] = Answer.model_validate(answer, strict=True)
        else:
            no_answer = {"error": error, "valid_mass": mass}
            answers[key] = NoAnswer.model_validate(no_answer, strict=True)
    return answers


def select_windows(
    connection: sqlite3.Connection, samples: Iterable[str]
) -> dict[AskedUnit, list[AskedWindow]]:
    """Return the windows of each unit of these samples, with the answers so far.

    Raises ValidationError for an invalid row.
    """
    query = (
        "SELECT sample_id, metric, position, judge, window, key"
        " FROM unit JOIN request ON id = request WHERE sample_id IN"
    )
    rows = sorted(select_named(connection, tuple[str, str, int, int, int, str], query, samples))
    answers = select_answers(connection, dict.fromkeys(key for *_, key in rows))
    windows_by_unit: dict[AskedUnit, list[AskedWindow]] = {}
    for sample_id, metric, position, judge, stored_number, key in rows:
        unit = AskedUnit(sample_id, metric, position, judge)
        number = None
        if stored_number:
            number = stored_number - 1
        window = AskedWindow(number, key, answers.get(key))
        windows_by_unit.setdefault(unit, []).append(window)
    return windows_by_unit


def parse_json(kind: type[_Value], text: str, path: Path) -> _Value:
    """Return the JSON value of a cell. Raises RunDirectoryError if it is of another kind."""
    adapter: TypeAdapter[_Value] = _adapter(kind)
    try:
        return adapter.validate_json(text, strict=True)
    except ValidationError as error:
        raise invalid_content(path, error) from error


def invalid_content(path: Path, error: ValidationError) -> RunDirectoryError:
    return RunDirectoryError(f"{path} has invalid content: {first_problem(error)}", hint=BY_HAND)


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
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
            yield connection
            if not written_now:
                _refuse_changed(path, state)
    except ValidationError as error:
        raise invalid_content(path, error) from error
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
