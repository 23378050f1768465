r"""Citation marks: what they look like, and what they name.

    [1] [1, 2] [1; 2] [1-3] [^1] [doc1] [Source 1] [doc-7] [a.pdf] [cite: 1]    square brackets
    [1](url) [[1]](url) <a href="#1">[1]</a>                                    links
    【1†source】 【1】 ［1］                                                      other brackets
    <sup>1</sup> ¹ ^1^                                                          raised numbers
    (1)                                                                         right after a stop
    (Source 1) (see Document 2) (Source: a.pdf)                                 a word for a source
    \cite{a} [@a] $^{1}$                                                        LaTeX and Pandoc
    \ue200cite\ue202turn0search1\ue201 :contentReference[oaicite:1]{index=1}     ChatGPT: unchecked
    [cite_start]                                                               Gemini: cites nothing

Other brackets are text: [sic], [REDACTED], [2019], [the page](url), (1) in a sentence, array[1],
and code. The segmenter, the citation metrics and every metric that judges a response use this
definition.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from localjudge.text.lines import Range
from localjudge.text.markup import code_ranges, overlaps

_MAX_RANGE = 100
_MAX_CHARACTERS = 200  # in a pair of brackets
_BEFORE = 60  # characters before a mark that may contain closing signs and a stop

_RANK_WORD = (
    r"(?:doc(?:ument)?|source|passage|context|chunk|snippet|cite|citation|ref(?:erence)?|footnote|"
    r"quelle|fuente|fonte|bron|документ|источник|来源|文献|文档|資料|出典|参考|id)"
)
RANK = re.compile(
    rf"(?:[\^#]|{_RANK_WORD}[\s_]?[:#]?\s?)?(?P<number>[0-9]{{1,3}})\^?",
    re.IGNORECASE,
)
RANK_RANGE = re.compile(
    rf"(?:{_RANK_WORD}s?\s?:?\s?)?(?P<first>[0-9]{{1,3}})\s?[-\u2013]\s?(?P<last>[0-9]{{1,3}})",
    re.IGNORECASE,
)
ID_WITH_DIGIT = re.compile(r"(?=.*\d)(?=.*[^\W\d_])[\w.:/#-]+")
_FILE = re.compile(
    r"[\w][\w ./()-]*\.(?:pdf|html?|docx?|txt|md|csv|json|xlsx?|pptx?|xml|rtf|epub)"
    r"(?:[:#?]\S{1,60})?",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
_PANDOC = re.compile(r"@[\w.:/-]*\w")
_TURN = re.compile(r"turn\d+[a-z]+\d+")
# [Source: policy handbook]
_SOURCE_TEXT = re.compile(rf"{_RANK_WORD}\s?[:：]\s?\S.*", re.IGNORECASE)
_FOOTNOTE = re.compile(r"\^[\w.-]+\^?")
_LOCATOR = re.compile(
    r"(?:pp?\.?|page|pages|S\.|Seite|sec\.|section|§)\s?\d+(?:\s?[-\u2013]\s?\d+)?",
    re.IGNORECASE,
)
_NUMBERS = r"[0-9]{1,3}(?:\s?[,;\u2013-]\s?[0-9]{1,3})*"
_SEPARATOR = re.compile(
    r"\s*[,;、，；]\s*"
    r"|(?<=\d)\s+(?:and|und|et|y|e|en|&|\+)\s+(?=(?:[^\W\d]+[ :]*)?\d)"
    r"|(?<=\d)\s?[&和と]\s?(?=\d)"
)
_SOURCE_WORD = r"(?:sources?|quellen?|fuentes?|fontes?|bron|источник|来源|出典)"
_SEE = r"(?:(?:see|cf\.|siehe|vgl\.|voir|véase)\s)?"
_TEX = r"\\(?:cite|citep|parencite|autocite|footcite)\*?(?:\[[^\[\]\n]{0,80}\]){0,2}"

_URL = r"\((?:[^()\s]|\([^()\s]*\))*(?:\s\"[^\"\n]*\")?\)"
_CANDIDATE = re.compile(
    rf"\[\[(?P<inner>[^\[\]\n]{{1,{_MAX_CHARACTERS}}})\]\](?P<link>{_URL})?"
    rf"|\[(?P<square>[^\[\]\n]{{1,{_MAX_CHARACTERS}}})\](?P<url>{_URL})?"
    rf"|【(?P<lens>[^【】\n]{{1,{_MAX_CHARACTERS}}})】"
    rf"|［(?P<wide>[^［］\n]{{1,{_MAX_CHARACTERS}}})］"
    rf"|<sup(?:\s[^<>]*)?>\s*(?:<a(?:\s[^<>]*)?>)?\[?(?P<raised>{_NUMBERS})\]?(?:</a>)?\s*</sup>"
    rf"|<a(?:\s[^<>]*)?>\s*\[(?P<anchor>[^\[\]<>\n]{{1,{_MAX_CHARACTERS}}})\]\s*</a>"
    rf"|\^(?P<caret>{_NUMBERS})\^|\\\[(?P<escaped>{_NUMBERS})\\\]"
    r"|⁽?(?P<digits>[¹²³⁰⁴-⁹]+(?:[⁻,˒·⸴][¹²³⁰⁴-⁹]+)*)⁾?"
    rf"|\$\^\{{?\[?(?P<power>{_NUMBERS})\]?\}}?\$"
    rf"|[ ~]?{_TEX}\{{(?P<key>[^{{}}\n]{{1,{_MAX_CHARACTERS}}})\}}"
    r"|\ue200(?:file)?cite(?P<turns>(?:\ue202[\w-]+)+)\ue201"
    r"|(?:file)?cite(?P<bare>(?:turn\d+[a-z]+\d+)+)"
    r"|:contentReference\[(?P<content>oaicite:\d+)\](?:\{index=\d+\})?"
    rf"|[(（]{_SEE}(?P<noted>(?:(?!id\b){_RANK_WORD}s?[\s:：#]{{1,2}}[0-9]|{_SOURCE_WORD}\s?[:：])"
    rf"[^()（）\[\]\n]{{0,{_MAX_CHARACTERS}}})[)）]"
    rf"|[(（](?P<round>{_NUMBERS})[)）]",
    re.IGNORECASE,
)
_UNCHECKED = ("turns", "bare", "content")
_NO_CITATION = "cite_start"
_WITH_NAMES = ("inner", "square", "lens", "wide", "anchor", "caret", "escaped")
_DAGGER = re.compile(r"(?P<number>[0-9]{1,3})(?::[0-9]+)?†.*")
_EDITORIAL = re.compile(r"[a-z]{1,2}|[a-z]+ (?:\d+|needed)")  # [a], [note 1], [citation needed]
_PAGES = re.compile(r":\d+(?:[,–-]\s?\d+)*")  # after a mark: "in 1905.[2]:75–76"

_STOPS = ".!?…。！？｡．।॥۔؟։።။។"
_CLOSERS = r"(?:[\"'”’»›)\]}」』）】》〉*_`]|</\w+>)*"
_AFTER_STOP = re.compile(rf"[{_STOPS}]{_CLOSERS}[ \t\u00a0\u200b]{{0,2}}\Z")
_DIRECTLY_AFTER_STOP = re.compile(rf"[{_STOPS}]{_CLOSERS}\Z")
_BEFORE_NEXT_SENTENCE = re.compile(r"\s*(?:$|[\n\[(（【<\"“‘«*_¹²³]|[^\Wa-zß-ÿ_])")
_BETWEEN_MARKS = re.compile(r"[ \t\u00a0,;]{0,2}")

_INDEXED = re.compile(r"(?P<path>[\w$]+(?:\.[\w$]+)*)\Z")
_CODE_NAME = re.compile(
    r"[A-Za-z]|\w*_\w*|\$\w+|[a-z]+[A-Z]\w*|(?:\w+\.)+[a-z_]\w*|"
    r"arr|array|argv?|args|buf|buffer|cols?|columns|dict|elements|idx|items|kwargs|keys|"
    r"lines|list|lst|map|matrix|nums|params|ptr|"
    r"result|rows|self|stack|str|string|tuple|tokens|values|vec|vector",
)
_CODE_AFTER = re.compile(r"\s?(?:[-+*/%]?=|\+\+|--)|\.[a-z_]|\(")
_LINE_START = re.compile(r"(?:^|\n)[ \t>*-]*\Z")
# Before an exponent: "m²", "10<sup>6</sup>".
_SHORT_WORD = re.compile(r"(?:^|[\W\d_])[^\W\d_]{1,2}\Z|\d\Z")
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻˒·⸴", "0123456789-,,,")
_EMPHASIS = re.compile(r"(?:\*{1,3}|_{1,2})\Z")
_MAX_EMPHASIS = 3
_WORD_BEFORE_SPACE = re.compile(r"[^\W\d_]{3} \Z")
_ENDS_WORD = re.compile(r"[\s.,;:!?)]|$")
_VALUE = re.compile(  # before numbers that are no citation: "the interval [1, 10]", "x = [1, 2]"
    r"(?:\b(?:intervals?|ranges?|vectors?|lists?|arrays?|sets?|tuples?|points?|sequences?|returns?|"
    r"prints?|outputs?|equals?|values?|yields?|gives|is|are|was|were|between|within|"
    r"intervall|vektor|liste|menge|ist|sind|liefert|intervalle|vecteur|est|sont|intervalo|lista|"
    r"es|son)\s|[=∈<>→]\s?)\Z",
    re.IGNORECASE,
)
_NAMING = re.compile(
    r"\b(?:according to|as|as in|by|from|in|of|on|per|see|to|with|than|and|or|both|"
    r"laut|nach|siehe|vgl\.|in|aus|selon|dans|voir|par|según|en|por|véase|de) \Z",
    re.IGNORECASE,
)
_PREDICATE = re.compile(
    r" (?:and \[|say|state|show|claim|describe|mention|explain|report|suggest|"
    r"is |are |also |sagt|dit )"
)
_WRAPPED = re.compile(r"[(（](?:(?:see|cf|vgl|siehe|voir|véase|ver)\b\.?\s?)?\s*\Z", re.IGNORECASE)


class Mark(NamedTuple):
    """A citation mark: its offsets, and its names without brackets, none for [cite_start]."""

    start: int
    end: int
    names: tuple[str, ...]
    after_stop: bool


def find_marks(text: str, ids: Collection[str] = ()) -> list[Mark]:
    """Return the citation marks of a text in order. `ids` are those of the retrieved contexts."""
    marks: list[Mark] = []
    code: Sequence[Range] | None = None
    for match in _CANDIDATE.finditer(text):
        start, end = _with_emphasis(text, *match.span())
        joined = bool(marks) and _are_joined(text, marks[-1].end, start)
        after_stop = joined and marks[-1].after_stop
        after_stop = after_stop or _follows_stop(text, start, _AFTER_STOP)
        names = _read_names(text, match, ids, after_stop=after_stop, joined=joined)
        if not names and match["square"] != _NO_CITATION:
            continue
        if code is None:
            code = code_ranges(text)
        if overlaps(code, start, end):
            continue
        if after_stop:
            end = _after_pages(text, end)
        marks.append(Mark(start, end, names, after_stop))
    return marks


def _with_emphasis(text: str, start: int, end: int) -> Range:
    """Return the range with the same signs of emphasis on both sides: **[1]**."""
    before = _EMPHASIS.search(text[max(0, start - _MAX_EMPHASIS) : start])
    if not before or not text.startswith(before[0], end):
        return Range(start, end)
    length = len(before[0])
    is_longer = text.startswith(before[0][0], end + length)
    return Range(start, end) if is_longer else Range(start - length, end + length)


def _after_pages(text: str, end: int) -> int:
    pages = _PAGES.match(text, end)
    return pages.end() if pages else end


def after_stop_ranges(text: str) -> Iterator[Range]:
    """Yield the marks and editorial notes after a stop on its line.

    They belong to the sentence before.
    """
    marks = {mark.start: mark.end for mark in find_marks(text) if mark.after_stop}
    for match in _CANDIDATE.finditer(text):
        if _is_note(text, match):
            marks.setdefault(match.start(), match.end())
    for start, end in _join(text, sorted(marks.items())):
        yield Range(start, _after_pages(text, end))


def _is_note(text: str, match: re.Match[str]) -> bool:
    """Return whether brackets are an editorial note, or a link right after a stop."""
    if not match["square"] or match["square"] == _NO_CITATION:
        return False
    if match["url"]:
        return _follows_stop(text, match.start(), _DIRECTLY_AFTER_STOP)
    is_editorial = _EDITORIAL.fullmatch(match["square"]) is not None
    return is_editorial and _follows_stop(text, match.start(), _AFTER_STOP)


def removal_ranges(text: str, marks: Iterable[Mark]) -> list[Range]:
    """Return what is left out of a text: the marks, separators between and brackets around them."""
    ranges = []
    for inner in _join(text, ((mark.start, mark.end) for mark in marks)):
        outer = _with_brackets(text, inner)
        if outer != inner or not _is_named(text, inner):
            ranges.append(outer)
    return ranges


def _is_named(text: str, mark: Range) -> bool:
    """Return whether a sentence needs its mark: "According to [1], it is safe", "[1] says that it
    is safe".
    """
    before = text[max(0, mark.start - _BEFORE) : mark.start]
    if _NAMING.search(before):
        return True
    return _LINE_START.search(before) is not None and _PREDICATE.match(text, mark.end) is not None


def _are_joined(text: str, end: int, start: int) -> bool:
    """Return whether only separators are between the end of a mark and the start of the next."""
    return _BETWEEN_MARKS.fullmatch(text, end, start) is not None


def _join(text: str, marks: Iterable[tuple[int, int]]) -> list[Range]:
    """Join marks with only separators between them: "[1], [2]"."""
    ranges: list[Range] = []
    for start, end in marks:
        if ranges and _are_joined(text, ranges[-1].end, start):
            ranges[-1] = Range(ranges[-1].start, end)
        else:
            ranges.append(Range(start, end))
    return ranges


def _with_brackets(text: str, inner: Range) -> Range:
    opening = _WRAPPED.search(text[max(0, inner.start - _BEFORE) : inner.start])
    if not opening or text[inner.end : inner.end + 1] not in (")", "）"):
        return inner
    return Range(inner.start - len(opening[0]), inner.end + 1)


def _follows_stop(text: str, start: int, pattern: re.Pattern[str]) -> bool:
    return pattern.search(text[max(0, start - _BEFORE) : start]) is not None


def _read_names(
    text: str,
    match: re.Match[str],
    ids: Collection[str],
    *,
    after_stop: bool,
    joined: bool,
) -> tuple[str, ...]:
    """Return the names in a pair of brackets or a raised number, or () if it is text."""
    if match["key"] or any(match[group] for group in _UNCHECKED):
        return _read_names_of_tool(match, ids)
    if match["noted"]:
        return _split_names(match["noted"], ids, is_link=False, loose=False)
    if match["round"]:
        is_mark = _is_round_mark(text, match)
        numbers = match["round"]
    elif match["raised"] or match["digits"] or match["power"]:
        is_mark = after_stop or joined or _is_raised_mark(text, match)
        numbers = match["raised"] or match["power"] or match["digits"].translate(_SUPERSCRIPTS)
    else:
        return _read_bracketed(text, match, ids, after_stop=after_stop, joined=joined)
    if not is_mark:
        return ()
    return _split_names(numbers, ids, is_link=False, loose=False)


def _read_names_of_tool(match: re.Match[str], ids: Collection[str]) -> tuple[str, ...]:
    r"""Return the keys of \cite, or names that only ChatGPT can resolve: no rank and no id."""
    if match["key"]:
        return tuple(_SEPARATOR.split(match["key"].strip()))
    names = [match["content"]]
    if match["turns"]:
        names = match["turns"].strip("\ue202").split("\ue202")
    elif match["bare"]:
        names = _TURN.findall(match["bare"])
    return tuple(name if name in ids else f"cite {name}" for name in names)


def _read_bracketed(
    text: str,
    match: re.Match[str],
    ids: Collection[str],
    *,
    after_stop: bool,
    joined: bool,
) -> tuple[str, ...]:
    content = next(filter(None, (match[group] for group in _WITH_NAMES)))
    dagger = _DAGGER.fullmatch(content)
    if dagger:
        return _name_before_dagger(dagger)
    if match["square"] and not joined and _is_index(text, match):
        return ()
    if match["square"] and not match["url"] and _is_value(text, match, ids):
        return ()
    is_link = bool(match["url"] or match["link"])
    return _split_names(content, ids, is_link=is_link, loose=after_stop or bool(ids))


def _name_before_dagger(dagger: re.Match[str]) -> tuple[str, ...]:
    """Return the number of "1†source", and the whole of "3:1†source", which has a position."""
    has_position = ":" in dagger[0].partition("†")[0]
    return (dagger[0],) if has_position else (dagger["number"],)


def _is_round_mark(text: str, match: re.Match[str]) -> bool:
    """Return whether (1) is between a stop and the next sentence."""
    if not _follows_stop(text, match.start(), _DIRECTLY_AFTER_STOP):
        return False
    return _BEFORE_NEXT_SENTENCE.match(text, match.end()) is not None


def _is_raised_mark(text: str, match: re.Match[str]) -> bool:
    """Return whether a raised number is a mark, and not an exponent: "safe¹", but not "m²"."""
    if "[" in match[0] or "<a" in match[0].lower():
        return True
    start = match.start()
    if _LINE_START.search(text[max(0, start - _BEFORE) : start]):
        return True
    is_exponent = _SHORT_WORD.search(text[max(0, start - 3) : start]) is not None
    if start > 0 and text[start - 1].isalpha():
        return not is_exponent
    is_apart = match["digits"] and _WORD_BEFORE_SPACE.search(text[max(0, start - _BEFORE) : start])
    return bool(is_apart and _ENDS_WORD.match(text, match.end()))


def _split_names(
    content: str,
    ids: Collection[str],
    *,
    is_link: bool,
    loose: bool,
) -> tuple[str, ...]:
    """Return the names in brackets without page numbers, or () unless all of them are names."""
    names = _SEPARATOR.split(content.strip())
    cited = [name for name in names if name in ids or not _LOCATOR.fullmatch(name)]
    if any(cited) and all(_is_name(name, ids, is_link=is_link, loose=loose) for name in cited):
        return tuple(cited)
    is_source = not is_link and _SOURCE_TEXT.fullmatch(content)
    return (content,) if is_source else ()


def _is_name(name: str, ids: Collection[str], *, is_link: bool, loose: bool) -> bool:
    """Return whether a text in brackets names a source.

    `is_link`: it is the text of a link. `loose`: any word with a letter and a digit is a name.
    """
    if name in ids:
        return True
    if any(pattern.fullmatch(name) for pattern in (RANK, _FOOTNOTE, _SOURCE_TEXT)):
        return True
    ranks = RANK_RANGE.fullmatch(name)
    if ranks:
        return 0 <= int(ranks["last"]) - int(ranks["first"]) < _MAX_RANGE
    if is_link:
        return False
    if any(pattern.fullmatch(name) for pattern in (_FILE, _ADDRESS, _PANDOC)):
        return True
    return loose and ID_WITH_DIGIT.fullmatch(name) is not None


def _is_value(text: str, match: re.Match[str], ids: Collection[str]) -> bool:
    """Return whether the brackets hold an interval or a list of numbers: "between [0, 1]"."""
    names = _SEPARATOR.split(match["square"].strip())
    numbers = [name for name in names if name.isdecimal()]
    if len(numbers) <= 1 or any(number in ids for number in numbers):
        return False
    before = text[max(0, match.start() - _BEFORE) : match.start()]
    return numbers[0] == "0" or _VALUE.search(before) is not None


def _is_index(text: str, match: re.Match[str]) -> bool:
    """Return whether the brackets index a variable: array[1], x[0] = 2, self.rows[3]."""
    path = _INDEXED.search(text, max(0, match.start() - _BEFORE), match.start())
    if not path or match["url"]:
        return False
    name = path["path"]
    if not name.isascii():
        return False
    return bool(_CODE_NAME.fullmatch(name) or _CODE_AFTER.match(text, match.end()))
