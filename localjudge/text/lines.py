r"""Which line ends end a sentence, and where the items of a list begin.

    Results\n                          a heading: its line is full only by chance      cut
    We measured the speed of the\n     a wrapped line: the next word had no room       no cut
    United States economy.\n
    - first item\n                     a list item                                     cut before it

A line is *full* if the first word of the next line would not have fitted in the width of the widest line of its
block (lines without a blank line between them). Text that was wrapped has full lines; headings, verse, addresses and
items have not. A blank line always cuts.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_LINE = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_BLANK = re.compile(r"(?:\r\n|[\n\r\v\x85\u2028])\s*?(?:\r\n|[\n\r\v\x85\u2028])|[\f\x1c-\x1e\u2029]")

_BULLET = "•◦▪▸►‣⁃●○■□➢➤✓✔"
_NUMBER = r"\(?(?P<number>\d{1,3}|[a-zA-Z]|[ivxIVX]{2,5})(?P<after>[.)]\)?|\.\))"
MARKER = re.compile(rf"\s*(?:(?:[{_BULLET}]\s*)?(?:{_NUMBER})(?=\s|$)|[{_BULLET}]|[-*+·–—](?=\s)|#{{1,6}}(?=\s)|\|)")
"""A bullet, number or letter at the beginning of a list item, or what begins a heading or a table row."""

_INITIAL = re.compile(r"\s*[A-Z]\.(?=\s)")
_HEADING = re.compile(r"\s*#{1,6}\s")
_INLINE_BULLET = re.compile(rf"(?<=\s)[{_BULLET}]")
_FIRST_LETTER = re.compile(r"[\s>\"'“‘«(\[]*(\w?)")
_ENDED = re.compile(r"[.!?…。！？][\"'”’»)\]]*\s*$")

_NARROW = 40
"""A narrower block is not taken for wrapped text."""
_MOST = 0.75
"""Lines at least this share of the width show that a block was wrapped."""
_LONG = 60
"""A full line this long is wrapped, even if no other line shows it."""


class Line(NamedTuple):
    """A line that is not blank, and the width of its block."""

    start: int
    end: int
    width: int
    wrapped: bool


class Piece(NamedTuple):
    """A part of the text that begins and ends with sentences; any line end inside it is only a space."""

    start: int
    end: int


def pieces(text: str) -> Iterator[Piece]:
    """Pieces of a text in its order; what lies between them is white space."""
    previous: Line | None = None
    start = 0
    for line in _lines(text):
        if previous is None:
            start = line.start
        elif _cuts(text, previous, line):
            yield Piece(start, previous.end)
            start = line.start
        previous = line
    if previous is not None:
        yield Piece(start, previous.end)


def items(text: str, piece: Piece) -> Iterator[int]:
    """Where list items begin inside a piece: at bullets, and at "2." and so on in a piece that begins with "1."."""
    for bullet in _INLINE_BULLET.finditer(text, piece.start + 1, piece.end):
        yield bullet.start()
    marker = MARKER.match(text, piece.start, piece.end)
    while marker and marker["number"] and (number := _next_number(marker["number"])):
        closing = re.escape(marker["after"])
        following = re.compile(rf"(?<=\s)(?:[{_BULLET}]\s*)?\(?(?P<number>{number})(?P<after>{closing})(?=\s)")
        marker = following.search(text, marker.end(), piece.end)
        if marker:
            yield marker.start()


def _next_number(number: str) -> str:
    if number.isdecimal():
        return str(int(number) + 1)
    return chr(ord(number) + 1) if len(number) == 1 and number not in "zZ" else ""


def _lines(text: str) -> Iterator[Line]:
    block: list[tuple[int, int]] = []
    for match in _LINE.finditer(text):
        if match.group().isspace():
            continue
        if block and _BLANK.search(text, block[-1][1], match.start()):
            yield from _block_lines(block)
            block = []
        block.append(match.span())
    yield from _block_lines(block)


def _block_lines(block: list[tuple[int, int]]) -> Iterator[Line]:
    width = max((end - start for start, end in block), default=0)
    wrapped = sum(end - start >= _MOST * width for start, end in block) > 1
    for start, end in block:
        yield Line(start, end, width, wrapped)


def _cuts(text: str, above: Line, line: Line) -> bool:
    if above.end < line.start and _BLANK.search(text, above.end, line.start):
        return True
    full = _is_full(text, above, line)
    if _is_item(text, line, full=full) or _HEADING.match(text, above.start, above.end):
        return True
    first = _FIRST_LETTER.match(text, line.start, line.end)
    letter = first[1] if first else ""
    if not letter or not any(map(str.isalnum, text[above.start : above.end])):
        return True
    if letter.islower() and not text[above.start : above.end].rstrip().endswith(":"):
        half = 2 * (above.end - above.start) >= max(above.width, _NARROW)
        return not (half or _ENDED.search(text, line.start, line.end))
    return not (full and (above.wrapped or above.end - above.start >= _LONG))


def _is_item(text: str, line: Line, *, full: bool) -> bool:
    if not MARKER.match(text, line.start, line.end):
        return False
    return not (full and _INITIAL.match(text, line.start, line.end))


def _is_full(text: str, above: Line, line: Line) -> bool:
    first_word = text[line.start : line.end].split(maxsplit=1)[0]
    return above.width >= _NARROW and above.end - above.start + 1 + len(first_word) > above.width
