"""JSON as rows: one object on each line (JSONL), an array of objects, or one object that holds all rows.

A line that is not JSON is a problem of its row, and the next line is read. Arrays and single objects are read into
memory as a whole: large data is JSONL.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from localjudge.dataset.encodings import NOT_UTF8, refuse_undecodable, undecodable
from localjudge.dataset.json_values import BLANK, DECODER, reason
from localjudge.dataset.problems import Place, Problem
from localjudge.dataset.rows import ROW, RawRow, raw_row
from localjudge.errors import DataError


def read_lines(lines: Iterable[str], source: str) -> Iterator[RawRow | Problem]:
    """One row for each line that is not blank; a single object is `whole`."""
    bare = ((number, line.strip(BLANK)) for number, line in enumerate(lines, 1))
    rows = (_read_line(line, Place(source, line=number)) for number, line in bare if line)
    first, second = next(rows, None), next(rows, None)
    if isinstance(first, RawRow) and second is None:
        first = first._replace(whole=True)
    yield from (row for row in (first, second) if row is not None)
    yield from rows


def read_document(stream: TextIO, source: str) -> Iterator[RawRow | Problem]:
    """An array, one row for each element, or one object on several lines. Raises DataError if it is not valid JSON."""
    text = stream.read().strip(BLANK)
    refuse_undecodable(text, source, line=1)
    try:
        value: Any = DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        place = Place(source, line=error.lineno if isinstance(error, json.JSONDecodeError) else None)
        raise DataError(
            f"{place} is not valid JSON: {reason(error)}",
            hint="write one object, an array of objects, or one on each line",
        ) from error
    if isinstance(value, list):
        yield from (raw_row(element, Place(source, row=number)) for number, element in enumerate(value, 1))
    else:
        yield RawRow(Place(source, row=1), value, whole=True)


def _read_line(line: str, place: Place) -> RawRow | Problem:
    if byte := undecodable(line):
        return Problem.at(place, None, byte, NOT_UTF8)
    try:
        value = DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        return Problem.at(place, None, f"no valid JSON: {reason(error)}", ROW)
    return raw_row(value, place)
