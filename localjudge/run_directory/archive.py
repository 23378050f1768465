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
    MOST_BYTES_OF_VALUE,
    decoded_object,
    too_much,
)
from localjudge.run_directory.store import (
    ALL_REQUESTS,
    PROMPT,
    AskedUnit,
    AskedWindow,
    RequestKeys,
    answers_about,
    canonical_sha256,
    checked_json,
    reading,
    storable,
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
    return (checked_json(Sample, row.content, path) for row in stored_rows(path))


def stored_ids(path: Path) -> Iterator[str]:
    return (name for (name,) in _rows(path, tuple[str], "SELECT id FROM sample ORDER BY position"))


def stored_extras(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = _rows(path, tuple[str, str], "SELECT id, extras FROM sample ORDER BY position")
    return ((sample_id, decoded_object(columns, path)) for sample_id, columns in rows)


def stored_keys(path: Path) -> list[str]:
    """Return the keys of all answered requests in the order of asking."""
    query = "SELECT key FROM request JOIN answer ON answer.request = request.id ORDER BY id"
    return [key for (key,) in _rows(path, tuple[str], query)]


def stored_sample(path: Path, sample_id: str) -> Sample | None:
    with reading(path) as reader:
        rows = reader.rows(
            tuple[str], "SELECT content FROM sample WHERE id = ?", (storable(sample_id),)
        )
        samples = (checked_json(Sample, content, path) for (content,) in rows)
        return next((sample for sample in samples if sample.id == sample_id), None)


def stored_sample_at(path: Path, position: int) -> Sample:
    query = "SELECT content FROM sample ORDER BY position LIMIT 1 OFFSET ?"
    ((content,),) = _rows(path, tuple[str], query, (position,))
    return checked_json(Sample, content, path)


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
        f"SELECT {PROMPT} FROM unit JOIN request ON id = request WHERE sample_id = ? AND metric = ?"
    )
    rows = _rows(
        path,
        tuple[str],
        f"{query} ORDER BY judge, position, window",
        (storable(sample_id), metric),
    )
    prompts, size = [], 0
    for (prompt,) in rows:
        size += len(prompt)
        if size > MOST_BYTES_OF_VALUE:
            raise too_much(path, f"{MOST_BYTES_OF_VALUE >> 20} MiB of prompts of one sample")
        prompts.append(prompt)
    return prompts


def stored_answers(path: Path, keys: Iterable[str]) -> dict[str, Answer | NoAnswer]:
    with reading(path) as reader:
        return reader.answers_by(keys)


def answers_of_units(path: Path, samples: Iterable[str]) -> dict[AskedUnit, list[AskedWindow]]:
    """Return the windows of each unit of these samples, with the stored answers."""
    with reading(path) as reader:
        return answers_about(reader, map(storable, samples))


def altered_requests(path: Path, engines: Sequence[Mapping[str, Any]], shapes: Set[str]) -> int:
    """Count the requests to these engines with a wrong key or an unknown answer shape."""
    keys_of_engines, altered = [RequestKeys(engine) for engine in engines], set()
    with reading(path) as reader:
        for key, text, lengths in reader.rows(
            tuple[str, str, str], "SELECT sha256, text, pieces FROM node"
        ):
            pieces, start = [], 0
            for length, trusted in checked_json(list[tuple[int, int]], lengths, path):
                pieces.append((text[start : start + length], bool(trusted)))
                start += length
            if canonical_sha256(pieces) != key:
                altered.add(key)
        return sum(
            shape not in shapes
            or not altered.isdisjoint(nodes := checked_json(list[str], path_keys, path))
            or key not in [keys.key_of(nodes, shape) for keys in keys_of_engines]
            for key, shape, path_keys in reader.rows(tuple[str, str, str], ALL_REQUESTS)
        )


def _rows(
    path: Path, kind: type[_Row], query: str, parameters: Sequence[Any] = ()
) -> Iterator[_Row]:
    with reading(path) as reader:
        yield from reader.rows(kind, query, parameters)
