r"""Split a text into paragraphs, headings and list items, and find the numbers of clauses.

    Results\n                          a heading: the next word would have fitted     cut
    We measured the speed of the\n     a wrapped line: the next word did not fit      no cut
    United States economy.\n
    - two eggs\n- one loaf             a marker at the start of each line            cut before each
    Do this: 1. Open it 2. Close it    numbers that increase from the first          cut before each
    1.1. The buyer    § 4. The    **II.3.** The    Art. 5. The    1.\nOpen the door.    no cut:
                                       the number belongs to the clause after it

A line is *full* if the first word of the next line would have made it longer than the widest line
of its block (adjacent non-blank lines). A list inside a line begins at the start of its piece, with
a number or dash after a colon, or with a bullet after a stop. Numbers after a comma or "and" are
part of a sentence: "1) eggs, 2) milk and 3) flour".
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from localjudge.text.languages import Conventions, any_of

LINE_ENDS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_LINE = re.compile(rf"[^\s{LINE_ENDS}](?:[^{LINE_ENDS}]*[^\s{LINE_ENDS}])?")
_LINE_END = r"(?:\r\n|[\n\r\v\x85\u2028])"
BLANK_LINE = re.compile(rf"{_LINE_END}\s*?{_LINE_END}|[\f\x1c-\x1e\u2029]")

_BULLET = "•◦▪▸►‣⁃●○■□➢➤✓✔"
_NUMBER = r"\(?(?P<number>\d{1,3}|[a-zA-Z]|[ivxIVX]{2,5})(?P<delimiter>[.)]\)?|\.\))"
MARKER = re.compile(
    rf"\s*(?:(?:[{_BULLET}]\s*)?(?:{_NUMBER})(?=\s|$)"  # 1.  (a)  • iv)
    rf"|[{_BULLET}]|[-*+·–—](?=\s)"  # •  -
    r"|#{1,6}(?=\s)"  # a heading
    r"|\|)"  # a row of a table
)
_FIRST_BULLET = re.compile(rf"(?:(?<=[.:!?]\s)|(?<=[.:!?]\s\s))[{_BULLET}]")
_FIRST_DASH = re.compile(r"(?:(?<=:\s)|(?<=:\s\s))(?P<dash>[-*])\s(?=[A-Z*])")
_FIRST_NUMBER = re.compile(
    r"(?:(?<=:\s)|(?<=:\s\s))\(?(?P<number>[1aA])"
    r"(?P<delimiter>[.)]\)?|\.\))(?=\s)"
)
_ENUMERATION = re.compile(rf"(?:[,;]|\b(?:{any_of('joins_items')}))\s+$")
_BEFORE = 8  # characters before a number that may contain a comma or "and"

LETTER = r"(?:[^\W\d_]|[\u0900-\u0963\u0970-\u0dff])"
"""A letter, or a vowel sign of the scripts of India."""
_LEVEL = r"(?:\d{1,2}[a-z]?|[a-z]|[ivxIVX]{1,4})"
CLAUSE_NUMBER = (
    rf"(?=[\w.٫]*\d|[IVX]{{2}})(?:\d{{1,3}}[a-z]?|[IVXLC]{{1,7}}|[A-Z])(?:[.٫]{_LEVEL})+"
)
"""Pattern of a number with two levels or more: "1.1", "II.3", "A.1", "1.a"."""
_PARAGRAPH = r"[§№#]{1,2}\s?"
_OPENING = r"[\s*_`\"'“‘«(\[{>•–—-]*(?:#{1,6}\s+)?[*_]*"
_CLOSING = r"[*_`\"'”’»)\]}]*"
_LONE_NUMBER = re.compile(
    rf"{_OPENING}(?:{_PARAGRAPH})?{CLAUSE_NUMBER}{_CLOSING}\.{_CLOSING}"  # 1.1.
    rf"|{_OPENING}{_PARAGRAPH}\d{{1,3}}(?:[-–]\d{{1,3}})?{_CLOSING}\.?{_CLOSING}"  # § 4
)
_NUMBER_ON_A_LINE = re.compile(rf"{_OPENING}\d{{1,3}}[.)]{_CLOSING}[ \t]*(?:\r\n|[\n\r])[ \t]*")
_LABEL = re.compile(  # Art. 5.
    rf"{_OPENING}(?P<word>{LETTER}+)(?P<stop>\.?)\s?"
    rf"(?:{CLAUSE_NUMBER}|\d{{1,3}}|(?P<roman>[IVXLC]{{1,7}})){_CLOSING}\.{_CLOSING}"
)
_MAX_LABEL = 60  # characters
_CLAUSE = re.compile(rf"[>\s]*(?:§{{1,2}}\s?)?{CLAUSE_NUMBER}\.(?=\s+[^\Wa-zß-ÿ])")
_INITIAL = re.compile(r"[A-Z]\.(?=\s)")
_HEADING = re.compile(r"#{1,6}\s")
_FORMULA = re.compile(r"(?:^|[\s(\d])(?:[A-Z][a-z]?){1,3}\)?[+-]?$")
_SUBSCRIPT = re.compile(r"\d{1,2}(?!\d)")  # at the start of the next line: "H\n2 is a gas"
_ENDED = re.compile(r"[.!?…。！？][\"'”’»)\]]*$")
_BEFORE_FIRST_LETTER = " \t\xa0>\"'“‘«(["

_NARROW = 40  # least width of wrapped text, in characters
_MIN_SHARE_OF_WIDTH = 0.75  # that two lines of wrapped text have
_LONG = 60  # a full line of this many characters is wrapped in any block


class Range(NamedTuple):
    """Offsets of a part of a text."""

    start: int
    end: int


def split_pieces(text: str) -> Iterator[Range]:
    """Yield the paragraphs, headings and list items of a text.

    These are parts between sentence boundaries. A line end inside one counts as a space.
    """
    block: list[Range] = []
    for match in _LINE.finditer(text):
        if block and BLANK_LINE.search(text, block[-1].end, match.start()):
            yield from _split_block(text, block)
            block = []
        block.append(Range(*match.span()))
    if block:
        yield from _split_block(text, block)


def find_items(text: str, piece: Range) -> Iterator[int]:
    """Yield the starts of the list items inside a piece: bullets, then dashes, then numbers."""
    yield from _find_bullets(text, piece)
    yield from _find_dashes(text, piece)
    yield from _find_numbers(text, piece)


def _split_block(text: str, lines: Sequence[Range]) -> Iterator[Range]:
    """Yield the pieces of adjacent lines, which have no white space at their edges."""
    lengths = [end - start for start, end in lines]
    width = max(lengths)
    is_wide = [length >= _MIN_SHARE_OF_WIDTH * width for length in lengths]
    looks_wrapped = is_wide.count(True) > 1
    start = lines[0].start
    for above, line in pairwise(lines):
        if _separates(text, above, line, width, looks_wrapped=looks_wrapped):
            yield Range(start, above.end)
            start = line.start
    yield Range(start, lines[-1].end)


def _separates(text: str, above: Range, line: Range, width: int, *, looks_wrapped: bool) -> bool:
    """Return whether the end of the line `above` is a boundary, or only wraps the text.

    `width`: characters of the widest line of their block. `looks_wrapped`: whether the block looks
    like wrapped text.
    """
    if _HEADING.match(text, above.start, above.end):
        return True
    content = text[line.start : line.end]
    content_above = text[above.start : above.end]
    first_word = content.split(maxsplit=1)[0]
    length = above.end - above.start
    is_full = width >= _NARROW and length + 1 + len(first_word) > width
    is_wrapped_initial = is_full and _INITIAL.match(content) is not None
    if _CLAUSE.match(content) or (MARKER.match(content) and not is_wrapped_initial):
        return True
    if _SUBSCRIPT.match(content) and _FORMULA.search(content_above):
        return False
    if not _has_alphanumeric(content_above) or not _has_alphanumeric(content):
        return True
    continues = content.lstrip(_BEFORE_FIRST_LETTER)[:1].islower()
    if continues and not content_above.endswith(":"):
        is_short = 2 * length < max(width, _NARROW)
        return is_short and not _ENDED.search(content)
    is_wrapped = looks_wrapped or length >= _LONG
    return not (is_full and is_wrapped)


def _has_alphanumeric(text: str) -> bool:
    return any(map(str.isalnum, text))


def _find_bullets(text: str, piece: Range) -> Iterator[int]:
    bullet = text[piece.start]
    start = piece.start
    if bullet not in _BULLET:
        first_bullet = _FIRST_BULLET.search(text, piece.start, piece.end)
        if not first_bullet:
            return
        bullet = first_bullet[0]
        start = first_bullet.start()
    same_bullet = re.compile(rf"(?<=\s){bullet}")
    for match in same_bullet.finditer(text, start, piece.end):
        yield match.start()


def _find_dashes(text: str, piece: Range) -> Iterator[int]:
    first_dash = _FIRST_DASH.search(text, piece.start, piece.end)
    if not first_dash:
        return
    same_dash = re.compile(rf"(?<=\s){re.escape(first_dash['dash'])}\s(?=[A-Z*])")
    for match in same_dash.finditer(text, first_dash.start(), piece.end):
        yield match.start()


def _find_numbers(text: str, piece: Range) -> Iterator[int]:
    marker = MARKER.match(text, piece.start, piece.end)
    if marker and marker["number"]:
        yield from _find_following_numbers(text, piece, marker)
        return
    first = _FIRST_NUMBER.search(text, piece.start, piece.end)
    if not first:
        return
    following = list(_find_following_numbers(text, piece, first))
    if following:  # one number alone is no list
        yield first.start()
        yield from following


def _find_following_numbers(text: str, piece: Range, marker: re.Match[str]) -> Iterator[int]:
    """Yield the starts of the items that count on from a marker: "2." after "1."."""
    delimiter = marker["delimiter"]
    while True:
        number = _next_number(marker["number"])
        is_initial = number.isupper() and delimiter == "."  # "A. B. Yehoshua" is a name
        if not number or is_initial:
            return
        pattern = rf"(?<=\s)(?:[{_BULLET}]\s*)?\(?(?P<number>{number}){re.escape(delimiter)}(?=\s)"
        following = re.compile(pattern).search(text, marker.end(), piece.end)
        if not following:
            return
        start = following.start()
        if _ENUMERATION.search(text, max(piece.start, start - _BEFORE), start):
            return
        yield start
        marker = following


def _next_number(number: str) -> str:
    """Return the number or letter of the next item, or "" after "z" and for Roman numbers."""
    if number.isdecimal():
        return str(int(number) + 1)
    if len(number) == 1 and number not in "zZ":
        return chr(ord(number) + 1)
    return ""


def is_number_of_next(text: str, conventions: Conventions) -> bool:
    """Return whether the text before a sentence is only the number of this sentence."""
    if len(text) > _MAX_LABEL:
        return False
    bare = text.strip()
    if _NUMBER_ON_A_LINE.fullmatch(text) or _LONE_NUMBER.fullmatch(bare):
        return True
    label = _LABEL.fullmatch(bare)
    if label is None:
        return False
    word = label["word"]
    if label["roman"]:
        return word.lower() in conventions.clauses  # Article II.
    if label["stop"]:
        return word in conventions.before_number  # Art. 5.
    return not word.islower() and word.lower() in conventions.lettered  # Step 2.
