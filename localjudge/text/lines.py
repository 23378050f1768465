r"""Which line ends end a sentence.

    Results\n                          a heading: the next line would have fitted on it   cut
    We measured the speed of the\n     a wrapped line: the next word had no room          no cut
    United States economy.\n
    - first item\n                     a list item                                        cut before it

A line is *full* if the first word of the next line would not have fitted in the width of the widest line of its
block (lines without a blank line between them). Text that was wrapped has full lines; headings, verse, addresses and
items have not. A blank line always cuts.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from localjudge.text.lists import MARKER
from localjudge.text.piece import TextPiece

_END = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_LINE = re.compile(rf"[^\s{_END}](?:[^{_END}]*[^\s{_END}])?")
_BLANK = re.compile(r"(?:\r\n|[\n\r\v\x85\u2028])\s*?(?:\r\n|[\n\r\v\x85\u2028])|[\f\x1c-\x1e\u2029]")
_INITIAL = re.compile(r"[A-Z]\.(?=\s)")
_HEADING = re.compile(r"#{1,6}\s")
_FORMULA = re.compile(r"(?:^|[\s(\d])(?:[A-Z][a-z]?){1,3}\)?[+-]?$")
_SUBSCRIPT = re.compile(r"\d{1,2}(?!\d)")
"""A chemical formula before a line that begins with its lost subscript: "H\\n2 is a gas"."""
_ENDED = re.compile(r"[.!?…。！？][\"'”’»)\]]*$")
_BEFORE_FIRST_LETTER = " \t\xa0>\"'“‘«(["

_NARROW = 40
"""A narrower block is not taken for wrapped text."""
_MOST = 0.75
"""Two lines of at least this share of the width show that a block was wrapped."""
_LONG = 60
"""A full line this long is wrapped, even if no other line shows it."""


class Line(NamedTuple):
    """A line that is not blank, without the white space around it, and what its block is like."""

    start: int
    end: int
    width: int
    """Characters of the widest line of the block."""
    wrapped: bool
    """Whether the block looks wrapped."""

    @property
    def length(self) -> int:
        """Characters of the line."""
        return self.end - self.start


def pieces(text: str) -> Iterator[TextPiece]:
    """Pieces of a text in its order; what lies between them is white space."""
    previous: Line | None = None
    start = 0
    for line in _lines(text):
        if previous is None:
            start = line.start
        elif _cuts(text, previous, line):
            yield TextPiece(start, previous.end)
            start = line.start
        previous = line
    if previous is not None:
        yield TextPiece(start, previous.end)


def _lines(text: str) -> Iterator[Line]:
    block: list[tuple[int, int]] = []
    for match in _LINE.finditer(text):
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
    if _BLANK.search(text, above.end, line.start) or _HEADING.match(text, above.start, above.end):
        return True
    content = text[line.start : line.end]
    full = above.width >= _NARROW and above.length + 1 + len(content.split(maxsplit=1)[0]) > above.width
    if MARKER.match(content) and not (full and _INITIAL.match(content)):
        return True
    content_above = text[above.start : above.end]
    if _SUBSCRIPT.match(content) and _FORMULA.search(content_above):
        return False
    if not (_has_letter(content_above) and _has_letter(content)):
        return True
    if content.lstrip(_BEFORE_FIRST_LETTER)[:1].islower() and not content_above.endswith(":"):
        return 2 * above.length < max(above.width, _NARROW) and not _ENDED.search(content)
    return not (full and (above.wrapped or above.length >= _LONG))


def _has_letter(content: str) -> bool:
    return any(map(str.isalnum, content))
