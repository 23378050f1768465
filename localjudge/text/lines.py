r"""Split a text into paragraphs, headings and list items.

    Results\n                          a heading: the next word would have fitted on it    cut
    We measured the speed of the\n     a wrapped line: the next word did not fit           no cut
    United States economy.\n
    - two eggs\n- one loaf             a marker at the start of each line                  cut before each
    Do this: 1. Open it 2. Close it    numbers that increase from the first                cut before each

A line is *full* if the first word of the next line would have made it longer than the widest line of its block
(adjacent non-blank lines). A list inside a line begins at the start of its piece, with a number or dash after a colon,
or with a bullet after a stop. Numbers after a comma or "and" are part of a sentence: "1) eggs, 2) milk and 3) flour".
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple


class TextPiece(NamedTuple):
    """Part of a text between sentence boundaries. A line end inside it counts as a space."""

    start: int
    end: int


_BULLET = "•◦▪▸►‣⁃●○■□➢➤✓✔"
_NUMBER = r"\(?(?P<number>\d{1,3}|[a-zA-Z]|[ivxIVX]{2,5})(?P<delimiter>[.)]\)?|\.\))"

# The start of a list item (bullet, number, letter), a heading or a table row.
MARKER = re.compile(rf"\s*(?:(?:[{_BULLET}]\s*)?(?:{_NUMBER})(?=\s|$)|[{_BULLET}]|[-*+·–—](?=\s)|#{{1,6}}(?=\s)|\|)")

_FIRST_BULLET = re.compile(rf"(?:(?<=[.:!?]\s)|(?<=[.:!?]\s\s))[{_BULLET}]")
_FIRST_DASH = re.compile(r"(?:(?<=:\s)|(?<=:\s\s))(?P<dash>[-*])\s(?=[A-Z*])")
_FIRST_NUMBER = re.compile(r"(?:(?<=:\s)|(?<=:\s\s))\(?(?P<number>[1aA])(?P<delimiter>[.)]\)?|\.\))(?=\s)")
_ENUMERATION = re.compile(r"(?:[,;]|\b(?:and|or))\s+$")
_BEFORE = 8  # characters before a number that may contain a comma or "and"


def items(text: str, piece: TextPiece) -> Iterator[int]:
    yield from _bullets(text, piece)
    if dash := _FIRST_DASH.search(text, piece.start, piece.end):
        dashes = re.compile(rf"(?<=\s){re.escape(dash['dash'])}\s(?=[A-Z*])")
        yield from (match.start() for match in dashes.finditer(text, dash.start(), piece.end))
    yield from _numbers(text, piece)


def _bullets(text: str, piece: TextPiece) -> Iterator[int]:
    bullet, start = text[piece.start], piece.start
    if bullet not in _BULLET:
        first_bullet = _FIRST_BULLET.search(text, piece.start, piece.end)
        if not first_bullet:
            return
        bullet, start = first_bullet[0], first_bullet.start()
    for match in re.compile(rf"(?<=\s){bullet}").finditer(text, start, piece.end):
        yield match.start()


def _numbers(text: str, piece: TextPiece) -> Iterator[int]:
    marker = MARKER.match(text, piece.start, piece.end)
    if marker and marker["number"]:
        yield from _following(text, piece, marker)
    elif first_number := _FIRST_NUMBER.search(text, piece.start, piece.end):
        following = list(_following(text, piece, first_number))
        yield from [first_number.start(), *following] if following else []


def _following(text: str, piece: TextPiece, marker: re.Match[str]) -> Iterator[int]:
    delimiter = marker["delimiter"]
    while (last := marker["number"]).isdecimal() or (len(last) == 1 and last not in "zZ"):
        number = str(int(last) + 1) if last.isdecimal() else chr(ord(last) + 1)
        if number.isupper() and delimiter == ".":  # "A. B. Yehoshua" is a name
            return
        pattern = rf"(?<=\s)(?:[{_BULLET}]\s*)?\(?(?P<number>{number}){re.escape(delimiter)}(?=\s)"
        following = re.compile(pattern).search(text, marker.end(), piece.end)
        if not following or _ENUMERATION.search(text, max(piece.start, following.start() - _BEFORE), following.start()):
            return
        yield following.start()
        marker = following


LINE_ENDS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_LINE = re.compile(rf"[^\s{LINE_ENDS}](?:[^{LINE_ENDS}]*[^\s{LINE_ENDS}])?")
BLANK_LINE = re.compile(r"(?:\r\n|[\n\r\v\x85\u2028])\s*?(?:\r\n|[\n\r\v\x85\u2028])|[\f\x1c-\x1e\u2029]")
_INITIAL = re.compile(r"[A-Z]\.(?=\s)")
_HEADING = re.compile(r"#{1,6}\s")
_FORMULA = re.compile(r"(?:^|[\s(\d])(?:[A-Z][a-z]?){1,3}\)?[+-]?$")
_SUBSCRIPT = re.compile(r"\d{1,2}(?!\d)")  # at the start of the next line: "H\n2 is a gas"
_ENDED = re.compile(r"[.!?…。！？][\"'”’»)\]]*$")
_BEFORE_FIRST_LETTER = " \t\xa0>\"'“‘«(["

_NARROW = 40  # least width of wrapped text, in characters
_MOST = 0.75  # two lines of wrapped text have at least this share of the width
_LONG = 60  # a full line of this many characters is wrapped in any block


class _Line(NamedTuple):
    """Non-blank line without surrounding white space, the width of its block, and whether the block looks wrapped."""

    start: int
    end: int
    width: int
    wrapped: bool


def pieces(text: str) -> Iterator[TextPiece]:
    lines = list(_lines(text))
    cuts = [number for number, (above, line) in enumerate(pairwise(lines), 1) if _cuts(text, above, line)]
    for start, end in pairwise([0, *cuts, len(lines)] if lines else []):
        yield TextPiece(lines[start].start, lines[end - 1].end)


def _lines(text: str) -> Iterator[_Line]:
    block: list[tuple[int, int]] = []
    for match in _LINE.finditer(text):
        if block and BLANK_LINE.search(text, block[-1][1], match.start()):
            yield from _block_lines(block)
            block = []
        block.append(match.span())
    yield from _block_lines(block)


def _block_lines(block: list[tuple[int, int]]) -> Iterator[_Line]:
    width = max((end - start for start, end in block), default=0)
    wrapped = sum(end - start >= _MOST * width for start, end in block) > 1
    for start, end in block:
        yield _Line(start, end, width, wrapped)


def _cuts(text: str, above: _Line, line: _Line) -> bool:
    if BLANK_LINE.search(text, above.end, line.start) or _HEADING.match(text, above.start, above.end):
        return True
    content, content_above = text[line.start : line.end], text[above.start : above.end]
    length = above.end - above.start
    full = above.width >= _NARROW and length + 1 + len(content.split(maxsplit=1)[0]) > above.width
    if MARKER.match(content) and not (full and _INITIAL.match(content)):
        return True
    if _SUBSCRIPT.match(content) and _FORMULA.search(content_above):
        return False
    if not (any(map(str.isalnum, content_above)) and any(map(str.isalnum, content))):
        return True
    if content.lstrip(_BEFORE_FIRST_LETTER)[:1].islower() and not content_above.endswith(":"):
        return 2 * length < max(above.width, _NARROW) and not _ENDED.search(content)
    return not (full and (above.wrapped or length >= _LONG))
