"""What a finished run keeps in `run.sqlite`, read without changing it: the data, what was asked, what was answered."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from localjudge.errors import RunDirectoryError
from localjudge.record.keys import Node
from localjudge.record.store import Asking
from localjudge.types import Answer, NoAnswer, Piece, Sample, VerdictRequest


class StoredRequest(NamedTuple):
    """What was asked, under which key, and what was answered."""

    key: str
    request: VerdictRequest
    answer: Answer | NoAnswer


def stored_samples(path: Path) -> tuple[Sample, ...]:
    """The samples in the order of the data. Raises RunDirectoryError if the file cannot be read."""
    with _reading(path) as connection:
        rows = connection.execute("SELECT content FROM sample ORDER BY position")
        return tuple(Sample.model_validate(json.loads(content)) for (content,) in rows)


def stored_clusters(path: Path) -> dict[str, str] | None:
    """The group of each sample by its id; None for a run whose samples each stand alone."""
    with _reading(path) as connection:
        return dict(connection.execute("SELECT id, cluster FROM sample WHERE cluster IS NOT NULL")) or None


def stored_prompts(path: Path, sample_id: str, metric: str) -> list[str]:
    """Prompts asked for one metric on one sample, in the order of its units, then of their windows."""
    query = "SELECT prompt FROM verdict WHERE sample_id = ? AND metric = ? ORDER BY position, window"
    with _reading(path) as connection:
        return [prompt for (prompt,) in connection.execute(query, (sample_id, metric))]


def stored_requests(path: Path) -> list[StoredRequest]:
    """Every request that has an answer, put together again from its pieces, in the order in which they were asked."""
    query = """
        SELECT request.key, shape.content, request.entry, request.path, p_yes, legal_mass, raw, reason, error
        FROM request JOIN shape ON shape.id = request.shape JOIN answer ON answer.request = request.id
        ORDER BY request.id
    """
    with _reading(path) as connection:
        nodes = {
            identifier: _node(text, json.loads(pieces))
            for identifier, text, pieces in connection.execute("SELECT id, text, pieces FROM node")
        }
        return [
            StoredRequest(key, _request(shape, entry, [nodes[step] for step in json.loads(path)]), _answer(*answer))
            for key, shape, entry, path, *answer in connection.execute(query)
        ]


def stored_askings(path: Path) -> list[Asking]:
    """Which unit of which sample asked which request."""
    query = """
        SELECT sample_id, metric, position, window, request.key FROM unit JOIN request ON request.id = unit.request
        ORDER BY sample_id, metric, position, window
    """
    with _reading(path) as connection:
        return [Asking(*row) for row in connection.execute(query)]


def _node(text: str, pieces: list[tuple[int, int]]) -> Node:
    found = []
    start = 0
    for length, trusted in pieces:
        found.append(Piece(text=text[start : start + length], trusted=bool(trusted)))
        start += length
    return tuple(found)


def _request(shape: str, entry: int, path: Sequence[Node]) -> VerdictRequest:
    return VerdictRequest.model_validate({**json.loads(shape), "entry": entry, "path": tuple(path)})


def _answer(
    p_yes: float | None, legal_mass: float | None, raw: str | None, reason: str | None, error: str | None
) -> Answer | NoAnswer:
    if error is not None:
        return NoAnswer(error=error)
    return Answer.model_validate({"p_yes": p_yes, "legal_mass": legal_mass, "raw": raw, "reason": reason})


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    # A file that nobody writes is opened as immutable: that works on a read-only disk, too.
    written_now = path.with_name(f"{path.name}-wal").exists()
    mode = "mode=ro" if written_now else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)) as connection:
            yield connection
    except sqlite3.DatabaseError as error:
        raise RunDirectoryError(f"{path} cannot be read: {error}", hint="is it the directory of a run?") from error
