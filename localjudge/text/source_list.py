r"""Find the list of sources at the end of a response. It defines marks: it states nothing and cites nothing.

    **Sources:**\n[1] policy.pdf, p. 3\n[2] faq.html    lines after a heading, in many languages
    [^1]: policy.pdf                                     a definition without a heading
    Sources: [1] policy.pdf, [2] faq.html                one line

A line without a heading defines a mark if it begins with the mark and only names a source, or if the text above cites
this mark. Other lists are statements: "Sources:\n- Solar power is clean.", "[1] The dose is safe.".
"""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from localjudge.text.lines import BLANK_LINE, LINE_ENDS
from localjudge.text.marks import Mark
from localjudge.text.markup import Range

_WORDS = """
    sources? source[ ]list references? references[ ]cited reference[ ]list citations? cited[ ]sources works[ ]cited
    bibliography footnotes? endnotes? links literature further[ ]reading
    quellen? quellenangaben? quellenverzeichnis quellennachweise? literatur literaturverzeichnis referenzen fußnoten?
    einzelnachweise belege nachweise
    références? bibliographie notes[ ]de[ ]bas[ ]de[ ]page liens
    fuentes? referencias? bibliografía enlaces notas[ ]al[ ]pie
    font[ei] riferimenti bibliografia fontes? referências bronnen bron referenties bronvermelding
    källor källa referenser kilder kilde referencer referanser litteratur lähteet viitteet
    źródł[ao] przypisy bibliografia zdroje reference literatura források hivatkozások surse referințe bibliografie
    kaynaklar kaynakça πηγές αναφορές
    источники? список[ ]литературы ссылки литература примечания джерела посилання източници
    参考文献 参考资料 参考來源 参考来源 參考文獻 參考資料 資料來源 资料来源 信息来源
    来源 來源 引用 引用来源 出处 出處 脚注
    出典 参照 参照元 参考資料 参考 引用元 引用文献 情報源 ソース
    출처 참고문헌 참고[ ]문헌 참고[ ]자료 참조
    المصادر المصدر المراجع مراجع مصادر منابع مآخذ حوالہ[ ]جات ذرائع מקורות הפניות
    स्रोत संदर्भ सन्दर्भ संदर्भ[ ]सूची উৎস তথ্যসূত্র อ้างอิง แหล่งอ้างอิง แหล่งที่มา nguồn tài[ ]liệu[ ]tham[ ]khảo sumber referensi
"""
_HEADING_WORD = "|".join(sorted(_WORDS.replace("[ ]", "\0").split(), key=len, reverse=True)).replace("\0", "[ ]")
_AROUND = r"(?:[\s>#*_]|</?(?:h[1-6]|b|strong|p|em|i|u)>)*"
_HEADING = re.compile(
    rf"{_AROUND}(?:\d+[.)]\s*)?{_AROUND}(?:{_HEADING_WORD})(?:\s(?:used|consulted|cited))?{_AROUND}\s*[:：]?{_AROUND}",
    re.IGNORECASE,
)
_ONE_LINE = re.compile(
    rf"(?:^|(?<=[.!?。！？।۔)\]】]))[\s*_(（\[>-]*(?:{_HEADING_WORD})[*_]*\s*[:：][*_]*\s*(?P<rest>\S.*)$",
    re.IGNORECASE,
)
_BULLET = re.compile(r"(?:[\s>*+•◦▪–—-]|</?(?!(?:sup|a)\b)\w+>)*")
_NUMBER = re.compile(r"[(（]?(?P<number>\d{1,3})[.)）:、．]\s*")
_RULE = re.compile(r"[\s*_=~-]+")
_AFTER_MARK = re.compile(r"[\s:：.–—-]*")

_FILE_NAME = re.compile(
    r"[*_`\"'“<]*[\w][\w ./()&-]*\.(?:pdf|html?|docx?|txt|md|csv|json|xlsx?|pptx?|xml|rtf|epub)\b", re.IGNORECASE
)
_ADDRESS = re.compile(r"https?://|\bwww\.|\bdoi\b|\barXiv:|\bISBN\b|\]\([^)\s]+\)", re.IGNORECASE)
_PUBLICATION = re.compile(
    r"\((?:19|20)\d\d[a-z]?\)|,\s(?:19|20)\d\d\.?$|\b(?:pp?\.|vol\.|S\.|Nr\.|no\.)\s?\d+", re.IGNORECASE
)
_STOPPED = re.compile(r"[.!?…。！？।۔؟][\"'”’)\]*_]*$")
_STOP_INSIDE = re.compile(r"[.!?]\s+[A-ZÀ-Þ]|[。！？।۔]")
_MOST_WORDS = 15
_MOST_CHARACTERS = 120


class _Line(NamedTuple):
    start: int
    end: int
    content: str  # without bullets
    mark: Mark | None  # at its start
    rest: str  # after the mark or number
    number: str  # of a numbered line without a mark


def source_ranges(text: str, marks: Sequence[Mark]) -> list[Range]:
    """Return the list of sources at the end of a text, or no range. A text of sources alone is an answer."""
    lines = _lines(text, marks)
    inner = _list_before_remark(text, lines, marks)
    if inner:
        return [inner]
    first = _first_listed(text, lines, marks)
    if first < len(lines):
        lines, start = lines[:first], lines[first].start
    else:
        start = len(text)
    while lines and _RULE.fullmatch(lines[-1].content):
        start = lines.pop().start
    last = lines[-1] if lines else None
    one_line = last and _ONE_LINE.search(text[last.start : last.end])
    if last and one_line and _names_sources(one_line["rest"], marks, last.start + one_line.start("rest")):
        start = last.start + one_line.start()
    is_all = not any(map(str.isalnum, text[:start]))
    return [] if is_all or not text[start:].strip() else [Range(start, len(text))]


def _lines(text: str, marks: Sequence[Mark]) -> list[_Line]:
    by_start = {mark.start: mark for mark in marks}
    lines = []
    for match in re.finditer(rf"[^{LINE_ENDS}]+", text):
        if match[0].strip():
            lines.append(_line(text, match, by_start))
    return lines


def _line(text: str, match: re.Match[str], marks: dict[int, Mark]) -> _Line:
    bullet = _BULLET.match(text, match.start(), match.end())
    start = bullet.end() if bullet else match.start()
    numbered = _NUMBER.match(text, start, match.end())
    mark = marks.get(start) or (marks.get(numbered.end()) if numbered else None)
    after = mark.end if mark else numbered.end() if numbered else start
    while (separator := _AFTER_MARK.match(text, after, match.end())) and separator.end() in marks:
        after = marks[separator.end()].end
    rest = text[separator.end() if separator else after : match.end()].strip()
    number = numbered["number"] if numbered and not mark else ""
    return _Line(match.start(), match.end(), match[0].strip(), mark, rest, number)


def _first_listed(text: str, lines: Sequence[_Line], marks: Sequence[Mark]) -> int:
    """Return the number of the first line of the list, with its heading."""
    heading = _heading(lines)
    if heading is not None:
        cited = _cited(marks, lines[heading].start)
        if all(_is_item(line, cited) for line in lines[heading + 1 :]):
            return heading
    first = len(lines)
    while first > 0 and (lines[first - 1].mark or _RULE.fullmatch(lines[first - 1].content)):
        first -= 1
    while first < len(lines) and not _define(text, lines[first:], _cited(marks, lines[first].start)):
        first += 1
    return first


def _list_before_remark(text: str, lines: Sequence[_Line], marks: Sequence[Mark]) -> Range | None:
    """Return a list after a heading that a closing remark follows: "Let me know if you need more"."""
    heading = _heading(lines)
    if heading in (None, 0):
        return None
    cited = _cited(marks, lines[heading].start)
    last = heading
    while last + 1 < len(lines) and _is_item(lines[last + 1], cited):
        last += 1
    if last in (heading, len(lines) - 1) or not BLANK_LINE.search(text, lines[last].end, lines[last + 1].start):
        return None
    return Range(lines[heading].start, lines[last].end)


def _heading(lines: Sequence[_Line]) -> int | None:
    numbers = [number for number, line in enumerate(lines) if _HEADING.fullmatch(line.content)]
    return numbers[-1] if numbers else None


def _cited(marks: Sequence[Mark], end: int) -> frozenset[str]:
    return frozenset(name.strip("^") for mark in marks if mark.end <= end for name in mark.names)


def _is_item(line: _Line, cited: Collection[str]) -> bool:
    """Return whether a line after a heading names a source."""
    if line.mark or _RULE.fullmatch(line.content) or _looks_like_source(line.rest):
        return True
    return line.number in cited


def _define(text: str, lines: Sequence[_Line], cited: Collection[str]) -> bool:
    return any(line.mark for line in lines) and all(_defines(text, line, cited) for line in lines)


def _defines(text: str, line: _Line, cited: Collection[str]) -> bool:
    if line.mark is None:
        return _RULE.fullmatch(line.content) is not None
    if not line.rest:
        return False
    is_footnote = text[line.mark.start + 1] == "^" and text[line.mark.end : line.mark.end + 1] == ":"
    names = {name.strip("^") for name in line.mark.names}
    return is_footnote or names <= set(cited) or _looks_like_source(line.rest) or _is_title(line.rest)


def _looks_like_source(content: str) -> bool:
    return any(pattern.search(content) for pattern in (_ADDRESS, _PUBLICATION)) or bool(_FILE_NAME.match(content))


def _is_title(content: str) -> bool:
    """Return whether a line is short and no sentence: "Return policy 2024"."""
    if _STOPPED.search(content) or _STOP_INSIDE.search(content):
        return False
    return len(content.split()) <= _MOST_WORDS and len(content) <= _MOST_CHARACTERS


def _names_sources(rest: str, marks: Sequence[Mark], start: int) -> bool:
    begins_with_mark = any(mark.start == start for mark in marks)
    return begins_with_mark or _looks_like_source(rest)
