"""Everything that was asked and answered, in one SQLite file, written as it arrives.

    unit ──> request ──path──> node, node, ...      a context that is asked a hundred questions is stored once
                │
                └──> answer                         committed on its own the moment it is there

`SELECT * FROM verdict` shows each unit with its prompt and its answer. The invariant: a process that is killed at
any moment loses no answer that it had, and a file that was cut off in the middle is a valid file. (Write-ahead log with
`synchronous = NORMAL`: a commit survives the end of the process; when the machine itself loses power, the
last commits may be missing, and are asked again.)

Names requests by their content, so that the same question is asked once, and never again after a restart.

    node key     sha256 of its pieces: text, and whether it is trusted
    request key  sha256 of (engine identity, keys of the nodes root first, shape of the answer, entry in it)

The engine's identity holds everything else that can move an answer, so equal keys mean equal answers. Equal nodes are
also made one object: a context that is asked a hundred questions stands in memory once.

The columns of the data that are no field of ours, as a run keeps them: they move no verdict, and say what a row is.

    {"department": "cardiology", "asked_at": "2026-03-01", "tags": ["a"]}       one JSON object for each sample

They are no part of the signature. Numbers by the values of a column are shown, though, so the manifest has a checksum
of them all, whatever the order of rows and columns, and `verify` says when they are not what they were.

What JSON does not have is kept as JSON can have it: a NaN as null, as pandas means it, other things in words.

Opens `run.sqlite` so that a file that somebody else made can run nothing.

    files     run.sqlite and its write-ahead log are regular files, and there is no rollback journal beside them
    schema    nothing that it defines is trusted (`trusted_schema`)
    values    64 MiB at most, and each of the type that it should have

Source of the settings: SQLite's documentation, "Defense Against The Dark Arts". A journal is refused because a crafted
one makes SQLite delete a file that it names; localjudge leaves none, since a new file gets its write-ahead log before
anything is written.
"""

import hashlib
import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing, contextmanager
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from localjudge.dataset.identity import Hashes, fingerprint_of, hash_of
from localjudge.dataset.load import kept_words
from localjudge.dataset.problems import DEEPEST
from localjudge.errors import OutOfResource, RunDirectoryError
from localjudge.record.directory import (
    BY_HAND,
    MOST_BYTES,
    MOST_BYTES_OF_VALUE,
    excerpt,
    first_problem,
    refuse_irregular,
    too_much,
)
from localjudge.types import Answer, Grammar, NoAnswer, Node, Sample, VerdictRequest
from localjudge.words import option

_NODES_KEPT = 8_192


class KeyedRequest(NamedTuple):
    """A request with its key, the key of each of its nodes, and the shape of its answer (grammars) as JSON."""

    key: str
    node_keys: tuple[str, ...]
    shape: str
    request: VerdictRequest


class RequestKeys:
    """Keys of the requests to one engine."""

    def __init__(self, engine_identity: Mapping[str, Any]) -> None:
        self._engine = canonical_sha256(engine_identity)
        self._nodes: dict[Node, tuple[str, Node]] = {}
        self._shapes: dict[tuple[Grammar, Grammar | None], tuple[str, str]] = {}

    @property
    def shapes(self) -> Set[str]:
        """Shapes of the answers to all requests so far, as JSON."""
        return {shape for shape, _ in self._shapes.values()}

    def keyed(self, request: VerdictRequest) -> KeyedRequest:
        """The request, its equal nodes replaced by the ones seen before, with its keys."""
        node_keys, nodes = zip(*map(self._node, request.path), strict=True)
        grammars = request.grammar, request.explanation
        if grammars not in self._shapes:
            self._shapes[grammars] = request.shape, hashlib.sha256(request.shape.encode()).hexdigest()
        shape, shape_key = self._shapes[grammars]
        parts = (self._engine, *node_keys, shape_key, str(request.entry))
        key = hashlib.sha256("|".join(parts).encode()).hexdigest()
        return KeyedRequest(key, node_keys, shape, request._replace(path=nodes))

    def _node(self, node: Node) -> tuple[str, Node]:
        if node not in self._nodes:
            if len(self._nodes) >= _NODES_KEPT:
                self._nodes.clear()
            self._nodes[node] = (canonical_sha256(node), node)
        return self._nodes[node]


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def canonical_sha256(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """Sha256 (hexadecimal) of JSON values, whatever the order of the keys in their objects."""
    return hashlib.sha256(_CANONICAL.encode(value).encode()).hexdigest()


_LARGEST = 2**63


def extras_text(extras: Mapping[str, Any]) -> str:
    """The columns of one sample as JSON."""
    return json.dumps(_kept(extras, DEEPEST), ensure_ascii=False, separators=(",", ":"))


def extras_fingerprint(extras: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """Sha256 (hexadecimal) of the columns of all samples, by their ids, whatever their order."""
    hashes = Hashes(32)
    for sample_id, columns in extras:
        hashes.append(hash_of({"id": sample_id, "columns": columns}))
    return fingerprint_of(hashes)


def _kept(value: Any, levels: int) -> Any:
    kept: Any
    match value:
        case str():
            # SQLite holds UTF-8, and readers of JSON want it: a lone surrogate is neither.
            kept = value.encode("utf-8", "backslashreplace").decode("utf-8")
        case Mapping() if levels:
            kept = {_kept(str(name), 0): _kept(item, levels - 1) for name, item in value.items()}
        case list() if levels:
            kept = [_kept(item, levels - 1) for item in value]
        case float() if not math.isfinite(value):
            kept = None if math.isnan(value) else str(value)
        case None | bool() | float():
            kept = value
        case int() if -_LARGEST <= value < _LARGEST:
            kept = value
        case _:
            kept = kept_words(value)
    return kept


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
            f"{path} cannot be read: {excerpt(error)}", hint="is it the directory of a run?"
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


STORE_VERSION = 1
_CACHE_KIB = 65_536
_NAMED_AT_ONCE = 500
_BUSY_SECONDS = 30
_TABLES = """
-- The data as it was read, one JSON object for each sample, in the order of the data, with its group if it has one.
CREATE TABLE sample (id TEXT PRIMARY KEY, position INTEGER NOT NULL, content TEXT NOT NULL, cluster TEXT);
CREATE INDEX sample_in_order ON sample (position);
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
-- Answers that were not asked for here, and where they were taken from: the directory of another run, or `cache`.
CREATE TABLE reused (request INTEGER PRIMARY KEY REFERENCES request, source TEXT NOT NULL);
-- The columns of the data that are no field of ours, one JSON object for each sample.
CREATE TABLE extra (sample_id TEXT PRIMARY KEY, columns TEXT NOT NULL);
"""
# What stands there already is not written again: a run that goes on would double the size of its log.
_PUT_SAMPLE = """
INSERT INTO sample VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET position = excluded.position, content = excluded.content, cluster = excluded.cluster
WHERE (position, content, cluster) IS NOT (excluded.position, excluded.content, excluded.cluster)
"""
_PUT_UNIT = "INSERT OR IGNORE INTO unit VALUES (?, ?, ?, ?, ?)"
_PUT_EXTRA = """
INSERT INTO extra VALUES (?, ?) ON CONFLICT DO UPDATE SET columns = excluded.columns WHERE columns <> excluded.columns
"""

_Row = TypeVar("_Row")
_IDS = TypeAdapter(tuple[str, int])
_ANSWER = TypeAdapter(Answer)
_NO_ANSWER = TypeAdapter(NoAnswer)
_KEYED_ANSWER = TypeAdapter(tuple[str, float | None, float | None, str | None, str | None, str | None])
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
    """The open file `run.sqlite`.

    Raises RunDirectoryError or OutOfResource where the file or the disk is to blame.
    A file that is there already may be a stranger's: `database.py` says what is refused.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._translated(), ExitStack() as undo:
            refuse_strange_files(path)
            path.touch(mode=0o600)
            self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
            undo.callback(self._connection.close)
            guard(self._connection)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self._prepare()
            undo.pop_all()
        self._answers: int | None = None
        self._asked: dict[str, int] = {}
        """Numbers of the requests that were added last, by their keys."""

    def add_samples(
        self,
        samples: Iterable[Sample],
        cluster_of: Mapping[str, str] | None = None,
        positions: Iterable[int] | None = None,
    ) -> None:
        """Keep the data, in the order of this run, and the group that each sample belongs to, by its id.

        The samples of a shard are at these `positions` of the data, ascending; others stand one behind the other.
        """
        rows = (
            (
                storable(sample.id),
                position,
                json.dumps(sample.model_dump(mode="json", exclude_defaults=True)),
                None if cluster_of is None else storable(cluster_of[sample.id]),
            )
            for position, sample in zip(count() if positions is None else positions, samples, strict=False)
        )
        with self._translated(), self._transaction():
            self._connection.executemany(_PUT_SAMPLE, rows)

    def add_extras(self, extras: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Keep the other columns of the data, by the ids of the samples."""
        rows = ((storable(sample_id), extras_text(columns)) for sample_id, columns in extras)
        with self._translated(), self._transaction():
            self._connection.executemany(_PUT_EXTRA, rows)

    @property
    def answer_count(self) -> int:
        """How many answers there are."""
        if self._answers is None:
            with self._translated():
                self._answers = int(self._connection.execute("SELECT count(*) FROM answer").fetchone()[0])
        return self._answers

    def answers_to(self, keys: Iterable[str]) -> dict[str, Answer | NoAnswer]:
        """The answers to these questions that are there, by their keys."""
        with self._translated():
            return answers_by_key(self._reader(), keys)

    def add_requests(self, requests: Mapping[str, KeyedRequest], askings: Iterable[Asking]) -> None:
        """Store what is asked, by its keys, and by which units; what is stored already is left as it is."""
        with self._translated(), self._transaction():
            numbers = self._numbers("SELECT key, id FROM request WHERE key IN ", requests)
            missing = [keyed for key, keyed in requests.items() if key not in numbers]
            paths = (zip(keyed.node_keys, keyed.request.path, strict=True) for keyed in missing)
            node_numbers = self._numbered_nodes(dict(chain.from_iterable(paths)))
            shape_numbers = {shape: self._shape_number(shape) for shape in {keyed.shape for keyed in missing}}
            for keyed in missing:
                path = json.dumps([node_numbers[key] for key in keyed.node_keys], separators=(",", ":"))
                row = (keyed.key, shape_numbers[keyed.shape], keyed.request.entry, path)
                statement = "INSERT INTO request (key, shape, entry, path) VALUES (?, ?, ?, ?)"
                numbers[keyed.key] = self._inserted(statement, row)
            units = (
                (storable(one.sample_id), one.metric, one.position, one.window, numbers[one.request_key])
                for one in askings
            )
            self._connection.executemany(_PUT_UNIT, units)
        self._asked = numbers

    def add_answer(self, request_key: str, answer: Answer | NoAnswer) -> None:
        """Store one answer to a question that was added last; it is safe when this returns."""
        before = self.answer_count
        with self._translated():
            self._put(request_key, answer)
        self._answers = before + 1

    def add_answers(self, answers: Mapping[str, Answer | NoAnswer]) -> None:
        """Store answers to questions that were added last, all at once."""
        before = self.answer_count
        with self._translated(), self._transaction():
            for key, answer in answers.items():
                self._put(key, answer)
        self._answers = before + len(answers)

    def add_reused(self, answers: Mapping[str, Answer], source: str) -> None:
        """Store answers to questions that were added last, and where they are from."""
        before = self.answer_count
        with self._translated(), self._transaction():
            for key, answer in answers.items():
                self._put(key, answer)
            rows = [(self._asked[key], storable(source)) for key in answers]
            self._connection.executemany("INSERT INTO reused VALUES (?, ?)", rows)
        self._answers = before + len(answers)

    def reused_from(self) -> dict[str, int]:
        """How many of the answers were not asked for here, by where they are from."""
        with self._translated():
            query = "SELECT source, count(*) FROM reused GROUP BY source ORDER BY source"
            return dict(self._reader().rows(_IDS, query))

    def close(self) -> None:
        """Fold the write-ahead log into the file."""
        with self._translated():
            self._connection.close()

    def _prepare(self) -> None:
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        is_empty = not version and not self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not is_empty and version != STORE_VERSION:
            raise RunDirectoryError(
                f"{self._path} has schema version {version}, this localjudge writes {STORE_VERSION}",
                hint=f"name another directory with {option('out')}",
            )
        if is_empty:
            self._connection.executescript(f"BEGIN;{_TABLES}PRAGMA user_version = {STORE_VERSION};COMMIT;")

    def _put(self, request_key: str, answer: Answer | NoAnswer) -> None:
        columns = dict.fromkeys(_ANSWER_COLUMNS) | answer.model_dump()
        row = {name: storable(value) if isinstance(value, str) else value for name, value in columns.items()}
        row["request"] = self._asked[request_key]
        self._connection.execute(
            "INSERT INTO answer VALUES (:request, :p_yes, :legal_mass, :raw, :reason, :error)", row
        )

    def _reader(self) -> Reader:
        return Reader(self._connection, self._path)

    def _numbers(self, query: str, names: Iterable[str]) -> dict[str, int]:
        """Numbers of the rows that have one of these names."""
        return dict(rows_named(self._reader(), _IDS, query, names))

    def _numbered_nodes(self, nodes: Mapping[str, Node]) -> dict[str, int]:
        """The number of each node, known by its key; those that are not there yet are added."""
        numbers = self._numbers("SELECT sha256, id FROM node WHERE sha256 IN ", nodes)
        for key, node in nodes.items():
            if key not in numbers:
                pieces = json.dumps([[len(piece.text), int(piece.trusted)] for piece in node], separators=(",", ":"))
                row = (key, storable("".join(piece.text for piece in node)), pieces)
                numbers[key] = self._inserted("INSERT INTO node (sha256, text, pieces) VALUES (?, ?, ?)", row)
        return numbers

    def _shape_number(self, shape: str) -> int:
        numbers = self._numbers("SELECT content, id FROM shape WHERE content IN ", [storable(shape)])
        for number in numbers.values():
            return number
        return self._inserted("INSERT INTO shape (content) VALUES (?)", (storable(shape),))

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
        except DAMAGED as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code in _OUT_OF_RESOURCE:
                raise OutOfResource(f"{self._path}: {excerpt(error)}", hint=_OUT_OF_RESOURCE[code]) from error
            hint = _UNUSABLE.get(code, _AFRESH).format(out=option("out"))
            raise RunDirectoryError(f"{self._path}: {excerpt(error)}", hint=hint) from error


_OUT_OF_RESOURCE = {
    sqlite3.SQLITE_FULL: "make room on the disk, then run the same command again to go on",
    sqlite3.SQLITE_IOERR: "look at the disk (is it full, or gone?), then run the same command again to go on",
    sqlite3.SQLITE_NOMEM: "free memory, then run the same command again to go on",
    sqlite3.SQLITE_BUSY: "another program holds the file: close it, then run the same command again to go on",
    sqlite3.SQLITE_LOCKED: "another program holds the file: close it, then run the same command again to go on",
}
_AFRESH = "remove the directory to start afresh, or name another with {out}"
_UNUSABLE = {
    sqlite3.SQLITE_READONLY: "make the directory writable, or name another with {out}",
    sqlite3.SQLITE_CANTOPEN: "make the directory writable, or name another with {out}",
    sqlite3.SQLITE_PERM: "make the directory writable, or name another with {out}",
    sqlite3.SQLITE_TOOBIG: f"no sample may be larger than {MOST_BYTES_OF_VALUE >> 20} MiB: leave it out",
}


def rows_named(reader: Reader, kind: TypeAdapter[_Row], query: str, names: Iterable[str | int]) -> Iterator[_Row]:
    """Rows of a query that ends in `IN` for these names, some at a time."""
    rest = iter(names)
    while some := list(islice(rest, _NAMED_AT_ONCE)):
        yield from reader.rows(kind, f"{query}({', '.join('?' * len(some))})", some)


def answers_by_key(reader: Reader, keys: Iterable[str]) -> dict[str, Answer | NoAnswer]:
    """The answers to the requests with these keys that are there."""
    query = f"SELECT key, {', '.join(_ANSWER_COLUMNS)} FROM request JOIN answer ON request = id WHERE key IN "
    return {
        key: _answer(reader, dict(zip(_ANSWER_COLUMNS, columns, strict=True)))
        for key, *columns in rows_named(reader, _KEYED_ANSWER, query, keys)
    }


def answers_by_number(reader: Reader, numbers: Iterable[int]) -> dict[int, Answer | NoAnswer]:
    """The answers to the requests with these numbers that are there."""
    query = f"SELECT request, {', '.join(_ANSWER_COLUMNS)} FROM answer WHERE request IN "
    return {
        number: _answer(reader, dict(zip(_ANSWER_COLUMNS, columns, strict=True)))
        for number, *columns in rows_named(reader, _ANSWER_ROW, query, numbers)
    }


def _answer(reader: Reader, columns: dict[str, Any]) -> Answer | NoAnswer:
    error = columns.pop("error")
    if error is None:
        return reader.checked(_ANSWER, columns)
    return reader.checked(_NO_ANSWER, {"error": error, "legal_mass": columns["legal_mass"]})


def storable(text: str) -> str:
    """SQLite holds UTF-8, which has no lone surrogates: those are written as escapes; the keys tell all apart."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
