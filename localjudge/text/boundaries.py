"""Where the sentences of a text begin: lines first, then stops, then the few signs that end a sentence without one."""

import re
from collections.abc import Iterator
from itertools import pairwise

from localjudge.text.conventions import Conventions
from localjudge.text.lines import pieces
from localjudge.text.lists import items
from localjudge.text.piece import TextPiece
from localjudge.text.stops import SMILE, stops

_RULE = re.compile(r"(?<!\S)(?:-{4,}|(?P<sign>[_=*~#])(?P=sign){2,})\s+")
_UNSTOPPED = re.compile(
    rf"(?<!\S)(?:(?P<smile>{SMILE})|(?:https?://|www\.|[^\s@]+@)\S*[^\s.,;:!?\"'(])\s+(?=(?P<next>[A-Z]\w*))"
)


def sentence_starts(text: str, pattern: re.Pattern[str], conventions: Conventions) -> list[int]:
    """Offsets at which a sentence begins, in order. `pattern` finds the stops: see `stop_pattern`."""
    return sorted({start for piece in pieces(text) for start in _piece_starts(text, piece, pattern, conventions)})


def _piece_starts(text: str, piece: TextPiece, pattern: re.Pattern[str], conventions: Conventions) -> Iterator[int]:
    unstopped = {piece.start, *items(text, piece), *_unstopped(text, piece, conventions)}
    yield from unstopped
    for start, end in pairwise((*sorted(unstopped), piece.end)):
        yield from stops(text, TextPiece(start, end), pattern, conventions)


def _unstopped(text: str, piece: TextPiece, conventions: Conventions) -> Iterator[int]:
    for rule in _RULE.finditer(text, piece.start, piece.end):
        yield from (rule.start(), rule.end())
    for match in _UNSTOPPED.finditer(text, piece.start, piece.end):
        smile = match["smile"]
        if smile and match.start() == piece.start:
            continue
        if (smile and smile.isascii()) or match["next"].lower() in conventions.starters:
            yield match.end()
