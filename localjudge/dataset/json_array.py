"""A JSON array as rows, one for each element. The file is in memory as a whole while it is read: large data is JSONL.

Where an element is not JSON nobody can tell where it ends, so that is an error, not a problem of one row.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, TextIO

from localjudge.dataset.encodings import refuse_undecodable
from localjudge.dataset.json_values import BLANK, DECODER, RepeatedKeyError, reason
from localjudge.dataset.problems import Place, Problem
from localjudge.dataset.rows import ROW, RawRow, raw_row
from localjudge.errors import DataError

_BLANKS = re.compile(f"[{BLANK}]*")


def read_array(stream: TextIO, source: str) -> Iterator[RawRow | Problem]:
    """One row for each element. Raises DataError where the array is not valid JSON."""
    text = _Text(stream.read(), source)
    text.skip("[")
    if text.next_character() != "]":
        yield text.take_row()
        while text.next_character() != "]":
            text.skip(",")
            yield text.take_row()
    text.skip("]")
    if text.next_character():
        raise text.error("something follows the end of the array")


class _Text:
    """A text, and how far it has been read; `line` is the line of what comes next."""

    def __init__(self, text: str, source: str) -> None:
        refuse_undecodable(text, source, line=1)
        self._text = text
        self._source = source
        self._position = 0
        self._line = 1

    def next_character(self) -> str:
        """The next character that is not blank; empty at the end."""
        found = _BLANKS.match(self._text, self._position)
        self._advance(found.end() if found else self._position)
        return self._text[self._position : self._position + 1]

    def skip(self, character: str) -> None:
        """Go past a character that has to come now."""
        found = self.next_character()
        if found != character:
            raise self.error(f"{character!r} is missing before {repr(found) if found else 'the end of the file'}")
        self._advance(self._position + 1)

    def take_row(self) -> RawRow | Problem:
        """Read one element."""
        self.next_character()
        place = Place(self._source, line=self._line)
        try:
            return raw_row(self._take_value(DECODER), place)
        except RepeatedKeyError as error:
            self._take_value(json.JSONDecoder())
            return Problem.at(place, None, f"no valid JSON: {reason(error)}", ROW)

    def error(self, what: str) -> DataError:
        """An error at the present line."""
        return DataError(
            f"{self._source}:{self._line} is not valid JSON: {what}",
            hint="a broken element makes the rest of an array unreadable; in JSONL only its own row is lost",
        )

    def _take_value(self, decoder: json.JSONDecoder) -> Any:
        try:
            value, end = decoder.raw_decode(self._text, self._position)
        except RepeatedKeyError:
            raise
        except (ValueError, RecursionError) as error:
            raise self.error(reason(error)) from error
        self._advance(end)
        return value

    def _advance(self, position: int) -> None:
        self._line += self._text.count("\n", self._position, position)
        self._position = position
