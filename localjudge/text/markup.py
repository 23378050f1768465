r"""Markup in a text: what is cut as a whole, what is no statement, and what hides no boundary.

    ```python\nprint(1)\n```        a block of code is one sentence; its fences are not judged
    | Plan | Price |\n|---|---|     the header and the separator of a table are no statements
    | Pro | All tools. 5 dollars |  a row is one sentence
    <p>It is safe.</p><p>Next.      a tag is no text: blocks are lines, other tags are white space
    safe.\u200bNext safe.\nNext     an invisible character or a literal \n after a stop is a space

Everything above keeps offsets: text is blanked and never removed. Character references of HTML are
read as their characters, with the offsets of the stored text:

    M&uuml;ller, 5&nbsp;km, &#26481;&#x4eac;     Müller, 5 km, 東京

The cut, the judge and the finder of evidence read the characters. A reference in code is text.
"""

import html
import re
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from localjudge.text.lines import BLANK_LINE, LINE_ENDS, Range


class Block(NamedTuple):
    """Part of a text that is cut as a whole, with the ranges in it that are no statement."""

    start: int
    end: int
    left_out: tuple[Range, ...] = ()


_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
"""A character reference of HTML with its semicolon: "?a=1&copy=2" has none."""
_LINE = re.compile(rf"[^{LINE_ENDS}]+")
_FENCE = re.compile(
    r"(?P<prefix>[ \t>]*)(?:(?:[-*+]|\d+[.)])[ \t]+)?"
    r"(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)$"
)
_SEPARATOR = re.compile(
    r"[ \t>]*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)+\|?\s*$"  # of several columns
    r"|[ \t>]*\|\s*:?-+:?\s*\|\s*$"
)
_ROW = re.compile(r"[ \t>]*\|.*\|")
_HTML_ROW = re.compile(r"<tr\b[^<>]*>(?:(?!</?tr\b).){0,5000}?</tr\s*>", re.IGNORECASE | re.DOTALL)
_HTML_HEADER = re.compile(r"<th\b", re.IGNORECASE)
_HTML_CELL = re.compile(r"<td\b", re.IGNORECASE)
_INLINE_CODE = re.compile(
    r"(?<!`)```(?!`)[^`\n]{1,300}```(?!`)|"
    # Not the quotes of LaTeX and of treebanks: "`one' and `two'", "``one'' and ``two''".
    r"(?<!`)`(?!`)(?:(?!'(?=[\s.,;:!?]))[^`\n]){1,300}`(?!`)"
    r"|(?<!`)``(?!`)[^`\n]{0,100}(?:`[^`\n]{1,100}){1,9}``(?!`)"  # with ` inside
)
_STOP_IN_CODE = re.compile(r"[.!?](?=\s)")

_BLOCK_NAMES = (
    "answer|article|aside|blockquote|br|center|citations|dd|details|div|dl|dt|figure|footer|form|"
    "h[1-6]|header|hr|li|main|nav|ol|output|p|pre|references|response|section|sources|"
    "summary|table|tbody|tfoot|thead|tr|ul|"
    r"\|[a-z_]{2,30}\||(?:start|end)_of_turn"  # special tokens of models: <|im_end|>
)
_INLINE_NAMES = (
    "a|abbr|acronym|b|big|bdi|cite|co(?:: ?[0-9, ]+)?|code|del|dfn|em|font|i|ins|kbd|label|"
    "mark|q|reasoning|s|samp|small|span|strike|strong|sub|sup|td|th|think|thinking|thoughts?|tt|u|var|wbr"
)
_TAG = re.compile(
    rf"<(?P<slash>/)?(?:(?P<block>{_BLOCK_NAMES})|(?P<inline>{_INLINE_NAMES}))"
    r"(?P<rest>\s[^<>]{0,500})?\s?/?>",
    re.IGNORECASE,
)
_MENTION = re.compile(r"^[^\W_] <[^<>]*>(?:[,;]| [a-z])")  # "use the <br> tag"
_OPENING_TAGS = re.compile(
    rf"(?:<(?!br\b|hr\b|wbr\b)(?:{_BLOCK_NAMES}|{_INLINE_NAMES})(?:\s[^<>]{{0,500}})?>\s*)+$",
    re.IGNORECASE,
)
_MAX_OPENING_TAGS = 600  # characters

_STOP = ".!?…。！？।۔؟"
_LITERAL_LINE_END = re.compile(
    rf"(?:(?<=[{_STOP}:])|(?<=[{_STOP}][\"'”’)*_]))(?:(?:\\r)?\\n|\\t)+"  # after a stop
    r"(?=$|[\s\\A-Z0-9#*\-•(\"“'<\[]|[^\x00-\x7f])"
    r"|(?:(?:\\r)?\\n){2,}"  # two of them
    r"|(?:\\n)+(?=(?:[-*•]|\d{1,3}[.)]|#{1,6}) )"  # before an item of a list or a heading
)
_LINK = re.compile(r"\[[^\[\]\n]{1,300}\]\([^()\s]{1,500}\)")
_INVISIBLE = "\u200b\u200e\u200f\u2060\ufeff\u00ad"
_INVISIBLE_AFTER_STOP = re.compile(rf"(?<=[{_STOP}\"'”’)\]])[{_INVISIBLE}]+")
_SCRIPT = re.compile(
    r"<(?P<name>script|style)\b[^<>]*>(?:(?!<(?:script|style)\b).){0,20000}?</(?P=name)\s*>",
    re.IGNORECASE | re.DOTALL,
)
_BEFORE_SCRIPT = re.compile(r"(?:^|[\n>])\s*\Z")
_MAX_BEFORE_SCRIPT = 100
_COMMENT = re.compile(r"<!--(?:(?!<!--).){0,5000}?-->", re.DOTALL)


def blocks(text: str) -> list[Block]:
    """Return blocks of code and rows of tables in order."""
    lines: list[Range] = []
    if "|" in text or "```" in text or "~~~" in text:
        lines = [Range(*match.span()) for match in _LINE.finditer(text)]
    in_markdown: list[Block] = []
    number = 0
    while number < len(lines):
        in_lines, number = _blocks_at(text, lines, number)
        in_markdown += in_lines
    covered = [Range(block.start, block.end) for block in in_markdown]
    in_html = []
    for block in [*_html_rows(text), *_scripts(text)]:
        if not overlaps(covered, block.start, block.end):
            in_html.append(block)
    return sorted([*in_markdown, *in_html])


def _blocks_at(text: str, lines: Sequence[Range], number: int) -> tuple[list[Block], int]:
    """Return the blocks that begin at a line, and the number of the line after them."""
    line = lines[number]
    fence = _FENCE.match(text, line.start, line.end)
    if fence:
        return _code_block(text, lines, number, fence)
    if _SEPARATOR.match(text, line.start, line.end):
        return [_line_block(text, line, left_out=True)], number + 1
    if _is_table_header(text, lines, number):
        return _table_rows(text, lines, number)
    if _ROW.match(text, line.start, line.end):
        return [_line_block(text, line)], number + 1
    return [], number + 1


def _is_table_header(text: str, lines: Sequence[Range], number: int) -> bool:
    """Return whether a separator is on the line after it."""
    line = lines[number]
    if "|" not in text[line.start : line.end] or number + 1 == len(lines):
        return False
    following = lines[number + 1]
    if BLANK_LINE.search(text, line.end, following.start):
        return False
    return _SEPARATOR.match(text, following.start, following.end) is not None


def _code_block(
    text: str,
    lines: Sequence[Range],
    number: int,
    fence: re.Match[str],
) -> tuple[list[Block], int]:
    """Return the block of code that a fence opens, up to the fence that closes it or to the end."""
    start = fence.start()
    if not fence["prefix"].strip():
        start = fence.start("fence")
    opening = Range(start, fence.end())
    depth = 1
    for last in range(number + 1, len(lines)):
        inner = _FENCE.match(text, *lines[last])
        if not inner or not inner["fence"].startswith(fence["fence"]):
            continue
        if inner["info"].strip():
            depth += 1
        else:
            depth -= 1
        if depth == 0:
            closing = Range(lines[last].start, inner.end())
            return [Block(start, inner.end(), (opening, closing))], last + 1
    return [Block(start, lines[-1].end, (opening,))], len(lines)


def _table_rows(text: str, lines: Sequence[Range], number: int) -> tuple[list[Block], int]:
    header = _line_block(text, lines[number], left_out=True)
    separator = _line_block(text, lines[number + 1], left_out=True)
    rows = [header, separator]
    following = number + 2
    while following < len(lines):
        is_apart = BLANK_LINE.search(text, lines[following - 1].end, lines[following].start)
        if is_apart or "|" not in text[slice(*lines[following])]:
            break
        is_separator = _SEPARATOR.match(text, *lines[following]) is not None
        rows.append(_line_block(text, lines[following], left_out=is_separator))
        following += 1
    return rows, following


def _line_block(text: str, line: Range, *, left_out: bool = False) -> Block:
    content = text[line.start : line.end]
    start = line.start + len(content) - len(content.lstrip())
    end = line.start + len(content.rstrip())
    if left_out:
        return Block(start, end, (Range(start, end),))
    return Block(start, end)


def _html_rows(text: str) -> Iterator[Block]:
    if "</tr" not in text.lower():
        return
    for match in _HTML_ROW.finditer(text):
        row = Range(*match.span())
        if _HTML_HEADER.search(match[0]) and not _HTML_CELL.search(match[0]):
            yield Block(row.start, row.end, (row,))
        else:
            yield Block(row.start, row.end)


def _scripts(text: str) -> Iterator[Block]:
    """Yield scripts and styles on separate lines: they are no statements."""
    if "</s" not in text.lower():
        return
    for match in _SCRIPT.finditer(text):
        before = text[max(0, match.start() - _MAX_BEFORE_SCRIPT) : match.start()]
        if _BEFORE_SCRIPT.search(before):
            script = Range(*match.span())
            yield Block(script.start, script.end, (script,))


def overlaps(ranges: Sequence[Range], start: int, end: int) -> bool:
    """Return whether a part shares a character with one of the sorted ranges."""
    following = bisect_left(ranges, (end, end))
    return following > 0 and ranges[following - 1].end > start


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
    if "<" in text:
        text = _TAG.sub(" ", text)
    if "&" in text:
        text = _REFERENCE.sub(_character, text)
    return any(map(str.isalnum, text))


def _character(reference: re.Match[str]) -> str:
    return html.unescape(reference[0])


def code_ranges(text: str) -> list[Range]:
    """Return blocks of code and inline code in order."""
    if "`" not in text and "~~~" not in text:
        return []
    fenced: list[Range] = []
    for block in blocks(text):
        if text[block.start] in "`~>":
            fenced.append(Range(block.start, block.end))
    inline: list[Range] = []
    for match in _INLINE_CODE.finditer(text):
        if not overlaps(fenced, match.start(), match.end()):
            inline.append(Range(*match.span()))
    return sorted([*fenced, *inline])


def blanked(text: str, ranges: Sequence[Range], blank: str = " ") -> str:
    """Return the text with the ranges replaced by white space of the same length."""
    parts: list[str] = []
    position = 0
    for start, end in ranges:
        if end > position:
            parts += [text[position:start], blank * (end - max(start, position))]
            position = end
    return "".join([*parts, text[position:]])


def without_markup(text: str) -> str:
    """Return a text of the same length where markup hides no boundary."""
    if "`" in text:
        text = _INLINE_CODE.sub(lambda code: _hide_stops(code).replace("<", "-"), text)
    if "<!--" in text:
        text = _COMMENT.sub(_blank_signs, text)
    if "](" in text:
        text = _LINK.sub(_hide_stops, text)
    if "<" in text:
        text = _TAG.sub(_blank_tag, text)
    if "\\" in text:
        text = _LITERAL_LINE_END.sub(
            lambda literal: re.sub(r"\\[nr]", "\n ", literal[0]).replace("\\t", "  "), text
        )
    if any(sign in text for sign in _INVISIBLE):
        text = _INVISIBLE_AFTER_STOP.sub(_blank_signs, text)
    return text


def _hide_stops(link: re.Match[str]) -> str:
    return _STOP_IN_CODE.sub("-", link[0])


def _blank_signs(signs: re.Match[str]) -> str:
    return " " * len(signs[0])


def _blank_tag(tag: re.Match[str]) -> str:
    """Return line ends for the tag of a block, and signs that end no word for other tags."""
    length = len(tag[0])
    around = tag.string[max(0, tag.start() - 2) : tag.end() + 2]
    if tag["block"] and not _MENTION.search(around):
        is_line_break = tag["block"].lower() == "br"
        line_ends = "\n" if is_line_break else "\n\n"
        return line_ends.ljust(length)
    before = tag.string[tag.start() - 1 : tag.start()]
    after = tag.string[tag.end() : tag.end() + 1]
    if before.isalnum() and after.isalnum():  # inside a word: H<sub>2</sub>O
        return "x" * length
    return " " * length


def before_opening_tags(text: str, start: int) -> int:
    """Return the start of the opening tags directly before a sentence: they belong to it."""
    tags = _OPENING_TAGS.search(text[max(0, start - _MAX_OPENING_TAGS) : start])
    return start - len(tags[0]) if tags else start


def left_out_ranges(text: str) -> list[Range]:
    """Return what is no statement: fences, headers and separators of tables, literal line ends."""
    ranges: list[Range] = []
    for block in blocks(text):
        ranges += block.left_out
    if "\\" in text:
        for match in _LITERAL_LINE_END.finditer(text):
            ranges.append(Range(*match.span()))
    if "<!--" in text:
        code = code_ranges(text)
        for match in _COMMENT.finditer(text):
            if not overlaps(code, *match.span()):
                ranges.append(Range(*match.span()))
    if "&" in text:
        for match in _REFERENCE.finditer(text):
            if _is_blank(_character(match)):
                ranges.append(Range(*match.span()))
    return merged(ranges)


def trimmed(text: str, start: int, end: int, ranges: Sequence[Range]) -> Range:
    """Return a part without white space, invisible characters, unpaired tags and the ranges at its
    edges.
    """
    tags = deque(_TAG.finditer(text, start, end))
    names = Counter(_tag_name(tag) for tag in tags)
    before = None
    while start < end and (start, end) != before:
        before = (start, end)
        while start < end and _is_blank(text[start]):
            start += 1
        while end > start and _is_blank(text[end - 1]):
            end -= 1
        start, end = _without_ranges(start, end, ranges)
        if tags and tags[0].start() == start < end and not _is_paired(tags[0], names):
            start = tags.popleft().end()
        if tags and tags[-1].end() == end > start and not _is_paired(tags[-1], names):
            end = tags.pop().start()
    return Range(start, end)


def _is_blank(sign: str) -> bool:
    return sign.isspace() or sign in _INVISIBLE


def _without_ranges(start: int, end: int, ranges: Sequence[Range]) -> Range:
    before = bisect_left(ranges, (start + 1,)) - 1
    if before >= 0 and ranges[before].end > start:
        start = min(end, ranges[before].end)
    before = bisect_left(ranges, (end,)) - 1
    if before >= 0 and ranges[before].end >= end:
        end = max(start, ranges[before].start)
    return Range(start, end)


def _tag_name(tag: re.Match[str]) -> tuple[str, bool]:
    """Return a tag's name, and whether it closes."""
    return (tag["block"] or tag["inline"]).lower(), tag["slash"] is not None


def _is_paired(tag: re.Match[str], names: Counter[tuple[str, bool]]) -> bool:
    """Return whether an inline tag opens or closes inside the same part: "<b>Dose</b>: 5 mg"."""
    name, closes = _tag_name(tag)
    return tag["block"] is None and names[name, not closes] > 0


_MARKUP_SIGNS = "<>`~|"
_TEXTS_KEPT = 256


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
    return _read_references(text, keep_markup)


@lru_cache(maxsize=_TEXTS_KEPT)
def _read_references(text: str, keep_markup: bool) -> ReadText:
    code = code_ranges(text)
    parts: list[str] = []
    ends: list[int] = []
    shifts = [0]
    length = 0
    position = 0
    for match in _REFERENCE.finditer(text):
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
