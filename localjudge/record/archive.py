"""What a finished run keeps in `run.sqlite`, read without changing it: the data, what was asked, what was answered.

The file may be a stranger's: `database.py` says what is refused. No row is read twice, so that what comes out of a file
is never more than what is in it.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import Field, TypeAdapter

from localjudge.errors import RunDirectoryError
from localjudge.record.clusters import Clusters
from localjudge.record.database import Reader, more_than_fits, read_only
from localjudge.record.store import (
    READ_VERSIONS,
    answers_by_key,
    answers_by_number,
    rows_named,
    schema,
    storable,
)
from localjudge.record.untrusted import BY_HAND, MOST_BYTES_OF_VALUE, decoded_object, too_much
from localjudge.types import Answer, Grammar, NoAnswer, Node, Piece, Record, Sample, VerdictRequest

_MOST_PIECES = 1_000_000
_ROWS_AT_ONCE = 256
_BYTES_AT_ONCE = 16 << 20
_TABLES = ("sample", "node", "shape", "request", "answer", "unit", "extra", "reused")

_ID = TypeAdapter(tuple[int])
_TEXT = TypeAdapter(tuple[str])
_TEXTS = TypeAdapter(tuple[str, str])
_NUMBER_AND_TEXT = TypeAdapter(tuple[int, str])
_SAMPLE = TypeAdapter(Sample)
_Count = Annotated[int, Field(ge=0)]
_PIECES = TypeAdapter(list[tuple[_Count, int]])
_PATH = TypeAdapter(list[int])
_UNIT = TypeAdapter(tuple[str, str, int, int, int | None, int | None])
_REQUEST = TypeAdapter(tuple[int, str, int, _Count, str])

_Value = TypeVar("_Value")


class StoredRequest(NamedTuple):
    """What was asked, under which key, and what was answered; `number` is that of its row."""

    number: int
    key: str
    request: VerdictRequest
    answer: Answer | NoAnswer


class StoredAsking(NamedTuple):
    """That a unit of a sample asked the request with this number, which has an answer."""

    sample_id: str
    metric: str
    position: int
    number: int


class WindowedUnits(NamedTuple):
    """How many units were asked about in several windows of what they are held against, and in how many questions."""

    units: int
    questions: int


class _Shape(Record):
    """Which answers are legal."""

    grammar: Grammar
    explanation: Grammar | None = None


_SHAPE = TypeAdapter(_Shape)


def stored_samples(path: Path) -> Iterator[Sample]:
    """The samples in the order of the data. Raises RunDirectoryError if the file cannot be read."""
    for reader, contents in _in_order(path, "content"):
        samples = [reader.json(_SAMPLE, content) for content in contents]
        yield from samples


def stored_ids(path: Path) -> Iterator[str]:
    """The ids of the samples in the order of the data. Raises RunDirectoryError if the file cannot be read."""
    for _, ids in _in_order(path, "id"):
        yield from ids


def stored_extras(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Id and other columns of each sample in the order of the data; no columns in a file of a version without them.

    Raises RunDirectoryError if the file cannot be read.
    """
    for reader, ids in _in_order(path, "id"):
        there: dict[str, str] = {}
        if "extra" in _tables(reader.version):
            query = "SELECT sample_id, columns FROM extra WHERE sample_id IN "
            there = dict(rows_named(reader, _TEXTS, query, ids))
        yield from [(one, decoded_object(there.get(one, "{}"), path)) for one in ids]


def stored_sample(path: Path, sample_id: str) -> Sample | None:
    """The sample of that id; None if there is none. Raises RunDirectoryError if the file cannot be read."""
    _rows_in_order(path)  # a table that is none is refused, wherever the sample stands in it
    with reading(path) as reader:
        found = reader.rows(_TEXT, "SELECT content FROM sample WHERE id = ?", (storable(sample_id),))
        samples = (reader.json(_SAMPLE, content) for (content,) in found)
        return next((sample for sample in samples if sample.id == sample_id), None)


def stored_samples_at(path: Path, positions: Sequence[int]) -> dict[int, Sample]:
    """The samples at these positions in the order of the data. Raises RunDirectoryError if the file cannot be read."""
    rows = _rows_in_order(path)
    numbers = {rows[position]: position for position in positions}
    with reading(path) as reader:
        found = rows_named(reader, _NUMBER_AND_TEXT, _named("sample", "content"), numbers)
        return {numbers[number]: reader.json(_SAMPLE, content) for number, content in found}


def stored_positions(path: Path) -> "array[int]":
    """Positions of the samples in the data, ascending: those of a shard have others between them.

    Raises RunDirectoryError if the file cannot be read, or has two samples at one position.
    """
    with reading(path) as reader:
        query = "SELECT position FROM sample ORDER BY position"
        positions = array("q", (position for (position,) in reader.rows(_ID, query)))
    _refuse_shared(path, positions)
    return positions


def _in_order(path: Path, column: Literal["content", "id"]) -> Iterator[tuple[Reader, list[str]]]:
    """A column of the samples in the order of the data, some at a time, with the reader that they came from.

    What is held are the numbers of the rows, 8 bytes a sample. Each part is read with limits of its own: whoever takes
    the samples may take their time.
    """
    numbers = _rows_in_order(path)
    for some in _portions(path, numbers):
        with reading(path) as reader:
            found = _Known(path, rows_named(reader, _NUMBER_AND_TEXT, _named("sample", column), some))
            yield reader, [found[number] for number in some]


def _portions(path: Path, numbers: "array[int]") -> Iterator[list[int]]:
    """Numbers of rows, some at a time: few where rows are so large that many of them would fill the memory."""
    at_once = max(1, min(_ROWS_AT_ONCE, _BYTES_AT_ONCE * len(numbers) // path.stat().st_size))
    rest = iter(numbers)
    while some := list(islice(rest, at_once)):
        yield some


def _rows_in_order(path: Path) -> "array[int]":
    """Numbers of the rows of the samples in the order of the data, which is the order in which they are written."""
    numbers, positions = array("q"), array("q")
    with reading(path) as reader:
        query = "SELECT rowid, id, position FROM sample"
        for number, _, position in reader.rows(TypeAdapter(tuple[int, str, int]), query):
            if numbers and number <= numbers[-1]:  # a table is scanned by the numbers of its rows
                raise more_than_fits(path)
            numbers.append(number)
            positions.append(position)
    if all(one < other for one, other in pairwise(positions)):
        return numbers
    places = sorted(range(len(numbers)), key=positions.__getitem__)
    _refuse_shared(path, map(positions.__getitem__, places))
    return array("q", map(numbers.__getitem__, places))


def _refuse_shared(path: Path, positions: Iterable[int]) -> None:
    """Raise RunDirectoryError for two samples at one of these positions, which ascend."""
    if any(one == other for one, other in pairwise(positions)):
        raise RunDirectoryError(f"{path} has two samples at one position", hint=BY_HAND)


def stored_clusters(path: Path) -> Clusters | None:
    """The group of each sample; None for a run whose samples each stand alone.

    Raises RunDirectoryError if the file cannot be read, or gives a group to some samples only.
    """
    clusters = Clusters()
    samples = 0
    with reading(path) as reader:
        for sample_id, cluster in reader.rows(TypeAdapter(tuple[str, str | None]), "SELECT id, cluster FROM sample"):
            samples += 1
            if cluster is not None:
                clusters.add(sample_id, cluster)
    if 0 < len(clusters) < samples:
        raise RunDirectoryError(f"{path} gives a group to some samples only", hint=BY_HAND)
    return clusters if len(clusters) else None


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


def windowed_units(path: Path, metric: str | None = None) -> WindowedUnits:
    """The units that a judge was asked about more than once, of all metrics or of one.

    Raises RunDirectoryError if the file cannot be read.
    """
    with reading(path) as reader:
        of_metric, values = ("", ()) if metric is None else ("WHERE metric = ? ", (storable(metric),))
        query = (
            "SELECT count(*), coalesce(sum(questions), 0) FROM (SELECT count(*) AS questions FROM unit "
            f"{of_metric}GROUP BY sample_id, metric, position HAVING count(*) > 1)"
        )
        return WindowedUnits(*next(reader.rows(TypeAdapter(tuple[int, int]), query, values)))


def stored_requests(path: Path) -> Iterator[StoredRequest]:
    """Every request that has an answer, put together again from its pieces, in the order in which they were asked.

    They are read some at a time, each part with limits of its own: whoever takes them may take their time. Raises
    RunDirectoryError if the file cannot be read.
    """
    with reading(path) as reader:
        query = "SELECT id FROM request JOIN answer ON answer.request = request.id ORDER BY id"
        numbers = array("q", (number for (number,) in reader.rows(_ID, query)))
    for some in _portions(path, numbers):
        with reading(path) as reader:
            found = numbered_requests(reader, some)
        yield from found


def numbered_requests(reader: Reader, numbers: Sequence[int]) -> list[StoredRequest]:
    """The requests with these numbers, which have answers."""
    query = _named("request", "key", "shape", "entry", "path")
    rows = _Known(reader.path, ((row[0], row) for row in rows_named(reader, _REQUEST, query, numbers)))
    paths = {number: reader.json(_PATH, rows[number][4]) for number in numbers}
    nodes = _nodes(reader, set(chain.from_iterable(paths.values())))
    shapes = _shapes(reader, {row[2] for row in rows.values()})
    answers = answers_by_number(reader, numbers)
    return [
        StoredRequest(
            number,
            rows[number][1],
            _request([nodes[step] for step in paths[number]], shapes[rows[number][2]], rows[number][3], reader),
            answers[number],
        )
        for number in numbers
    ]


def stored_keys(path: Path) -> list[str]:
    """The keys of all requests that have an answer. Raises RunDirectoryError if the file cannot be read."""
    with reading(path) as reader:
        query = "SELECT key FROM request JOIN answer ON answer.request = request.id"
        return [key for (key,) in reader.rows(_TEXT, query)]


def stored_answers(path: Path, keys: Iterable[str]) -> dict[str, Answer | NoAnswer]:
    """The answers to the requests with these keys, as far as there are any. Raises as `stored_requests` does."""
    with reading(path) as reader:
        return answers_by_key(reader, keys)


def numbered_answers(path: Path, numbers: Iterable[int]) -> dict[int, Answer | NoAnswer]:
    """The answers to the requests with these numbers. Raises RunDirectoryError if the file cannot be read."""
    with reading(path) as reader:
        return answers_by_number(reader, numbers)


def stored_askings(path: Path) -> Iterator[StoredAsking]:
    """Which unit of which sample asked which request, by sample, metric, position and window."""
    with reading(path) as reader:
        query = (
            "SELECT sample_id, metric, position, unit.request, request.id, answer.request FROM unit "
            "LEFT JOIN request ON request.id = unit.request LEFT JOIN answer ON answer.request = unit.request "
            "ORDER BY sample_id, metric, position, window"
        )
        for sample_id, metric, position, number, known, answered in reader.rows(_UNIT, query):
            if known is None:
                raise _lacking(path, number)
            if answered is not None:
                yield StoredAsking(sample_id, metric, position, number)


class _Known(dict[int, _Value]):
    """Rows of a table by their id. Raises RunDirectoryError for one that another row names and that is not there."""

    def __init__(self, path: Path, rows: Iterable[tuple[int, _Value]]) -> None:
        super().__init__(rows)
        self._path = path

    def __missing__(self, key: int) -> _Value:
        raise _lacking(self._path, key)


def _lacking(path: Path, number: int) -> RunDirectoryError:
    return RunDirectoryError(f"{path} lacks row {number}, which another row names", hint=BY_HAND)


def _nodes(reader: Reader, numbers: Iterable[int]) -> _Known[Node]:
    rows = rows_named(reader, TypeAdapter(tuple[int, str, str]), _named("node", "text", "pieces"), numbers)
    return _Known(reader.path, ((number, _node(text, reader.json(_PIECES, pieces))) for number, text, pieces in rows))


def _shapes(reader: Reader, numbers: Iterable[int]) -> _Known[_Shape]:
    rows = rows_named(reader, _NUMBER_AND_TEXT, _named("shape", "content"), numbers)
    return _Known(reader.path, ((number, reader.json(_SHAPE, content)) for number, content in rows))


def _node(text: str, pieces: list[tuple[int, int]]) -> Node:
    found = []
    start = 0
    for length, trusted in pieces:
        found.append(Piece(text=text[start : start + length], trusted=bool(trusted)))
        start += length
    return tuple(found)


def _request(path: Sequence[Node], shape: _Shape, entry: int, reader: Reader) -> VerdictRequest:
    if sum(map(len, path)) > _MOST_PIECES:
        raise too_much(reader.path, f"{_MOST_PIECES:,} pieces in a prompt")
    if entry >= shape.grammar.verdicts:
        raise RunDirectoryError(f"{reader.path} asks for verdict {entry} of {shape.grammar.verdicts}", hint=BY_HAND)
    return VerdictRequest(path=tuple(path), grammar=shape.grammar, explanation=shape.explanation, entry=entry)


def _named(table: str, *columns: str) -> str:
    """A query that ends in `IN`, for rows by their numbers."""
    return f"SELECT {', '.join(('rowid', *columns))} FROM {table} WHERE rowid IN "


def schema_is_ours(path: Path) -> bool:
    """Whether the file has the tables and views that localjudge creates, word for word, and nothing else."""
    with reading(path) as reader:
        return reader.schema() == schema(reader.version)


def reading(path: Path) -> AbstractContextManager[Reader]:
    """The file as long as it is read. Raises RunDirectoryError where it is not what localjudge writes."""
    return read_only(path, {version: _tables(version) for version in READ_VERSIONS})


def _tables(version: int) -> dict[str, str]:
    """The tables that are read, as a file of that version has them."""
    return {name: statement for name, statement in schema(version).items() if name in _TABLES}
