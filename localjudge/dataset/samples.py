"""Store checked samples in a temporary database, so that they can be read repeatedly in little memory.

    row ──> position, id, content (JSON), extras (JSON), hash        the primary key keeps ids unique

Samples are identified by content, independent of position and file format:

    content_hash   sha256 of one sample without its id
    fingerprint    sha256 of the sorted hashes of all samples with their ids

Null fields and defaults count as absent, so a new field of `Sample` changes neither.

A row without id gets `row-` and 12 digits of its content hash, so moving a row keeps its id. Rows with equal content
get the suffixes `-2`, `-3`, ... in order, skipping ids used by other rows.

SQLite stores data beyond its cache in an unnamed file (in `SQLITE_TMPDIR` or `TMPDIR`, mode 0600).
"""

import hashlib
import json
import math
import re
import sqlite3
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, Self, TypeVar

from localjudge.dataset.problems import DEEPEST, describe
from localjudge.errors import InputError, OutOfResource
from localjudge.types import CONTEXT_FIELDS, FieldName, Sample
from localjudge.words import option_name

_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def content_hash(sample: Sample) -> str:
    """Return the sha256 (hexadecimal) of a sample without its id."""
    return hash_of(sample.model_dump(exclude={"id"}, exclude_defaults=True)).hex()


def sample_hash(sample: Sample) -> bytes:
    """Return the sha256 of a sample with its id, as `fingerprint_of` expects it."""
    return hash_of(sample.model_dump(exclude_defaults=True))


def fingerprint(samples: Iterable[Sample]) -> str:
    """Return the sha256 (hexadecimal) of the samples in any order. Uses 32 bytes of memory for each."""
    return fingerprint_of(sorted(map(sample_hash, samples)))


def fingerprint_of(ordered: Iterable[bytes]) -> str:
    """Return the fingerprint from sorted results of `hash_of`."""
    whole = hashlib.sha256(b"[")
    for position, digest in enumerate(ordered):
        whole.update(b'%s"%s"' % (b"," if position else b"", digest.hex().encode()))
    whole.update(b"]")
    return whole.hexdigest()


def hash_of(fields: Mapping[str, Any]) -> bytes:
    """Return the sha256 of the fields. An empty text counts as null, because CSV cannot distinguish them."""
    text = _ENCODER.encode({name: value for name, value in fields.items() if value != ""})
    return hashlib.sha256(text.encode()).digest()


_SHARD = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


class Shard(NamedTuple):
    """Shard `number` (from 1) of `of` shards: the samples with sha256 of the id modulo `of` equal to `number` - 1."""

    number: int
    of: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse a shard such as `2/4`. Raises InputError for any other text."""
        match = _SHARD.fullmatch(text)
        number, count = map(int, match.groups()) if match else (0, 0)
        if not 1 <= number <= count:
            raise InputError(
                f"{option_name('shard')} must be I/N with I from 1 to N, got {text!r:.80}",
                hint="the second of four shards is 2/4",
            )
        return cls(number, count)

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def shard_number(sample_id: str, count: int) -> int:
    """Return the shard (1 to `count`) of a sample. It depends only on the id."""
    return int.from_bytes(id_digest(f"shard|{sample_id}")) % count + 1


def id_digest(text: str) -> bytes:
    """Return the sha256 of a text with an id, which may contain a lone surrogate."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


_DIGITS = 12
_CACHE_KIB = 8_192
_LARGEST = 2**63
_TABLE = """
CREATE TABLE sample (position INTEGER PRIMARY KEY, id TEXT UNIQUE, content TEXT NOT NULL, extras TEXT NOT NULL,
                     hash BLOB NOT NULL, bare INTEGER NOT NULL, place TEXT NOT NULL, made INTEGER NOT NULL)
"""
_PUT = "INSERT OR IGNORE INTO sample VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_T = TypeVar("_T")


class SampleRow(NamedTuple):
    """A sample as stored in a run: `content` is the sample as JSON, `extras` its other columns."""

    position: int
    id: str
    content: str
    extras: str


class SampleTable:
    """Samples by position, for one thread at a time. Raises OutOfResource if there is no room."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._database.close)  # Python 3.13 warns of one that is only forgotten
        for setting in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{_CACHE_KIB}"):
            self._database.execute(f"PRAGMA {setting}")
        self._database.execute(_TABLE)
        self._size = 0
        self.contexts_each: tuple[int, int] | None = None
        """Minimum and maximum number of retrieved contexts in rows with a list of contexts."""
        self.has_text: dict[FieldName, bool] = {}

    def __len__(self) -> int:
        return self._size

    def add(
        self, values: Mapping[str, Any], extras: Mapping[str, Any], place: object = "", position: int | None = None
    ) -> str | None:
        """Add a row given as arguments of `Sample`, or return the place of the row with the same id."""
        position = self._size if position is None else position
        # Without nulls and defaults, as `model_dump(exclude_defaults=True)` gives them.
        fields = {name: value for name, value in values.items() if value is not None}
        for field in fields.keys() & CONTEXT_FIELDS:
            fields[field] = [
                {name: value for name, value in context.items() if value is not None and value != {}}
                for context in fields[field]
            ]
        made = "id" not in fields
        if made:
            fields["id"] = f"row-{hash_of(fields).hex()[:_DIGITS]}"
        content = _ENCODER.encode(fields)
        digest = hash_of(fields) if "" in fields.values() else hashlib.sha256(content.encode()).digest()
        bare = False
        for field, contexts in ((field, fields[field]) for field in CONTEXT_FIELDS if fields.get(field)):
            texts = sum("text" in context for context in contexts)
            bare = bare or texts < len(contexts)
            self.has_text[field] = self.has_text.get(field, False) or texts > 0
        row = (content, extras_text(extras), digest, bare, str(place), made)
        with in_temporary_file():
            if not self._put(position, fields["id"], row):
                if not made:
                    query = "SELECT made, place FROM sample WHERE id = ?"
                    is_made, first = self._database.execute(query, (fields["id"],)).fetchone()
                    if not is_made:
                        return str(first)
                    self._database.execute("UPDATE sample SET id = NULL WHERE id = ?", (fields["id"],))
                self._put(position, None if made else fields["id"], row)
        if (retrieved := fields.get("retrieved_contexts")) is not None:
            fewest, most = self.contexts_each or (len(retrieved), len(retrieved))
            self.contexts_each = min(fewest, len(retrieved)), max(most, len(retrieved))
        return None

    def complete_ids(self) -> None:
        """Resolve generated ids that collide with other rows, after all rows are added."""
        numbers: Counter[str] = Counter()
        rows = "SELECT position, content FROM sample WHERE id IS NULL AND position > ? ORDER BY position LIMIT 1"
        position = -1
        with in_temporary_file():
            while row := self._database.execute(rows, (position,)).fetchone():
                position, fields = row[0], json.loads(row[1])
                name, done = fields["id"], 0
                while not done:
                    numbers[name] += 1
                    fields["id"] = f"{name}-{numbers[name] + 1}"
                    update = "UPDATE OR IGNORE sample SET id = ?, content = ?, hash = ? WHERE position = ?"
                    values = (fields["id"], _ENCODER.encode(fields), hash_of(fields), position)
                    done = self._database.execute(update, values).rowcount

    def where(self, is_chosen: Callable[[int, str], bool], *, in_place: bool) -> "SampleTable":
        """Return the rows chosen by position and id, renumbered unless `in_place`. Facts describe the whole table."""
        part = SampleTable()
        part.contexts_each, part.has_text = self.contexts_each, self.has_text
        rows = (row for row in self._select("*") if is_chosen(row[0], row[1]))
        with in_temporary_file():
            for position, *row in rows:
                part._put(position if in_place else len(part), row[0], tuple(row[1:]))
        return part

    def sample_at(self, position: int) -> Sample:
        """Return the sample at this position."""
        with in_temporary_file():
            query = "SELECT content FROM sample WHERE position = ?"
            return Sample.model_validate_json(self._database.execute(query, (position,)).fetchone()[0])

    def rows(self) -> Iterator[SampleRow]:
        """Yield every row as stored in a run."""
        return map(SampleRow._make, self._select("position, id, content, extras"))

    @property
    def fingerprint(self) -> str:
        """Sha256 of the samples with their ids, independent of order."""
        return fingerprint_of(digest for (digest,) in self._select("hash", order="hash"))

    @property
    def without_text(self) -> frozenset[FieldName]:
        """Fields of contexts that have ids but no text in any row."""
        return frozenset(field for field, has_text in self.has_text.items() if not has_text)

    @property
    def bare(self) -> int:
        """Number of samples with a context that has only an id."""
        return sum(is_bare for (is_bare,) in self._select("bare"))

    def _select(self, columns: str, *, order: str = "position", end: str = "") -> Iterator[tuple[Any, ...]]:
        with in_temporary_file():
            yield from self._database.execute(f"SELECT {columns} FROM sample ORDER BY {order} {end}")

    def _put(self, position: int, identifier: str | None, row: tuple[Any, ...]) -> bool:
        added = self._database.execute(_PUT, (position, identifier, *row)).rowcount > 0
        self._size += added
        return added


class Column(Sequence[_T], Generic[_T]):
    """A column of the table as values, read anew each time. Equal to any sequence of equal values."""

    def __init__(self, table: SampleTable, name: str, read: Callable[[str], _T]) -> None:
        self._table = table
        self._name = name
        self._read = read

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[_T]:
        return (self._read(text) for (text,) in self._table._select(self._name))

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(len(self))[index])
        place = range(len(self))[index]
        return next(self._read(text) for (text,) in self._table._select(self._name, end=f"LIMIT 1 OFFSET {place}"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_EXTRAS = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def extras_text(extras: Mapping[str, Any]) -> str:
    """Return the other columns of a sample as JSON, with NaN as null and other objects as text."""
    return _EXTRAS.encode(_jsonable(extras, DEEPEST))


def _jsonable(value: Any, levels: int) -> Any:
    jsonable: Any
    match value:
        case str():
            # SQLite holds UTF-8, and readers of JSON expect it: a lone surrogate is neither.
            jsonable = value.encode("utf-8", "backslashreplace").decode("utf-8")
        case Mapping() if levels:
            jsonable = {_jsonable(str(name), 0): _jsonable(item, levels - 1) for name, item in value.items()}
        case list() if levels:
            jsonable = [_jsonable(item, levels - 1) for item in value]
        case float() if not math.isfinite(value):
            jsonable = None if math.isnan(value) else str(value)
        case None | bool() | float():
            jsonable = value
        case int() if -_LARGEST <= value < _LARGEST:
            jsonable = value
        case set() | frozenset() if levels:
            jsonable = sorted((_jsonable(item, levels - 1) for item in value), key=str)
        case int() | list() | Mapping():
            jsonable = describe(value)
        case _:  # an interval, a period, a path: the text that it has in every process, if it has one
            text = str(value)
            jsonable = describe(value) if _ADDRESS.search(text) else _jsonable(text, 0)
    return jsonable


@contextmanager
def in_temporary_file() -> Iterator[None]:
    """Convert errors of the temporary file to OutOfResource."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        raise OutOfResource(
            f"the data cannot be kept in a temporary file: {error}",
            hint="make room there, or name another directory in the environment variable TMPDIR",
        ) from error
