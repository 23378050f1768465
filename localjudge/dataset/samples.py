"""Store checked samples in a temporary SQLite database, to read them repeatedly in little memory.

    content_hash   sha256 of one sample without its id
    fingerprint    sha256 of the sorted hashes of all samples with their ids

Null fields and defaults count as absent, so a new field of `Sample` changes neither. A row without
id gets `row-` and 12 digits of its content hash. Rows with equal content get the suffixes `-2`,
`-3`, ... in order, skipping used ids.
"""

import hashlib
import json
import math
import operator
import re
import sqlite3
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from localjudge.dataset.rows import DEEPEST, describe
from localjudge.errors import OutOfResource
from localjudge.types import CONTEXT_FIELDS, FieldName, Sample

_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))
_EXTRAS_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_LARGEST = 2**63  # integers below it are stored as integers
_DIGITS = 12  # of a content hash in an id
_CACHE_KIB = 8_192
_TABLE = """
CREATE TABLE sample (
    position INTEGER PRIMARY KEY,
    id TEXT UNIQUE,
    content TEXT NOT NULL,
    extras TEXT NOT NULL,
    hash BLOB NOT NULL,
    bare INTEGER NOT NULL,
    place TEXT NOT NULL,
    generated INTEGER NOT NULL
)
"""
_PUT = "INSERT OR IGNORE INTO sample VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_T = TypeVar("_T")


class SampleRow(NamedTuple):
    """A sample as stored in a run: its fields and its other columns as JSON."""

    position: int
    id: str
    content: str
    extras: str


class SampleTable:
    """Samples by position, for one thread. Raises OutOfResource if the disk is full.

    `contexts_each` is the minimum and maximum number of retrieved contexts, `has_text` tells for
    each field with contexts whether one has a text. A part of a table keeps these values.
    """

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        # Python 3.13 warns about connections that are not closed.
        weakref.finalize(self, self._database.close)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._database.execute(_TABLE)
        self._size = 0
        self.contexts_each: tuple[int, int] | None = None
        self.has_text: dict[FieldName, bool] = {}

    def __len__(self) -> int:
        return self._size

    def add(
        self,
        values: Mapping[str, Any],
        extras: Mapping[str, Any],
        place: object = "",
        position: int | None = None,
    ) -> str | None:
        """Add a row given as arguments of `Sample`, unless another row has the same id.

        Returns the place of the other row, or None.
        """
        if position is None:
            position = self._size
        fields = {name: value for name, value in values.items() if value is not None}
        bare = False
        for field in fields.keys() & CONTEXT_FIELDS:
            fields[field] = list(map(_without_empty_values, fields[field]))
            bare = bare or any("text" not in context for context in fields[field])
        generated = "id" not in fields
        if generated:
            fields["id"] = f"row-{_hash_fields(fields).hex()[:_DIGITS]}"
        content = _ENCODER.encode(fields)
        if "" in fields.values():
            digest = _hash_fields(fields)
        else:
            digest = hashlib.sha256(content.encode()).digest()
        row = (content, extras_text(extras), digest, bare, str(place), generated)
        with _in_temporary_file():
            other_place = self._put_new(position, fields["id"], row, generated=generated)
        if other_place is None:
            for field in CONTEXT_FIELDS:
                for context in fields.get(field, ()):
                    has_text = "text" in context
                    self.has_text[field] = self.has_text.get(field, False) or has_text
            retrieved = fields.get("retrieved_contexts")
            if retrieved is not None:
                count = len(retrieved)
                minimum, maximum = self.contexts_each or (count, count)
                self.contexts_each = (min(minimum, count), max(maximum, count))
        return other_place

    def _put_new(
        self, position: int, identifier: str, row: tuple[Any, ...], *, generated: bool
    ) -> str | None:
        """Add a row, or return the place of the other row with this id.

        A generated id that is taken is left out until `complete_ids`.
        """
        if self._put(position, identifier, row):
            return None
        if generated:
            self._put(position, None, row)
            return None
        query = "SELECT generated, place FROM sample WHERE id = ?"
        other_generated, other_place = self._database.execute(query, (identifier,)).fetchone()
        if not other_generated:
            return str(other_place)
        self._database.execute("UPDATE sample SET id = NULL WHERE id = ?", (identifier,))
        self._put(position, identifier, row)
        return None

    def complete_ids(self) -> None:
        """Give the rows with taken ids other ones, in order."""
        numbers: Counter[str] = Counter()
        rows = (
            "SELECT position, content FROM sample WHERE id IS NULL AND position > ?"
            " ORDER BY position LIMIT 1"
        )
        update = "UPDATE OR IGNORE sample SET id = ?, content = ?, hash = ? WHERE position = ?"
        position = -1
        with _in_temporary_file():
            while row := self._database.execute(rows, (position,)).fetchone():
                position = row[0]
                fields = json.loads(row[1])
                name = fields["id"]
                done = 0
                while not done:
                    numbers[name] += 1
                    fields["id"] = f"{name}-{numbers[name] + 1}"
                    values = (fields["id"], _ENCODER.encode(fields), _hash_fields(fields), position)
                    done = self._database.execute(update, values).rowcount

    def where(self, is_chosen: Callable[[int, str], bool], *, in_place: bool) -> "SampleTable":
        """Return the rows chosen by position and id, renumbered unless `in_place`."""
        part = SampleTable()
        part.contexts_each = self.contexts_each
        part.has_text = self.has_text
        with _in_temporary_file():
            for position, identifier, *row in self._select("*"):
                if not is_chosen(position, identifier):
                    continue
                new_position = len(part)
                if in_place:
                    new_position = position
                part._put(new_position, identifier, tuple(row))
        return part

    def sample_at(self, position: int) -> Sample:
        with _in_temporary_file():
            query = "SELECT content FROM sample WHERE position = ?"
            (content,) = self._database.execute(query, (position,)).fetchone()
            return Sample.model_validate_json(content)

    def rows(self) -> Iterator[SampleRow]:
        return map(SampleRow._make, self._select("position, id, content, extras"))

    def place_at(self, position: int) -> str:
        """Return the place of a row in its file."""
        query = "SELECT place FROM sample WHERE position = ?"
        with _in_temporary_file():
            (place,) = self._database.execute(query, (position,)).fetchone()
        return str(place)

    def places_without_id(self) -> dict[int, str]:
        """Return the places of the rows whose ids are generated, by position."""
        rows = self._select("position, place, generated")
        return {position: place for position, place, generated in rows if generated}

    @property
    def fingerprint(self) -> str:
        return _compute_fingerprint(digest for (digest,) in self._select("hash", order="hash"))

    @property
    def without_text(self) -> frozenset[FieldName]:
        return frozenset(field for field, has_text in self.has_text.items() if not has_text)

    @property
    def bare(self) -> int:
        """Number of samples with a context without text."""
        return sum(is_bare for (is_bare,) in self._select("bare"))

    def _select(
        self,
        columns: str,
        *,
        order: str = "position",
        end: str = "",
    ) -> Iterator[tuple[Any, ...]]:
        with _in_temporary_file():
            yield from self._database.execute(
                f"SELECT {columns} FROM sample ORDER BY {order} {end}",
            )

    def _put(self, position: int, identifier: str | None, row: tuple[Any, ...]) -> bool:
        added = self._database.execute(_PUT, (position, identifier, *row)).rowcount > 0
        self._size += added
        return added


class Column(Sequence[_T]):
    """Values of a column, read at each access. Equal to any sequence of equal values."""

    def __init__(self, table: SampleTable, name: str, read: Callable[[str], _T]) -> None:
        self._table = table
        self._name = name
        self._read = read

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[_T]:
        for (text,) in self._table._select(self._name):
            yield self._read(text)

    def __getitem__(self, index: int | slice) -> Any:
        position = range(len(self))[index]
        if isinstance(position, range):
            return tuple(self[each] for each in position)
        [(text,)] = self._table._select(self._name, end=f"LIMIT 1 OFFSET {position}")
        return self._read(text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(map(operator.eq, self, other))

    __hash__ = None  # type: ignore[assignment]


def content_hash(sample: Sample) -> str:
    """Return the sha256 (hexadecimal) of a sample without its id."""
    return _hash_fields(sample.model_dump(exclude={"id"}, exclude_defaults=True)).hex()


def fingerprint(samples: Iterable[Sample]) -> str:
    """Return the sha256 (hexadecimal) of the samples in any order."""
    hashes = (_hash_fields(sample.model_dump(exclude_defaults=True)) for sample in samples)
    return _compute_fingerprint(sorted(hashes))


def columns_fingerprint(rows: Iterable[SampleRow]) -> str:
    """Return the sha256 (hexadecimal) of the columns that are not fields, in any order of rows."""
    digests = []
    for row in rows:
        text = _ENCODER.encode([row.id, row.extras])
        digests.append(hashlib.sha256(text.encode()).digest())
    return _compute_fingerprint(sorted(digests))


def _compute_fingerprint(ordered: Iterable[bytes]) -> str:
    """Return the sha256 of a JSON list of sorted hashes."""
    whole = hashlib.sha256(b"[")
    separator = b""
    for digest in ordered:
        whole.update(b'%s"%s"' % (separator, digest.hex().encode()))
        separator = b","
    whole.update(b"]")
    return whole.hexdigest()


def _hash_fields(fields: Mapping[str, Any]) -> bytes:
    """Return the sha256 of the fields. An empty text counts as null, as in CSV."""
    text = _ENCODER.encode({name: value for name, value in fields.items() if value != ""})
    return hashlib.sha256(text.encode()).digest()


def extras_text(extras: Mapping[str, Any]) -> str:
    """Write columns as JSON, with NaN as null and other objects as text."""
    return _EXTRAS_ENCODER.encode(_jsonable(extras, DEEPEST))


def _jsonable(value: Any, levels: int) -> Any:
    jsonable: Any = value
    match value:
        case str():
            # SQLite stores UTF-8, which has no lone surrogates.
            jsonable = value.encode("utf-8", "backslashreplace").decode("utf-8")
        case Mapping() | list() | set() | frozenset() if levels:
            jsonable = _jsonable_items(value, levels - 1)
        case float() if not math.isfinite(value):
            if math.isnan(value):
                jsonable = None
            else:
                jsonable = str(value)
        case int() if not -_LARGEST <= value < _LARGEST:
            jsonable = describe(value)
        case None | int() | float():
            pass
        case list() | Mapping():
            jsonable = describe(value)
        case _:  # an interval, a period, a path: its text, unless it contains a memory address
            text = str(value)
            if _ADDRESS.search(text):
                text = describe(value)
            jsonable = _jsonable(text, 0)
    return jsonable


def _jsonable_items(value: Any, levels: int) -> dict[str, Any] | list[Any]:
    """Return a container with JSON values, down to this many more levels."""
    if isinstance(value, Mapping):
        items = {}
        for name, item in value.items():
            items[_jsonable(str(name), 0)] = _jsonable(item, levels)
        return items
    elements = [_jsonable(item, levels) for item in value]
    if isinstance(value, list):
        return elements
    return sorted(elements, key=str)


def _without_empty_values(context: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in context.items() if value is not None and value != {}}


@contextmanager
def _in_temporary_file() -> Iterator[None]:
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        raise OutOfResource(
            f"the data cannot be stored in a temporary file: {error}",
            hint="free disk space there, or set the environment variable TMPDIR to another "
            "directory",
        ) from error
