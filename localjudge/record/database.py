"""Opens `run.sqlite` so that a file that a stranger made can neither run anything nor go on for ever.

    files     run.sqlite and its write-ahead log are regular files, and there is no rollback journal beside them
    tables    those that are read are, word for word, the ones that localjudge creates: no view, no virtual table, no
              computed column; a run that is gone on with holds nothing else, so no trigger either
    values    64 MiB at most
    amount    what comes out of a file is not more than the file: pages that point to each other can promise any number
              of rows
    time      a minute, and a second more for each MiB

Whatever is beyond a bound is a RunDirectoryError of one line. Source of the settings: SQLite's documentation, "Defense
Against The Dark Arts". A journal is refused because a crafted one makes SQLite delete a file that it names; localjudge
leaves none, since a new file gets its write-ahead log before anything is written.
"""

import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from localjudge.errors import RunDirectoryError
from localjudge.record.untrusted import (
    BY_HAND,
    MOST_BYTES,
    MOST_BYTES_OF_VALUE,
    first_problem,
    refuse_irregular,
    shown,
    too_much,
)

SECONDS = 60.0
DAMAGED = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises for a file that is not whole: its own message may hold bytes of it."""
_BYTES_A_SECOND = 1 << 20
_STEPS = 100_000
_Value = TypeVar("_Value")

Tables = Mapping[str, str]
"""The statement that creates each table, view, trigger or index, by its name."""


def refuse_strange_files(path: Path) -> None:
    """Raise RunDirectoryError if the database, or what SQLite would read beside it, is not what localjudge leaves."""
    for beside in ("", "-wal", "-shm"):
        refuse_irregular(path.with_name(path.name + beside))
    journal = path.with_name(f"{path.name}-journal")
    if os.path.lexists(journal):
        raise RunDirectoryError(
            f"{journal} is not a file of localjudge", hint="remove it, if you know where it is from"
        )
    if path.exists() and path.stat().st_size > MOST_BYTES:
        raise too_much(path, f"{MOST_BYTES >> 30} GiB")


def guard(connection: sqlite3.Connection) -> None:
    """Trust nothing in the schema of a database, and no value beyond the bound."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES_OF_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {setting}")


@contextmanager
def read_only(path: Path, versions: Mapping[int, Tables]) -> Iterator["Reader"]:
    """The database for as long as it is read; `versions` has the tables of each version that can be.

    Raises RunDirectoryError where it is not what localjudge writes.
    """
    refuse_strange_files(path)
    # A file that nobody writes is opened as immutable: that works on a read-only disk, too.
    written_now = path.with_name(f"{path.name}-wal").exists()
    mode = "mode=ro" if written_now else "mode=ro&immutable=1"
    try:
        opened = closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True))
        with opened as connection, bounded(connection, path):
            guard(connection)
            connection.execute("PRAGMA query_only = ON")
            reader = Reader(connection, path)
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found not in versions:
                raise RunDirectoryError(
                    f"{path} has schema version {found}, this localjudge reads {max(versions)}",
                    hint="read it with the version of localjudge that wrote it",
                )
            there, tables = reader.schema(), versions[found]
            refuse_other_tables(path, {name: there.get(name) for name in tables}, tables)
            reader.version = found
            yield reader
    except DAMAGED as error:
        raise RunDirectoryError(
            f"{path} cannot be read: {shown(error)}", hint="is it the directory of a run?"
        ) from error


@contextmanager
def bounded(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Interrupt what takes longer than any reading of a file of that size."""
    latest = _latest(path)
    connection.set_progress_handler(lambda: time.monotonic() > latest, _STEPS)
    try:
        yield
    except sqlite3.OperationalError as error:
        if time.monotonic() > latest:
            raise _too_long(path) from error
        raise
    finally:
        connection.set_progress_handler(None, _STEPS)


def refuse_other_tables(path: Path, found: Mapping[str, str | None], expected: Tables) -> None:
    """Raise RunDirectoryError unless both are the same."""
    for name in [*expected, *found]:
        if found.get(name) != expected.get(name):
            raise RunDirectoryError(f"{path}: {shown(name)} is not as localjudge creates it", hint=BY_HAND)


class Reader:
    """Rows of an open database, in all not more than its file can hold, and not for longer than it may take."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.path = path
        self.version = 0
        """Of the schema, once that is known."""
        self._connection = connection
        self._latest = _latest(path)
        self._left = _size(path)

    def schema(self) -> Tables:
        """All that the database says it holds."""
        return dict(self._rows("SELECT name, coalesce(sql, '') FROM sqlite_master"))

    def rows(self, kind: TypeAdapter[_Value], query: str, parameters: Sequence[Any] = ()) -> Iterator[_Value]:
        """Each row of the answer, of the kind. Raises RunDirectoryError for one that is not."""
        for row in self._rows(query, parameters):
            yield self.checked(kind, row)

    def checked(self, kind: TypeAdapter[_Value], value: Any) -> _Value:
        """The value, of the kind."""
        try:
            return kind.validate_python(value, strict=True)
        except ValidationError as error:
            raise self._not_ours(error) from error

    def json(self, kind: TypeAdapter[_Value], text: str) -> _Value:
        """The value that a column holds as JSON, of the kind."""
        try:
            return kind.validate_json(text, strict=True)
        except ValidationError as error:
            raise self._not_ours(error) from error

    def _rows(self, query: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        for row in self._connection.execute(query, parameters):
            self._left -= 1 + sum(len(value) for value in row if isinstance(value, str | bytes))
            if self._left < 0:
                raise more_than_fits(self.path)
            if time.monotonic() > self._latest:
                raise _too_long(self.path)
            yield row

    def _not_ours(self, error: ValidationError) -> RunDirectoryError:
        message = f"{self.path} holds what localjudge does not write: {first_problem(error)}"
        return RunDirectoryError(message, hint=BY_HAND)


def more_than_fits(path: Path) -> RunDirectoryError:
    """The error for a file that gives the same rows again and again."""
    return RunDirectoryError(f"{path} holds more than fits into a file of its size", hint=BY_HAND)


def _latest(path: Path) -> float:
    return time.monotonic() + SECONDS + _size(path) / _BYTES_A_SECOND


def _too_long(path: Path) -> RunDirectoryError:
    return RunDirectoryError(f"{path} takes too long to read", hint=BY_HAND)


def _size(path: Path) -> int:
    """Bytes of the file with its write-ahead log. What is in memory is ours, and may be anything."""
    if not path.exists():
        return MOST_BYTES
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
