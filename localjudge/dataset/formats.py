"""Rows of files in every format, and of data in memory.

The content decides on the format first, then the name's ending: people name a JSON array `.jsonl` and lines `.json`.

    PAR1                    Parquet                                                    needs pyarrow
    ARROW1, ff ff ff ff     an Arrow or Feather file; an Arrow stream (Hugging Face)   needs pyarrow
    PK                      a log of inspect: header.json, samples/<id>_epoch_<n>.json
    .csv .tsv               CSV: every value is text, and an empty cell is null
    [                       one JSON array
    {                       lines, if the first line is complete (or the name ends in .jsonl), otherwise one object
    anything else           lines, if the name says JSON; otherwise CSV

A line that is not JSON is a problem of its row, and the next line is read. Arrays and single objects are in memory as a
whole: large data is JSONL. Quotes in CSV are read strictly: the lenient reading would take everything after a quote
that is never closed for one cell, and lose the rows in it without a word.

One object may hold all rows, under a name of its own or as columns:

    {"results": [{"query": ...}, {"query": ...}]}           RAGChecker, and many others
    {"results": {"results": [...], "prompts": [...]}}       promptfoo
    {"questions": ["...", "..."], "contexts": [[...], [...]]}    Haystack's inputs, `to_dict` of data frames
    {"columns": ["question", ...], "index": [...], "data": [["...", ...], ...]}    pandas, orient="split"
    {"version": 2, "eval": {...}, "samples": [...]}         a log of inspect
    {"experiment": {"items": [{"query": ...}]}}             anywhere, with a path that says where: experiment.items

An object is columns if a question or an answer in it is a list, since in a row it is a text or a conversation. A list
in it is its rows if objects in the list have columns that are known: any other list may be the contexts of the one row
that it is.

Data of other packages in memory are known by the methods that they have, so that no package is imported: frames of
pandas and polars, what has `__arrow_c_stream__`, Hugging Face's dictionaries of splits, data sets of ragas and
DeepEval, and iterables of rows or of tables (`read_csv(chunksize=...)`). What can be gone through only once is kept in
a temporary file.
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
from localjudge.dataset.sources import ALWAYS_UNPACKED, NOT_UTF8, OpenSource, Source, check_expansion, undecodable
from localjudge.errors import DataError, InputError
from localjudge.types import Sample
from localjudge.words import option

_PARQUET = b"PAR1"
_ARROW_FILE = b"ARROW1"
_ARROW_STREAM = b"\xff\xff\xff\xff"
"""What a message of a stream begins with (Arrow 0.15 and later): the length of its schema follows."""
_ZIP = b"PK\x03\x04"
_CSV = {".csv", ".tsv"}
_LINES = {".jsonl", ".ndjson"}


def read(source: Source, mapping: Mapping[str, str], rows_path: str | None = None) -> Iterator[RawRow | Problem]:
    """Rows of a source, from its beginning. Raises DataError if it cannot be read, InputError if pyarrow is missing.

    `mapping` and `rows_path` are what the user said about columns and about where the rows are, as for `expand`.
    """
    with source.open() as opened:
        for row in _rows(opened, PurePath(opened.name.lower().removesuffix(".gz")).suffix):
            if isinstance(row, RawRow) and (row.whole or rows_path):
                yield from expand(row, mapping, rows_path)
            else:
                yield row


def _rows(source: OpenSource, ending: str) -> Iterator[RawRow | Problem]:
    if source.head.startswith((_PARQUET, _ARROW_FILE, _ARROW_STREAM, _ZIP)):
        stream = source.stream if source.stream.seekable() else io.BytesIO(source.stream.read())
        read_binary = _read_archive if source.head.startswith(_ZIP) else _read_table
        yield from read_binary(stream, source.name)
        return
    head = source.head.decode(source.encoding, errors="ignore")
    line, end, _ = head.strip(BLANK).partition("\n")
    if ending in _CSV or (line[:1] not in {"[", "{"} and ending not in _LINES | {".json"}):
        with source.text(newline="") as text:
            yield from read_csv(text, source.name, head.lstrip("\ufeff"))
        return
    one_object = line[:1] == "{" and ending not in _LINES and end and not line.rstrip(BLANK).endswith("}")
    read_json = _read_document if line[:1] == "[" or one_object else _read_lines
    with source.text() as text:
        yield from read_json(text, source.name)


_LONGEST_CELL = min(sys.maxsize, 2**31 - 1)


def read_csv(stream: TextIO, source: str, head: str) -> Iterator[RawRow | Problem]:
    """One row for each record after the header; `head` is how the text begins, and decides on the delimiter.

    `stream` must not translate line ends. Raises DataError for a column named twice and for broken quotes.
    """
    header = head.lstrip("\r\n").splitlines()[:1]
    delimiter = max((",", ";", "\t"), key=lambda delimiter: len(next(csv.reader(header, delimiter=delimiter), [])))
    reader = csv.reader(stream, delimiter=delimiter, strict=True)
    columns: list[str] | None = None
    line = 1
    try:
        for cells in _records(reader):
            if columns is None:
                columns = [cell.strip() or f"column {number}" for number, cell in enumerate(cells, 1)]
                for problem in filter(None, map(_not_text, columns)):
                    raise DataError(f"{source}: the header has {problem}", hint=f"save the file as {NOT_UTF8}")
                _check_column_names(columns, source)
            elif cells:
                yield _csv_row(cells, columns, Place(source, line=line))
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{source}:{line} is not valid CSV: {error} (at line {reader.line_num})",
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


def _csv_row(cells: list[str], columns: list[str], place: Place) -> RawRow | Problem:
    if len(cells) != len(columns):
        expected = f"{len(columns)} cells, one for each column of the header"
        return Problem.at(place, None, f"a record of {len(cells)}", expected)
    values = dict(zip(columns, cells, strict=True))
    for column, cell in values.items():
        if problem := _not_text(cell):
            return Problem.at(place, column, problem, NOT_UTF8)
    return RawRow(place, values, typed=False)


def _not_text(cell: str) -> str | None:
    return "a NUL byte" if "\0" in cell else undecodable(cell)


def _check_column_names(names: Iterable[str], source: str) -> None:
    """Raise DataError for a name that two columns have."""
    for name in [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{source} has two columns {shown(name)}", hint="give every column a name of its own")


def _read_lines(lines: Iterable[str], source: str) -> Iterator[RawRow | Problem]:
    """One row for each line that is not blank; a single object is `whole`."""
    bare = ((number, line.strip(BLANK)) for number, line in enumerate(lines, 1))
    rows = (_json_row(line, Place(source, line=number)) for number, line in bare if line)
    first, second = next(rows, None), next(rows, None)
    if isinstance(first, RawRow) and second is None:
        first = first._replace(whole=True)
    yield from (row for row in (first, second) if row is not None)
    yield from rows


def _read_document(stream: TextIO, source: str) -> Iterator[RawRow | Problem]:
    """An array, one row for each element, or one object on several lines. Raises DataError if it is not valid JSON."""
    text = stream.read().strip(BLANK)
    try:
        text.encode()
        value: Any = DECODER.decode(text)
    except UnicodeEncodeError as error:
        line = 1 + text.count("\n", 0, error.start)
        raise DataError(f"{source}:{line} has {undecodable(text)}", hint=f"save it as {NOT_UTF8}") from error
    except (ValueError, RecursionError) as error:
        place = Place(source, line=error.lineno if isinstance(error, json.JSONDecodeError) else None)
        raise DataError(
            f"{place} is not valid JSON: {reason(error)}",
            hint="write one object, an array of objects, or one on each line",
        ) from error
    if isinstance(value, list):
        yield from _numbered(value, Place(source))
    else:
        yield RawRow(Place(source, row=1), value, whole=True)


def _json_row(text: str, place: Place) -> RawRow | Problem:
    if byte := undecodable(text):
        return Problem.at(place, None, byte, NOT_UTF8)
    try:
        value = DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        return Problem.at(place, None, f"no valid JSON: {reason(error)}", ROW)
    return raw_row(value, place)


def _numbered(values: Iterable[Any], place: Place) -> Iterator[RawRow | Problem]:
    return (raw_row(value, place._replace(row=number)) for number, value in enumerate(values, 1))


_BATCH_ROWS = 256


def _read_table(stream: IO[bytes], source: str) -> Iterator[RawRow]:
    """One row for each row of a Parquet or Arrow file, one at a time: many cells may hold one large value."""
    is_parquet = stream.read(len(_PARQUET)) == _PARQUET
    kind, batches_of = ("a Parquet file", _parquet_batches) if is_parquet else ("an Arrow file", _arrow_batches)
    pyarrow = _pyarrow_for(f"{source} is {kind}")
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    unpacked = 0
    try:
        for number, row in enumerate(_rows_of_batches(batches_of(stream, source, size), at_once=1), 1):
            values = plain(row)
            unpacked += 64 + _size(values)  # rows of nulls take no room in a file
            check_expansion(source, size, unpacked)
            yield RawRow(Place(source, row=number), values)
    except (pyarrow.ArrowException, MemoryError) as error:  # a damaged length may ask for any amount of memory
        raise DataError(f"{source} cannot be read as {kind}: {error}", hint="write it again") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{source} holds text that is not UTF-8: {error.reason}", hint="write it again") from error


def _parquet_batches(stream: IO[bytes], source: str, size: int) -> Iterator[Any]:
    """Batches of a size that fits the largest row group: each of its rows may hold a value of nearly all of it.

    Columns are not asked for their sizes: for a damaged one pyarrow ends the process.
    """
    from pyarrow import parquet  # type: ignore[import-untyped]

    table = parquet.ParquetFile(stream)
    _check_column_names(table.schema_arrow.names, source)
    groups = map(table.metadata.row_group, range(table.metadata.num_row_groups))
    largest = max((group.total_byte_size for group in groups), default=0)
    check_expansion(source, size, largest)
    yield from table.iter_batches(max(16, min(_BATCH_ROWS, ALWAYS_UNPACKED // (largest + 1))))


def _arrow_batches(stream: IO[bytes], source: str, size: int) -> Iterator[Any]:
    """Batches that were checked before they are read: what they say of where their values are is part of the file."""
    from pyarrow import ipc

    if stream.read(len(_ARROW_FILE)) == _ARROW_FILE:
        file = ipc.open_file(stream)
        batches = map(file.get_batch, range(file.num_record_batches))
    else:
        stream.seek(0)
        batches = file = ipc.open_stream(stream)
    _check_column_names(file.schema.names, source)
    for batch in batches:
        check_expansion(source, size, batch.get_total_buffer_size() + sum(map(_bytes_viewed, batch.columns)))
        batch.validate(full=True)
        yield batch


def _bytes_viewed(column: Any) -> int:
    """The bytes of all texts of a column of views, of which many may look at the same: to check each takes forever."""
    is_of_views = str(column.type) in {"string_view", "binary_view"}
    return sum(memoryview(column.buffers()[1]).cast("i")[::4].tolist()) if is_of_views else 0


def _rows_of_batches(batches: Iterable[Any], at_once: int = _BATCH_ROWS) -> Iterator[Any]:
    for batch in batches:
        for start in range(0, batch.num_rows, at_once):
            yield from batch.slice(start, at_once).to_pylist()


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


def _pyarrow_for(what: str) -> Any:
    """The package pyarrow. Raises InputError if it is not installed: `what` says what needs it."""
    try:
        import pyarrow
    except ImportError as error:
        hint = "install it with: pip install pyarrow"
        raise InputError(f"{what}, and pyarrow is not installed", hint=hint) from error
    return pyarrow


_ZSTD = 93
_LOCAL_HEADER = 30
"""Bytes before the name in the header of a member; the lengths of its name and its extra field are the last four."""
_OF_A_SAMPLE = ("id", "epoch", "input", "choices", "target", "output", "scores", "metadata")


def _read_archive(stream: IO[bytes], source: str) -> Iterator[RawRow | Problem]:
    """The samples of a log that is a zip archive. Raises DataError for any other archive and for a damaged one."""
    try:
        with zipfile.ZipFile(stream) as archive:
            names = archive.namelist()
            if {"header.json", "_journal/start.json"}.isdisjoint(names):
                raise DataError(
                    f"{source} is a zip archive or an Excel workbook", hint="save the sheet as CSV, or unpack it"
                )
            samples = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
            for number, name in enumerate(samples, 1):
                text = _member(archive, archive.getinfo(name), source).decode(errors="surrogateescape")
                yield _log_row(_json_row(text, Place(source, row=number)))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{source} cannot be unpacked: {error}", hint="the file is damaged or not complete") from error


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: str) -> bytes:
    """The bytes of a member; those packed with zstd pyarrow unpacks, since the standard library does from 3.14 on."""
    check_expansion(source, member.compress_size, member.file_size)
    file = archive.fp
    if member.compress_type != _ZSTD or file is None:
        return archive.read(member)
    pyarrow = _pyarrow_for(f"{source} is packed with zstd")
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


def _log_row(row: RawRow | Problem) -> RawRow | Problem:
    """What was asked, expected, answered and scored; a sample of a later epoch is named as inspect names its file."""
    if isinstance(row, Problem):
        return row
    sample = {name: row.values[name] for name in _OF_A_SAMPLE if name in row.values}
    if isinstance(output := sample.get("output"), Mapping):
        sample["output"] = {name: output[name] for name in ("completion", "model") if name in output}
    epoch = sample.get("epoch")
    if isinstance(epoch, int) and epoch > 1:
        sample["id"] = f"{sample.get('id')}_epoch_{epoch}"
    return row._replace(values=sample)


_OF_CONTAINERS = {"data", "outputs", "request"}
"""Names of ours in a row that an object around rows may have as well."""
_TEXT_FIELDS = ("user_input", "response")
_TEXTS = {name for field in _TEXT_FIELDS for name in ALIASES[field]} - _OF_CONTAINERS
_FIELDS = (*ALIASES.items(), *LOOSE_NAMES.items())
_KNOWN = {name for field, names in _FIELDS if field != "id" for name in names} - _OF_CONTAINERS


def expand(row: RawRow, mapping: Mapping[str, str], rows_path: str | None = None) -> Iterator[RawRow | Problem]:
    """The rows that one object holds: those of its columns, those under one of its names, or itself.

    `mapping` is what the user said about columns (ours -> theirs): it tells a row from an object that holds rows;
    `rows_path` is where the user says that they are. Raises DataError for columns of different lengths, and where
    nothing is under that path.
    """
    values, source = row.values, row.place.source
    reached_into = {first_part(name) for name in columns_of(mapping) if reaches_inside(name)}
    texts = (_TEXTS - reached_into) | {mapping[field] for field in _TEXT_FIELDS if field in mapping}
    if rows_path is not None:
        yield from _rows_under(row, mapping, rows_path)
    elif {"columns", "data"} <= values.keys() <= {"columns", "data", "index"}:
        yield from _rows_of_split(values, source)
    elif values.keys() >= {"version", "eval", "samples"} and isinstance(values["samples"], list):
        yield from map(_log_row, _numbered(values["samples"], Place(source)))
    elif _are_columns(values, texts):
        yield from rows_of_columns(values, source)
    else:
        rows = _rows_inside(values, _KNOWN | columns_of(mapping))
        yield from [row] if rows is None else _numbered(rows, Place(source))


def _rows_under(row: RawRow, mapping: Mapping[str, str], path: str) -> Iterator[RawRow | Problem]:
    inside = lookup(row.values, path, MISSING)
    if isinstance(inside, Mapping):
        yield from expand(row._replace(values=inside), mapping)
    elif isinstance(inside, list | tuple):
        yield from _numbered(inside, row.place)
    else:
        what = "nothing" if inside is MISSING else describe(inside)
        keys = ", ".join(shown(str(key)) for key in row.values)
        raise DataError(f"{row.place}: there is {what} under {shown(path)} (keys: {keys})", hint=rows_hint(row.values))


def rows_hint(values: Mapping[str, Any]) -> str | None:
    """How to say where the rows are: the first longest list of objects in an object, if it has any."""
    lists = {
        name: len(value)
        for name, value in names_inside(values)
        if isinstance(value, list) and any(isinstance(item, Mapping) for item in value) and "[]" not in name
    }
    longest = max(lists, key=lambda name: lists[name], default=None)
    return longest and f"if the rows are there: {option('rows', longest)}"


def _are_columns(values: Mapping[str, Any], texts: Iterable[str]) -> bool:
    """Whether a text is a list, or everything is an object by row number, as pandas writes it."""
    questions = [values[name] for name in texts if name in values]
    if any(isinstance(value, list | tuple) and not last_turn(value) for value in questions):
        return True
    by_row = [value for value in values.values() if isinstance(value, Mapping)]
    if not any(isinstance(value, Mapping) for value in questions) or None in map(_cells, values.values()):
        return False
    return len(set(map(tuple, by_row))) == 1 or all(str(key).isdecimal() for value in by_row for key in value)


def _rows_inside(values: Mapping[str, Any], known: Iterable[str]) -> list[Any] | None:
    """The one list whose objects have columns that are known; None where the object is a row itself."""
    if any(has_value(values, name) for name in known):
        return None
    lists = [value for value in (*values.values(), lookup(values, "results.results")) if isinstance(value, list)]
    if lists == [[]] and len(values) == 1:
        return []
    is_row = [
        any(has_value(item, name) for item in value if isinstance(item, Mapping) for name in known) for value in lists
    ]
    return lists[is_row.index(True)] if is_row.count(True) == 1 else None


def rows_of_columns(values: Mapping[str, Any], source: str) -> Iterator[RawRow]:
    """Rows of columns, each a list of cells. Raises DataError if they are not of one length."""
    columns = {name: _cells(value) for name, value in values.items()}
    lists = {name: cells for name, cells in columns.items() if cells is not None}
    numbering = {tuple(value) for value in values.values() if isinstance(value, Mapping)}
    if len(lists) < len(columns) or len({len(cells) for cells in lists.values()}) > 1 or len(numbering) > 1:
        counts = (f"{shown(name)}: {'no list' if cells is None else len(cells)}" for name, cells in columns.items())
        raise DataError(
            f"{source} holds columns, but not of the same rows ({', '.join(counts)})",
            hint="give every column one value for each row, or write one object for each row",
        )
    for number, row in enumerate(zip(*lists.values(), strict=True), 1):
        yield RawRow(Place(source, row=number), dict(zip(lists, row, strict=True)))


def _rows_of_split(values: Mapping[str, Any], source: str) -> Iterator[RawRow]:
    """Rows of a table that names its columns once. Raises DataError for what is not such a table."""
    columns, data = values["columns"], values["data"]
    named = isinstance(columns, list) and all(isinstance(name, str) for name in columns)
    for number, cells in enumerate(data if named and isinstance(data, list) else [None], 1):
        if not isinstance(cells, list) or len(cells) != len(columns):
            raise DataError(
                f"{source} holds columns and data, but not as a table of pandas does (orient='split'): row {number}",
                hint="write one object for each row: orient='records'",
            )
        yield RawRow(Place(source, row=number), dict(zip(columns, cells, strict=True)))


def _cells(value: Any) -> list[Any] | None:
    """The cells of a column: a list, or an object by row number, as pandas writes it."""
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else None


Rows = Callable[[], Iterable[Any]]
"""Goes through the rows, as often as it is called."""
_LISTS = ("test_cases", "goldens")
"""DeepEval's data set, which cannot be gone through itself, has its rows in one of these."""


def rows_of_table(data: Any, name: str) -> Rows | None:
    """The rows of a table; None if the data are not a table.

    Raises InputError for several tables or a package that is not installed, DataError for a column that stands twice.
    """
    if isinstance(data, Mapping):
        if not data or not all(map(_is_table, data.values())):
            return None
        if len(data) > 1:
            names = [str(split) for split in data]
            raise InputError(
                f"the data are {len(data)} splits: {', '.join(map(shown, names))}",
                hint=f"give one of them: data[{names[0]!r}]",
            )
        (data,) = data.values()
        return rows_of_table(data, name) or rows_of_iterable(data, name)
    if hasattr(data, "to_frame"):
        raise InputError(
            f"the data are one column (a {type(data).__name__})",
            hint="give the whole frame, or data.to_frame() if a metric needs nothing else",
        )
    if _is_pandas(data):
        _check_column_names(map(str, data.columns), name)
        starts = range(0, len(data), _BATCH_ROWS)
        return lambda: (row for at in starts for row in data.iloc[at : at + _BATCH_ROWS].to_dict("records"))
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):
        data = data.collect()
    if hasattr(data, "iter_rows"):
        return lambda: data.iter_rows(named=True)
    if hasattr(data, "__arrow_c_stream__"):
        table = _pyarrow_for("the data are an Arrow table").table(data)
        _check_column_names(table.column_names, name)
        return lambda: _rows_of_batches(table.to_batches())
    return None


def rows_of_iterable(data: Any, name: str) -> Rows:
    """The rows of what can be gone through. Raises InputError for anything else, DataError for DeepEval's empty one."""
    if isinstance(data, Iterable):
        lasts = hasattr(data, "__len__") and hasattr(data, "__getitem__")
        rows = data if lasts else _RowsOnDisk(_without_tables(data, name))
        return lambda: _without_tables(rows, name)
    if all(hasattr(data, attribute) for attribute in _LISTS):
        lists: Sequence[Iterable[Any]] = [rows for attribute in _LISTS if (rows := getattr(data, attribute))]
        if not lists:
            raise DataError(f"{name} has no rows", hint="add test cases or goldens")
        return lambda: lists[0]
    raise InputError(
        f"the data are of the type {type(data).__name__}", hint="give the name of a file, several, rows or a data frame"
    )


class _RowsOnDisk:
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
    return _is_pandas(data) or any(hasattr(data, name) for name in ("column_names", "iter_rows", "collect_schema"))
