"""Parquet as rows. Needs pyarrow, which is not installed by default."""

from collections.abc import Iterator
from typing import IO, Any

from localjudge.dataset.arrow_reader import (
    BATCH_ROWS,
    check_column_names,
    limited_rows,
    pyarrow_for,
    seekable,
    stream_size,
)
from localjudge.dataset.rows import RawRow
from localjudge.dataset.sources import ALWAYS_UNPACKED, check_expansion
from localjudge.errors import DataError

MAGIC = b"PAR1"
_FEWEST_AT_ONCE = 16


def read_parquet(stream: IO[bytes], source: str) -> Iterator[RawRow]:
    """One row for each row of the table, read in batches.

    Raises UsageError without pyarrow and DataError for a damaged file or a column name that stands twice.
    """
    pyarrow = pyarrow_for(f"{source} is a Parquet file")
    from pyarrow import parquet  # type: ignore[import-untyped]

    try:
        stream = seekable(stream)
        size = stream_size(stream)
        table = parquet.ParquetFile(stream)
        check_column_names(table.schema_arrow.names, source)
        largest = _largest_column(table.metadata)
        check_expansion(source, size, largest)
        at_once = max(_FEWEST_AT_ONCE, min(BATCH_ROWS, ALWAYS_UNPACKED // (largest + 1)))
        yield from limited_rows(table.iter_batches(at_once), source, size)
    except pyarrow.ArrowException as error:
        raise DataError(f"{source} is a damaged Parquet file: {error}", hint="write it again") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{source} holds text that is not UTF-8: {error.reason}", hint="write it again") from error


def _largest_column(metadata: Any) -> int:
    """The bytes of the largest column of a row group: each of its rows may hold a value of nearly so many."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return max(
        (group.column(at).total_uncompressed_size for group in groups for at in range(group.num_columns)), default=0
    )
