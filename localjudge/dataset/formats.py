"""Read rows from files of every supported format, and from data in memory.

The content determines the format. The file extension decides if the content is ambiguous:

    PAR1                    Parquet                                                    needs pyarrow
    ARROW1, ff ff ff ff     an Arrow or Feather file; an Arrow stream (Hugging Face)   needs pyarrow
    .csv .tsv               CSV, see `csv_file`
    [                       one JSON array
    {                       JSON lines if the first line is complete or the name ends in .jsonl;
                            otherwise one object
    anything else           JSON lines if the name ends in .json or .jsonl; otherwise CSV

One object may contain all rows, under a key or as columns:

    {"results": [{"query": ...}, {"query": ...}]}    RAGChecker; one level deeper in promptfoo
    {"questions": ["...", "..."], "contexts": [[...], [...]]}    Haystack, `to_dict` of data frames
    {"version": 2, "eval": {...}, "samples": [...]}         a log of inspect
    {"experiment": {"items": [{"query": ...}]}}      anywhere, at a user's path: experiment.items

An object contains columns if its question or answer is a list that is not a conversation. A list in
it contains the rows if the list's objects have known columns.
"""

import io
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import PurePath
from typing import IO, Any, Literal, TextIO

from localjudge.dataset.columns import ALIASES, LOOSE_NAMES, columns_of
from localjudge.dataset.conversation import last_turn
from localjudge.dataset.csv_file import check_column_names, read_csv
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
    reaches_inside,
    reason,
    shown,
)
from localjudge.dataset.python_values import plain
from localjudge.dataset.rows import ROW, RawRow, raw_row
from localjudge.dataset.sources import (
    ALWAYS_UNPACKED,
    ARROW_FILE,
    PARQUET,
    TABLE_MARKS,
    OpenSource,
    Source,
    check_expansion,
)
from localjudge.errors import DataError, InputError

_CSV = {".csv", ".tsv"}
_LINES = {".jsonl", ".ndjson"}


def read(
    source: Source,
    mapping: Mapping[str, str],
    rows_path: str | None = None,
    *,
    edited: bool = False,
    columns: Collection[str] = (),
) -> Iterator[RawRow | Problem]:
    """Yield the rows of a source; see `expand`.

    Raises DataError if unreadable, InputError if pyarrow is missing.

    CSV `edited` in a spreadsheet may lack trailing empty cells; its places include the row in the
    spreadsheet. Lines of CSV before a header with all of these `columns` are skipped.
    """
    with source.open() as opened:
        for row in _rows(opened, edited, columns):
            if isinstance(row, RawRow) and (row.whole or rows_path):
                yield from expand(row, mapping, rows_path)
            else:
                yield row


def _rows(source: OpenSource, edited: bool, columns: Collection[str]) -> Iterator[RawRow | Problem]:
    if source.head.startswith(TABLE_MARKS):
        stream = source.stream
        if not stream.seekable():
            stream = io.BytesIO(stream.read())
        yield from _read_table(stream, source.name)
        return
    head = source.head.decode(source.encoding, errors="ignore")
    kind = _kind_of_text(source.name, head)
    if kind == "csv":
        with source.text(newline="") as text:
            yield from read_csv(
                text,
                source.name,
                head.lstrip("\ufeff"),
                edited=edited,
                columns=columns,
            )
        return
    with source.text() as text:
        yield from (
            _read_document(text, source.name)
            if kind == "document"
            else _read_lines(text, source.name)
        )


def _kind_of_text(name: str, head: str) -> Literal["csv", "lines", "document"]:
    """Return what a text is: CSV, JSON lines, or one JSON array or object."""
    ending = PurePath(name.lower().removesuffix(".gz")).suffix
    first_line, has_more_lines, _ = head.strip(BLANK).partition("\n")
    opener = first_line[:1]
    if ending in _CSV:
        return "csv"
    if opener not in {"[", "{"} and ending not in _LINES | {".json"}:
        return "csv"
    if opener == "[":
        return "document"
    is_complete = first_line.rstrip(BLANK).endswith("}")
    if opener == "{" and ending not in _LINES and has_more_lines and not is_complete:
        return "document"
    return "lines"


def _read_lines(lines: Iterable[str], source: str) -> Iterator[RawRow | Problem]:
    rows = _rows_of_lines(lines, source)
    start = list(islice(rows, 2))
    if len(start) == 1 and isinstance(start[0], RawRow):
        start = [start[0]._replace(whole=True)]
    yield from start
    yield from rows


def _rows_of_lines(lines: Iterable[str], source: str) -> Iterator[RawRow | Problem]:
    for number, line in enumerate(lines, 1):
        stripped = line.strip(BLANK)
        if stripped:
            yield _json_row(stripped, Place(source, line=number))


def _read_document(stream: TextIO, source: str) -> Iterator[RawRow | Problem]:
    text = stream.read().strip(BLANK)
    try:
        value: Any = DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        place = Place(
            source,
            line=error.lineno if isinstance(error, json.JSONDecodeError) else None,
        )
        raise DataError(
            f"{place} is not valid JSON: {reason(error)}",
            hint="write one object, an array of objects, or one object per line",
        ) from error
    if isinstance(value, list):
        yield from _numbered(value, Place(source))
    else:
        yield RawRow(Place(source, row=1), value, whole=True)


def _json_row(text: str, place: Place) -> RawRow | Problem:
    try:
        value = DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        return Problem.at(place, None, f"invalid JSON: {reason(error)}", ROW)
    return raw_row(value, place)


def _numbered(values: Iterable[Any], place: Place) -> Iterator[RawRow | Problem]:
    for number, value in enumerate(values, 1):
        yield raw_row(value, place._replace(row=number))


_BATCH_ROWS = 256


def _read_table(stream: IO[bytes], source: str) -> Iterator[RawRow]:
    # Rows are converted one at a time, because many cells may share one large value.
    kind = "an Arrow file"
    read_batches = _arrow_batches
    if stream.read(len(PARQUET)) == PARQUET:
        kind = "a Parquet file"
        read_batches = _parquet_batches
    pyarrow = _pyarrow_for(f"{source} is {kind}")
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    unpacked = 0
    try:
        for number, row in enumerate(
            _rows_of_batches(read_batches(stream, source, size), at_once=1),
            1,
        ):
            values = plain(row)
            unpacked += 64 + len(repr(values))  # rows of nulls take no space in a file
            check_expansion(source, size, unpacked)
            yield RawRow(Place(source, row=number), values)
    except (
        pyarrow.ArrowException,
        MemoryError,
    ) as error:  # a damaged length may ask for any amount of memory
        raise DataError(
            f"{source} cannot be read as {kind}: {error}",
            hint="write it again",
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{source} contains text that is not UTF-8: {error.reason}",
            hint="write it again",
        ) from error


def _parquet_batches(stream: IO[bytes], source: str, size: int) -> Iterator[Any]:
    # Column sizes are not read, because pyarrow aborts on damaged ones.
    from pyarrow import parquet  # type: ignore[import-untyped]

    table = parquet.ParquetFile(stream)
    check_column_names(table.schema_arrow.names, source)
    largest = 0
    for number in range(table.metadata.num_row_groups):
        largest = max(largest, table.metadata.row_group(number).total_byte_size)
    check_expansion(source, size, largest)
    yield from table.iter_batches(max(16, min(_BATCH_ROWS, ALWAYS_UNPACKED // (largest + 1))))


def _arrow_batches(stream: IO[bytes], source: str, size: int) -> Iterator[Any]:
    from pyarrow import ipc

    if stream.read(len(ARROW_FILE)) == ARROW_FILE:
        file = ipc.open_file(stream)
        batches = map(file.get_batch, range(file.num_record_batches))
    else:
        stream.seek(0)
        batches = file = ipc.open_stream(stream)
    check_column_names(file.schema.names, source)
    for batch in batches:
        # Millions of views may share one buffer, which validation would read for each of them.
        viewed = 0
        for column in batch.columns:
            if str(column.type) in {"string_view", "binary_view"}:
                lengths = memoryview(column.buffers()[1]).cast("i")[::4]
                viewed += sum(lengths.tolist())
        check_expansion(source, size, batch.get_total_buffer_size() + viewed)
        batch.validate(full=True)  # its offsets come from an untrusted file
        yield batch


def _rows_of_batches(batches: Iterable[Any], at_once: int = _BATCH_ROWS) -> Iterator[Any]:
    for batch in batches:
        for start in range(0, batch.num_rows, at_once):
            yield from batch.slice(start, at_once).to_pylist()


def _pyarrow_for(what: str) -> Any:
    try:
        import pyarrow
    except ImportError as error:
        hint = "install it with: pip install pyarrow"
        raise InputError(f"{what}, and pyarrow is not installed", hint=hint) from error
    return pyarrow


_CONTAINER_NAMES = {
    "data",
    "outputs",
    "request",
}  # names of a field, or of an object around the rows
_TEXT_FIELDS = ("user_input", "response")
_TEXTS = {name for field in _TEXT_FIELDS for name in ALIASES[field]} - _CONTAINER_NAMES


def _column_names() -> set[str]:
    """Return the known names of columns other than the id."""
    known: set[str] = set()
    for table in (ALIASES, LOOSE_NAMES):
        for field, names in table.items():
            if field != "id":
                known.update(names)
    return known - _CONTAINER_NAMES


_COLUMNS = _column_names()


def expand(
    row: RawRow,
    mapping: Mapping[str, str],
    rows_path: str | None = None,
) -> Iterator[RawRow | Problem]:
    """Yield the rows inside one object, or the object itself.

    `mapping`: our field -> the user's column.

    Raises DataError for columns of different lengths, and for an object without `rows_path`.
    """
    values, source = row.values, row.place.source
    reached_into = {first_part(name) for name in columns_of(mapping) if reaches_inside(name)}
    texts = (_TEXTS - reached_into) | {mapping[field] for field in _TEXT_FIELDS if field in mapping}
    if rows_path is not None:
        yield from _rows_under(row, mapping, rows_path)
    elif values.keys() >= {"version", "eval", "samples"} and isinstance(values["samples"], list):
        yield from map(_row_of_log, _numbered(values["samples"], Place(source)))
    elif _are_columns(values, texts):
        yield from rows_of_columns(values, source)
    else:
        rows = _rows_inside(values, _COLUMNS | columns_of(mapping))
        if rows is None:
            yield row
        else:
            yield from _numbered(rows, Place(source))


def _row_of_log(row: RawRow | Problem) -> RawRow | Problem:
    if isinstance(row, Problem):
        return row
    epoch = row.values.get("epoch")
    if not isinstance(epoch, int) or epoch <= 1:
        return row
    identifier = f"{row.values.get('id')}_epoch_{epoch}"  # the name of the sample's file in the log
    return row._replace(values={**row.values, "id": identifier})


def _rows_under(row: RawRow, mapping: Mapping[str, str], path: str) -> Iterator[RawRow | Problem]:
    inside = lookup(row.values, path, MISSING)
    if isinstance(inside, Mapping):
        yield from expand(row._replace(values=inside), mapping)
    elif isinstance(inside, list | tuple):
        yield from _numbered(inside, row.place)
    else:
        what = "nothing" if inside is MISSING else describe(inside)
        keys = ", ".join(shown(str(key)) for key in row.values)
        raise DataError(f"{row.place}: there is {what} under {shown(path)} (keys: {keys})")


def _are_columns(values: Mapping[str, Any], texts: Iterable[str]) -> bool:
    """Return whether a text field is a list, or every value an object by row number (pandas)."""
    questions = [values[name] for name in texts if name in values]
    if any(isinstance(value, list | tuple) and not last_turn(value) for value in questions):
        return True
    if not any(isinstance(value, Mapping) for value in questions):
        return False
    return all(
        isinstance(value, Mapping) and all(str(key).isdecimal() for key in value)
        for value in values.values()
    )


def _rows_inside(values: Mapping[str, Any], columns: Iterable[str]) -> list[Any] | None:
    """Return the only list of objects with one of these columns, or None if the object is a row."""
    if any(has_value(values, name) for name in columns):
        return None
    lists = [value for value in values.values() if isinstance(value, list)]
    of_promptfoo = lookup(values, "results.results")
    if isinstance(of_promptfoo, list):
        lists.append(of_promptfoo)
    if lists == [[]] and len(values) == 1:
        return []
    with_columns = [value for value in lists if _has_rows(value, columns)]
    if len(with_columns) == 1:
        return with_columns[0]
    return None


def _has_rows(elements: Iterable[Any], columns: Iterable[str]) -> bool:
    """Whether an object in a list has one of the columns."""
    objects = [element for element in elements if isinstance(element, Mapping)]
    return any(has_value(item, name) for item in objects for name in columns)


def rows_of_columns(values: Mapping[str, Any], source: str) -> Iterator[RawRow]:
    """Yield the rows of columns: lists, or objects keyed by row number.

    Raises DataError for unequal lengths.
    """
    lists: dict[str, list[Any]] = {}
    numberings: set[tuple[str, ...]] = set()
    for name, column in values.items():
        if isinstance(column, Mapping):
            lists[name] = list(column.values())
            numberings.add(tuple(column))
        elif isinstance(column, list | tuple):
            lists[name] = list(column)
    lengths = set(map(len, lists.values()))
    if len(lists) < len(values) or len(lengths) > 1 or len(numberings) > 1:
        raise _unequal_columns(values, lists, source)
    for number, cells in enumerate(zip(*lists.values(), strict=True), 1):
        row = dict(zip(lists, cells, strict=True))
        yield RawRow(Place(source, row=number), row)


def _unequal_columns(
    values: Mapping[str, Any],
    lists: Mapping[str, list[Any]],
    source: str,
) -> DataError:
    counts = []
    for name in values:
        count = len(lists[name]) if name in lists else "not a list"
        counts.append(f"{shown(name)}: {count}")
    return DataError(
        f"{source} has columns of different lengths ({', '.join(counts)})",
        hint="give every column one value per row, or write one object per row",
    )


Elements = Callable[[], Iterable[Any]]
"""Gives the rows of data in memory as they are, from the first one."""


def elements_of_table(data: Any, name: str) -> Elements | None:
    """Return the rows of a table, or None for other data.

    Raises InputError and DataError for unusable tables.
    """
    if isinstance(data, Mapping):
        if not data or not all(map(_is_table, data.values())):
            return None
        if len(data) > 1:
            names = [str(split) for split in data]
            raise InputError(
                f"the data contain {len(data)} splits: {', '.join(map(shown, names))}",
                hint=f"pass one of them: data[{names[0]!r}]",
            )
        (data,) = data.values()
        return elements_of_table(data, name) or elements_of_iterable(data, name)
    if hasattr(data, "to_frame"):
        kind = type(data).__name__
        raise InputError(
            f"the data are one column (a {kind})",
            hint="pass the whole frame, or data.to_frame()",
        )
    if _is_pandas(data):
        check_column_names(map(str, data.columns), name)
        return lambda: _rows_of_frame(data)
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):
        data = data.collect()
    if hasattr(data, "iter_rows"):
        return lambda: data.iter_rows(named=True)
    if hasattr(data, "__arrow_c_stream__"):
        table = _pyarrow_for("the data are an Arrow table").table(data)
        check_column_names(table.column_names, name)
        return lambda: _rows_of_batches(table.to_batches())
    return None


def elements_of_iterable(data: Any, name: str) -> Elements:
    if isinstance(data, Iterable):
        is_sequence = hasattr(data, "__len__") and hasattr(data, "__getitem__")
        rows = data if is_sequence else list(data)
        return lambda: rows
    if hasattr(data, "test_cases") and hasattr(data, "goldens"):
        return lambda: data.test_cases or data.goldens
    raise InputError(
        f"the data have the unsupported type {type(data).__name__}",
        hint="pass names of files, rows or a data frame",
    )


def _rows_of_frame(frame: Any) -> Iterator[Any]:
    for start in range(0, len(frame), _BATCH_ROWS):
        yield from frame.iloc[start : start + _BATCH_ROWS].to_dict("records")


def _is_pandas(data: Any) -> bool:
    return hasattr(data, "iloc") and hasattr(data, "columns")


def _is_table(data: Any) -> bool:
    return _is_pandas(data) or any(
        hasattr(data, name) for name in ("column_names", "iter_rows", "collect_schema")
    )
