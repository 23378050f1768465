"""Store every question and answer in one SQLite file as soon as it arrives.

`store_tables` describes the file, and `store_reader` reads it.
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
from localjudge.run_directory.request_keys import KeyedRequest
from localjudge.run_directory.store_reader import (
    DAMAGED,
    PUT_ANSWER,
    PUT_NODE,
    PUT_REQUEST,
    PUT_REUSED,
    PUT_SAMPLE,
    PUT_SHAPE,
    PUT_UNIT,
    TABLES,
    VERSION,
    AskedUnit,
    AskedWindow,
    check_version,
    guard,
    invalid_content,
    refuse_strange_files,
    select,
    select_answers,
    select_named,
    select_windows,
)
from localjudge.types import Answer, NoAnswer
from localjudge.words import option

_CACHE_KIB = 16_384
_BUSY_SECONDS = 30
_LIST = json.JSONEncoder(separators=(",", ":"))


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
                script = f"BEGIN;{TABLES}PRAGMA user_version = {VERSION};COMMIT;"
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
            self._connection.executemany(PUT_SAMPLE, map(columns, rows))
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
            put(PUT_NODE, ((key, *columns) for key, columns in nodes.items()))
            put(PUT_SHAPE, ((shape,) for shape in shapes))
            put(PUT_REQUEST, request_rows)
            put(PUT_UNIT, _unit_rows(windows_by_unit))

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
            self._connection.executemany(PUT_ANSWER, rows)
            if source is not None:
                reused = [(storable(source), key) for key in answers]
                self._connection.executemany(PUT_REUSED, reused)
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


def storable(text: str) -> str:
    """Escape lone surrogates, which SQLite cannot store."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
