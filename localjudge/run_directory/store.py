"""Store every question and answer in one SQLite file as soon as it arrives.

    sample    unit ──> request ──path──> node, node, ...    a shared context is stored once
                          └──> answer                       committed as soon as it arrives

    node key     sha256 of its pieces: text, and whether it is trusted
    request key  sha256 of (engine identity, keys of the nodes root first, shape of the answer)

A foreign file cannot run code (SQLite's documentation, "Defense Against The Dark Arts"), and a
rollback journal is refused, because a crafted one deletes a file of its choice.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing, contextmanager
from functools import lru_cache
from itertools import islice, starmap
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from localjudge.dataset.samples import SampleRow
from localjudge.errors import OutOfResource, RunDirectoryError
from localjudge.run_directory.directory import (
    BY_HAND,
    MAX_BYTES,
    MAX_VALUE_BYTES,
    excerpt,
    first_problem,
    refuse_irregular,
    too_much,
)
from localjudge.types import Answer, ClassifierReading, Grammar, NoAnswer, Node, VerdictRequest
from localjudge.words import option

_NODES_KEPT = 8_192


class KeyedRequest(NamedTuple):
    """A request with its key, its nodes' keys, and the shape of its answer as JSON."""

    key: str
    node_keys: tuple[str, ...]
    shape: str
    request: VerdictRequest


class RequestKeys:
    """Keys of the requests to one engine."""

    def __init__(self, engine_identity: Mapping[str, Any]) -> None:
        self._engine = canonical_sha256(engine_identity)
        self._node = lru_cache(_NODES_KEPT)(lambda node: (canonical_sha256(node), node))
        self._shapes: dict[tuple[Grammar, Grammar | None, ClassifierReading | None], str] = {}

    @property
    def shapes(self) -> Set[str]:
        return set(self._shapes.values())

    def keyed(self, request: VerdictRequest) -> KeyedRequest:
        """Return the request with its keys, with equal nodes as one object."""
        node_keys, nodes = zip(*map(self._node, request.path), strict=True)
        kind = (request.grammar, request.explanation, request.reading)
        if kind not in self._shapes:
            self._shapes[kind] = request.shape
        shape = self._shapes[kind]
        key = self.make_key(node_keys, shape)
        return KeyedRequest(key, node_keys, shape, request._replace(path=nodes))

    def make_key(self, node_keys: Iterable[str], shape: str) -> str:
        return _sha256("|".join((self._engine, *node_keys, _sha256(shape))))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def canonical_sha256(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """Return the sha256 (hexadecimal) of JSON values, independent of key order."""
    return _sha256(_CANONICAL.encode(value))


_DAMAGED = (sqlite3.Error, UnicodeDecodeError)
"""Exceptions of SQLite for a damaged file."""
_Value = TypeVar("_Value")
_adapter: Callable[[Any], TypeAdapter[Any]] = lru_cache(TypeAdapter)


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


def answers_about(reader: Reader, samples: Iterable[str]) -> dict["AskedUnit", list["AskedWindow"]]:
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
    _refuse_strange_files(path)
    # A file that no process is writing is opened as immutable, also on a read-only disk.
    written_now = path.with_name(f"{path.name}-wal").exists()
    address = f"{path.absolute().as_uri()}?mode=ro"
    if not written_now:
        address += "&immutable=1"
    state = _file_state(path)
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            _guard(connection)
            connection.execute("PRAGMA query_only = ON")
            _check_version(connection, path)
            yield Reader(connection, path)
            if not written_now:
                _refuse_changed(path, state)
    except _DAMAGED as error:
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


def _refuse_strange_files(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        refuse_irregular(path.with_name(path.name + suffix))
    journal = path.with_name(f"{path.name}-journal")
    if os.path.lexists(journal):
        hint = "remove it if you know its origin"
        raise RunDirectoryError(f"{journal} is not a file of localjudge", hint=hint)
    if path.exists() and path.stat().st_size > MAX_BYTES:
        raise too_much(path, f"{MAX_BYTES >> 30} GiB")


def _guard(connection: sqlite3.Connection) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {setting}")


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != _VERSION:
        raise RunDirectoryError(
            f"{path} has schema version {version}, expected {_VERSION}",
            hint="read it with the version of localjudge that wrote it",
        )


_VERSION = 1
_CACHE_KIB = 16_384
_NAMED_AT_ONCE = 500
_BUSY_SECONDS = 30
PROMPT = """
(SELECT group_concat(text, '') FROM (
    SELECT node.text AS text FROM json_each(request.path) AS step
    JOIN node ON node.id = step.value ORDER BY step.key))
"""
_TABLES = f"""
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
-- input, `judge` the judges of a jury, as the manifest lists them.
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
_PUT_SAMPLE = """
INSERT INTO sample (position, id, content, extras, cluster) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
    position = excluded.position,
    content = excluded.content,
    extras = excluded.extras,
    cluster = excluded.cluster
WHERE (position, content, extras, cluster)
    IS NOT (excluded.position, excluded.content, excluded.extras, excluded.cluster)
"""
_PUT_NODE = "INSERT OR IGNORE INTO node (sha256, text, pieces) VALUES (?, ?, ?)"
_PUT_SHAPE = "INSERT OR IGNORE INTO shape (content) VALUES (?)"
_PUT_REQUEST = """
INSERT OR IGNORE INTO request (key, shape, path)
SELECT ?, (SELECT id FROM shape WHERE content = ?), json_group_array(id)
FROM (
    SELECT node.id AS id FROM json_each(?) AS step
    JOIN node ON sha256 = step.value ORDER BY step.key)
"""
_PUT_UNIT = "INSERT OR IGNORE INTO unit SELECT ?, ?, ?, ?, ?, id FROM request WHERE key = ?"
_PUT_ANSWER = "INSERT INTO answer SELECT id, ?, ?, ?, ?, ? FROM request WHERE key = ?"
_PUT_REUSED = "INSERT INTO reused SELECT id, ? FROM request WHERE key = ?"
ALL_REQUESTS = """
SELECT key, content, (SELECT json_group_array(sha256) FROM (
    SELECT sha256 FROM json_each(request.path) AS step
    JOIN node ON node.id = step.value ORDER BY step.key))
FROM request JOIN shape ON shape.id = shape ORDER BY request.id
"""
"""Key, answer shape, and node keys (as JSON) of each request."""
_LIST = json.JSONEncoder(separators=(",", ":"))


class TaskLink(NamedTuple):
    """Link of a unit to its request to one judge."""

    sample_id: str
    metric: str
    position: int
    judge: int
    window: int
    request_key: str


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


class Store:
    """The open file `run.sqlite`.

    Raises RunDirectoryError, or OutOfResource for problems of the disk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._translated_errors(), ExitStack() as undo:
            _refuse_strange_files(path)
            path.touch(mode=0o600)
            self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
            undo.callback(self._connection.close)
            self._prepare()
            _check_version(self._connection, path)
            self.answer_count: int = self._one_value("SELECT count(*) FROM answer")
            undo.pop_all()
        self._reader = Reader(self._connection, path)

    def _prepare(self) -> None:
        """Set up the connection, and the tables of a new file."""
        _guard(self._connection)
        if not self._path.stat().st_size:
            # A journal file left by a killed process would be refused above.
            self._connection.execute("PRAGMA journal_mode = MEMORY")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if not self._one_value("SELECT count(*) FROM sqlite_master"):
            script = f"BEGIN;{_TABLES}PRAGMA user_version = {_VERSION};COMMIT;"
            self._connection.executescript(script)

    def _one_value(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()[0]

    def add_samples(
        self, rows: Iterable[SampleRow], cluster_of: Mapping[str, str] | None = None
    ) -> bool:
        """Store samples with their groups. Returns whether this changed any."""

        def columns(row: SampleRow) -> tuple[Any, ...]:
            if cluster_of is None:
                return (*row, None)
            return (*row, storable(cluster_of[row.id]))

        with self._transaction():
            changes = self._connection.total_changes
            self._connection.executemany(_PUT_SAMPLE, map(columns, rows))
            return self._connection.total_changes > changes

    def keep_samples(self, names: Iterable[str]) -> None:
        """Delete all other samples."""
        with self._transaction():
            query = "DELETE FROM sample WHERE id NOT IN (SELECT value FROM json_each(?))"
            self._connection.execute(query, (_LIST.encode(list(names)),))

    def answers_to(self, keys: Iterable[str]) -> dict[str, Answer | NoAnswer]:
        with self._translated_errors():
            return self._reader.answers_by(keys)

    def answers_about(self, samples: Iterable[str]) -> dict[AskedUnit, list[AskedWindow]]:
        """Return the windows of each unit of these samples, with the answers so far."""
        with self._translated_errors():
            return answers_about(self._reader, map(storable, samples))

    def add_requests(
        self, requests: Mapping[str, KeyedRequest], askings: Iterable[TaskLink]
    ) -> None:
        put = self._connection.executemany
        with self._transaction():
            query = "SELECT key FROM request WHERE key IN"
            stored = {key for (key,) in self._reader.rows_named(tuple[str], query, requests)}
            nodes: dict[str, tuple[str, str]] = {}
            shapes: dict[str, None] = {}
            request_rows = []
            for key, keyed in requests.items():
                if key in stored:
                    continue
                for node_key, node in zip(keyed.node_keys, keyed.request.path, strict=True):
                    if node_key not in nodes:
                        nodes[node_key] = _node_columns(node)
                shapes[keyed.shape] = None
                request_rows.append((keyed.key, keyed.shape, _LIST.encode(keyed.node_keys)))
            put(_PUT_NODE, ((key, *columns) for key, columns in nodes.items()))
            put(_PUT_SHAPE, ((shape,) for shape in shapes))
            put(_PUT_REQUEST, request_rows)
            put(_PUT_UNIT, ((storable(link.sample_id), *link[1:]) for link in askings))

    def add_answers(
        self, answers: Mapping[str, Answer | NoAnswer], source: str | None = None
    ) -> None:
        with self._transaction():
            self._connection.executemany(_PUT_ANSWER, starmap(_answer_row, answers.items()))
            if source is not None:
                rows = ((storable(source), key) for key in answers)
                self._connection.executemany(_PUT_REUSED, rows)
        self.answer_count += len(answers)

    def reused_from(self) -> dict[str, int]:
        with self._translated_errors():
            query = "SELECT source, count(*) FROM reused GROUP BY source ORDER BY source"
            return dict(self._reader.rows(tuple[str, int], query))

    def close(self) -> None:
        with self._translated_errors():
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._translated_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            with self._connection:
                yield

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGED as error:
            problem = f"{self._path}: {excerpt(error)}"
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code in _OUT_OF_RESOURCE:
                hint = f"{_OUT_OF_RESOURCE[code]}, then run the same command again to resume"
                raise OutOfResource(problem, hint=hint) from error
            hint = f"remove the directory or make it writable, or name another with {option('out')}"
            if code == sqlite3.SQLITE_TOOBIG:
                hint = f"remove samples larger than {MAX_VALUE_BYTES >> 20} MiB"
            raise RunDirectoryError(problem, hint=hint) from error


_OUT_OF_RESOURCE = {
    sqlite3.SQLITE_FULL: "free disk space",
    sqlite3.SQLITE_IOERR: "check the disk (is it full or disconnected?)",
    sqlite3.SQLITE_NOMEM: "free memory",
    sqlite3.SQLITE_BUSY: "close the other program that uses the file",
}


def _answer_row(request_key: str, answer: Answer | NoAnswer) -> tuple[Any, ...]:
    if isinstance(answer, NoAnswer):
        return None, answer.valid_mass, None, None, storable(answer.error), request_key
    reason = None
    if answer.reason is not None:
        reason = storable(answer.reason)
    return answer.p_yes, answer.valid_mass, storable(answer.raw), reason, None, request_key


def _node_columns(node: Node) -> tuple[str, str]:
    pieces = [(len(piece.text), int(piece.trusted)) for piece in node]
    return storable("".join(piece.text for piece in node)), _LIST.encode(pieces)


def storable(text: str) -> str:
    """Escape lone surrogates, which SQLite cannot store."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
