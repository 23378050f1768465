"""Every format in which rows come, each as rows.

The content of a file decides first, then the ending of its name: people name a JSON array `.jsonl` and lines `.json`.

    PAR1           Parquet                                 ARROW1, ff ff ff ff    Arrow file (Feather), Arrow stream
    PK             a log of inspect (.eval)                .csv .tsv              CSV
    [              one array                               {                      lines if the first is complete,
    anything else  lines if the name says JSON, or CSV                            otherwise one object

One object may hold all rows: under a name of its own, as a log of inspect, or as columns.

    {"results": [{"query": ...}, {"query": ...}]}                    RAGChecker and others; also anywhere, by a path
    {"results": {"results": [...], "prompts": [...]}}                promptfoo
    {"questions": ["...", "..."], "contexts": [[...], [...]]}        Haystack's inputs, `to_dict` of data frames
    {"columns": ["question", ...], "data": [["...", ...], ...]}      pandas, orient="split"
    {"version": 2, "eval": {...}, "samples": [{"input": ...}]}       inspect_ai 0.3

An object is columns if a question or an answer in it is a list, since in a row it is a text or a conversation. A list
in it is its rows if objects in the list have columns that are known: any other list may be the contexts of one row.

Data of other packages in memory are known by their methods, so that no package is imported: pandas and polars frames,
whatever has `__arrow_c_stream__`, data sets of Hugging Face, ragas and DeepEval, iterables of rows or of tables. What
can be gone through only once is kept in a temporary file. Parquet and Arrow need pyarrow.
"""

import csv
import io
import json
import pickle
import sys
import tempfile
import weakref
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import IO, Any, TextIO

from localjudge.dataset.columns import ALIASES, LOOSE_NAMES, columns_of
from localjudge.dataset.problems import (
    BLANK,
    DECODER,
    MISSING,
    Place,
    Problem,
    describe,
    first_part,
    has_value,
    lookup,
    names_inside,
    reaches_inside,
    reason,
    shown,
)
from localjudge.dataset.rows import ROW, RawRow, last_turn, plain, raw_row
from localjudge.dataset.samples import in_temporary_file
from localjudge.dataset.sources import (
    ALWAYS_UNPACKED,
    NOT_UTF8,
    OpenSource,
    Source,
    check_expansion,
    head_of,
    refuse_undecodable,
    text_of,
    undecodable,
)
from localjudge.errors import DataError, UsageError
from localjudge.types import Sample
from localjudge.words import option

PARQUET_MAGIC = b"PAR1"
FILE_MAGIC = b"ARROW1"
STREAM_MAGIC = b"\xff\xff\xff\xff"
"""What a message of a stream begins with (Arrow 0.15 and later): the length of its schema follows."""
BATCH_ROWS = 256
_FEWEST_AT_ONCE = 16
_BYTES_A_ROW = 64
"""What a row counts at least: rows of nulls take no room in a file."""


def read_batches(stream: IO[bytes], source: str, head: bytes) -> Iterator[RawRow]:
    """One row for each row of a Parquet file, an Arrow file or an Arrow stream; `head` is how it begins.

    Raises UsageError without pyarrow and DataError for a damaged file or a column name that stands twice.
    """
    is_parquet = head.startswith(PARQUET_MAGIC)
    kind = "a Parquet file" if is_parquet else "an Arrow file"
    pyarrow = pyarrow_for(f"{source} is {kind}")
    stream = stream if stream.seekable() else io.BytesIO(stream.read())
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    unpacked = 0
    try:
        batches = _parquet_batches(stream, source, size) if is_parquet else _arrow_batches(stream, source, size, head)
        # One at a time: many cells may hold one large value.
        for row in rows_of_batches(batches, source, at_once=1):
            unpacked += _BYTES_A_ROW + _size(row.values)
            check_expansion(source, size, unpacked)
            yield row
    except (pyarrow.ArrowException, MemoryError) as error:  # a damaged length may ask for any amount of memory
        raise DataError(f"{source} is a damaged {kind.split(' ', 1)[1]}: {error}", hint="write it again") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{source} holds text that is not UTF-8: {error.reason}", hint="write it again") from error


def _parquet_batches(stream: IO[bytes], source: str, size: int) -> Iterable[Any]:
    from pyarrow import parquet  # type: ignore[import-untyped]

    table = parquet.ParquetFile(stream)
    check_column_names(table.schema_arrow.names, source)
    groups = map(table.metadata.row_group, range(table.metadata.num_row_groups))
    # Each row may hold a value of nearly as many bytes as the largest column of a row group.
    sizes = (group.column(at).total_uncompressed_size for group in groups for at in range(group.num_columns))
    largest = max(sizes, default=0)
    check_expansion(source, size, largest)
    batches: Iterable[Any] = table.iter_batches(max(_FEWEST_AT_ONCE, min(BATCH_ROWS, ALWAYS_UNPACKED // (largest + 1))))
    return batches


def _arrow_batches(stream: IO[bytes], source: str, size: int, head: bytes) -> Iterable[Any]:
    from pyarrow import ipc

    if head.startswith(FILE_MAGIC):
        file = ipc.open_file(stream)
        check_column_names(file.schema.names, source)
        batches = map(file.get_batch, range(file.num_record_batches))
    else:
        batches = ipc.open_stream(stream)
        check_column_names(batches.schema.names, source)
    return (_validated(batch, source, size) for batch in batches)


def _validated(batch: Any, source: str, size: int) -> Any:
    """The batch, checked before it is read: what it says of where its values are is part of the file."""
    check_expansion(source, size, batch.get_total_buffer_size() + sum(map(_bytes_viewed, batch.columns)))
    batch.validate(full=True)
    return batch


def _bytes_viewed(column: Any) -> int:
    """The bytes of all texts of a column of views, of which many may look at the same: to check each takes forever."""
    import numpy as np

    if str(column.type) not in {"string_view", "binary_view"}:
        return 0
    lengths = np.frombuffer(column.buffers()[1], np.int32)[::4]
    return int(lengths.astype(np.int64).sum())


def _size(value: Any) -> int:
    match value:
        case str() | bytes():
            return len(value)
        case dict():
            return sum(map(_size, value.values()))
        case list():
            return sum(map(_size, value))
        case _:
            return 1


def rows_of_batches(batches: Iterable[Any], source: str, at_once: int = BATCH_ROWS) -> Iterator[RawRow]:
    """The rows of record batches."""
    number = 0
    for batch in batches:
        for start in range(0, batch.num_rows, at_once):
            for row in batch.slice(start, at_once).to_pylist():
                number += 1
                yield RawRow(Place(source, row=number), plain(row))


def check_column_names(names: Sequence[str], source: str) -> None:
    """Raise DataError for a name that two columns have."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"{source} has two columns {shown(twice[0])}", hint="give every column a name of its own")


def pyarrow_for(what: str) -> Any:
    """The package pyarrow. Raises UsageError if it is not installed: `what` says what needs it."""
    try:
        import pyarrow
    except ImportError as error:
        raise UsageError(
            f"{what}, and pyarrow is not installed", hint="install it with: pip install pyarrow"
        ) from error
    return pyarrow


_DELIMITERS = (",", ";", "\t")
_LONGEST_CELL = min(sys.maxsize, 2**31 - 1)


def read_csv(stream: TextIO, source: str, head: str) -> Iterator[RawRow | Problem]:
    """One row for each record after the header; `head` is how the text begins, and decides on the delimiter.

    `stream` must not translate line ends. Raises DataError for a column named twice and for broken quotes.
    """
    reader = csv.reader(stream, delimiter=_delimiter(head), strict=True)
    records = _records(reader)
    line = 1
    try:
        columns = _columns(next(records, []), source)
        line = reader.line_num + 1
        for cells in records:
            if cells:
                yield _row(cells, columns, Place(source, line=line))
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{source}:{line} is no valid CSV: {error} (at line {reader.line_num})",
            hint='every quote that opens a cell closes it; one inside is written twice: "she said ""yes"""',
        ) from error


def _records(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    """Contexts may be longer than the csv module's limit of 131,072 characters.

    The limit is one for the process: it is another only while a record is read, not while its taker works.
    """
    while True:
        before = csv.field_size_limit(_LONGEST_CELL)
        try:
            cells = next(reader, None)
        finally:
            csv.field_size_limit(before)
        if cells is None:
            return
        yield cells


def _delimiter(head: str) -> str:
    """The delimiter that gives the header most cells; a comma if none does."""
    header = head.lstrip("\r\n").splitlines()[:1]
    return max(_DELIMITERS, key=lambda delimiter: len(next(csv.reader(header, delimiter=delimiter), [])))


def _columns(header: list[str], source: str) -> list[str]:
    names = [cell.strip() or f"column {number}" for number, cell in enumerate(header, 1)]
    for name in names:
        if problem := _not_text(name):
            raise DataError(f"{source}: the header has {problem}", hint=f"save the file as {NOT_UTF8}")
    check_column_names(names, source)
    return names


def _row(cells: list[str], columns: list[str], place: Place) -> RawRow | Problem:
    if len(cells) != len(columns):
        expected = f"{len(columns)} cells, one for each column of the header"
        return Problem.at(place, None, f"a record of {len(cells)}", expected)
    for column, cell in zip(columns, cells, strict=True):
        if problem := _not_text(cell):
            return Problem.at(place, column, problem, NOT_UTF8)
    return RawRow(place, dict(zip(columns, cells, strict=True)), typed=False)


def _not_text(cell: str) -> str | None:
    return "a NUL byte" if "\0" in cell else undecodable(cell)


def read_lines(lines: Iterable[str], source: str) -> Iterator[RawRow | Problem]:
    """One row for each line that is not blank; a single object is `whole`."""
    bare = ((number, line.strip(BLANK)) for number, line in enumerate(lines, 1))
    rows = (_read_line(line, Place(source, line=number)) for number, line in bare if line)
    first, second = next(rows, None), next(rows, None)
    if isinstance(first, RawRow) and second is None:
        first = first._replace(whole=True)
    yield from (row for row in (first, second) if row is not None)
    yield from rows


def read_document(stream: TextIO, source: str) -> Iterator[RawRow | Problem]:
    """An array, one row for each element, or one object on several lines. Raises DataError if it is not valid JSON."""
    text = stream.read().strip(BLANK)
    refuse_undecodable(text, source, line=1)
    try:
        value: Any = DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        place = Place(source, line=error.lineno if isinstance(error, json.JSONDecodeError) else None)
        raise DataError(
            f"{place} is not valid JSON: {reason(error)}",
            hint="write one object, an array of objects, or one on each line",
        ) from error
    if isinstance(value, list):
        yield from (raw_row(element, Place(source, row=number)) for number, element in enumerate(value, 1))
    else:
        yield RawRow(Place(source, row=1), value, whole=True)


def _read_line(line: str, place: Place) -> RawRow | Problem:
    if byte := undecodable(line):
        return Problem.at(place, None, byte, NOT_UTF8)
    try:
        value = DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        return Problem.at(place, None, f"no valid JSON: {reason(error)}", ROW)
    return raw_row(value, place)


ZIP_MAGIC = b"PK\x03\x04"
_SAMPLES = "samples/"
_JSON = ".json"
_ZSTD = 93
_LOCAL_HEADER = 30
"""Bytes before the name in the header of a member; the lengths of its name and its extra field are the last four."""
_KEPT = ("id", "epoch", "input", "choices", "target", "output", "scores", "metadata")


def is_log(values: Mapping[str, Any]) -> bool:
    """Whether an object is a log with its samples."""
    return values.keys() >= {"version", "eval", "samples"} and isinstance(values["samples"], list)


def rows_of_log(values: Mapping[str, Any], source: str) -> Iterator[RawRow | Problem]:
    """The samples of a log that is one object."""
    for number, sample in enumerate(values["samples"], 1):
        yield raw_row(_log_row(sample), Place(source, row=number))


def read_archive(stream: IO[bytes], source: str) -> Iterator[RawRow | Problem]:
    """The samples of a log that is a zip archive. Raises DataError for any other archive and for a damaged one."""
    try:
        with zipfile.ZipFile(stream if stream.seekable() else io.BytesIO(stream.read())) as archive:
            for number, member in enumerate(_samples(archive, source), 1):
                yield _read_sample(_bytes_of(archive, member, source), Place(source, row=number))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{source} cannot be unpacked: {error}", hint="the file is damaged or not complete") from error


def _samples(archive: zipfile.ZipFile, source: str) -> Iterable[zipfile.ZipInfo]:
    members = archive.infolist()
    if not any(member.filename in {"header.json", "_journal/start.json"} for member in members):
        raise DataError(
            f"{source} is a zip archive or an Excel workbook", hint="save the sheet as CSV, or unpack the archive"
        )
    return (member for member in members if member.filename.startswith(_SAMPLES) and member.filename.endswith(_JSON))


def _bytes_of(archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: str) -> bytes:
    check_expansion(source, member.compress_size, member.file_size)
    if member.compress_type != _ZSTD:
        return archive.read(member)
    pyarrow = pyarrow_for(f"{source} is packed with zstd")
    file = archive.fp
    if file is None:
        raise zipfile.BadZipFile("the archive is closed")
    file.seek(member.header_offset)
    header = file.read(_LOCAL_HEADER)
    name, extra = (int.from_bytes(header[place : place + 2], "little") for place in (26, 28))
    file.seek(name + extra, io.SEEK_CUR)
    try:
        with pyarrow.CompressedInputStream(pyarrow.BufferReader(file.read(member.compress_size)), "zstd") as unpacked:
            content = bytes(unpacked.read(member.file_size))
    except (pyarrow.ArrowException, OSError) as error:
        raise zipfile.BadZipFile(str(error)) from error
    if zlib.crc32(content) != member.CRC:
        raise zipfile.BadZipFile(f"the checksum of {member.filename} is wrong")
    return content


def _read_sample(content: bytes, place: Place) -> RawRow | Problem:
    try:
        value = DECODER.decode(content.decode())
    except (ValueError, RecursionError) as error:
        return Problem.at(place, None, f"no valid JSON: {reason(error)}", ROW)
    return raw_row(_log_row(value), place)


def _log_row(sample: Any) -> Any:
    if not isinstance(sample, Mapping):
        return sample
    kept = {name: sample[name] for name in _KEPT if name in sample}
    if isinstance(output := kept.get("output"), Mapping):
        kept["output"] = {name: output[name] for name in ("completion", "model") if name in output}
    epoch = kept.get("epoch")
    if isinstance(epoch, int) and epoch > 1:
        kept["id"] = f"{kept.get('id')}_epoch_{epoch}"
    return kept


Rows = Callable[[], Iterable[Any]]
_LISTS = ("test_cases", "goldens")
"""DeepEval's data set, which is nothing that can be gone through, has its rows in one of these."""


def rows_of_table(data: Any, name: str) -> Rows | None:
    """The rows of a table, as often as wanted; None if the data are no table.

    Raises UsageError for several tables or a package that is not installed, DataError for a column that stands twice.
    """
    if isinstance(data, Mapping):
        return _rows_of_splits(data, name)
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):
        data = data.collect()
    if hasattr(data, "to_frame"):
        raise UsageError(
            f"the data are one column (a {type(data).__name__})",
            hint="give the whole frame, or data.to_frame() if a metric needs nothing else",
        )
    if _is_pandas(data):
        check_column_names([str(column) for column in data.columns], name)
        return lambda: _rows_of_pandas(data)
    if hasattr(data, "iter_rows"):
        return lambda: data.iter_rows(named=True)
    if hasattr(data, "__arrow_c_stream__"):
        table = pyarrow_for("the data are an Arrow table").table(data)
        check_column_names(table.column_names, name)
        return lambda: (row.values for row in rows_of_batches(table.to_batches(), name))
    return None


def rows_of_iterable(data: Any, name: str) -> Rows:
    """The rows of what can be gone through. Raises UsageError for anything else, DataError for DeepEval's empty one."""
    if isinstance(data, Iterable):
        again = (
            data if hasattr(data, "__len__") and hasattr(data, "__getitem__") else _Kept(_without_tables(data, name))
        )
        return lambda: _without_tables(again, name)
    if all(hasattr(data, attribute) for attribute in _LISTS):
        filled = [rows for attribute in _LISTS if (rows := getattr(data, attribute))]
        if not filled:
            raise DataError(f"{name} has no rows", hint="add test cases or goldens")
        return lambda: filled[0]
    raise UsageError(
        f"the data are of the type {type(data).__name__}", hint="give the name of a file, several, rows or a data frame"
    )


class _Kept:
    """Rows that can be gone through only once, made plain, in a temporary file without a name."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - the finalizer closes it
        weakref.finalize(self, self._file.close)
        for row in rows:
            is_sample = isinstance(row, Sample)
            content = io.BytesIO()
            _RowPickler(content).dump((is_sample, row.model_dump() if is_sample else plain(row)))
            with in_temporary_file():
                self._file.write(content.getvalue())

    def __iter__(self) -> Iterator[Any]:
        place, end = 0, self._file.seek(0, io.SEEK_END)
        while place < end:
            self._file.seek(place)
            is_sample, row = pickle.load(self._file)
            place = self._file.tell()
            yield Sample.model_validate(row) if is_sample else row


class _RowPickler(pickle.Pickler):
    """Keeps plain values, and of any other what its type is called: it need not be one that can be written."""

    def reducer_override(self, value: Any) -> Any:
        if value is str or value is _of_type:
            return NotImplemented
        return (str, (str.__str__(value),)) if isinstance(value, str) else (_of_type, (type(value).__name__,))


def _of_type(name: str) -> object:
    return type(name, (), {})()


def _without_tables(rows: Iterable[Any], name: str) -> Iterator[Any]:
    """The rows, those of a table in place of it: what a data set gives that is formatted as frames, or in portions."""
    for row in rows:
        table = None if isinstance(row, Mapping) or not _is_table(row) else rows_of_table(row, name)
        yield from [row] if table is None else table()


def _is_pandas(data: Any) -> bool:
    return hasattr(data, "iloc") and hasattr(data, "columns")


def _is_table(data: Any) -> bool:
    return any(hasattr(data, name) for name in ("column_names", "iter_rows", "collect_schema")) or _is_pandas(data)


def _rows_of_splits(splits: Mapping[Any, Any], name: str) -> Rows | None:
    if not splits or not all(map(_is_table, splits.values())):
        return None
    if len(splits) > 1:
        names = [str(split) for split in splits]
        raise UsageError(
            f"the data are {len(splits)} splits: {', '.join(map(shown, names))}",
            hint=f"give one of them: data[{names[0]!r}]",
        )
    (table,) = splits.values()
    return rows_of_table(table, name) or rows_of_iterable(table, name)


def _rows_of_pandas(frame: Any) -> Iterator[Any]:
    for start in range(0, len(frame), BATCH_ROWS):
        yield from frame.iloc[start : start + BATCH_ROWS].to_dict("records")


_TEXT_FIELDS = ("user_input", "response")
_OF_CONTAINERS = {"data", "outputs", "request"}
"""Names of ours in a row that an object around rows may have as well."""
_TEXTS = frozenset(name for field in _TEXT_FIELDS for name in ALIASES[field]) - _OF_CONTAINERS
_KNOWN = (
    frozenset(
        name for table in (ALIASES, LOOSE_NAMES) for field, names in table.items() if field != "id" for name in names
    )
    - _OF_CONTAINERS
)
_SPLIT = {"columns", "data"}
_ROWS_OF_PROMPTFOO = "results.results"


def expand(row: RawRow, mapping: Mapping[str, str], rows_path: str | None = None) -> Iterator[RawRow | Problem]:
    """The rows that one object holds: those of its columns, those under one of its names, or itself.

    `mapping` is what the user said about columns (ours -> theirs): it tells a row from an object that holds rows;
    `rows_path` is where the user says that they are. Raises DataError for columns of different lengths, and where
    nothing is under that path.
    """
    values, source = row.values, row.place.source
    if rows_path is not None:
        yield from _rows_under(row, mapping, rows_path)
        return
    if _SPLIT <= values.keys() <= _SPLIT | {"index"}:
        yield from _rows_of_split(values, source)
        return
    if is_log(values):
        yield from rows_of_log(values, source)
        return
    reached_into = {first_part(name) for name in columns_of(mapping) if reaches_inside(name)}
    texts = (_TEXTS - reached_into) | {mapping[field] for field in _TEXT_FIELDS if field in mapping}
    if _are_columns(values, texts):
        yield from rows_of_columns(values, source)
        return
    rows = _rows_inside(values, _KNOWN | columns_of(mapping))
    yield from [row] if rows is None else (raw_row(value, Place(source, row=n)) for n, value in enumerate(rows, 1))


def _rows_under(row: RawRow, mapping: Mapping[str, str], path: str) -> Iterator[RawRow | Problem]:
    inside = lookup(row.values, path, MISSING)
    if isinstance(inside, Mapping):
        yield from expand(row._replace(values=inside), mapping)
    elif isinstance(inside, list | tuple):
        yield from (raw_row(value, row.place._replace(row=number)) for number, value in enumerate(inside, 1))
    else:
        found = "nothing" if inside is MISSING else describe(inside)
        keys = ", ".join(shown(str(key)) for key in row.values)
        raise DataError(f"{row.place}: there is {found} under {shown(path)} (keys: {keys})", hint=rows_hint(row.values))


def rows_hint(values: Mapping[str, Any]) -> str | None:
    """How to say where the rows are: the first longest list of objects in an object, if it has any."""
    lists = {
        name: len(value)
        for name, value in names_inside(values)
        if isinstance(value, list) and [*_objects(value)] and "[]" not in name
    }
    longest = max(lists, key=lambda name: lists[name], default=None)
    return longest and f"if the rows are there: {option('rows', longest)}"


def _are_columns(values: Mapping[str, Any], texts: Iterable[str]) -> bool:
    """Whether a text is a list, or everything is an object by row number, as pandas writes it."""
    given = [values[name] for name in texts if name in values]
    if any(isinstance(value, list | tuple) and not last_turn(value) for value in given):
        return True
    by_row = [value for value in values.values() if isinstance(value, Mapping)]
    if not any(isinstance(value, Mapping) for value in given) or None in map(_cells, values.values()):
        return False
    return len(set(map(tuple, by_row))) == 1 or all(str(key).isdecimal() for value in by_row for key in value)


def _rows_inside(values: Mapping[str, Any], known: Iterable[str]) -> list[Any] | None:
    """The one list whose objects have columns that are known; None where the object is a row itself."""
    if any(has_value(values, name) for name in known):
        return None
    lists = [value for value in (*values.values(), lookup(values, _ROWS_OF_PROMPTFOO)) if isinstance(value, list)]
    if lists == [[]] and len(values) == 1:
        return []
    rows = [value for value in lists if any(has_value(row, name) for row in _objects(value) for name in known)]
    return rows[0] if len(rows) == 1 else None


def _objects(values: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    return (value for value in values if isinstance(value, Mapping))


def rows_of_columns(values: Mapping[str, Any], source: str) -> Iterator[RawRow]:
    """Rows of columns, each a list of cells. Raises DataError if they are not of one length."""
    columns = {name: _cells(value) for name, value in values.items()}
    sound = {name: cells for name, cells in columns.items() if cells is not None}
    numbering = {tuple(value) for value in values.values() if isinstance(value, Mapping)}
    if len(sound) < len(columns) or len({len(cells) for cells in sound.values()}) > 1 or len(numbering) > 1:
        found = (f"{shown(name)}: {'no list' if cells is None else len(cells)}" for name, cells in columns.items())
        raise DataError(
            f"{source} holds columns, but not of the same rows ({', '.join(found)})",
            hint="give every column one value for each row, or write one object for each row",
        )
    for number, row in enumerate(zip(*sound.values(), strict=True), 1):
        yield RawRow(Place(source, row=number), dict(zip(sound, row, strict=True)))


def _rows_of_split(values: Mapping[str, Any], source: str) -> Iterator[RawRow]:
    """Rows of a table that names its columns once. Raises DataError for what is no such table."""
    columns, data = values["columns"], values["data"]
    if not (isinstance(columns, list) and all(isinstance(name, str) for name in columns) and isinstance(data, list)):
        raise DataError(
            f"{source} holds columns and data, but not as a table of pandas does (orient='split')",
            hint="write one object for each row: orient='records'",
        )
    for number, cells in enumerate(data, 1):
        if not isinstance(cells, list) or len(cells) != len(columns):
            raise DataError(
                f"{source}: row {number} of data has {describe(cells)}, and there are {len(columns)} columns",
                hint="write one object for each row: orient='records'",
            )
        yield RawRow(Place(source, row=number), dict(zip(columns, cells, strict=True)))


def _cells(value: Any) -> list[Any] | None:
    """The cells of a column: a list, or an object by row number, as pandas writes it."""
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else None


_CSV = {".csv", ".tsv"}
_LINES = {".jsonl", ".ndjson"}


def read(source: Source, mapping: Mapping[str, str], rows_path: str | None = None) -> Iterator[RawRow | Problem]:
    """Rows of a source, from its beginning. Raises DataError if it cannot be read.

    `mapping` and `rows_path` are what the user said about columns and about where the rows are, as for `expand`.
    """
    with source.open() as opened:
        for row in _rows(opened, PurePath(opened.name.lower().removesuffix(".gz")).suffix):
            if isinstance(row, RawRow) and (row.whole or rows_path):
                yield from expand(row, mapping, rows_path)
            else:
                yield row


def _rows(source: OpenSource, ending: str) -> Iterator[RawRow | Problem]:
    if source.head.startswith((PARQUET_MAGIC, FILE_MAGIC, STREAM_MAGIC)):
        yield from read_batches(source.stream, source.name, source.head)
        return
    if source.head.startswith(ZIP_MAGIC):
        yield from read_archive(source.stream, source.name)
        return
    head = head_of(source)
    beginning = head.lstrip(BLANK)[:1]
    if ending in _CSV or (beginning not in {"[", "{"} and ending not in _LINES | {".json"}):
        with text_of(source, newline="") as text:
            yield from read_csv(text, source.name, head)
        return
    with text_of(source) as text:
        one_object = beginning == "{" and ending not in _LINES and not _first_line_is_complete(head)
        read_json = read_document if beginning == "[" or one_object else read_lines
        yield from read_json(text, source.name)


def _first_line_is_complete(head: str) -> bool:
    """Whether the first line ends an object. A line longer than the head is taken for one of many."""
    line, end, _ = head.strip(BLANK).partition("\n")
    return not end or line.rstrip(BLANK).endswith("}")
