"""Everything that was asked and answered, in one SQLite file, written as it arrives.

    unit ──> request ──path──> node, node, ...      a context that is asked a hundred questions is stored once
                │
                └──> answer                         committed on its own the moment it is there

`SELECT * FROM verdict` shows each unit with its prompt and its answer. The invariant: a process that is killed at
any moment loses no answer that it had, and a file that was cut off in the middle is a valid file. (Write-ahead log with
`synchronous = NORMAL`: a commit survives the end of the process; when the machine itself loses power, the
last commits may be missing, and are asked again.)
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from localjudge.errors import OutOfResource, RunDirectoryError
from localjudge.record.database import Reader, bounded, guard, refuse_other_tables, refuse_strange_files
from localjudge.record.keys import KeyedRequest
from localjudge.record.untrusted import MOST_BYTES_OF_VALUE, shown
from localjudge.types import Answer, NoAnswer, Node, Sample

SCHEMA_VERSION = 1
IN_MEMORY = Path(":memory:")
"""A store that is gone when it is closed."""
_BUSY_SECONDS = 30
_SCHEMA = f"""
BEGIN;
-- The data as it was read, one JSON object for each sample, in the order of the data, with its group if it has one.
CREATE TABLE sample (id TEXT PRIMARY KEY, position INTEGER NOT NULL, content TEXT NOT NULL, cluster TEXT);
-- A piece of prompt. `pieces` lists [code points, 1 if it is our own text and 0 if it is the user's] along `text`.
CREATE TABLE node (id INTEGER PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE, text TEXT NOT NULL, pieces TEXT NOT NULL);
-- Which answers are legal: grammars (regular expressions) and the label of each value, as JSON.
CREATE TABLE shape (id INTEGER PRIMARY KEY, content TEXT NOT NULL UNIQUE);
-- One question: ids of its nodes, root first, as a JSON list; `entry` numbers the verdicts of one answer.
CREATE TABLE request (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, shape INTEGER NOT NULL REFERENCES shape,
                      entry INTEGER NOT NULL, path TEXT NOT NULL);
-- What the model said: `p_yes`, or `error`.
CREATE TABLE answer (request INTEGER PRIMARY KEY REFERENCES request, p_yes REAL, legal_mass REAL, raw TEXT, reason TEXT,
                     error TEXT);
-- Who asked: the unit at this position of a sample's verdicts; `window` numbers the parts of a long input.
CREATE TABLE unit (sample_id TEXT NOT NULL, metric TEXT NOT NULL, position INTEGER NOT NULL, window INTEGER NOT NULL,
                   request INTEGER NOT NULL REFERENCES request,
                   PRIMARY KEY (sample_id, metric, position, window)) WITHOUT ROWID;
CREATE VIEW prompt AS
    SELECT request.id AS request,
           (SELECT group_concat(text, '') FROM (SELECT node.text AS text FROM json_each(request.path) AS step
                                                JOIN node ON node.id = step.value ORDER BY step.key)) AS text
    FROM request;
CREATE VIEW verdict AS
    SELECT unit.sample_id, unit.metric, unit.position, unit.window, prompt.text AS prompt, answer.p_yes,
           answer.legal_mass, answer.raw, answer.reason, answer.error
    FROM unit JOIN prompt ON prompt.request = unit.request LEFT JOIN answer ON answer.request = unit.request;
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""


_IDS = TypeAdapter(tuple[str, int])
_ANSWER = TypeAdapter(Answer)
_ANSWER_ROW = TypeAdapter(tuple[int, float | None, float | None, str | None, str | None, str | None])
_ANSWER_COLUMNS = ("p_yes", "legal_mass", "raw", "reason", "error")


class Asking(NamedTuple):
    """That a unit of a sample asked this request."""

    sample_id: str
    metric: str
    position: int
    window: int
    request_key: str


class Store:
    """The open file `run.sqlite`. Raises RunDirectoryError or OutOfResource where the file or the disk is to blame.

    A file that is there already may be a stranger's: `database.py` says what is refused.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._translated(), ExitStack() as undo:
            if path != IN_MEMORY:
                refuse_strange_files(path)
                path.touch(mode=0o600)
            self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
            undo.callback(self._connection.close)
            with bounded(self._connection, path):
                guard(self._connection)
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._prepare()
                reader = self._reader()
                self._request_ids = dict(reader.rows(_IDS, "SELECT key, id FROM request"))
                self._node_ids = dict(reader.rows(_IDS, "SELECT sha256, id FROM node"))
                self._shape_ids = dict(reader.rows(_IDS, "SELECT content, id FROM shape"))
            undo.pop_all()

    def add_samples(self, samples: Sequence[Sample], cluster_of: Mapping[str, str] | None = None) -> None:
        """Keep the data, in the order of this run, and the group that each sample belongs to, by its id."""
        groups = cluster_of or {}
        rows = (
            (
                storable(sample.id),
                position,
                json.dumps(sample.model_dump(mode="json", exclude_defaults=True)),
                storable(groups[sample.id]) if sample.id in groups else None,
            )
            for position, sample in enumerate(samples)
        )
        with self._translated(), self._transaction():
            self._connection.executemany("INSERT OR REPLACE INTO sample VALUES (?, ?, ?, ?)", rows)

    def answers(self) -> dict[str, Answer | NoAnswer]:
        """All answers so far by request key."""
        with self._translated(), bounded(self._connection, self._path):
            stored = read_answers(self._reader())
        return {key: stored[number] for key, number in self._request_ids.items() if number in stored}

    def add_requests(self, requests: Iterable[KeyedRequest], askings: Iterable[Asking]) -> None:
        """Store what is about to be asked, and by which units; what is stored already is left as it is."""
        with self._translated(), self._transaction():
            for request in requests:
                if request.key not in self._request_ids:
                    self._add_request(request)
            self._connection.executemany(
                "INSERT OR IGNORE INTO unit VALUES (?, ?, ?, ?, ?)",
                (
                    (storable(asking.sample_id), *asking[1:4], self._request_ids[asking.request_key])
                    for asking in askings
                ),
            )

    def add_answer(self, request_key: str, answer: Answer | NoAnswer) -> None:
        """Store one answer; it is safe when this returns."""
        columns = dict.fromkeys(_ANSWER_COLUMNS) | answer.model_dump()
        row = {name: storable(value) if isinstance(value, str) else value for name, value in columns.items()}
        row["request"] = self._request_ids[request_key]
        with self._translated():
            self._connection.execute(
                "INSERT INTO answer VALUES (:request, :p_yes, :legal_mass, :raw, :reason, :error)", row
            )

    def close(self) -> None:
        """Fold the write-ahead log into the file."""
        with self._translated():
            self._connection.close()

    def _prepare(self) -> None:
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        tables = self._reader().schema()
        if version == 0 and not tables:
            self._connection.executescript(_SCHEMA)
        elif version != SCHEMA_VERSION:
            raise RunDirectoryError(
                f"{self._path} has schema version {version}, this localjudge writes {SCHEMA_VERSION}",
                hint="name another directory with --out",
            )
        else:
            refuse_other_tables(self._path, tables, schema())

    def _reader(self) -> Reader:
        return Reader(self._connection, self._path)

    def _add_request(self, keyed: KeyedRequest) -> None:
        nodes = zip(keyed.node_keys, keyed.request.path, strict=True)
        path = json.dumps([self._node_id(key, node) for key, node in nodes], separators=(",", ":"))
        row = (keyed.key, self._shape_id(keyed.shape), keyed.request.entry, path)
        statement = "INSERT INTO request (key, shape, entry, path) VALUES (?, ?, ?, ?)"
        self._request_ids[keyed.key] = self._inserted(statement, row)

    def _node_id(self, key: str, node: Node) -> int:
        if key not in self._node_ids:
            pieces = json.dumps([[len(piece.text), int(piece.trusted)] for piece in node], separators=(",", ":"))
            row = (key, storable("".join(piece.text for piece in node)), pieces)
            self._node_ids[key] = self._inserted("INSERT INTO node (sha256, text, pieces) VALUES (?, ?, ?)", row)
        return self._node_ids[key]

    def _shape_id(self, shape: str) -> int:
        if shape not in self._shape_ids:
            self._shape_ids[shape] = self._inserted("INSERT INTO shape (content) VALUES (?)", (storable(shape),))
        return self._shape_ids[shape]

    def _inserted(self, statement: str, row: Sequence[Any]) -> int:
        """Number of the new row."""
        number = self._connection.execute(statement, row).lastrowid
        assert number is not None, "an insert has a number"
        return number

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        with self._connection:
            yield

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code in _OUT_OF_RESOURCE:
                raise OutOfResource(f"{self._path}: {shown(error)}", hint=_OUT_OF_RESOURCE[code]) from error
            if code in _UNUSABLE:
                raise RunDirectoryError(f"{self._path}: {shown(error)}", hint=_UNUSABLE[code]) from error
            raise


_OUT_OF_RESOURCE = {
    sqlite3.SQLITE_FULL: "make room on the disk, then run the same command again to go on",
    sqlite3.SQLITE_IOERR: "look at the disk (is it full, or gone?), then run the same command again to go on",
    sqlite3.SQLITE_NOMEM: "free memory, then run the same command again to go on",
    sqlite3.SQLITE_BUSY: "another program holds the file: close it, then run the same command again to go on",
    sqlite3.SQLITE_LOCKED: "another program holds the file: close it, then run the same command again to go on",
}
_UNUSABLE = {
    sqlite3.SQLITE_READONLY: "make the directory writable, or name another with --out",
    sqlite3.SQLITE_CANTOPEN: "make the directory writable, or name another with --out",
    sqlite3.SQLITE_PERM: "make the directory writable, or name another with --out",
    sqlite3.SQLITE_NOTADB: "remove the directory to start afresh, or name another with --out",
    sqlite3.SQLITE_CORRUPT: "remove the directory to start afresh, or name another with --out",
    sqlite3.SQLITE_TOOBIG: f"no sample may be larger than {MOST_BYTES_OF_VALUE >> 20} MiB: leave it out",
}


@cache
def schema() -> dict[str, str]:
    """The statement that creates each part of the file, by its name; none for an index that SQLite makes by itself."""
    with closing(sqlite3.connect(IN_MEMORY)) as connection:
        connection.executescript(_SCHEMA)
        return dict(connection.execute("SELECT name, coalesce(sql, '') FROM sqlite_master"))


def read_answers(reader: Reader) -> dict[int, Answer | NoAnswer]:
    """All answers by the number of their request."""
    rows = reader.rows(_ANSWER_ROW, f"SELECT request, {', '.join(_ANSWER_COLUMNS)} FROM answer")
    return {number: _answer(reader, dict(zip(_ANSWER_COLUMNS, columns, strict=True))) for number, *columns in rows}


def _answer(reader: Reader, columns: dict[str, Any]) -> Answer | NoAnswer:
    error = columns.pop("error")
    return reader.checked(_ANSWER, columns) if error is None else NoAnswer(error=error)


def storable(text: str) -> str:
    """SQLite holds UTF-8, which has no lone surrogates: those are written as escapes; the keys tell all apart."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
