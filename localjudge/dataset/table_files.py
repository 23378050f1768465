"""Read Parquet and Arrow files, which may be damaged or hostile."""

import io
from collections.abc import Iterable, Iterator
from typing import IO, Any

from localjudge.dataset.csv_file import check_column_names
from localjudge.dataset.python_values import plain
from localjudge.dataset.rows import Place, RawRow, is_export
from localjudge.dataset.sources import (
    ALWAYS_UNPACKED,
    ARROW_FILE,
    PARQUET,
    OpenSource,
    check_expansion,
)
from localjudge.errors import DataError, InputError

BATCH_ROWS = 256
"""Rows that are converted at once."""


def read_table(source: OpenSource) -> Iterator[RawRow]:
    """Yield the rows of a Parquet, Arrow or Feather file, or of an Arrow stream.

    Raises DataError for a damaged file, InputError without pyarrow.
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


def list_rows(batches: Iterable[Any], at_once: int = BATCH_ROWS) -> Iterator[Any]:
    """Yield the rows of Arrow's batches as Python values. A map is an object."""
    for batch in batches:
        convert = {}
        for field in batch.schema:
            if "map<" in str(field.type):
                convert[field.name] = field.type
        for start in range(0, batch.num_rows, at_once):
            for row in batch.slice(start, at_once).to_pylist():
                for name, kind in convert.items():
                    row[name] = _objects_of_maps(row[name], kind)
                yield row


def _objects_of_maps(value: Any, kind: Any) -> Any:
    """Return a value of an Arrow type with objects for its maps, which Arrow lists as pairs.

    A map with a key that occurs twice, or that is no text, stays a list.
    """
    types = import_pyarrow("the data are an Arrow table").types
    if value is None:
        return None
    if types.is_map(kind):
        pairs = [(key, _objects_of_maps(item, kind.item_type)) for key, item in value]
        fields = dict(pairs)
        if len(fields) < len(pairs):
            return list(map(list, pairs))
        return {str(key): item for key, item in fields.items()}
    if types.is_struct(kind):
        fields = {}
        for field in kind:
            fields[field.name] = _objects_of_maps(value[field.name], field.type)
        return fields
    if "map<" in str(kind) and isinstance(value, list):
        return [_objects_of_maps(item, kind.value_type) for item in value]
    return value


def import_pyarrow(what: str) -> Any:
    """Return the module. Raises InputError that names what needs it."""
    try:
        import pyarrow
    except ImportError as error:
        hint = "install it with: pip install pyarrow"
        raise InputError(f"{what}, and pyarrow is not installed", hint=hint) from error
    return pyarrow
