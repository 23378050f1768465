"""Find the thinking that a model wrote into its response: <think>, <thinking>, <thought> and <reasoning> blocks.

    <think>Perhaps Ulm?</think>It is in Ulm.    from the opening to the closing tag, also nested
    Perhaps Ulm?</think>It is in Ulm.           a lone closing tag: everything up to it
    <think>Perhaps Ulm?                         an unclosed tag: everything after it

A tag in code, or in the middle of a sentence, is text: "Models write <think> before they answer."
"""

import re
from typing import NamedTuple

from localjudge.text.markup import Range, code_ranges, merged, overlaps

_NAMES = "think|thinking|thoughts?|reasoning"
_TAG = re.compile(
    rf"(?:<|&lt;)(?P<slash>/)?\s?(?:{_NAMES})(?:\s[^<>]{{0,200}})?\s?(?:>|&gt;)"
    r"|\[(?P<bracket>/)?THINK\]|◁(?P<triangle>/)?think▷",
    re.IGNORECASE,
)
_ENDED = re.compile(r"(?:^|[\n.!?…。！？।۔؟:>\"'”’)\]】`*_-])[ \t]*\Z")
_LINE_ENDS = re.compile(r"[ \t]*(?:\n|\r|$)")
_BEFORE = 40


class _Tag(NamedTuple):
    start: int
    end: int
    closes: bool


def thinking_ranges(text: str) -> list[Range]:
    """Return the thinking in a response, with its tags."""
    tags = [_tag(match) for match in _TAG.finditer(text)]
    if not tags:
        return []
    ranges: list[Range] = []
    position = 0
    while (opening := _next_tag(text, tags, position)) is not None:
        if opening.closes:
            start = opening.start if ranges else 0
            ranges.append(Range(start, opening.end))
            position = opening.end
        else:
            position = _end_of_block(tags, opening, len(text))
            ranges.append(Range(opening.start, position))
    return merged(ranges)


def _tag(match: re.Match[str]) -> _Tag:
    closes = bool(match["slash"] or match["bracket"] or match["triangle"])
    return _Tag(match.start(), match.end(), closes)


def _next_tag(text: str, tags: list[_Tag], position: int) -> _Tag | None:
    """Return the next tag that is no text, in the text from a position on."""
    following = [tag for tag in tags if tag.start >= position]
    code = code_ranges(text[position:]) if following else []
    mention: _Tag | None = None
    for tag in following:
        if overlaps(code, tag.start - position, tag.end - position):
            continue
        begins = _ENDED.search(text[max(0, tag.start - _BEFORE) : tag.start]) is not None
        if not tag.closes and (begins or tag.start == 0):
            return tag
        in_mention = mention is not None and "\n" not in text[mention.end : tag.start]
        if tag.closes and not in_mention and (begins or _LINE_ENDS.match(text, tag.end)):
            return tag
        mention = tag
    return None


def _end_of_block(tags: list[_Tag], opening: _Tag, end_of_text: int) -> int:
    """Return the end of the block: its closing tag, else the last closing tag, else the end of the text."""
    depth, last = 0, end_of_text
    for tag in tags:
        if tag.start < opening.start:
            continue
        depth += -1 if tag.closes else 1
        last = tag.end if tag.closes else last
        if depth == 0:
            return tag.end
    return last
