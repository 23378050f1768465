"""Store every question and answer in one SQLite file as soon as it arrives.

    sample    unit ──> request ──path──> node, node, ...    a shared context is stored once
                          └──> answer                       committed as soon as it arrives

`localjudge.run_directory.store_reader` reads it.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from localjudge.dataset.samples import SampleRow
from localjudge.errors import OutOfResource, RunDirectoryError
from localjudge.run_directory.directory import MAX_VALUE_BYTES, excerpt
from localjudge.run_directory.store_reader import (
    DAMAGED,
    PROMPT,
    VERSION,
    AskedUnit,
    AskedWindow,
    KeyedRequest,
    check_version,
    guard,
    invalid_content,
    refuse_strange_files,
    select,
    select_answers,
    select_named,
    select_windows,
    storable,
)
from localjudge.types import Answer, NoAnswer
from localjudge.words import option

_CACHE_KIB = 16_384
_BUSY_SECONDS = 30
_LIST = json.JSONEncoder(separators=(",", ":"))
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
-- input from 1, and is 0 for a whole input, with 1 for its second reading; `judge` numbers the
-- judges of a jury from 0, as the manifest lists them.
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


class Store:
    """The open file `run.sqlite`.

    Raises RunDirectoryError, or OutOfResource for problems of the disk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._translated_errors(), ExitStack() as undo:
            refuse_strange_files(path)
            path.touch(mode=0o600)
            self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
            undo.callback(self._connection.close)
            guard(self._connection)
            if not self._path.stat().st_size:
                # A journal file left by a killed process would be refused above.
                self._connection.execute("PRAGMA journal_mode = MEMORY")
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            if not self._one_value("SELECT count(*) FROM sqlite_master"):
                script = f"BEGIN;{_TABLES}PRAGMA user_version = {VERSION};COMMIT;"
                self._connection.executescript(script)
            check_version(self._connection, path)
            self.answer_count: int = self._one_value("SELECT count(*) FROM answer")
            undo.pop_all()

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
            return select_answers(self._connection, keys)

    def answers_about(self, samples: Iterable[str]) -> dict[AskedUnit, list[AskedWindow]]:
        """Return the windows of each unit of these samples, with the answers so far."""
        with self._translated_errors():
            return select_windows(self._connection, map(storable, samples))

    def add_requests(
        self,
        requests: Mapping[str, KeyedRequest],
        windows_by_unit: Mapping[AskedUnit, Iterable[AskedWindow]],
    ) -> None:
        """Store requests by key, and which of them ask about the windows of each unit."""
        put = self._connection.executemany
        with self._transaction():
            query = "SELECT key FROM request WHERE key IN"
            rows = select_named(self._connection, tuple[str], query, requests)
            stored = {key for (key,) in rows}
            nodes: dict[str, tuple[str, str]] = {}
            shapes: dict[str, None] = {}
            request_rows = []
            for key, keyed in requests.items():
                if key in stored:
                    continue
                for node_key, node in zip(keyed.node_keys, keyed.request.path, strict=True):
                    if node_key not in nodes:
                        pieces = [(len(piece.text), int(piece.trusted)) for piece in node]
                        nodes[node_key] = (
                            storable("".join(piece.text for piece in node)),
                            _LIST.encode(pieces),
                        )
                shapes[keyed.shape] = None
                request_rows.append((keyed.key, keyed.shape, _LIST.encode(keyed.node_keys)))
            put(_PUT_NODE, ((key, *columns) for key, columns in nodes.items()))
            put(_PUT_SHAPE, ((shape,) for shape in shapes))
            put(_PUT_REQUEST, request_rows)
            put(_PUT_UNIT, _unit_rows(windows_by_unit))

    def add_answers(
        self, answers: Mapping[str, Answer | NoAnswer], source: str | None = None
    ) -> None:
        rows: list[tuple[Any, ...]] = []
        for key, answer in answers.items():
            if isinstance(answer, NoAnswer):
                error = storable(answer.error)
                rows.append((None, answer.valid_mass, None, None, error, key))
            else:
                reason = answer.reason and storable(answer.reason)
                raw = storable(answer.raw)
                rows.append((answer.p_yes, answer.valid_mass, raw, reason, None, key))
        with self._transaction():
            self._connection.executemany(_PUT_ANSWER, rows)
            if source is not None:
                reused = [(storable(source), key) for key in answers]
                self._connection.executemany(_PUT_REUSED, reused)
        self.answer_count += len(answers)

    def reused_from(self) -> dict[str, int]:
        with self._translated_errors():
            query = "SELECT source, count(*) FROM reused GROUP BY source ORDER BY source"
            return dict(select(self._connection, tuple[str, int], query))

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
        except ValidationError as error:
            raise invalid_content(self._path, error) from error
        except DAMAGED as error:
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


def _unit_rows(
    windows_by_unit: Mapping[AskedUnit, Iterable[AskedWindow]],
) -> Iterator[tuple[Any, ...]]:
    for unit, windows in windows_by_unit.items():
        sample_id = storable(unit.sample_id)
        for window in windows:
            number = 0
            if window.number is not None:
                number = window.number + 1
            yield sample_id, unit.metric, unit.position, unit.judge, number, window.key
