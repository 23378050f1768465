"""States of evaluated prompt beginnings, kept on disk for later runs: the user's own, and off until they are turned on.

    run 1    instructions ─ context ─ statement          evaluates 500 tokens, and keeps the state behind the context
    run 2    instructions ─ context ─ other statement    takes that state, and evaluates 30

    <state directory>/prefix-states/limit                  bytes that all states may take
    <state directory>/prefix-states/<key>                  sha256 of the state, then the state

A key is a hash of the engine's identity and of the tokens, node by node, so a state is only ever found by an engine
that would evaluate the very same bits. What a disk did to a file is seen by its sha256. A text can be worked out from
its state: the folder is open to its owner alone, and `localjudge cache off` deletes it.

When there is no room, states that were not used since this engine began make way, the oldest first; where all were,
nothing new is kept: a run over more than fits keeps its beginning, and a second run over the same finds it there.
"""

import hashlib
import logging
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from localjudge import resources
from localjudge.engine.planner import TokenPath
from localjudge.errors import UsageError
from localjudge.record.keys import canonical_sha256
from localjudge.types import Record
from localjudge.whole_file import write_whole

_LIMIT = "limit"
_DIGEST_BYTES = hashlib.sha256().digest_size
_CLOCK_STEP = 1.0
"""Seconds by which the time of a file may lag behind the clock."""
_RECOUNTED = 16
"""States that are written before all are counted anew: other processes use the folder, too."""
_OTHERS_COULD = "read your texts there, and change numbers"
_log = logging.getLogger(__name__)


class StatesKept(Record):
    """Whether states are kept, where, how many, and how many bytes they take and may take."""

    on: bool
    folder: str
    states: int = 0
    size: int = 0
    most: int = 0


class FoundState(NamedTuple):
    """The state behind the first `nodes` nodes of a path."""

    nodes: int
    state: bytes


@runtime_checkable
class KeepsPrefixStates(Protocol):
    """An engine that can go on from the state of a prompt's beginning, and tell it."""

    prefix_states: "PrefixStates | None"
    """Where it finds states, and leaves them; None as long as it evaluates everything itself."""

    @property
    def identity(self) -> dict[str, Any]:
        """As of every engine."""
        ...


def states_folder() -> Path:
    """Where states are when they are kept."""
    return resources.state_directory() / "prefix-states"


def turn_on(most_bytes: int) -> None:
    """Keep states from now on, so many bytes of them. Raises UsageError if their folder cannot be made."""
    folder = states_folder()
    resources.make_private(folder)
    resources.require_private(folder, _OTHERS_COULD)
    resources.remember(folder / _LIMIT, f"{most_bytes}\n")
    _limit(folder)


def turn_off() -> None:
    """Delete all states. A run that is using them goes on without. Raises UsageError if they cannot be deleted."""
    folder = states_folder()
    if not os.path.lexists(folder):
        return
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be deleted: {error.strerror}", hint="delete it by hand") from error


def state() -> StatesKept:
    """Whether states are kept, and how many. Raises UsageError if their folder is open to others."""
    folder = states_folder()
    if not os.path.lexists(folder):
        return StatesKept(on=False, folder=str(folder))
    resources.require_private(folder, _OTHERS_COULD)
    sizes = [facts.st_size for _, facts in _files(folder)]
    return StatesKept(on=True, folder=str(folder), states=len(sizes), size=sum(sizes), most=_limit(folder))


@contextmanager
def kept_states(engines: Iterable[object]) -> Iterator[None]:
    """Let these engines use the states that are kept, if any are and they can.

    Raises UsageError if the folder is open to others.
    """
    folder = states_folder()
    able = [engine for engine in engines if isinstance(engine, KeepsPrefixStates) and engine.prefix_states is None]
    if not able or not os.path.lexists(folder):
        yield
        return
    resources.require_private(folder, _OTHERS_COULD)
    for engine in able:
        engine.prefix_states = PrefixStates(folder, engine.identity, most_bytes=_limit(folder))
    try:
        yield
    finally:
        for engine in able:
            engine.prefix_states = None


class PrefixStates:
    """The states of one engine in the folder of all. What fails on the disk is told once, and nothing is kept then."""

    def __init__(self, folder: Path, identity: dict[str, Any], *, most_bytes: int) -> None:
        self._folder = folder
        self._identity = canonical_sha256(identity).encode()
        self._most_bytes = most_bytes
        self._began = time.time() - _CLOCK_STEP
        self._size = 0
        self._written = _RECOUNTED
        self._usable = True

    def longest(self, path: TokenPath, *, beyond: int) -> FoundState | None:
        """The state behind most of the path's nodes, if there is one behind more than the first `beyond`."""
        if not self._usable:
            return None
        names = self._names(path)
        for nodes in range(len(path), beyond, -1):
            state = self._read(self._folder / names[nodes - 1])
            if state is not None:
                return FoundState(nodes, state)
        return None

    def keep(self, path: TokenPath, state: bytes) -> None:
        """Keep the state behind a path, if it is not there yet and there is room, or can be made."""
        file = self._folder / self._names(path)[-1]
        size = _DIGEST_BYTES + len(state)
        with self._forgiving():
            if not self._usable or file.exists() or not self._room_for(size):
                return
            write_whole(file, [hashlib.sha256(state).digest(), state], durable=False)
            self._size += size

    def forget(self, path: TokenPath) -> None:
        """Delete the state behind a path: it is not one that the engine can go on from."""
        with self._forgiving():
            (self._folder / self._names(path)[-1]).unlink(missing_ok=True)

    def _names(self, path: TokenPath) -> list[str]:
        """The file names of the states behind the first node, the first two, and so on."""
        digest, names = hashlib.sha256(self._identity), []
        for node in path:
            digest.update(b"node" + b"".join(token.to_bytes(4, "little", signed=True) for token in node))
            names.append(digest.hexdigest())
        return names

    def _read(self, file: Path) -> bytes | None:
        with self._forgiving():
            try:
                content = file.read_bytes()
            except FileNotFoundError:
                return None
            digest, state = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
            if hashlib.sha256(state).digest() == digest:
                os.utime(file)
                return state
            file.unlink(missing_ok=True)  # it was damaged; it is evaluated and kept again
        return None

    def _room_for(self, size: int) -> bool:
        self._written += 1
        if self._written < _RECOUNTED and self._size + size <= self._most_bytes:
            return True
        there = sorted(_files(self._folder), key=lambda found: found[1].st_mtime)
        self._size, self._written = sum(facts.st_size for _, facts in there), 0
        for file, facts in there:
            if self._size + size <= self._most_bytes or facts.st_mtime >= self._began:
                break
            file.unlink(missing_ok=True)
            self._size -= facts.st_size
        return self._size + size <= self._most_bytes

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._usable = False
            _log.warning("prompt states in %s are not used, all is evaluated: %s", self._folder, error.strerror)


def _files(folder: Path) -> Sequence[tuple[Path, os.stat_result]]:
    """The states in the folder. One that another process deletes meanwhile is left out."""
    found = []
    with suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            with suppress(FileNotFoundError):
                if entry.name != _LIMIT:
                    found.append((Path(entry.path), entry.stat(follow_symlinks=False)))
    return found


def _limit(folder: Path) -> int:
    file = folder / _LIMIT
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} does not say how many bytes", hint="localjudge cache off deletes it") from error
