r"""Read the character references of HTML as their characters, and keep the stored offsets.

    M&uuml;ller, 5&nbsp;km, &#26481;&#x4eac;     Müller, 5 km, 東京

The cut, the judge and the finder of evidence read the characters. A reference in code is text.
"""

import html
from bisect import bisect_right
from functools import lru_cache
from typing import NamedTuple

from localjudge.text.markup import REFERENCE, code_ranges, overlaps

_MARKUP_SIGNS = "<>`~|"
_CACHE_SIZE = 256


class ReadText(NamedTuple):
    """A text with characters in place of references."""

    text: str
    ends: tuple[int, ...]
    """Where each replaced reference ends in `text`."""
    shifts: tuple[int, ...]
    """What to add to an offset for the stored one: up to the first end, the second, and so on."""

    def stored(self, offset: int) -> int:
        """Return the offset in the stored text."""
        return offset + self.shifts[bisect_right(self.ends, offset)]


def read_characters(text: str, *, keep_markup: bool = False) -> ReadText:
    """Return the text with characters in place of references.

    `keep_markup`: references to signs of markup, such as &lt;, stay as they are.
    """
    if "&" not in text:
        return ReadText(text, (), (0,))
    return _read(text, keep_markup)


@lru_cache(maxsize=_CACHE_SIZE)
def _read(text: str, keep_markup: bool) -> ReadText:
    code = code_ranges(text)
    parts: list[str] = []
    ends: list[int] = []
    shifts = [0]
    length = 0
    position = 0
    for match in REFERENCE.finditer(text):
        characters = html.unescape(match[0])
        is_markup = keep_markup and characters in _MARKUP_SIGNS
        if characters in (match[0], "") or is_markup or overlaps(code, *match.span()):
            continue
        parts += [text[position : match.start()], characters]
        length += match.start() - position + len(characters)
        position = match.end()
        ends.append(length)
        shifts.append(position - length)
    return ReadText("".join([*parts, text[position:]]), tuple(ends), tuple(shifts))
