"""Read rows from files of every supported format.

The content determines the format. The file extension decides if the content is ambiguous:

    PAR1                    Parquet                                                    needs pyarrow
    ARROW1, ff ff ff ff     an Arrow or Feather file; an Arrow stream (Hugging Face)   needs pyarrow
    .csv .tsv               CSV, see `csv_file`
    [                       one JSON array
    {                       JSON lines if the first line is complete or the name ends in .jsonl;
                            otherwise one object
    anything else           JSON lines if the name ends in .json or .jsonl; otherwise CSV

`data_in_memory` reads an object that contains all rows.
"""

import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePath
from typing import IO, Any, Literal, TextIO

from localjudge.dataset.csv_file import check_column_names, read_csv
from localjudge.dataset.data_in_memory import (
    BATCH_ROWS,
    expand,
    import_pyarrow,
    list_rows,
    number_rows,
    plain,
)
from localjudge.dataset.rows import (
    BLANK,
    DECODER,
    ROW,
    Place,
    Problem,
    RawRow,
    is_export,
    raw_row,
    reason,
)
from localjudge.dataset.sources import (
    ALWAYS_UNPACKED,
    ARROW_FILE,
    PARQUET,
    TABLE_MARKS,
    OpenSource,
    Source,
    check_expansion,
)
from localjudge.errors import DataError

_CSV = {".csv", ".tsv"}
_LINES = {".jsonl", ".ndjson"}
_PREVIEWED = 100
"""Rows of each file that are previewed."""


def read(
    source: Source,
    mapping: Mapping[str, str],
    rows_path: str | None = None,
    *,
    sheet: Collection[str] = (),
) -> Iterator[RawRow | Problem]:
    """Yield the rows of a source; see `expand`.

    Raises DataError if unreadable, InputError if pyarrow is missing.

    `sheet` are columns of a table in CSV that is edited in a spreadsheet: its places include the
    row there, and lines before a header with these columns are skipped.
    """
    with source.open() as opened:
        for row in _read_source(opened, sheet):
            if isinstance(row, RawRow) and (row.whole or rows_path):
                yield from expand(row, mapping, rows_path)
            else:
                yield row


def _read_source(source: OpenSource, sheet: Collection[str]) -> Iterator[RawRow | Problem]:
    if source.head.startswith(TABLE_MARKS):
        yield from _read_table(source)
        return
    head = source.head.decode(source.encoding, errors="ignore")
    kind = _choose_format(source.name, head)
    if kind == "csv":
        head = head.lstrip("\ufeff")
        with source.text(newline="") as text:
            yield from read_csv(text, source.name, head, sheet)
        return
    with source.text() as text:
        if kind == "document":
            yield from _read_document(text, source.name)
        else:
            yield from _read_lines(text, source.name)


def _choose_format(name: str, head: str) -> Literal["csv", "lines", "document"]:
    """Return the format of a text: CSV, JSON lines, or one JSON array or object."""
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
    rows = _decode_lines(lines, source)
    beginning = list(islice(rows, 2))
    if len(beginning) == 1 and isinstance(beginning[0], RawRow):
        beginning = [beginning[0]._replace(whole=True)]
    yield from beginning
    yield from rows


def _decode_lines(lines: Iterable[str], source: str) -> Iterator[RawRow | Problem]:
    for number, line in enumerate(lines, 1):
        stripped = line.strip(BLANK)
        if not stripped:
            continue
        place = Place(source, line=number)
        try:
            value = DECODER.decode(stripped)
        except (ValueError, RecursionError) as error:
            yield Problem.at(place, None, f"invalid JSON: {reason(error)}", ROW)
        else:
            yield raw_row(value, place)


def _read_document(stream: TextIO, source: str) -> Iterator[RawRow | Problem]:
    text = stream.read().strip(BLANK)
    try:
        value: Any = DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        place = Place(source)
        if isinstance(error, json.JSONDecodeError):
            place = Place(source, line=error.lineno)
        raise DataError(
            f"{place} is not valid JSON: {reason(error)}",
            hint="write one object, an array of objects, or one object per line",
        ) from error
    if isinstance(value, list):
        yield from number_rows(value, Place(source))
    else:
        yield RawRow(Place(source, row=1), value, whole=True)


def _read_table(source: OpenSource) -> Iterator[RawRow]:
    """Yield the rows of a Parquet, Arrow or Feather file, or of an Arrow stream.

    It may be damaged or hostile. Raises DataError if so, InputError without pyarrow.
    """
    stream: IO[bytes] = source.stream
    if not stream.seekable():
        stream = io.BytesIO(stream.read())
    kind = "an Arrow file"
    read_batches = _read_arrow
    if stream.read(len(PARQUET)) == PARQUET:
        kind = "a Parquet file"
        read_batches = _read_parquet
    pyarrow = import_pyarrow(f"{source.name} is {kind}")
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    try:
        yield from _convert_rows(read_batches(stream, source.name, size), source.name, size)
    # A damaged length may ask for any amount of memory.
    except (pyarrow.ArrowException, MemoryError) as error:
        raise DataError(
            f"{source.name} cannot be read as {kind}: {error}",
            hint="write it again",
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{source.name} contains text that is not UTF-8: {error.reason}",
            hint="write it again",
        ) from error


def _convert_rows(batches: Iterable[Any], source: str, size: int) -> Iterator[RawRow]:
    """Yield the rows, one at a time, because many cells may share one large value."""
    unpacked = 0
    for number, row in enumerate(list_rows(batches, at_once=1), 1):
        values = plain(row)
        unpacked += 64 + len(repr(values))  # rows of nulls take no space in a file
        check_expansion(source, size, unpacked)
        yield RawRow(Place(source, row=number), values, literal=is_export(values))


def _read_parquet(stream: IO[bytes], source: str, size: int) -> Iterator[Any]:
    # Column sizes are not read, because pyarrow aborts on damaged ones.
    from pyarrow import parquet  # type: ignore[import-untyped]

    table = parquet.ParquetFile(stream)
    check_column_names(table.schema_arrow.names, source)
    largest = 0
    for number in range(table.metadata.num_row_groups):
        largest = max(largest, table.metadata.row_group(number).total_byte_size)
    check_expansion(source, size, largest)
    rows_at_once = max(16, min(BATCH_ROWS, ALWAYS_UNPACKED // (largest + 1)))
    yield from table.iter_batches(rows_at_once)


def _read_arrow(stream: IO[bytes], source: str, size: int) -> Iterator[Any]:
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


def preview_columns(files: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns in order of appearance, each with its texts in the first rows of a file.

    Empty values are left out. Raises DataError for a file that cannot be read.
    """
    columns: dict[str, list[str]] = {}
    for file in files:
        with Source(file) as source:
            for row in islice(read(source, {}), _PREVIEWED):
                if isinstance(row, RawRow):
                    for name, value in row.values.items():
                        texts = columns.setdefault(name, [])
                        if value is None:
                            continue
                        text = " ".join(str(value).split())
                        if text:
                            texts.append(text)
    return columns
