r"""Markup in a text: what is cut as a whole, what is no statement, and what must not hide a sentence boundary.

    ```python\nprint(1)\n```        a block of code is one sentence; its fences are left out of the judged text
    | Plan | Price |\n|---|---|     the header and the separator of a table are no statements
    | Pro | All tools. 5 dollars |  a row is one sentence
    <p>It is safe.</p><p>Next.      a tag is no text: blocks are lines, other tags are white space
    safe.\u200bNext safe.\nNext     an invisible character or a literal \n after a stop is white space

Everything here keeps offsets: text is blanked and never removed.
"""

import re
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from localjudge.text.lines import BLANK_LINE, LINE_ENDS


class Range(NamedTuple):
    """Offsets of a part of a text."""

    start: int
    end: int


class Block(NamedTuple):
    """Part of a text that is cut as a whole, with the ranges in it that are no statement."""

    start: int
    end: int
    left_out: tuple[Range, ...] = ()


_LINE = re.compile(rf"[^{LINE_ENDS}]+")
_FENCE = re.compile(r"(?P<prefix>[ \t>]*)(?:(?:[-*+]|\d+[.)])[ \t]+)?(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_SEPARATOR = re.compile(r"[ \t>]*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)+\|?\s*$|[ \t>]*\|\s*:?-+:?\s*\|\s*$")
_ROW = re.compile(r"[ \t>]*\|.*\|")
_HTML_ROW = re.compile(r"<tr\b[^<>]*>(?:(?!</?tr\b).){0,5000}?</tr\s*>", re.IGNORECASE | re.DOTALL)
_HTML_HEADER = re.compile(r"<th\b", re.IGNORECASE)
_HTML_CELL = re.compile(r"<td\b", re.IGNORECASE)
# Not the quotes of LaTeX and of treebanks: "`one' and `two'", "``one'' and ``two''".
_INLINE_CODE = re.compile(
    r"(?<!`)`(?!`)(?:(?!'(?=[\s.,;:!?]))[^`\n]){1,300}`(?!`)|(?<!`)``(?!`)[^`\n]{0,100}(?:`[^`\n]{1,100}){1,9}``(?!`)"
)
_STOP_IN_CODE = re.compile(r"[.!?](?=\s)")

_BLOCK_NAMES = (
    "answer|article|aside|blockquote|br|center|citations|dd|details|div|dl|dt|figure|footer|form|h[1-6]|header|hr|li|main|nav|ol|"
    "output|p|pre|references|response|section|sources|summary|table|tbody|tfoot|thead|tr|ul"
)
_INLINE_NAMES = (
    "a|abbr|acronym|b|big|bdi|cite|code|del|dfn|em|font|i|ins|kbd|label|mark|q|reasoning|s|samp|small|span|strike|"
    "strong|sub|sup|td|th|think|thinking|thoughts?|tt|u|var|wbr"
)
_TAG = re.compile(
    rf"<(?P<slash>/)?(?:(?P<block>{_BLOCK_NAMES})|(?P<inline>{_INLINE_NAMES}))(?P<rest>\s[^<>]{{0,500}})?\s?/?>",
    re.IGNORECASE,
)
_MENTION = re.compile(r"^[^\W_] <[^<>]*>(?:[,;]| [a-z])")  # "use the <br> tag"
_OPENING_TAGS = re.compile(
    rf"(?:<(?!br\b|hr\b|wbr\b)(?:{_BLOCK_NAMES}|{_INLINE_NAMES})(?:\s[^<>]{{0,500}})?>\s*)+$", re.IGNORECASE
)
_MOST_OF_TAGS = 600

_STOP = ".!?…。！？।۔؟"
_LITERAL_LINE_END = re.compile(
    rf"(?:(?<=[{_STOP}:])|(?<=[{_STOP}][\"'”’)*_]))(?:(?:\\r)?\\n|\\t)+(?=$|[\s\\A-Z0-9#*\-•(\"“'<\[]|[^\x00-\x7f])"
    r"|(?:(?:\\r)?\\n){2,}|(?:\\n)+(?=(?:[-*•]|\d{1,3}[.)]|#{1,6}) )"
)
_LINK = re.compile(r"\[[^\[\]\n]{1,300}\]\([^()\s]{1,500}\)")
_INVISIBLE = "\u200b\u2060\ufeff\u00ad"
_INVISIBLE_AFTER_STOP = re.compile(rf"(?<=[{_STOP}\"'”’)\]])[{_INVISIBLE}]+")


def blocks(text: str) -> list[Block]:
    """Return blocks of code and rows of tables in order."""
    lines: list[Range] = []
    if "|" in text or "```" in text or "~~~" in text:
        lines = [Range(*match.span()) for match in _LINE.finditer(text)]
    found, number = [], 0
    while number < len(lines):
        block, after = _block_at(text, lines, number)
        found += block
        number = after
    covered = [Range(block.start, block.end) for block in found]
    rows = [block for block in _html_rows(text) if not overlaps(covered, block.start, block.end)]
    return sorted([*found, *rows])


def _block_at(text: str, lines: Sequence[Range], number: int) -> tuple[list[Block], int]:
    """Return the blocks that begin at a line, and the number of the line after them."""
    start, end = lines[number]
    fence = _FENCE.match(text, start, end)
    if fence:
        return _code(text, lines, number, fence)
    following = lines[number + 1] if number + 1 < len(lines) else None
    adjacent = following is not None and not BLANK_LINE.search(text, end, following.start)
    is_header = "|" in text[start:end] and adjacent and following and _SEPARATOR.match(text, *following)
    if is_header and not _SEPARATOR.match(text, start, end):
        return _table(text, lines, number)
    if _SEPARATOR.match(text, start, end):
        return [_whole(text, lines[number], left_out=True)], number + 1
    if _ROW.match(text, start, end):
        return [_whole(text, lines[number])], number + 1
    return [], number + 1


def _code(text: str, lines: Sequence[Range], number: int, fence: re.Match[str]) -> tuple[list[Block], int]:
    start = fence.start("fence") if not fence["prefix"].strip() else fence.start()
    opening = Range(start, fence.end())
    sign, length, depth = fence["fence"][0], len(fence["fence"]), 1
    for place in range(number + 1, len(lines)):
        inner = _FENCE.match(text, *lines[place])
        if not inner or inner["fence"][0] != sign or len(inner["fence"]) < length:
            continue
        depth += 1 if inner["info"].strip() else -1
        if depth == 0:
            closing = Range(lines[place].start, inner.end())
            return [Block(start, inner.end(), (opening, closing))], place + 1
    last = lines[-1].end
    return [Block(start, last, (opening,))], len(lines)


def _table(text: str, lines: Sequence[Range], number: int) -> tuple[list[Block], int]:
    table = [_whole(text, lines[number], left_out=True), _whole(text, lines[number + 1], left_out=True)]
    place = number + 2
    while place < len(lines):
        is_apart = BLANK_LINE.search(text, lines[place - 1].end, lines[place].start)
        if is_apart or "|" not in text[slice(*lines[place])]:
            break
        is_separator = _SEPARATOR.match(text, *lines[place]) is not None
        table.append(_whole(text, lines[place], left_out=is_separator))
        place += 1
    return table, place


def _whole(text: str, line: Range, *, left_out: bool = False) -> Block:
    content = text[slice(*line)]
    start = line.start + len(content) - len(content.lstrip())
    end = line.start + len(content.rstrip())
    return Block(start, end, (Range(start, end),) if left_out else ())


def _html_rows(text: str) -> Iterator[Block]:
    if "</tr" not in text.lower():
        return
    for match in _HTML_ROW.finditer(text):
        is_header = _HTML_HEADER.search(match[0]) and not _HTML_CELL.search(match[0])
        yield Block(match.start(), match.end(), (Range(*match.span()),) if is_header else ())


def overlaps(ranges: Sequence[Range], start: int, end: int) -> bool:
    """Return whether a part shares a character with one of the sorted ranges."""
    place = bisect_left(ranges, (end, end))
    return place > 0 and ranges[place - 1].end > start


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Return sorted ranges that do not overlap and cover the same characters."""
    joined: list[Range] = []
    for each in sorted(ranges):
        if joined and each.start < joined[-1].end:
            joined[-1] = Range(joined[-1].start, max(joined[-1].end, each.end))
        else:
            joined.append(each)
    return joined


def has_words(text: str) -> bool:
    """Return whether a text has a letter or digit outside of tags."""
    return any(map(str.isalnum, _TAG.sub(" ", text) if "<" in text else text))


def code_ranges(text: str) -> list[Range]:
    """Return blocks of code and inline code in order."""
    if "`" not in text and "~~~" not in text:
        return []
    fenced = [Range(block.start, block.end) for block in blocks(text) if text[block.start] in "`~>"]
    inline = [Range(*match.span()) for match in _INLINE_CODE.finditer(text)]
    return sorted([*fenced, *(each for each in inline if not overlaps(fenced, *each))])


def blanked(text: str, ranges: Sequence[Range], blank: str = " ") -> str:
    """Return the text with the ranges replaced by white space of the same length."""
    parts, position = [], 0
    for start, end in ranges:
        if end > position:
            parts += [text[position:start], blank * (end - max(start, position))]
            position = end
    return "".join([*parts, text[position:]])


def without_markup(text: str) -> str:
    """Return a text of the same length where markup hides no boundary."""
    if "`" in text:
        text = _INLINE_CODE.sub(lambda match: _STOP_IN_CODE.sub("-", match[0]).replace("<", "-"), text)
    if "](" in text:
        text = _LINK.sub(lambda match: _STOP_IN_CODE.sub("-", match[0]), text)
    if "<" in text:
        text = _TAG.sub(_blank_tag, text)
    if "\\" in text:
        text = _LITERAL_LINE_END.sub(lambda match: re.sub(r"\\[nr]", "\n ", match[0]).replace("\\t", "  "), text)
    if any(sign in text for sign in _INVISIBLE):
        text = _INVISIBLE_AFTER_STOP.sub(lambda match: " " * len(match[0]), text)
    return text


def _blank_tag(tag: re.Match[str]) -> str:
    if not tag["block"] or _MENTION.search(tag.string[max(0, tag.start() - 2) : tag.end() + 2]):
        before, after = tag.string[tag.start() - 1 : tag.start()], tag.string[tag.end() : tag.end() + 1]
        return ("x" if before.isalnum() and after.isalnum() else " ") * len(tag[0])  # inside a word: H<sub>2</sub>O
    line_ends = "\n" if tag["block"].lower() == "br" else "\n\n"
    return line_ends.ljust(len(tag[0]))


def before_opening_tags(text: str, start: int) -> int:
    """Return the start of the opening tags directly before a sentence: they belong to it."""
    tags = _OPENING_TAGS.search(text[max(0, start - _MOST_OF_TAGS) : start])
    return start - len(tags[0]) if tags else start


def left_out_ranges(text: str) -> list[Range]:
    """Return what is no statement: fences, headers and separators of tables, literal line ends."""
    ranges = [each for block in blocks(text) for each in block.left_out]
    if "\\" in text:
        ranges += [Range(*match.span()) for match in _LITERAL_LINE_END.finditer(text)]
    return sorted(ranges)


def trimmed(text: str, start: int, end: int, ranges: Sequence[Range]) -> Range:
    """Return a part without white space, invisible characters, unpaired tags and the ranges at its edges."""
    tags = deque(_TAG.finditer(text, start, end))
    names = Counter(_name(tag) for tag in tags)
    before = None
    while start < end and (start, end) != before:
        before = (start, end)
        start, end = _without_blanks(text, start, end)
        start, end = _without_ranges(start, end, ranges)
        if tags and tags[0].start() == start < end and not _is_paired(tags[0], names):
            start = tags.popleft().end()
        if tags and tags[-1].end() == end > start and not _is_paired(tags[-1], names):
            end = tags.pop().start()
    return Range(start, end)


def _without_blanks(text: str, start: int, end: int) -> Range:
    while start < end and (text[start].isspace() or text[start] in _INVISIBLE):
        start += 1
    while end > start and (text[end - 1].isspace() or text[end - 1] in _INVISIBLE):
        end -= 1
    return Range(start, end)


def _without_ranges(start: int, end: int, ranges: Sequence[Range]) -> Range:
    place = bisect_left(ranges, (start + 1,)) - 1
    if place >= 0 and ranges[place].end > start:
        start = min(end, ranges[place].end)
    place = bisect_left(ranges, (end,)) - 1
    if place >= 0 and ranges[place].end >= end:
        end = max(start, ranges[place].start)
    return Range(start, end)


def _name(tag: re.Match[str]) -> tuple[str, bool]:
    return (tag["block"] or tag["inline"]).lower(), tag["slash"] is not None


def _is_paired(tag: re.Match[str], names: Counter[tuple[str, bool]]) -> bool:
    """Return whether an inline tag opens or closes inside the same part: "<b>Dose</b>: 5 mg"."""
    name, closes = _name(tag)
    return tag["block"] is None and names[name, not closes] > 0
