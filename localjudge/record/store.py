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
from contextlib import ExitStack, contextmanager
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter

from localjudge.errors import OutOfResource, RunDirectoryError
from localjudge.option_spelling import option
from localjudge.record.database import DAMAGED, Reader, guard, refuse_strange_files
from localjudge.record.extra_columns import extras_text
from localjudge.record.keys import KeyedRequest
from localjudge.record.untrusted import MOST_BYTES_OF_VALUE, shown
from localjudge.types import Answer, NoAnswer, Node, Sample

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
                raise OutOfResource(f"{self._path}: {shown(error)}", hint=_OUT_OF_RESOURCE[code]) from error
            hint = _UNUSABLE.get(code, _AFRESH).format(out=option("out"))
            raise RunDirectoryError(f"{self._path}: {shown(error)}", hint=hint) from error


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
