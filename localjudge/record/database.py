"""Opens `run.sqlite` so that a file that somebody else made can run nothing.

    files     run.sqlite and its write-ahead log are regular files, and there is no rollback journal beside them
    schema    nothing that it defines is trusted (`trusted_schema`)
    values    64 MiB at most, and each of the type that it should have

Source of the settings: SQLite's documentation, "Defense Against The Dark Arts". A journal is refused because a crafted
one makes SQLite delete a file that it names; localjudge leaves none, since a new file gets its write-ahead log before
anything is written.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
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

DAMAGED = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises for a file that is not whole: its own message may hold bytes of it."""
_Value = TypeVar("_Value")


def refuse_strange_files(path: Path) -> None:
    """Raise RunDirectoryError if the database, or what SQLite would read beside it, is not what localjudge leaves."""
    for suffix in ("", "-wal", "-shm"):
        refuse_irregular(path.with_name(path.name + suffix))
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
def read_only(path: Path, version: int) -> Iterator["Reader"]:
    """The database for as long as it is read. Raises RunDirectoryError where it is not what localjudge writes."""
    refuse_strange_files(path)
    # A file that nobody writes is opened as immutable: that works on a read-only disk, too.
    written_now = path.with_name(f"{path.name}-wal").exists()
    mode = "mode=ro" if written_now else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)) as connection:
            guard(connection)
            connection.execute("PRAGMA query_only = ON")
            written = connection.execute("PRAGMA user_version").fetchone()[0]
            if written != version:
                raise RunDirectoryError(
                    f"{path} has schema version {written}, this localjudge reads {version}",
                    hint="read it with the version of localjudge that wrote it",
                )
            yield Reader(connection, path)
    except DAMAGED as error:
        raise RunDirectoryError(
            f"{path} cannot be read: {shown(error)}", hint="is it the directory of a run?"
        ) from error


class Reader:
    """Rows of an open database, each of the type that it should have."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.path = path
        self._connection = connection

    def rows(self, kind: TypeAdapter[_Value], query: str, parameters: Sequence[Any] = ()) -> Iterator[_Value]:
        """Each row of the answer, of the kind. Raises RunDirectoryError for one that is not."""
        for row in self._connection.execute(query, parameters):
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

    def _not_ours(self, error: ValidationError) -> RunDirectoryError:
        message = f"{self.path} holds what localjudge does not write: {first_problem(error)}"
        return RunDirectoryError(message, hint=BY_HAND)
