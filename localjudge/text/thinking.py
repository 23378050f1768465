"""Find the thinking in a response: blocks of <think>, <thinking>, <thought> and <reasoning>.

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
    tags = [_read_tag(match) for match in _TAG.finditer(text)]
    ranges: list[Range] = []
    tag = _next_tag(text, tags, 0)
    while tag is not None:
        block = _block_at(tag, tags, len(text), is_first=not ranges)
        ranges.append(block)
        tag = _next_tag(text, tags, block.end)
    return merged(ranges)


def _block_at(tag: _Tag, tags: list[_Tag], end_of_text: int, *, is_first: bool) -> Range:
    """Return the thinking that begins with a tag. A lone closing tag ends what is before it."""
    if not tag.closes:
        return Range(tag.start, _end_of_block(tags, tag, end_of_text))
    if is_first:
        return Range(0, tag.end)
    return Range(tag.start, tag.end)


def _read_tag(match: re.Match[str]) -> _Tag:
    closes = bool(match["slash"] or match["bracket"] or match["triangle"])
    return _Tag(match.start(), match.end(), closes)


def _next_tag(text: str, tags: list[_Tag], position: int) -> _Tag | None:
    """Return the next tag from a position on that is markup, and not mentioned in a sentence."""
    following = [tag for tag in tags if tag.start >= position]
    if not following:
        return None
    code = code_ranges(text[position:])
    mention: _Tag | None = None
    for tag in following:
        if overlaps(code, tag.start - position, tag.end - position):
            continue
        follows_end = _ENDED.search(text[max(0, tag.start - _BEFORE) : tag.start]) is not None
        if not tag.closes and (follows_end or tag.start == 0):
            return tag
        at_edge = follows_end or _LINE_ENDS.match(text, tag.end) is not None
        closes_mention = mention is not None and "\n" not in text[mention.end : tag.start]
        if tag.closes and at_edge and not closes_mention:
            return tag
        mention = tag
    return None


def _end_of_block(tags: list[_Tag], opening: _Tag, end_of_text: int) -> int:
    """Return the end of a block that a tag opens.

    It ends at its closing tag, else at the last closing tag, else at the end of the text.
    """
    depth = 0
    last_closing = end_of_text
    for tag in tags:
        if tag.start < opening.start:
            continue
        if not tag.closes:
            depth += 1
            continue
        depth -= 1
        last_closing = tag.end
        if depth == 0:
            return tag.end
    return last_closing
