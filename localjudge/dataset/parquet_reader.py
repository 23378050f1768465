"""Parquet as rows. Needs pyarrow, which is not installed by default."""

import io
from collections import Counter
from collections.abc import Iterator
from typing import IO

from localjudge.dataset.plain import plain
from localjudge.dataset.problems import Place
from localjudge.dataset.rows import RawRow
from localjudge.errors import DataError, UsageError

MAGIC = b"PAR1"
_BATCH_ROWS = 256


def read_parquet(stream: IO[bytes], source: str) -> Iterator[RawRow]:
    """One row for each row of the table, read in batches.

    Raises UsageError without pyarrow and DataError for a damaged file or a column name that stands twice.
    """
    try:
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError(
            f"{source} is a Parquet file, and pyarrow is not installed", hint="install it with: pip install pyarrow"
        ) from error
    try:
        table = parquet.ParquetFile(stream if stream.seekable() else io.BytesIO(stream.read()))
        _check_names(table.schema_arrow.names, source)
        rows = (row for batch in table.iter_batches(_BATCH_ROWS) for row in batch.to_pylist())
        for number, row in enumerate(rows, 1):
            yield RawRow(Place(source, row=number), plain(row))
    except pyarrow.ArrowException as error:
        raise DataError(f"{source} is a damaged Parquet file: {error}", hint="write it again") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{source} holds text that is not UTF-8: {error.reason}", hint="write it again") from error


def _check_names(names: list[str], source: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"{source} has two columns {twice[0]}", hint="give every column a name of its own")
