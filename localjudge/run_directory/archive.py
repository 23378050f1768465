"""Read samples, questions and answers from the `run.sqlite` of a run.

Every function raises RunDirectoryError for an unreadable or foreign file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from sys import intern
from typing import Any, TypeVar

from localjudge.dataset.samples import SampleRow
from localjudge.errors import RunDirectoryError
from localjudge.run_directory.directory import (
    BY_HAND,
    MAX_VALUE_BYTES,
    decoded_object,
    too_much,
)
from localjudge.run_directory.request_keys import RequestKeys, canonical_sha256
from localjudge.run_directory.store import storable
from localjudge.run_directory.store_reader import (
    ALL_REQUESTS,
    PROMPT,
    AskedUnit,
    AskedWindow,
    RequestKey,
    parse_json,
    reading,
    select,
    select_answers,
    select_windows,
)
from localjudge.types import Answer, NoAnswer, Sample

_Row = TypeVar("_Row")


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
    return [key for (key,) in _rows(path, tuple[RequestKey], query)]


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
    path: Path, sample_id: str, judges: Sequence[int]
) -> Iterator[tuple[str, int, str]]:
    """Yield the user's texts in the prompts to these judges about a sample.

    With the metric and the position of the unit.
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
                    yield metric, position, piece


def stored_answers(path: Path, keys: Iterable[str]) -> dict[str, Answer | NoAnswer]:
    with reading(path) as connection:
        return select_answers(connection, keys)


def answers_of_units(path: Path, samples: Iterable[str]) -> dict[AskedUnit, list[AskedWindow]]:
    """Return the windows of each unit of these samples, with the stored answers."""
    with reading(path) as connection:
        return select_windows(connection, map(storable, samples))


def altered_requests(path: Path, engines: Sequence[Mapping[str, Any]], shapes: Set[str]) -> int:
    """Count the requests to these engines with a wrong key or an unknown answer shape."""
    keys_of_engines = [RequestKeys(engine) for engine in engines]
    altered_nodes = set()
    query = "SELECT sha256, text, pieces FROM node"
    for key, text, lengths in _rows(path, tuple[str, str, str], query):
        if canonical_sha256(_pieces_of(text, lengths, path)) != key:
            altered_nodes.add(key)
    altered = 0
    for key, shape, path_keys in _rows(path, tuple[str, str, str], ALL_REQUESTS):
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
    path: Path, kind: type[_Row], query: str, parameters: Sequence[Any] = ()
) -> Iterator[_Row]:
    with reading(path) as connection:
        yield from select(connection, kind, query, parameters)
