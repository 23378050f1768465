"""Read `run.sqlite`, the samples, questions and answers of a run. It may be foreign or damaged.

A foreign file cannot run code (SQLite's documentation, "Defense Against The Dark Arts"), and a
rollback journal is refused, because a crafted one deletes a file of its choice.

Every function with a path raises RunDirectoryError for an unreadable or foreign file.
`localjudge.run_directory.store` has the tables, and writes them. Each answer is stored once, by the
key of its request:

    node key       sha256 of its pieces: text, and whether it is trusted
    request key    sha256 of (engine identity, keys of the nodes root first, shape of the answer)
"""

import hashlib
import os
import sqlite3
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from sys import intern
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from localjudge.dataset.samples import SampleRow
from localjudge.errors import RunDirectoryError
from localjudge.run_directory.directory import (
    BY_HAND,
    MAX_BYTES,
    MAX_VALUE_BYTES,
    canonical_sha256,
    decoded_object,
    excerpt,
    first_problem,
    refuse_irregular,
    too_much,
)
from localjudge.types import Answer, ClassifierReading, Grammar, NoAnswer, Sample, VerdictRequest

VERSION = 1
"""Of the tables, stored as `user_version`."""
PROMPT = """
(SELECT group_concat(text, '') FROM (
    SELECT node.text AS text FROM json_each(request.path) AS step
    JOIN node ON node.id = step.value ORDER BY step.key))
"""
_ALL_REQUESTS = """
SELECT key, content, (SELECT json_group_array(sha256) FROM (
    SELECT sha256 FROM json_each(request.path) AS step
    JOIN node ON node.id = step.value ORDER BY step.key))
FROM request JOIN shape ON shape.id = shape ORDER BY request.id
"""
"""Key, answer shape, and node keys (as JSON) of each request."""
_NAMED_AT_ONCE = 500
_NODES_KEPT = 8_192
DAMAGED = (sqlite3.Error, UnicodeDecodeError)
"""Exceptions of SQLite for a damaged file."""
_RequestKey = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Value = TypeVar("_Value")
_adapter: Callable[[Any], TypeAdapter[Any]] = lru_cache(TypeAdapter)


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


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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
        tuple[_RequestKey, float | None, float | None, str | None, str | None, str | None],
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
    selected = select_named(connection, tuple[str, str, int, int, int, _RequestKey], query, samples)
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


def storable(text: str) -> str:
    """Escape lone surrogates, which SQLite cannot store."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def stored_rows(path: Path) -> Iterator[SampleRow]:
    query = "SELECT position, id, content, extras FROM sample ORDER BY position"
    previous = None
    for row in _rows(path, tuple[int, str, str, str], query):
        sample = SampleRow(*row)
        if sample.position == previous:
            raise RunDirectoryError(f"{path} has two samples at position {previous}", hint=BY_HAND)
        previous = sample.position
        yield sample


def stored_samples(path: Path) -> Iterator[Sample]:
    for row in stored_rows(path):
        yield parse_json(Sample, row.content, path)


def stored_ids(path: Path) -> Iterator[str]:
    for (sample_id,) in _rows(path, tuple[str], "SELECT id FROM sample ORDER BY position"):
        yield sample_id


def stored_extras(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    query = "SELECT id, extras FROM sample ORDER BY position"
    for sample_id, columns in _rows(path, tuple[str, str], query):
        yield sample_id, decoded_object(columns, path)


def stored_keys(path: Path) -> list[str]:
    """Return the keys of all answered requests in the order of asking."""
    query = "SELECT key FROM request JOIN answer ON answer.request = request.id ORDER BY id"
    return [key for (key,) in _rows(path, tuple[_RequestKey], query)]


def stored_sample(path: Path, sample_id: str) -> Sample | None:
    query = "SELECT content FROM sample WHERE id = ?"
    for (content,) in _rows(path, tuple[str], query, (storable(sample_id),)):
        sample = parse_json(Sample, content, path)
        if sample.id == sample_id:
            return sample
    return None


def stored_sample_at(path: Path, position: int) -> Sample:
    query = "SELECT content FROM sample ORDER BY position LIMIT 1 OFFSET ?"
    ((content,),) = _rows(path, tuple[str], query, (position,))
    return parse_json(Sample, content, path)


def stored_clusters(path: Path) -> dict[str, str] | None:
    """Return the group of each sample by id, or None for a run without groups."""
    groups: dict[str, str] = {}
    samples = 0
    for sample_id, name in _rows(path, tuple[str, str | None], "SELECT id, cluster FROM sample"):
        samples += 1
        if name is not None:
            groups[sample_id] = intern(name)
    if 0 < len(groups) < samples:
        raise RunDirectoryError(f"{path} gives a group to only some samples", hint=BY_HAND)
    return groups or None


def stored_prompts(path: Path, sample_id: str, metric: str) -> list[str]:
    query = (
        f"SELECT {PROMPT} FROM unit JOIN request ON id = request"
        " WHERE sample_id = ? AND metric = ? ORDER BY judge, position, window"
    )
    prompts = []
    size = 0
    for (prompt,) in _rows(path, tuple[str], query, (storable(sample_id), metric)):
        size += len(prompt)
        if size > MAX_VALUE_BYTES:
            raise too_much(path, f"{MAX_VALUE_BYTES >> 20} MiB of prompts of one sample")
        prompts.append(prompt)
    return prompts


def stored_user_texts(
    path: Path, sample_id: str, judges: Container[int]
) -> Iterator[tuple[str, int, int, str]]:
    """Yield the user's texts in the prompts to these judges about a sample.

    With the metric, the position of the unit and the number of the judge.
    """
    query = (
        "SELECT unit.metric, unit.position, unit.judge, node.text, node.pieces"
        " FROM unit JOIN request ON request.id = unit.request"
        " JOIN json_each(request.path) AS step JOIN node ON node.id = step.value"
        " WHERE unit.sample_id = ? ORDER BY unit.metric, unit.position, unit.judge, step.key"
    )
    parameters = (storable(sample_id),)
    rows = _rows(path, tuple[str, int, int, str, str], query, parameters)
    for metric, position, judge, text, pieces in rows:
        if judge in judges:
            for piece, is_trusted in _pieces_of(text, pieces, path):
                if not is_trusted:
                    yield metric, position, judge, piece


def stored_answers(path: Path, keys: Iterable[str]) -> dict[str, Answer | NoAnswer]:
    with reading(path) as connection:
        return select_answers(connection, keys)


def answers_of_units(path: Path, samples: Iterable[str]) -> dict[AskedUnit, list[AskedWindow]]:
    """Return the windows of each unit of these samples, with the stored answers."""
    with reading(path) as connection:
        return select_windows(connection, map(storable, samples))


def questions_per_verdict(path: Path, metric: str) -> float:
    """Return how many questions a verdict of a metric takes on average.

    Several judges, windows, and a second reading need more than one.
    """
    query = (
        "SELECT count(*), sum(questions) FROM (SELECT count(*) AS questions FROM unit"
        " WHERE metric = ? GROUP BY sample_id, position)"
    )
    [(verdicts, questions)] = _rows(path, tuple[int, int | None], query, (metric,))
    if not questions:
        return 1.0
    return questions / verdicts


def altered_requests(path: Path, engines: Sequence[Mapping[str, Any]], shapes: Set[str]) -> int:
    """Count the requests to these engines with a wrong key or an unknown answer shape."""
    keys_of_engines = [RequestKeys(engine) for engine in engines]
    altered_nodes = set()
    query = "SELECT sha256, text, pieces FROM node"
    for key, text, lengths in _rows(path, tuple[str, str, str], query):
        if canonical_sha256(_pieces_of(text, lengths, path)) != key:
            altered_nodes.add(key)
    altered = 0
    for key, shape, path_keys in _rows(path, tuple[str, str, str], _ALL_REQUESTS):
        nodes = parse_json(list[str], path_keys, path)
        possible_keys = [keys.make_key(nodes, shape) for keys in keys_of_engines]
        is_intact = shape in shapes and altered_nodes.isdisjoint(nodes) and key in possible_keys
        altered += not is_intact
    return altered


def _pieces_of(text: str, lengths: str, path: Path) -> list[tuple[str, bool]]:
    """Return the pieces of a node, and whether each is trusted."""
    pieces = []
    start = 0
    for length, trusted in parse_json(list[tuple[int, int]], lengths, path):
        pieces.append((text[start : start + length], bool(trusted)))
        start += length
    return pieces


def _rows(
    path: Path, kind: type[_Value], query: str, parameters: Sequence[Any] = ()
) -> Iterator[_Value]:
    with reading(path) as connection:
        yield from select(connection, kind, query, parameters)
