"""Reuse answers from another run or the user's cache.

    questions ──own store──> missing ──reuse=RUN──> missing ──cache=True──> missing ──engine──> answers
                                  └── copied into the own store, with their origin ────────┘

Errors are never reused. The cache contains no sample text except the model's reasons.
"""

import hashlib
import json
import logging
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from localjudge import resources
from localjudge.errors import InputError, MissingRun
from localjudge.record.archive import stored_answers
from localjudge.record.differences import differences, format_differences
from localjudge.record.directory import STORE, excerpt
from localjudge.record.manifest import JudgeIdentity
from localjudge.record.run import read_manifest
from localjudge.record.store import DAMAGED, canonical_sha256
from localjudge.types import Answer, NoAnswer

DEFAULT_MIB = 1024
_BUSY_SECONDS = 30
_AT_ONCE = 500
"""Number of answers in one transaction."""
_SCHEMA = "CREATE TABLE IF NOT EXISTS answer (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, json TEXT NOT NULL)"
_OLDEST_QUARTER = "DELETE FROM answer WHERE id <= (SELECT min(id) + (max(id) - min(id)) / 4 FROM answer)"
_SIZE = """
SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size
"""
_log = logging.getLogger(__name__)


class EarlierAnswers(Protocol):
    """A source of answers. The manifest records its `name`."""

    name: str

    def answers_to(self, keys: Iterable[str]) -> Mapping[str, Answer]:
        """Return the available answers by key."""

    def keep(self, key: str, answer: Answer | NoAnswer) -> None:
        """Store a new answer."""


class OtherRun:
    """Answers of another run, finished or not.

    Raises RunDirectoryError if the run is missing or unreadable, InputError if its judge differs.
    """

    def __init__(self, directory: Path, judge: JudgeIdentity) -> None:
        self.name = str(directory)
        self._store = directory / STORE
        manifest = read_manifest(directory)
        if manifest is None:
            raise MissingRun(f"{directory} contains no run", hint="name the directory of a run")
        if changes := differences(manifest.judge.answering, judge.answering):
            raise InputError(
                f"the answers in {directory} are from another judge:{format_differences(changes)}",
                hint="omit this run: all questions are then asked",
            )
        self.answers_to([])

    def answers_to(self, keys: Iterable[str]) -> dict[str, Answer]:
        answers = stored_answers(self._store, keys)
        return {key: answer for key, answer in answers.items() if isinstance(answer, Answer)}

    def keep(self, key: str, answer: Answer | NoAnswer) -> None:
        """Do nothing."""


def cache_file() -> Path:
    return resources.state_directory() / "answers" / "answers.sqlite"


def open_cache(answering: Mapping[str, Any], mebibytes: int = DEFAULT_MIB) -> "AnswerCache | None":
    """Open the cache for `JudgeIdentity.answering`, or warn if it is unusable. Raises InputError if its folder is not
    private.
    """
    file = cache_file()
    resources.make_private(file.parent)
    resources.require_private(file.parent, "put answers into it")
    try:
        return AnswerCache(file, answering, mebibytes << 20)
    except (OSError, *DAMAGED) as error:
        _warn(file, error)
        return None


class AnswerCache:
    """An open cache. Raises OSError or one of `DAMAGED` only while opening."""

    name = "cache"

    def __init__(self, file: Path, answering: Mapping[str, Any], most_bytes: int) -> None:
        self._file = file
        self._judge = canonical_sha256(answering)
        self._most_bytes = most_bytes
        self._new: list[tuple[str, str]] = []
        self._usable = True
        file.touch(mode=0o600)
        # With a rollback journal: a write-ahead log needs memory that machines with one home directory do not share.
        self._connection = sqlite3.connect(file, timeout=_BUSY_SECONDS, isolation_level=None)
        weakref.finalize(self, self._connection.close)  # also where the file is damaged
        self._connection.execute(_SCHEMA)

    def answers_to(self, keys: Iterable[str]) -> dict[str, Answer]:
        by_hash = {self._hash(key): key for key in keys}
        answers: dict[str, Answer] = {}
        with self._forgiving():
            query = "SELECT key, json FROM answer WHERE key IN (SELECT value FROM json_each(?))"
            for key, text in self._connection.execute(query, [json.dumps(list(by_hash))]) if self._usable else ():
                answers[by_hash[key]] = Answer.model_validate(json.loads(text), strict=True)
        return answers

    def keep(self, key: str, answer: Answer | NoAnswer) -> None:
        if isinstance(answer, Answer):
            self._new.append((self._hash(key), json.dumps(answer.model_dump())))
        if len(self._new) >= _AT_ONCE:
            self._write()

    def close(self) -> None:
        self._write()
        self._connection.close()

    def _write(self) -> None:
        new, self._new = self._new, []
        if new and self._usable:
            with self._forgiving(), self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                (size,) = self._connection.execute(_SIZE).fetchone()
                if size > self._most_bytes:
                    self._connection.execute(_OLDEST_QUARTER)
                self._connection.executemany("INSERT OR IGNORE INTO answer (key, json) VALUES (?, ?)", new)

    def _hash(self, key: str) -> str:
        return hashlib.sha256(f"{self._judge}|{key}".encode()).hexdigest()

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        try:
            yield
        except (*DAMAGED, ValueError) as error:
            self._usable = False
            _warn(self._file, error)


def _warn(file: Path, error: Exception) -> None:
    reason = excerpt(error).partition("\n")[0]
    _log.warning("ignoring the answer cache: %s (to reset it, delete %s)", reason, file.parent)
