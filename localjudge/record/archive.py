"""What a finished run keeps in `run.sqlite`, read without changing it: the data, what was asked, what was answered.

Each function raises RunDirectoryError if the file cannot be read, or is not what localjudge writes.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import Field, TypeAdapter

from localjudge.dataset.samples import SampleRow
from localjudge.errors import RunDirectoryError
from localjudge.record.directory import BY_HAND, MOST_BYTES_OF_VALUE, decoded_object, too_much
from localjudge.record.store import STORE_VERSION, Reader, answers_by, read_only, rows_named, storable
from localjudge.types import Answer, Grammar, NoAnswer, Node, Piece, Record, Sample, VerdictRequest

_MOST_PIECES = 1_000_000
_REQUESTS_AT_ONCE = 256

_ID = TypeAdapter(tuple[int])
_TEXT = TypeAdapter(tuple[str])
_TEXTS = TypeAdapter(tuple[str, str])
_NUMBER_AND_TEXT = TypeAdapter(tuple[int, str])
_SAMPLE = TypeAdapter(Sample)
_SAMPLE_ROW = TypeAdapter(tuple[int, str, str, str])
_Count = Annotated[int, Field(ge=0)]
_PIECES = TypeAdapter(list[tuple[_Count, int]])
_PATH = TypeAdapter(list[int])
_NODE_ROW = TypeAdapter(tuple[int, str, str])
_REQUEST = TypeAdapter(tuple[int, str, int, _Count, str])

_Value = TypeVar("_Value")


class StoredRequest(NamedTuple):
    """What was asked, under which key, and what was answered; `number` is that of its row."""

    number: int
    key: str
    request: VerdictRequest
    answer: Answer | NoAnswer


class _Shape(Record):
    """Which answers are legal."""

    grammar: Grammar
    explanation: Grammar | None = None


_SHAPE = TypeAdapter(_Shape)


def stored_samples(path: Path) -> Iterator[Sample]:
    """The samples in the order of the data. Raises RunDirectoryError where two are at one position."""
    before, query = None, "SELECT position, content FROM sample ORDER BY position"
    with reading(path) as reader:
        for position, content in reader.rows(_NUMBER_AND_TEXT, query):
            if position == before:
                raise RunDirectoryError(f"{path} has two samples at one position", hint=BY_HAND)
            before = position
            yield reader.json(_SAMPLE, content)


def stored_rows(path: Path) -> Iterator[SampleRow]:
    """The samples and their other columns as they stand there, in the order of the data; nothing reads their JSON."""
    with reading(path) as reader:
        for row in reader.rows(_SAMPLE_ROW, "SELECT position, id, content, extras FROM sample ORDER BY position"):
            yield SampleRow(*row)


def stored_ids(path: Path) -> Iterator[str]:
    """The ids of the samples in the order of the data."""
    with reading(path) as reader:
        for (sample_id,) in reader.rows(_TEXT, "SELECT id FROM sample ORDER BY position"):
            yield sample_id


def stored_extras(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Id and other columns of each sample in the order of the data."""
    with reading(path) as reader:
        for sample_id, columns in reader.rows(_TEXTS, "SELECT id, extras FROM sample ORDER BY position"):
            yield sample_id, decoded_object(columns, path)


def stored_sample(path: Path, sample_id: str) -> Sample | None:
    """The sample of that id; None if there is none."""
    with reading(path) as reader:
        found = reader.rows(_TEXT, "SELECT content FROM sample WHERE id = ?", (storable(sample_id),))
        samples = (reader.json(_SAMPLE, content) for (content,) in found)
        return next((sample for sample in samples if sample.id == sample_id), None)


def stored_samples_at(path: Path, positions: Sequence[int]) -> dict[int, Sample]:
    """The samples at these positions in the order of the data."""
    with reading(path) as reader:
        numbers = [number for (number,) in reader.rows(_ID, "SELECT rowid FROM sample ORDER BY position")]
        places = {numbers[position]: position for position in positions}
        rows = rows_named(reader, _NUMBER_AND_TEXT, _named("sample", "content"), places)
        return {places[number]: reader.json(_SAMPLE, content) for number, content in rows}


def stored_clusters(path: Path) -> dict[str, str] | None:
    """The group of each sample by its id; None for a run whose samples each stand alone."""
    groups: dict[str, str] = {}
    names: dict[str, str] = {}
    samples = 0
    with reading(path) as reader:
        for sample_id, name in reader.rows(TypeAdapter(tuple[str, str | None]), "SELECT id, cluster FROM sample"):
            samples += 1
            if name is not None:
                groups[sample_id] = names.setdefault(name, name)
    if 0 < len(groups) < samples:
        raise RunDirectoryError(f"{path} gives a group to some samples only", hint=BY_HAND)
    return groups or None


def stored_prompts(path: Path, sample_id: str, metric: str) -> list[str]:
    """Prompts asked for one metric on one sample, in the order of its units and windows."""
    with reading(path) as reader:
        query = "SELECT request FROM unit WHERE sample_id = ? AND metric = ? ORDER BY position, window"
        asked = [request for (request,) in reader.rows(_ID, query, (storable(sample_id), metric))]
        rows = rows_named(reader, _NUMBER_AND_TEXT, _named("request", "path"), set(asked))
        paths = _Known(path, ((number, reader.json(_PATH, steps)) for number, steps in rows))
        steps = set(chain.from_iterable(paths[request] for request in asked))
        texts = _Known(path, rows_named(reader, _NUMBER_AND_TEXT, _named("node", "text"), steps))
    if sum(len(texts[node]) for request in asked for node in paths[request]) > MOST_BYTES_OF_VALUE:
        raise too_much(path, f"{MOST_BYTES_OF_VALUE >> 20} MiB of prompts of one sample")
    return ["".join(texts[node] for node in paths[request]) for request in asked]


def windowed_units(path: Path, metric: str | None = None) -> tuple[int, int]:
    """Units that a judge was asked about in several windows, of all metrics or of one; and in how many questions."""
    with reading(path) as reader:
        of_metric, values = ("", ()) if metric is None else ("WHERE metric = ? ", (storable(metric),))
        query = (
            "SELECT count(*), coalesce(sum(questions), 0) FROM (SELECT count(*) AS questions FROM unit "
            f"{of_metric}GROUP BY sample_id, metric, position HAVING count(*) > 1)"
        )
        return next(reader.rows(TypeAdapter(tuple[int, int]), query, values))


def stored_requests(path: Path) -> Iterator[StoredRequest]:
    """Every request that has an answer, put together again, some at a time, in the order in which they were asked."""
    with reading(path) as reader:
        query = "SELECT id FROM request JOIN answer ON answer.request = request.id ORDER BY id"
        numbers = (number for (number,) in reader.rows(_ID, query))
        while some := list(islice(numbers, _REQUESTS_AT_ONCE)):
            yield from numbered_requests(reader, some)


def numbered_requests(reader: Reader, numbers: Sequence[int]) -> list[StoredRequest]:
    """The requests with these numbers, which have answers."""
    where, query = reader.path, _named("request", "key", "shape", "entry", "path")
    rows = _Known(where, ((row[0], row) for row in rows_named(reader, _REQUEST, query, numbers)))
    paths = {number: reader.json(_PATH, rows[number][4]) for number in numbers}
    steps, numbers_of_shapes = set(chain.from_iterable(paths.values())), {row[2] for row in rows.values()}
    node_rows = rows_named(reader, _NODE_ROW, _named("node", "text", "pieces"), steps)
    nodes = _Known(where, ((number, _node(text, reader.json(_PIECES, cut))) for number, text, cut in node_rows))
    shape_rows = rows_named(reader, _NUMBER_AND_TEXT, _named("shape", "content"), numbers_of_shapes)
    shapes = _Known(where, ((number, reader.json(_SHAPE, content)) for number, content in shape_rows))
    answers = answers_by(reader, "request", numbers)
    requests = []
    for number in numbers:
        _, key, of_shape, entry, _ = rows[number]
        path, shape = tuple(nodes[step] for step in paths[number]), shapes[of_shape]
        if sum(map(len, path)) > _MOST_PIECES:
            raise too_much(where, f"{_MOST_PIECES:,} pieces in a prompt")
        if entry >= shape.grammar.verdicts:
            raise RunDirectoryError(f"{where} asks for verdict {entry} of {shape.grammar.verdicts}", hint=BY_HAND)
        request = VerdictRequest(path=path, grammar=shape.grammar, explanation=shape.explanation, entry=entry)
        requests.append(StoredRequest(number, key, request, answers[number]))
    return requests


def stored_keys(path: Path) -> list[str]:
    """The keys of all requests that have an answer."""
    with reading(path) as reader:
        query = "SELECT key FROM request JOIN answer ON answer.request = request.id"
        return [key for (key,) in reader.rows(_TEXT, query)]


def stored_answers(path: Path, keys: Iterable[str]) -> dict[str, Answer | NoAnswer]:
    """The answers to the requests with these keys, as far as there are any."""
    with reading(path) as reader:
        return answers_by(reader, "key", keys)


class _Known(dict[int, _Value]):
    """Rows of a table by their id. Raises RunDirectoryError for one that another row names and that is not there."""

    def __init__(self, path: Path, rows: Iterable[tuple[int, _Value]]) -> None:
        super().__init__(rows)
        self._path = path

    def __missing__(self, key: int) -> _Value:
        raise RunDirectoryError(f"{self._path} lacks row {key}, which another row names", hint=BY_HAND)


def _node(text: str, pieces: list[tuple[int, int]]) -> Node:
    ends = accumulate((length for length, _ in pieces), initial=0)
    return tuple(
        Piece(text=text[start : start + length], trusted=bool(trusted))
        for start, (length, trusted) in zip(ends, pieces, strict=False)
    )


def _named(table: str, *columns: str) -> str:
    """A query that ends in `IN`, for rows by their numbers."""
    return f"SELECT {', '.join(('rowid', *columns))} FROM {table} WHERE rowid IN "


def reading(path: Path) -> AbstractContextManager[Reader]:
    """The file as long as it is read."""
    return read_only(path, STORE_VERSION)
