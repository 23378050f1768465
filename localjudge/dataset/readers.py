"""Decides in which format a source is, and has it read.

The content decides first, then the name's ending: people name a JSON array `.jsonl` and lines `.json`.

    PAR1           Parquet
    ARROW1         an Arrow or Feather file; ff ff ff ff an Arrow stream
    PK             a log of inspect
    .csv .tsv      CSV
    [              one array
    {              lines, if the first line is complete (or the name ends in .jsonl), otherwise one object
    anything else  lines, if the name says JSON; otherwise CSV
"""

from collections.abc import Iterator, Mapping
from pathlib import PurePath

from localjudge.dataset.arrow_reader import FILE_MAGIC, STREAM_MAGIC, read_arrow
from localjudge.dataset.columns import expand
from localjudge.dataset.csv_reader import read_csv
from localjudge.dataset.encodings import head_of, text_of
from localjudge.dataset.inspect_log import MAGIC as ZIP_MAGIC
from localjudge.dataset.inspect_log import read_archive
from localjudge.dataset.json_lines import read_document, read_lines
from localjudge.dataset.json_values import BLANK
from localjudge.dataset.parquet_reader import MAGIC, read_parquet
from localjudge.dataset.problems import Problem
from localjudge.dataset.rows import RawRow
from localjudge.dataset.sources import OpenSource, Source

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
    if source.head.startswith(MAGIC):
        yield from read_parquet(source.stream, source.name)
        return
    if source.head.startswith((FILE_MAGIC, STREAM_MAGIC)):
        yield from read_arrow(source.stream, source.name, source.head)
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
