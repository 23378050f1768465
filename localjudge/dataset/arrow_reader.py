"""Arrow as rows: a stream (Hugging Face's `save_to_disk`), a file (Feather), or a table in memory. Needs pyarrow."""

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from localjudge.dataset.plain import plain
from localjudge.dataset.problems import Place, shown
from localjudge.dataset.rows import RawRow
from localjudge.dataset.sources import check_expansion
from localjudge.errors import DataError, UsageError

FILE_MAGIC = b"ARROW1"
STREAM_MAGIC = b"\xff\xff\xff\xff"
"""What a message of a stream begins with (Arrow 0.15 and later): the length of its schema follows."""
BATCH_ROWS = 256
_BYTES_A_ROW = 64
"""What a row counts at least: rows of nulls take no room in a file."""


def read_arrow(stream: IO[bytes], source: str, head: bytes) -> Iterator[RawRow]:
    """One row for each row of a file or a stream, read in batches; `head` is how it begins.

    Raises UsageError without pyarrow and DataError for a damaged file or a column name that stands twice.
    """
    pyarrow = pyarrow_for(f"{source} is an Arrow file")
    from pyarrow import ipc  # type: ignore[import-untyped]

    try:
        stream = seekable(stream)
        size = stream_size(stream)
        if head.startswith(FILE_MAGIC):
            file = ipc.open_file(stream)
            check_column_names(file.schema.names, source)
            batches = map(file.get_batch, range(file.num_record_batches))
        else:
            batches = ipc.open_stream(stream)
            check_column_names(batches.schema.names, source)
        yield from limited_rows((_validated(batch, source, size) for batch in batches), source, size)
    except (pyarrow.ArrowException, MemoryError) as error:  # a damaged length may ask for any amount of memory
        raise DataError(f"{source} is a damaged Arrow file: {error}", hint="write it again") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{source} holds text that is not UTF-8: {error.reason}", hint="write it again") from error


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


def seekable(stream: IO[bytes]) -> IO[bytes]:
    """The stream, or a copy of it that can go back."""
    return stream if stream.seekable() else io.BytesIO(stream.read())


def stream_size(stream: IO[bytes]) -> int:
    """The bytes of a stream that can go back."""
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    return size


def limited_rows(batches: Iterable[Any], source: str, size: int) -> Iterator[RawRow]:
    """The rows of a file of so many bytes, one at a time: many cells may hold one large value.

    Raises DataError where the rows are more than such a file may hold.
    """
    unpacked = 0
    for row in rows_of_batches(batches, source, at_once=1):
        unpacked += _BYTES_A_ROW + _size(row.values)
        check_expansion(source, size, unpacked)
        yield row


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
