"""Rows as a Parquet file, some at a time: the types of its columns are those of all rows, so the rows are read twice.

rows ──types of each block──> the types of all     rows ──a row group of each block──> the file, part by part
"""

import io
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from localjudge.errors import UsageError

Row = dict[str, Any]
ROWS_OF_GROUP = 65_536


def parquet_parts(rows: Callable[[], Iterator[Row]]) -> Iterator[bytes]:
    """The file in parts; `rows` gives the same rows each time, all with the same keys.

    Raises UsageError if the package that writes it is not installed.
    """
    try:
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError("Parquet needs the package pyarrow", hint="install it with: pip install pyarrow") from error
    schemas = [pyarrow.table(columns).schema for columns in _blocks(rows())]
    schema = pyarrow.unify_schemas(schemas, promote_options="permissive")
    sink = _Sink()
    with parquet.ParquetWriter(sink, schema) as writer:
        for columns in _blocks(rows()):
            writer.write_table(pyarrow.table(columns, schema=schema))
            yield sink.taken()
    yield sink.taken()


def _blocks(rows: Iterator[Row]) -> Iterator[dict[str, list[Any]]]:
    """The columns of some rows at a time; once without any if there are no rows."""
    block = list(islice(rows, ROWS_OF_GROUP))
    yield _columns(block)
    while block := list(islice(rows, ROWS_OF_GROUP)):
        yield _columns(block)


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {column: [row[column] for row in rows] for column in (rows[0] if rows else ())}


class _Sink(io.BytesIO):
    """What was written, until it is taken."""

    _taken = 0

    def tell(self) -> int:
        """How much was written so far, taken or not."""
        return self._taken + super().tell()

    def taken(self) -> bytes:
        """What was written since this was asked last."""
        part = self.getvalue()
        self._taken += len(part)
        self.seek(0)
        self.truncate()
        return part
