r"""Find the list of sources at the end of a response, which states nothing and cites nothing.

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

from localjudge.text.lines import BLANK_LINE, LINE_ENDS
from localjudge.text.marks import Mark
from localjudge.text.markup import Range

_WORDS = """
    sources? source[ ]list references? references[ ]cited reference[ ]list citations?
    cited[ ]sources works[ ]cited
    bibliography footnotes? endnotes? links literature further[ ]reading
    quellen? quellenangaben? quellenverzeichnis quellennachweise? literatur literaturverzeichnis
    referenzen fußnoten?
    einzelnachweise belege nachweise
    références? bibliographie notes[ ]de[ ]bas[ ]de[ ]page liens
    fuentes? referencias? bibliografía enlaces notas[ ]al[ ]pie
    font[ei] riferimenti bibliografia fontes? referências bronnen bron referenties bronvermelding
    källor källa referenser kilder kilde referencer referanser litteratur lähteet viitteet
    źródł[ao] przypisy bibliografia zdroje reference literatura források hivatkozások
    surse referințe bibliografie
    kaynaklar kaynakça πηγές αναφορές
    источники? список[ ]литературы ссылки литература примечания джерела посилання източници
    参考文献 参考资料 参考來源 参考来源 參考文獻 參考資料 資料來源 资料来源 信息来源
    来源 來源 引用 引用来源 出处 出處 脚注
    出典 参照 参照元 参考資料 参考 引用元 引用文献 情報源 ソース
    출처 참고문헌 참고[ ]문헌 참고[ ]자료 참조
    المصادر المصدر المراجع مراجع مصادر منابع مآخذ حوالہ[ ]جات ذرائع מקורות הפניות
    स्रोत संदर्भ सन्दर्भ संदर्भ[ ]सूची উৎস তথ্যসূত্র อ้างอิง แหล่งอ้างอิง แหล่งที่มา
    nguồn tài[ ]liệu[ ]tham[ ]khảo sumber referensi
"""
_LONGEST_FIRST = sorted(_WORDS.replace("[ ]", "\0").split(), key=len, reverse=True)
_HEADING_WORD = "|".join(_LONGEST_FIRST).replace("\0", "[ ]")
_AROUND = r"(?:[\s>#*_]|</?(?:h[1-6]|b|strong|p|em|i|u)>)*"
_HEADING = re.compile(
    rf"{_AROUND}(?:\d+[.)]\s*)?{_AROUND}(?:{_HEADING_WORD})(?:\s(?:used|consulted|cited))?"
    rf"{_AROUND}\s*[:：]?{_AROUND}",
    re.IGNORECASE,
)
_ONE_LINE = re.compile(
    rf"(?:^|(?<=[.!?。！？।۔)\]】]))[\s*_(（\[>-]*(?:{_HEADING_WORD})"
    r"[*_]*\s*[:：][*_]*\s*(?P<rest>\S.*)$",
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
    r"\((?:19|20)\d\d[a-z]?\)|,\s(?:19|20)\d\d\.?$|\b(?:pp?\.|vol\.|S\.|Nr\.|no\.)\s?\d+",
    re.IGNORECASE,
)
_STOPPED = re.compile(r"[.!?…。！？।۔؟][\"'”’)\]*_]*$")
_STOP_INSIDE = re.compile(r"[.!?]\s+[A-ZÀ-Þ]|[。！？।۔]")
_MAX_WORDS = 15
_MAX_CHARACTERS = 120
_TEXT_LINE = re.compile(rf"[^{LINE_ENDS}]+")


class _Line(NamedTuple):
    start: int
    end: int
    content: str  # without bullets
    mark: Mark | None  # at its start
    rest: str  # after the mark or number
    number: str  # of a numbered line without a mark


def source_ranges(text: str, marks: Sequence[Mark]) -> list[Range]:
    """Return the list of sources at the end of a text, or no range.

    A text of sources alone is an answer.
    """
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
        start = _one_line_start(text, lines[-1], marks, start)
    is_whole_text = not any(map(str.isalnum, text[:start]))
    if is_whole_text or not text[start:].strip():
        return []
    return [Range(start, len(text))]


def _one_line_start(text: str, line: _Line, marks: Sequence[Mark], otherwise: int) -> int:
    """Return where "Sources: [1] policy.pdf" begins in a line, or `otherwise` if it has none."""
    one_line = _ONE_LINE.search(text[line.start : line.end])
    if not one_line:
        return otherwise
    if not _names_sources(one_line["rest"], marks, line.start + one_line.start("rest")):
        return otherwise
    return line.start + one_line.start()


def _read_lines(text: str, marks: Sequence[Mark]) -> list[_Line]:
    by_start = {mark.start: mark for mark in marks}
    lines = []
    for match in _TEXT_LINE.finditer(text):
        if match[0].strip():
            lines.append(_read_line(text, match, by_start))
    return lines


def _read_line(text: str, match: re.Match[str], marks: dict[int, Mark]) -> _Line:
    """Read the bullet, the number, the marks and the rest of a line. `marks` are by start."""
    line_end = match.end()
    content_start = _end_of(_BULLET, text, match.start(), line_end)
    numbered = _NUMBER.match(text, content_start, line_end)
    mark = marks.get(content_start)
    number = ""
    rest_start = content_start
    if numbered:
        number = numbered["number"]
        rest_start = numbered.end()
        mark = mark or marks.get(rest_start)
    if mark:
        number = ""
        rest_start = mark.end
    rest_start = _end_of(_AFTER_MARK, text, rest_start, line_end)
    while rest_start in marks:
        rest_start = _end_of(_AFTER_MARK, text, marks[rest_start].end, line_end)
    rest = text[rest_start:line_end].strip()
    return _Line(match.start(), line_end, match[0].strip(), mark, rest, number)


def _end_of(pattern: re.Pattern[str], text: str, start: int, end: int) -> int:
    match = pattern.match(text, start, end)
    return match.end() if match else start


def _first_listed(text: str, lines: Sequence[_Line], marks: Sequence[Mark]) -> int:
    """Return the number of the first line of the list, with its heading."""
    heading = _find_heading(lines)
    if heading is not None:
        cited = _names_cited_before(lines[heading].start, marks)
        if all(_is_item(line, cited) for line in lines[heading + 1 :]):
            return heading
    first = len(lines)
    while first > 0 and (lines[first - 1].mark or _RULE.fullmatch(lines[first - 1].content)):
        first -= 1
    while first < len(lines):
        cited = _names_cited_before(lines[first].start, marks)
        if _all_define(text, lines[first:], cited):
            break
        first += 1
    return first


def _list_before_remark(text: str, lines: Sequence[_Line], marks: Sequence[Mark]) -> Range | None:
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


def _find_heading(lines: Sequence[_Line]) -> int | None:
    """Return the number of the last heading."""
    for number in reversed(range(len(lines))):
        if _HEADING.fullmatch(lines[number].content):
            return number
    return None


def _names_cited_before(end: int, marks: Sequence[Mark]) -> frozenset[str]:
    cited: set[str] = set()
    for mark in marks:
        if mark.end <= end:
            cited.update(name.strip("^") for name in mark.names)
    return frozenset(cited)


def _is_item(line: _Line, cited: Collection[str]) -> bool:
    """Return whether a line after a heading names a source."""
    if line.mark or _RULE.fullmatch(line.content) or _looks_like_source(line.rest):
        return True
    return line.number in cited


def _all_define(text: str, lines: Sequence[_Line], cited: Collection[str]) -> bool:
    """Return whether every line defines a mark, except for rules such as "---"."""
    if not any(line.mark for line in lines):
        return False
    return all(_defines_mark(text, line, cited) for line in lines)


def _defines_mark(text: str, line: _Line, cited: Collection[str]) -> bool:
    mark = line.mark
    if mark is None:
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


def _names_sources(rest: str, marks: Sequence[Mark], start: int) -> bool:
    begins_with_mark = any(mark.start == start for mark in marks)
    return begins_with_mark or _looks_like_source(rest)
