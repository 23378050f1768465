"""The tables of `run.sqlite`, and how to read this file, which may be foreign or damaged.

A foreign file cannot run code (SQLite's documentation, "Defense Against The Dark Arts"), and a
rollback journal is refused, because a crafted one deletes a file of its choice.

    sample    unit ──> request ──path──> node, node, ...    a shared context is stored once
                          └──> answer                       committed as soon as it arrives
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

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
from localjudge.types import Answer, NoAnswer

VERSION = 1
"""Of the tables, stored as `user_version`."""
PROMPT = """
(SELECT group_concat(text, '') FROM (
    SELECT node.text AS text FROM json_each(request.path) AS step
    JOIN node ON node.id = step.value ORDER BY step.key))
"""
TABLES = f"""
-- The data as it was read, one JSON object for each sample, in the order of the data, with its
-- group if it has one; `extras` are the columns that are not fields, as a JSON object.
CREATE TABLE sample (
    id TEXT PRIMARY KEY,
    position INTEGER NOT NULL,
    content TEXT NOT NULL,
    extras TEXT NOT NULL,
    cluster TEXT
);
CREATE INDEX sample_in_order ON sample (position);
-- A piece of prompt. `pieces` lists [code points, 1 if it is our own text and 0 if it is the
-- user's] along `text`.
CREATE TABLE node (
    id INTEGER PRIMARY KEY,
    sha256 TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    pieces TEXT NOT NULL
);
-- The valid answers: grammars (regular expressions) and the label of each value, as JSON.
CREATE TABLE shape (id INTEGER PRIMARY KEY, content TEXT NOT NULL UNIQUE);
-- One question: ids of its nodes, root first, as a JSON list.
CREATE TABLE request (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    shape INTEGER NOT NULL REFERENCES shape,
    path TEXT NOT NULL
);
-- The model's answer: `p_yes`, or `error`.
CREATE TABLE answer (
    request INTEGER PRIMARY KEY REFERENCES request,
    p_yes REAL,
    valid_mass REAL,
    raw TEXT,
    reason TEXT,
    error TEXT
);
-- Who asked: the unit at this position of a sample's verdicts; `window` numbers the parts of a long
-- input from 1, and is 0 for a whole input; `judge` numbers the judges of a jury from 0, as the
-- manifest lists them.
CREATE TABLE unit (
    sample_id TEXT NOT NULL,
    metric TEXT NOT NULL,
    position INTEGER NOT NULL,
    judge INTEGER NOT NULL,
    window INTEGER NOT NULL,
    request INTEGER NOT NULL REFERENCES request,
    PRIMARY KEY (sample_id, metric, position, judge, window)
) WITHOUT ROWID;
CREATE VIEW verdict AS
    SELECT unit.sample_id, unit.metric, unit.position, unit.judge, unit.window, {PROMPT} AS prompt,
           answer.p_yes, answer.valid_mass, answer.raw, answer.reason, answer.error
    FROM unit
    JOIN request ON request.id = unit.request
    LEFT JOIN answer ON answer.request = unit.request;
-- Answers that were not asked for here, and their origin: the directory of another run, or `an open
-- judge`.
CREATE TABLE reused (request INTEGER PRIMARY KEY REFERENCES request, source TEXT NOT NULL);
"""
# Equal samples are not written again, because a resumed run would double the size of its log.
PUT_SAMPLE = """
INSERT INTO sample (position, id, content, extras, cluster) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
    position = excluded.position,
    content = excluded.content,
    extras = excluded.extras,
    cluster = excluded.cluster
WHERE (position, content, extras, cluster)
    IS NOT (excluded.position, excluded.content, excluded.extras, excluded.cluster)
"""
PUT_NODE = "INSERT OR IGNORE INTO node (sha256, text, pieces) VALUES (?, ?, ?)"
PUT_SHAPE = "INSERT OR IGNORE INTO shape (content) VALUES (?)"
PUT_REQUEST = """
INSERT OR IGNORE INTO request (key, shape, path)
SELECT ?, (SELECT id FROM shape WHERE content = ?), json_group_array(id)
FROM (
    SELECT node.id AS id FROM json_each(?) AS step
    JOIN node ON sha256 = step.value ORDER BY step.key)
"""
PUT_UNIT = "INSERT OR IGNORE INTO unit SELECT ?, ?, ?, ?, ?, id FROM request WHERE key = ?"
PUT_ANSWER = "INSERT INTO answer SELECT id, ?, ?, ?, ?, ? FROM request WHERE key = ?"
PUT_REUSED = "INSERT INTO reused SELECT id, ? FROM request WHERE key = ?"
ALL_REQUESTS = """
SELECT key, content, (SELECT json_group_array(sha256) FROM (
    SELECT sha256 FROM json_each(request.path) AS step
    JOIN node ON node.id = step.value ORDER BY step.key))
FROM request JOIN shape ON shape.id = shape ORDER BY request.id
"""
"""Key, answer shape, and node keys (as JSON) of each request."""
_NAMED_AT_ONCE = 500
DAMAGED = (sqlite3.Error, UnicodeDecodeError)
"""Exceptions of SQLite for a damaged file."""
RequestKey = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
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
        marks = ", ".join("?" * len(batch))
        yield from select(connection, kind, f"{query} ({marks})", batch)


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
        tuple[RequestKey, float | None, float | None, str | None, str | None, str | None],
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
    selected = select_named(connection, tuple[str, str, int, int, int, RequestKey], query, samples)
    rows = sorted(selected)
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
