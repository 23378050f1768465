r"""Find the list of sources at the end of a response, which is not judged and has no citations.

    **Sources:**\n[1] policy.pdf, p. 3\n[2] faq.html    lines after a heading, in many languages
    [^1]: policy.pdf                                     a definition without a heading
    Sources: [1] policy.pdf, [2] faq.html                one line

A line without a heading defines a mark if it begins with the mark and only names a source, or if
the text above cites this mark. Other lists are statements: "Sources:\n- Solar power is clean.",
"[1] The dose is safe.".
"""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from localjudge.text.languages import any_of
from localjudge.text.lines import BLANK_LINE, LINE_ENDS, Range
from localjudge.text.marks import PREDICATES, RANK, RANK_RANGE, Mark

_HEADING_WORD = any_of("headings")
_AROUND = r"(?:</?(?:b|strong|em|i|u)>|[^\w\[(（]|_)*"
_MAX_HEADING = 80
_OTHER_HEADING = re.compile(  # only above lines that define marks
    rf"{_AROUND}(?:{any_of('more_headings')}){_AROUND}",
    re.IGNORECASE,
)
_INTRODUCES = re.compile(r"[:：][*_\s]*$")
_BLOCK_TAG = re.compile(
    r"</?(?:br|details|div|footer|h[1-6]|li|ol|p|references|section|sources|summary|ul)\b[^<>]*>",
    re.IGNORECASE,
)
_STATES = re.compile(rf"(?:\[[^\[\]\n]*\]|【[^【】\n]*】)\s(?:{PREDICATES})")
_HEADING = re.compile(
    rf"{_AROUND}(?:\d+[.)]\s*)?{_AROUND}"  # **3.
    rf"(?:{_HEADING_WORD})(?:\s(?:{any_of('after_heading')}))?"  # Sources used
    rf"{_AROUND}\s*[:：]?{_AROUND}",  # :**
    re.IGNORECASE,
)
_ONE_LINE = re.compile(
    r"(?:^|(?<=[.!?。！？।۔)\]】]))(?:[^\w\[<.!?。]|_)*\[?"  # at the start, or after a sentence
    rf"(?:{_HEADING_WORD})[*_]*\s*[:：][*_]*\s*"  # Sources:
    r"(?P<rest>\S.*)$",  # [1] policy.pdf
    re.IGNORECASE,
)
_BULLET = re.compile(r"(?:[\s>*+•◦▪–—-]|</?(?!(?:sup|a)\b)\w+>)*")
_NUMBER = re.compile(r"[(（]?(?P<number>\d{1,3})[.)）:、．]\s*")
_RULE = re.compile(r"[\s*_=~-]+")
_AFTER_MARK = re.compile(r"[\s:：.–—-]*")

_FILE_NAME = re.compile(
    r"[*_`\"'“<]*[\w][\w ./()&-]*"
    r"\.(?:pdf|html?|docx?|txt|md|csv|json|xlsx?|pptx?|xml|rtf|epub)\b",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"https?://|\bwww\.|\bdoi\b|\barXiv:|\bISBN\b|\]\([^)\s]+\)", re.IGNORECASE)
_PUBLICATION = re.compile(
    r"\((?:19|20)\d\d[a-z]?\)|,\s(?:19|20)\d\d\.?$"
    rf"|\b(?:{any_of('publication_numbers')})\s?\d+",
    re.IGNORECASE,
)
_STOPPED = re.compile(r"[.!?…。！？।۔؟][\"'”’)\]*_]*$")
_AFTER_FILE = re.compile(r"[.)]+\s+[\"“(]?[A-ZÀ-Þ]")
_ID = re.compile(r"(?=[\w.:#/-]*\d)[\w.:#/-]{1,60}")
_LIST_PART = re.compile(r"[^\s,;，、；](?:[^,;，、；]*[^\s,;，、；])?")
_STOP_INSIDE = re.compile(r"[.!?]\s+[A-ZÀ-Þ]|[。！？।۔]")
_MAX_WORDS = 15
_MAX_CHARACTERS = 120
_TEXT_LINE = re.compile(rf"[^{LINE_ENDS}]+")


class _ListLine(NamedTuple):
    """A line that may belong to a list of sources."""

    start: int
    end: int
    content: str  # without bullets
    mark: Mark | None  # at its start
    rest: str  # after the mark or number
    number: str  # of a numbered line without a mark


def source_ranges(text: str, marks: Sequence[Mark]) -> list[Range]:
    """Return the list of sources at the end of a text, or no range.

    A text that consists of sources is an answer.
    """
    has_tags = "<" in text
    if has_tags:
        text = _BLOCK_TAG.sub(lambda tag: "\n" * len(tag[0]), text)
    lines = _read_lines(text, marks)
    inner = _list_before_remark(text, lines, marks)
    if inner:
        return [inner]
    start = len(text)
    first = _first_listed(text, lines, marks)
    if first < len(lines):
        start = lines[first].start
        lines = lines[:first]
    while lines and _RULE.fullmatch(lines[-1].content):
        start = lines.pop().start
    if lines:
        line = lines[-1]
        one_line = _ONE_LINE.search(text[line.start : line.end])
        if one_line and _is_list_in_line(one_line, marks, line.start):
            start = line.start + one_line.start()
    if has_tags:
        start = len(text[:start].rstrip())
    is_whole_text = not any(map(str.isalnum, text[:start]))
    if is_whole_text or not text[start:].strip():
        return []
    return [Range(start, len(text))]


def _read_lines(text: str, marks: Sequence[Mark]) -> list[_ListLine]:
    by_start = {mark.start: mark for mark in marks}
    lines = []
    for match in _TEXT_LINE.finditer(text):
        if match[0].strip():
            lines.append(_read_line(text, match, by_start))
    return lines


def _read_line(text: str, match: re.Match[str], marks: dict[int, Mark]) -> _ListLine:
    """Read the bullet, the number, the marks and the rest of a line. `marks` are by start."""
    line_end = match.end()
    content_start = _find_end(_BULLET, text, match.start(), line_end)
    numbered = _NUMBER.match(text, content_start, line_end)
    before_emphasis = match.start() + len(text[match.start() : content_start].rstrip("*_"))
    mark = marks.get(content_start) or marks.get(before_emphasis)
    number = ""
    rest_start = content_start
    if numbered:
        number = numbered["number"]
        rest_start = numbered.end()
        mark = mark or marks.get(rest_start)
    if mark:
        number = ""
        rest_start = mark.end
    rest_start = _find_end(_AFTER_MARK, text, rest_start, line_end)
    while rest_start in marks:
        rest_start = _find_end(_AFTER_MARK, text, marks[rest_start].end, line_end)
    rest = text[rest_start:line_end].strip()
    return _ListLine(match.start(), line_end, match[0].strip(), mark, rest, number)


def _find_end(pattern: re.Pattern[str], text: str, start: int, end: int) -> int:
    match = pattern.match(text, start, end)
    if match is None:
        return start
    return match.end()


def _first_listed(text: str, lines: Sequence[_ListLine], marks: Sequence[Mark]) -> int:
    """Return the number of the first line of the list, with its heading."""
    heading = _find_heading(lines)
    if heading is not None:
        cited = _names_cited_before(lines[heading].start, marks)
        if all(_is_item(line, cited) for line in lines[heading + 1 :]):
            return heading
    first = len(lines)
    for line in reversed(lines):
        if not (line.mark or line.number or _RULE.fullmatch(line.content)):
            break
        first -= 1
    if first < len(lines) and _are_answer(lines, first, marks):
        return len(lines)
    while first < len(lines):
        cited = _names_cited_before(lines[first].start, marks)
        names_source = any(line.mark or line.number for line in lines[first:])
        if names_source and all(_defines_mark(text, line, cited) for line in lines[first:]):
            break
        first += 1
    if 0 < first < len(lines) and _OTHER_HEADING.fullmatch(lines[first - 1].content):
        return first - 1
    return first


def _are_answer(lines: Sequence[_ListLine], first: int, marks: Sequence[Mark]) -> bool:
    r"""Return whether a sentence introduces the lines, and nothing cites them.

    "Do this:\n[1] Open the door"
    """
    above = lines[first - 1].content if first > 0 else ""
    if not _INTRODUCES.search(above):
        return False
    if _OTHER_HEADING.fullmatch(above) or _HEADING.fullmatch(above):
        return False
    names = {line.number for line in lines[first:] if line.number}
    for line in lines[first:]:
        if line.mark:
            names.update(name.strip("^") for name in line.mark.names)
    return names.isdisjoint(_names_cited_before(lines[first].start, marks))


def _list_before_remark(
    text: str, lines: Sequence[_ListLine], marks: Sequence[Mark]
) -> Range | None:
    """Return a list that a closing remark follows: "Let me know if you need more"."""
    heading = _find_heading(lines)
    if not heading:  # there is none, or nothing is before it
        return None
    cited = _names_cited_before(lines[heading].start, marks)
    last = heading
    while last + 1 < len(lines) and _is_item(lines[last + 1], cited):
        last += 1
    has_items = last > heading
    has_remark = last + 1 < len(lines)
    if not has_items or not has_remark:
        return None
    if not BLANK_LINE.search(text, lines[last].end, lines[last + 1].start):
        return None
    return Range(lines[heading].start, lines[last].end)


def _find_heading(lines: Sequence[_ListLine]) -> int | None:
    """Return the number of the last heading."""
    for number in reversed(range(len(lines))):
        content = lines[number].content
        if len(content) <= _MAX_HEADING and _HEADING.fullmatch(content):
            return number
    return None


def _names_cited_before(end: int, marks: Sequence[Mark]) -> frozenset[str]:
    cited: set[str] = set()
    for mark in marks:
        if mark.end <= end:
            cited.update(name.strip("^") for name in mark.names)
    return frozenset(cited)


def _is_item(line: _ListLine, cited: Collection[str]) -> bool:
    """Return whether a line after a heading names a source."""
    if line.mark or _RULE.fullmatch(line.content) or _looks_like_source(line.rest):
        return True
    return line.number in cited


def _defines_mark(text: str, line: _ListLine, cited: Collection[str]) -> bool:
    """Return whether a line defines a mark, or is a rule such as "---"."""
    mark = line.mark
    if mark is None:
        if line.number in cited and _looks_like_source(line.rest):
            return True
        return _RULE.fullmatch(line.content) is not None
    if not line.rest:
        return False
    if text[mark.start + 1] == "^" and text[mark.end : mark.end + 1] == ":":  # [^1]: policy.pdf
        return True
    names = {name.strip("^") for name in mark.names}
    if names <= set(cited):
        return True
    return _looks_like_source(line.rest) or _is_title(line.rest)


def _looks_like_source(content: str) -> bool:
    if _ADDRESS.search(content) or _PUBLICATION.search(content):
        return True
    return _FILE_NAME.match(content) is not None


def _is_title(content: str) -> bool:
    """Return whether a line is short and no sentence: "Return policy 2024"."""
    if _STOPPED.search(content) or _STOP_INSIDE.search(content):
        return False
    return len(content.split()) <= _MAX_WORDS and len(content) <= _MAX_CHARACTERS


def _is_list_in_line(line: re.Match[str], marks: Sequence[Mark], offset: int) -> bool:
    """Return whether a line is a list of sources from its heading on, and not also a sentence."""
    rest = line["rest"]
    start = offset + line.start("rest")
    is_whole_line = not any(map(str.isalnum, line.string[: line.start()]))
    if _STATES.match(rest):
        return False
    if not is_whole_line and _STOP_INSIDE.search(rest):
        return False
    if any(mark.start == start for mark in marks):
        return True
    file = _FILE_NAME.match(rest)
    if file and _AFTER_FILE.match(rest, file.end()):
        return False
    return _looks_like_source(rest) or _are_names(rest, marks, start)


def _are_names(rest: str, marks: Sequence[Mark], start: int) -> bool:
    """Return whether a text lists ids or titles with marks.

    "doc1, 5-pl", "Document 2", "Policy [1], FAQ [2]"
    """
    parts = list(_LIST_PART.finditer(rest.rstrip(" .)*_")))
    ids = (RANK, RANK_RANGE, _ID)
    if all(any(pattern.fullmatch(part[0]) for pattern in ids) for part in parts):
        return True
    if len(parts) == 1 or not _is_title(rest):
        return False
    ends = {mark.end for mark in marks}
    return all(start + part.end() in ends for part in parts)
