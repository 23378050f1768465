r"""Where the items of a list begin, one to a line or one after the other.

    - two eggs\n- one loaf              a marker at the beginning of each line
    Do this: 1. Open it 2. Close it     numbers that count on from the first
    • one • two                         the same bullet again
    Bring: - A pen - A book             dashes after a colon, before capitals

A list inside a line begins with its piece, or, a number after a colon, a bullet after a stop. Numbers that a comma or
"and" comes before are part of a sentence: "1) eggs, 2) milk and 3) flour".
"""

import re
from collections.abc import Iterator

from localjudge.text.piece import TextPiece

_BULLET = "•◦▪▸►‣⁃●○■□➢➤✓✔"
_NUMBER = r"\(?(?P<number>\d{1,3}|[a-zA-Z]|[ivxIVX]{2,5})(?P<after>[.)]\)?|\.\))"

MARKER = re.compile(rf"\s*(?:(?:[{_BULLET}]\s*)?(?:{_NUMBER})(?=\s|$)|[{_BULLET}]|[-*+·–—](?=\s)|#{{1,6}}(?=\s)|\|)")
"""A bullet, number or letter at the beginning of a list item, or what begins a heading or a table row."""

_FIRST_BULLET = re.compile(rf"(?:(?<=[.:!?]\s)|(?<=[.:!?]\s\s))[{_BULLET}]")
_FIRST_DASH = re.compile(r"(?:(?<=:\s)|(?<=:\s\s))(?P<dash>[-*])\s(?=[A-Z*])")
_FIRST_NUMBER = re.compile(r"(?:(?<=:\s)|(?<=:\s\s))\(?(?P<number>[1aA])(?P<after>[.)]\)?|\.\))(?=\s)")
_ENUMERATION = re.compile(r"(?:[,;]|\b(?:and|or))\s+$")
_BEFORE = 8
"""Characters before a number in which a comma or "and" is looked for."""


def items(text: str, piece: TextPiece) -> Iterator[int]:
    """Where list items begin inside a piece."""
    yield from _bullets(text, piece)
    yield from _dashes(text, piece)
    yield from _numbers(text, piece)


def _bullets(text: str, piece: TextPiece) -> Iterator[int]:
    bullet = text[piece.start]
    start = piece.start
    if bullet not in _BULLET:
        first = _FIRST_BULLET.search(text, piece.start, piece.end)
        if not first:
            return
        bullet, start = first[0], first.start()
    for match in re.compile(rf"(?<=\s){bullet}").finditer(text, start, piece.end):
        yield match.start()


def _dashes(text: str, piece: TextPiece) -> Iterator[int]:
    first = _FIRST_DASH.search(text, piece.start, piece.end)
    if first:
        dash = re.compile(rf"(?<=\s){re.escape(first['dash'])}\s(?=[A-Z*])")
        for match in dash.finditer(text, first.start(), piece.end):
            yield match.start()


def _numbers(text: str, piece: TextPiece) -> Iterator[int]:
    marker = MARKER.match(text, piece.start, piece.end)
    if marker and marker["number"]:
        yield from _following(text, piece, marker)
    elif first := _FIRST_NUMBER.search(text, piece.start, piece.end):
        following = list(_following(text, piece, first))
        yield from [first.start(), *following] if following else []


def _following(text: str, piece: TextPiece, marker: re.Match[str]) -> Iterator[int]:
    """Where the items after a marker begin. "A. B. Yehoshua" is a name: no list counts with capitals and full stops."""
    after = marker["after"]
    while number := _next_number(marker["number"]):
        if number.isupper() and after == ".":
            return
        pattern = rf"(?<=\s)(?:[{_BULLET}]\s*)?\(?(?P<number>{number}){re.escape(after)}(?=\s)"
        found = re.compile(pattern).search(text, marker.end(), piece.end)
        if not found or _ENUMERATION.search(text, max(piece.start, found.start() - _BEFORE), found.start()):
            return
        yield found.start()
        marker = found


def _next_number(number: str) -> str:
    if number.isdecimal():
        return str(int(number) + 1)
    return chr(ord(number) + 1) if len(number) == 1 and number not in "zZ" else ""
