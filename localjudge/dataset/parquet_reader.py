"""Parquet as rows. Needs pyarrow, which is not installed by default."""

import io
from collections.abc import Iterator
from typing import IO

from localjudge.dataset.arrow_reader import BATCH_ROWS, check_column_names, pyarrow_for, rows_of_batches
from localjudge.dataset.rows import RawRow
from localjudge.errors import DataError

MAGIC = b"PAR1"


def read_parquet(stream: IO[bytes], source: str) -> Iterator[RawRow]:
    """One row for each row of the table, read in batches.

    Raises UsageError without pyarrow and DataError for a damaged file or a column name that stands twice.
    """
    pyarrow = pyarrow_for(f"{source} is a Parquet file")
    from pyarrow import parquet  # type: ignore[import-untyped]

    try:
        table = parquet.ParquetFile(stream if stream.seekable() else io.BytesIO(stream.read()))
        check_column_names(table.schema_arrow.names, source)
        yield from rows_of_batches(table.iter_batches(BATCH_ROWS), source)
    except pyarrow.ArrowException as error:
        raise DataError(f"{source} is a damaged Parquet file: {error}", hint="write it again") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{source} holds text that is not UTF-8: {error.reason}", hint="write it again") from error
