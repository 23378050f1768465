"""The user's own cache: answers of all runs in one place, so that the next run finds them without being told where.

    <state directory>/answers/answers.sqlite      sha256 of (answering part of the judge, request key) ──> answer

It is off until its folder is made (`localjudge cache on`), and gone with everything in it after `localjudge cache off`.
No prompt and no text of a sample is in it; a reason that a model gave is, as part of its answer. The folder is open to
its owner alone. Only what a judge answered here goes in: nothing from another run's directory, and no errors.

Any number of processes may use it at once. At 1 GiB the oldest quarter makes room. A run does not depend on it: a cache
that is damaged, or locked for too long, is told and left alone.

Answers that were given before, in another run or to this user: a run takes them in place of asking.

    questions ──own store──> missing ──--reuse RUN, ...──> missing ──cache──> missing ──engine──> answers
                                  └── copied into the own store, with where they are from ──┘

Equal keys mean equal answers only where all else that can move one is equal, too: `answering_part` says what that is,
and a run of which it differs is refused. An error is never taken: most cost nothing to find again, since the model is
not run for them, and one that it was run for may have passed.

Another run may be a stranger's. Its file is read as one (`database.py`), but nothing except asking again can tell
whether an answer in it was given: whoever names a run trusts it so far, the manifest says what came from it, and
`verify` asks for it like for any other.
"""

import hashlib
import logging
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from localjudge import resources
from localjudge.errors import RunDirectoryError, UsageError
from localjudge.record.archive import stored_answers
from localjudge.record.directory import STORE, excerpt
from localjudge.record.manifest import answering_part, differences, in_lines
from localjudge.record.run import read_manifest
from localjudge.record.store import DAMAGED, canonical_sha256, storable
from localjudge.types import Answer, NoAnswer, Record

if sys.platform != "win32":
    import fcntl

MOST_BYTES = 1 << 30
_FILE, _LOCK = "answers.sqlite", "lock"
_BUSY_SECONDS = 30
_NAMED_AT_ONCE = 500
_HELD_BACK = 256
_OTHERS_COULD = "put answers into it"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS answer (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, p_yes REAL NOT NULL,
                                   legal_mass REAL NOT NULL, raw TEXT NOT NULL, reason TEXT)
"""
_OLDEST_QUARTER = "DELETE FROM answer WHERE id <= (SELECT min(id) + (max(id) - min(id)) / 4 FROM answer)"
_COLUMNS = ("p_yes", "legal_mass", "raw", "reason")
_ANSWER = TypeAdapter(Answer)
_log = logging.getLogger(__name__)


class CacheState(Record):
    """Whether the cache is on, where it is, and what is in it. Sizes in bytes."""

    on: bool
    folder: str
    answers: int = 0
    size: int = 0
    most: int = MOST_BYTES


def cache_folder() -> Path:
    """Where the cache is when it is on."""
    return resources.state_directory() / "answers"


def turn_on() -> None:
    """Let runs from now on use the cache. Raises UsageError if its folder cannot be made."""
    folder = cache_folder()
    resources.make_private(folder)
    resources.require_private(folder, _OTHERS_COULD)


def turn_off() -> None:
    """Delete the cache with everything in it. Raises UsageError if a run is using it, or if it cannot be deleted."""
    folder = cache_folder()
    if not os.path.lexists(folder):
        return
    try:
        descriptor = _locked_for(folder, shared=False)
        try:
            for name in (_FILE, f"{_FILE}-journal", _LOCK):
                (folder / name).unlink(missing_ok=True)
            folder.rmdir()
        finally:
            os.close(descriptor)
    except BlockingIOError as error:
        raise UsageError("a run is using the cache", hint="wait until it is done") from error
    except OSError as error:
        raise UsageError(f"{folder} cannot be deleted: {error.strerror}", hint="delete it by hand") from error


def state() -> CacheState:
    """Whether the cache is on, and what is in it. Raises UsageError if it cannot be read."""
    folder = cache_folder()
    file = folder / _FILE
    try:
        if not file.exists():
            return CacheState(on=folder.is_dir(), folder=str(folder))
        with closing(_connected(file)) as connection:
            (answers,) = connection.execute("SELECT count(*) FROM answer").fetchone()
        return CacheState(on=True, folder=str(folder), answers=answers, size=file.stat().st_size)
    except (OSError, *DAMAGED) as error:
        raise UsageError(f"{file} cannot be read: {excerpt(error)}", hint="localjudge cache off deletes it") from error


def open_cache(judge: Mapping[str, Any]) -> "AnswerCache | None":
    """The cache for answers of the judge with this part of the signature; None if it is off, or cannot be used.

    Raises UsageError if its folder is open to others.
    """
    folder = cache_folder()
    if not os.path.lexists(folder):
        return None
    resources.require_private(folder, _OTHERS_COULD)
    try:
        return AnswerCache(folder, judge)
    except (OSError, *DAMAGED) as error:
        _warn(folder, error)
        return None


class AnswerCache:
    """The open cache; close it after use. Raises OSError or sqlite3.Error if it cannot be opened, and nothing later."""

    name = "cache"

    def __init__(self, folder: Path, judge: Mapping[str, Any], *, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._judge = canonical_sha256(answering_part(judge))
        self._most_bytes = most_bytes
        self._new: list[tuple[Any, ...]] = []
        self._usable = True
        with ExitStack() as stack:
            stack.callback(os.close, _locked_for(folder, shared=True))
            self._connection = stack.enter_context(closing(_connected(folder / _FILE)))
            self._connection.execute(_SCHEMA)
            self._opened = stack.pop_all()

    def answers_to(self, keys: Iterable[str]) -> dict[str, Answer]:
        """The answers to the questions with these keys, as far as there are any."""
        named = {self._named(key): key for key in keys}
        found: dict[str, Answer] = {}
        with self._forgiving():
            for name, *columns in self._rows(named):
                found[named[name]] = _ANSWER.validate_python(dict(zip(_COLUMNS, columns, strict=True)), strict=True)
        return found

    def keep(self, key: str, answer: Answer | NoAnswer) -> None:
        """Keep an answer that the judge has just given; some at a time are written. An error is not kept."""
        if isinstance(answer, Answer):
            self._new.append(
                (self._named(key), answer.p_yes, answer.legal_mass, _utf8(answer.raw), _utf8(answer.reason))
            )
        if len(self._new) >= _HELD_BACK:
            self._write()

    def close(self) -> None:
        """Write what is not written yet."""
        self._write()
        self._opened.close()

    def _rows(self, named: Iterable[bytes]) -> Iterator[tuple[Any, ...]]:
        rest = iter(named)
        while self._usable and (some := list(islice(rest, _NAMED_AT_ONCE))):
            marks = ", ".join("?" * len(some))
            query = f"SELECT key, {', '.join(_COLUMNS)} FROM answer WHERE key IN ({marks})"
            yield from self._connection.execute(query, some)

    def _write(self) -> None:
        new, self._new = self._new, []
        if not new or not self._usable:
            return
        with self._forgiving():
            self._connection.execute("BEGIN IMMEDIATE")
            with self._connection:
                if self._bytes() > self._most_bytes:
                    self._connection.execute(_OLDEST_QUARTER)
                statement = f"INSERT OR IGNORE INTO answer (key, {', '.join(_COLUMNS)}) VALUES (?, ?, ?, ?, ?)"
                self._connection.executemany(statement, new)

    def _bytes(self) -> int:
        """Size of the file without what was deleted from it, which is written again first."""
        pages, free, size = (
            int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def _named(self, key: str) -> bytes:
        return hashlib.sha256(f"{self._judge}|{key}".encode()).digest()

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        try:
            yield
        except (*DAMAGED, ValidationError) as error:
            self._usable = False
            _warn(self._folder, error)


def _connected(file: Path) -> sqlite3.Connection:
    # A rollback journal: a write-ahead log needs memory that several machines with one home directory do not share.
    file.touch(mode=0o600)
    return sqlite3.connect(file, timeout=_BUSY_SECONDS, isolation_level=None)


def _locked_for(folder: Path, *, shared: bool) -> int:
    """Descriptor of the lock file: shared by all that use the cache, exclusive for who deletes it."""
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | resources.OPEN_SAFELY, 0o600)
    if sys.platform != "win32":  # which deletes no file that is open
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
    return descriptor


def _utf8(text: str | None) -> str | None:
    return None if text is None else storable(text)


def _warn(folder: Path, error: Exception) -> None:
    _log.warning(
        "the cache in %s is not used, every answer is asked for: %s (localjudge cache off deletes it)",
        folder,
        excerpt(error).partition("\n")[0],
    )


class EarlierAnswers(Protocol):
    """Where answers may be found."""

    @property
    def name(self) -> str:
        """What the manifest calls it."""
        ...

    def answers_to(self, keys: Iterable[str]) -> Mapping[str, Answer]:
        """The answers to the questions with these keys, as far as there are any."""
        ...

    def keep(self, key: str, answer: Answer | NoAnswer) -> None:
        """Take notice of an answer that the judge has just given."""
        ...

    def close(self) -> None:
        """Nothing more is looked for."""
        ...


class OtherRun:
    """The answers of a run, finished or not. Raises RunDirectoryError if its file cannot be read."""

    def __init__(self, directory: Path) -> None:
        self.name = str(directory)
        self._store = directory / STORE
        self.answers_to([])

    def answers_to(self, keys: Iterable[str]) -> dict[str, Answer]:
        """The answers to the questions with these keys, as far as there are any."""
        found = stored_answers(self._store, keys)
        return {key: answer for key, answer in found.items() if isinstance(answer, Answer)}

    def keep(self, key: str, answer: Answer | NoAnswer) -> None:
        """Leave it: another run's directory is never written."""

    def close(self) -> None:
        """Nothing is open."""


def check_same_judge(directory: Path, judge: Mapping[str, Any]) -> None:
    """Raise UsageError if the answers in a run are of a judge that might have answered otherwise than this judge part.

    Raises RunDirectoryError if there is no run.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        raise RunDirectoryError(f"{directory} holds no run", hint="name the directory of one")
    if different := differences(answering_part(manifest.judge), answering_part(judge)):
        raise UsageError(
            f"the answers in {directory} are of another judge:{in_lines(different)}",
            hint="score the data without them: every answer is then asked for",
        )
