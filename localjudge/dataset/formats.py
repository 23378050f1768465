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

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import PurePath
from typing import Any, Literal, TextIO

from localjudge.dataset.csv_file import read_csv
from localjudge.dataset.data_in_memory import expand, number_rows
from localjudge.dataset.rows import BLANK, DECODER, ROW, Place, Problem, RawRow, raw_row, reason
from localjudge.dataset.sources import TABLE_MARKS, OpenSource, Source
from localjudge.dataset.table_files import read_table
from localjudge.errors import DataError

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

    Places in CSV `edited` in a spreadsheet include the row there. Lines of CSV before a header with
    all of these `columns` are skipped.
    """
    with source.open() as opened:
        for row in _read_source(opened, edited, columns):
            if isinstance(row, RawRow) and (row.whole or rows_path):
                yield from expand(row, mapping, rows_path)
            else:
                yield row


def _read_source(
    source: OpenSource, edited: bool, columns: Collection[str]
) -> Iterator[RawRow | Problem]:
    if source.head.startswith(TABLE_MARKS):
        yield from read_table(source)
        return
    head = source.head.decode(source.encoding, errors="ignore")
    kind = _choose_format(source.name, head)
    if kind == "csv":
        head = head.lstrip("\ufeff")
        with source.text(newline="") as text:
            yield from read_csv(text, source.name, head, edited=edited, columns=columns)
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
