"""The unit that the rules for stops read: a paragraph, a heading, a list item."""

from typing import NamedTuple


class TextPiece(NamedTuple):
    """A part of a text that begins and ends with sentences; a line end inside it is only a space."""

    start: int
    end: int
