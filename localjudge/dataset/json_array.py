"""A JSON array as rows, read element by element: the file is never in memory as a whole.

    [{"question": ...}, {"question": ...}, ...
     ^^^^^^^^^^^^^^^^^  window: grows until one value is complete, then moves on

Where an element is not JSON nobody can tell where it ends, so that is an error, not a problem of one row.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, TextIO

from localjudge.dataset.decoding import refuse_undecodable
from localjudge.dataset.json_values import BLANK, DECODER, RepeatedKeyError, reason
from localjudge.dataset.problems import Place, Problem
from localjudge.dataset.rows import ROW, RawRow, raw_row
from localjudge.errors import DataError

_CHUNK = 1 << 16
_NOT_BLANK = re.compile(f"[^{BLANK}]")


def read_array(stream: TextIO, source: str) -> Iterator[RawRow | Problem]:
    """One row for each element. Raises DataError where the array is no valid JSON."""
    window = _Window(stream, source)
    window.skip("[")
    if window.next_character() != "]":
        yield window.take_row()
        while window.next_character() != "]":
            window.skip(",")
            yield window.take_row()
    window.skip("]")
    if window.next_character():
        raise window.error("something follows the end of the array")


class _Window:
    """The part of a text that is being read; `line` is the line of what comes next."""

    def __init__(self, stream: TextIO, source: str) -> None:
        self.line = 1
        self._stream = stream
        self._source = source
        self._text = ""
        self._position = 0
        self._ended = False

    def next_character(self) -> str:
        """The next character that is not blank; empty at the end."""
        while True:
            found = _NOT_BLANK.search(self._text, self._position)
            self._advance(found.start() if found else len(self._text))
            if found or not self._grow():
                return found.group() if found else ""

    def skip(self, character: str) -> None:
        """Go past a character that has to come now."""
        found = self.next_character()
        if found != character:
            raise self.error(f"{character!r} is missing before {repr(found) if found else 'the end of the file'}")
        self._advance(self._position + 1)

    def take_row(self) -> RawRow | Problem:
        """Read one element."""
        self.next_character()
        place = Place(self._source, line=self.line)
        try:
            return raw_row(self._take_value(DECODER), place)
        except RepeatedKeyError as error:
            self._take_value(json.JSONDecoder())
            return Problem.at(place, None, f"no valid JSON: {reason(error)}", ROW)

    def error(self, what: str) -> DataError:
        """An error at the present line."""
        return DataError(
            f"{self._source}:{self.line} is no valid JSON: {what}",
            hint="a broken element makes the rest of an array unreadable; in JSONL only its own row is lost",
        )

    def _take_value(self, decoder: json.JSONDecoder) -> Any:
        while True:
            try:
                value, end = decoder.raw_decode(self._text, self._position)
            except RepeatedKeyError:
                raise
            except (ValueError, RecursionError) as error:
                if isinstance(error, RecursionError) or not self._grow():
                    raise self.error(reason(error)) from error
                continue
            # At the edge of what has been read a number may go on.
            if end < len(self._text) or not self._grow():
                self._advance(end)
                return value

    def _grow(self) -> bool:
        """Read on, as much again as is waiting, so that a long value is tried few times."""
        if self._ended:
            return False
        waiting = self._text[self._position :]
        more = self._stream.read(max(len(waiting), _CHUNK))
        refuse_undecodable(more, self._source, self.line + waiting.count("\n"))
        self._text, self._position, self._ended = waiting + more, 0, not more
        return bool(more)

    def _advance(self, position: int) -> None:
        self.line += self._text.count("\n", self._position, position)
        self._position = position
