r"""Find the citation marks of a text, and the names in them.

    [1] [1, 2] [1; 2] [1-3] [^1] [doc1] [Source 1] [doc-7] [a.pdf] [cite: 1]    square brackets
    [1](url) [[1]](url) <a href="#1">[1]</a>                                    links
    【1†source】 【1】 ［1］                                                      other brackets
    <sup>1</sup> ¹ ^1^                                                          raised numbers
    (1) .1 .1,2 ”3                                                              right after a stop
    (Source 1) (see Document 2) (Source: a.pdf)                                 a word for a source
    \cite{a} [@a] $^{1}$                                                        LaTeX and Pandoc
    \ue200cite\ue202turn0search1\ue201 :contentReference[oaicite:1]{index=1}     ChatGPT: unchecked
    [cite_start]                                                               Gemini: no source

Other brackets are text: [sic], [REDACTED], [2019], [the page](url), (1) in a sentence, array[1],
and code. The segmenter, the citation metrics and every metric that judges a response use this
definition.

A candidate is a mark if all that it holds is names: ranks ("1", "doc1"), ids, files, addresses. A
rank or an id can be resolved. Names that only the tool that wrote the answer can resolve begin with
"cite".
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from localjudge.text.formulas import formula_ranges
from localjudge.text.languages import ANY_LANGUAGE, any_of, languages, load_words
from localjudge.text.lines import Range
from localjudge.text.markup import code_ranges, merged, overlaps

_MAX_RANGE = 100
_MAX_CHARACTERS = 200  # in a pair of brackets
_CHARACTERS_BEFORE = 60
"""Characters before a mark that may contain closing signs and a stop."""

_RANK_WORD = rf"(?:{any_of('rank_words')})"
PREDICATES = any_of("after_named_marks")
"""Pattern of what goes on after a mark that is a word of its sentence: "[1] says"."""
RANK = re.compile(  # 1  ^1^  doc1  Source: 1
    rf"(?:[\^#]|{_RANK_WORD}[\s_]?[:#]?\s?)?(?P<number>[0-9]{{1,3}})\^?",
    re.IGNORECASE,
)
RANK_RANGE = re.compile(
    rf"(?:{_RANK_WORD}s?\s?:?\s?)?(?P<first>[0-9]{{1,3}})\s?[-\u2013]\s?(?P<last>[0-9]{{1,3}})",
    re.IGNORECASE,
)
YEARS = re.compile(r"[12]\d{3}[a-z]?(?:\s?[,;–-]\s?(?:[12]\d{3}[a-z]?|[a-z]))*")
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
    rf"(?:{any_of('locators')})\s?\d+(?:\s?[-\u2013]\s?\d+)?",
    re.IGNORECASE,
)
_NUMBERS = r"[0-9]{1,3}(?:\s?[,;\u2013-]\s?[0-9]{1,3})*"
_SEPARATOR = re.compile(
    r"\s*[,;、，；]\s*"  # 1, 2
    rf"|(?<=\d)\s+(?:{any_of('joins_marks')}|&|\+)\s+(?=(?:[^\W\d]+[ :]*)?\d)"  # doc1 and doc2
    rf"|(?<=\d)\s?(?:&|{any_of('joins_marks_without_space')})\s?(?=\d)"  # 1和2
)
_SOURCE_WORD = rf"(?:{any_of('source_words')})"
_SEE = rf"(?:(?:{any_of('see')})\.?\s)?"
_TEX = r"\\(?:cite|citep|parencite|autocite|footcite)\*?(?:\[[^\[\]\n]{0,80}\]){0,2}"

_URL = r"\((?:[^()\s]|\([^()\s]*\))*(?:\s\"[^\"\n]*\")?\)"
_MANY = f"{{1,{_MAX_CHARACTERS}}}"
_OPEN_A = r"<a(?:\s[^<>]*)?>"
_OPEN_SUP = r"<sup(?:\s[^<>]*)?>"
_NAMED_SOURCE = rf"(?!id\b){_RANK_WORD}s?[\s:：#]{{1,2}}[0-9]|{_SOURCE_WORD}\s?[:：]"
# The first form that fits a candidate is read. Each has one group of its content, called after it.
_FORMS = (
    rf"\[\[(?P<double>[^\[\]\n]{_MANY})\]\](?P<double_link>{_URL})?",  # [[1]] [[1]](url)
    rf"\[(?P<square>[^\[\]\n]{_MANY})\](?P<square_link>{_URL})?",  # [1] [doc1] [1](url)
    rf"【(?P<lenticular>[^【】\n]{_MANY})】",  # 【1†source】
    rf"［(?P<full_width>[^［］\n]{_MANY})］",  # ［1］
    rf"{_OPEN_SUP}\s*(?:{_OPEN_A})?\[?(?P<sup_tag>{_NUMBERS})\]?(?:</a>)?\s*</sup>",
    rf"{_OPEN_A}\s*\[(?P<a_tag>[^\[\]<>\n]{_MANY})\]\s*</a>",
    rf"\^(?P<caret>{_NUMBERS})\^",  # ^1^
    rf"\\\[(?P<escaped>{_NUMBERS})\\\]",  # \[1\]
    r"⁽?(?P<superscript>[¹²³⁰⁴-⁹]+(?:[⁻,˒·⸴][¹²³⁰⁴-⁹]+)*)⁾?",  # ¹ ²⁻⁴
    rf"\$\^\{{?\[?(?P<power>{_NUMBERS})\]?\}}?\$",  # $^{1}$
    rf"[ ~]?{_TEX}\{{(?P<cite_keys>[^{{}}\n]{_MANY})\}}",  # \cite{a}
    r"\ue200(?:file)?cite(?P<turns>(?:\ue202[\w-]+)+)\ue201",
    r"(?:file)?cite(?P<bare_turns>(?:turn\d+[a-z]+\d+)+)",  # citeturn0search1
    r":contentReference\[(?P<content_reference>oaicite:\d+)\](?:\{index=\d+\})?",
    rf"[(（]{_SEE}(?P<source_word>(?:{_NAMED_SOURCE})"  # (Source 1) (see Document 2)
    rf"[^()（）\[\]\n]{{0,{_MAX_CHARACTERS}}})[)）]",
    rf"[(（](?P<round>{_NUMBERS})[)）]",  # (1)
    rf"(?<=[.!?…।॥۔؟\"'”’“‘»›)\]*_])(?P<footnote>{_NUMBERS})(?![\w.])",  # in May.1 The
)
_CANDIDATE = re.compile("|".join(_FORMS), re.IGNORECASE)
_LINKS = {"double_link", "square_link"}
_FORM_NAMES = [group for group in _CANDIDATE.groupindex if group not in _LINKS]
_RAISED_FORMS = {"sup_tag", "superscript", "power"}
_CHATGPT_FORMS = {"turns", "bare_turns", "content_reference"}
_BRACKETS = {"double", "square", "lenticular", "full_width", "a_tag", "caret", "escaped"}
_NO_CITATION = "cite_start"
_DAGGER = re.compile(r"(?P<number>[0-9]{1,3})(?::[0-9]+)?†.*")

_STOPS = ".!?…。！？｡．।॥۔؟։።။។"
_CLOSERS = r"(?:[\"'”’“‘»›)\]}」』）】》〉*_`]|</\w+>)*"
_AFTER_STOP = re.compile(rf"[{_STOPS}]{_CLOSERS}[ \t\u00a0\u2009\u202f\u200b]{{0,2}}\Z")
_DIRECTLY_AFTER_STOP = re.compile(rf"[{_STOPS}]{_CLOSERS}\Z")
_BEFORE_NEXT_SENTENCE = re.compile(r"\s*(?:$|[\n\[(（【<\"“‘«*_¹²³]|[^\Wa-zß-ÿ_])")

# The text before the number of a footnote: "in May.", "“no.”", "(in May).", "5%."
_BEFORE_FOOTNOTE = re.compile(
    r"\S\s(?:\S*[\"'“‘„«(\[*_/—–-])?"  # another word, and what opens the last one
    r"(?P<word>[^\s\"'“‘„«(\[*_/—–%°»)\]”›-]*)"  # May
    r"(?P<quote>[%°\"”’»›)\]*_]*)"  # )
    r"(?P<stop>[.!?…।॥۔؟])"  # .
    rf"(?P<closed>{_CLOSERS})\Z"  # ”
)
_AFTER_FOOTNOTE = re.compile(r"\s*\Z|[ \t]*[\r\n]|\s+[\"“„«‘(\[*_¿¡]{0,3}(?P<next>[^\W\d_]+)")
_NUMBER_BEFORE = re.compile(r"(?P<noun>\S+)\s(?:\d{4}|\d{1,3}(?:,\d{3})+)\.\Z")
_INITIALS = re.compile(r"(?:[A-Z]\.)+[A-Z]")

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
_WORD_BEFORE_SPACE = re.compile(r"[^\W\d_]{3} \Z")
_ENDS_WORD = re.compile(r"[\s.,;:!?)]|$")
_VALUE = re.compile(  # before numbers that are no citation: "the interval [1, 10]", "x = [1, 2]"
    rf"(?:\b(?:{any_of('before_values')})\s|[=∈<>→]\s?)\Z",
    re.IGNORECASE,
)

_EDITORIAL = re.compile(
    rf"[a-z]{{1,2}}|[a-z]+ (?:\d+|{any_of('editorial')})"
)  # [a], [note 1], [citation needed]
_PAGES = re.compile(r":\d+(?:[,–-]\s?\d+)*")  # after a mark: "in 1905.[2]:75–76"
_BETWEEN_MARKS = re.compile(r"[ \t\u00a0,;]{0,2}")
_EMPHASIS = re.compile(r"(?:\*{1,3}|_{1,2})\Z")
_MAX_EMPHASIS = 3
_NAMING = re.compile(rf"\b(?:{any_of('before_named_marks')}) \Z", re.IGNORECASE)
_PREDICATE = re.compile(rf" (?:{PREDICATES})")
_WRAPPED = re.compile(rf"[(（](?:(?:{any_of('see')})\b\.?\s?)?\s*\Z", re.IGNORECASE)


class Mark(NamedTuple):
    """A citation mark: its offsets, and its names without brackets, none for [cite_start]."""

    start: int
    end: int
    names: tuple[str, ...]
    after_stop: bool


def find_marks(text: str, ids: Collection[str] = ()) -> list[Mark]:
    """Return the citation marks of a text in order. `ids` name the retrieved contexts."""
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
            code = merged([*code_ranges(text), *formula_ranges(text)])
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
    """Return whether brackets are an editorial note, or a link or years right after a stop."""
    if not match["square"] or match["square"] == _NO_CITATION:
        return False
    if match["square_link"] or YEARS.fullmatch(match["square"]):
        return _follows_stop(text, match.start(), _DIRECTLY_AFTER_STOP)
    is_editorial = _EDITORIAL.fullmatch(match["square"]) is not None
    return is_editorial and _follows_stop(text, match.start(), _AFTER_STOP)


def removal_ranges(text: str, marks: Iterable[Mark]) -> list[Range]:
    """Return what is left out of a text: the marks, separators between and brackets around them."""
    ranges = []
    for start, end in _join(text, ((mark.start, mark.end) for mark in marks)):
        before = text[max(0, start - _CHARACTERS_BEFORE) : start]
        bracket = _WRAPPED.search(before)
        if bracket and text[end : end + 1] in (")", "）"):
            ranges.append(Range(start - len(bracket[0]), end + 1))
            continue
        # A sentence needs its mark: "According to [1], it is safe", "[1] says that it is safe".
        is_subject = _LINE_START.search(before) and _PREDICATE.match(text, end)
        if not is_subject and not _NAMING.search(before):
            ranges.append(Range(start, end))
    return ranges


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


def _read_names(
    text: str,
    candidate: re.Match[str],
    ids: Collection[str],
    *,
    after_stop: bool,
    joined: bool,
) -> tuple[str, ...]:
    """Return the names in a candidate for a mark, or () if it is text."""
    form, content = _find_form(candidate)
    if form == "cite_keys":
        return tuple(_SEPARATOR.split(content.strip()))
    if form in _CHATGPT_FORMS:
        return _read_chatgpt_names(form, content, ids)
    if form in _BRACKETS:
        return _read_bracketed(text, candidate, ids, after_stop=after_stop, joined=joined)
    is_mark = True
    if form == "round":  # (1), between a stop and the next sentence
        follows = _follows_stop(text, candidate.start(), _DIRECTLY_AFTER_STOP)
        is_mark = follows and _BEFORE_NEXT_SENTENCE.match(text, candidate.end()) is not None
    elif form == "footnote":
        is_mark = _is_footnote(text, candidate)
    elif form in _RAISED_FORMS:
        content = content.translate(_SUPERSCRIPTS)
        is_mark = after_stop or joined or _is_raised_mark(text, candidate)
    if not is_mark:
        return ()
    return _split_names(content, ids, is_link=False, loose=False)


def _find_form(candidate: re.Match[str]) -> tuple[str, str]:
    """Return the form of a candidate, and its content: "square" and "1" for "[1](url)"."""
    return next((form, candidate[form]) for form in _FORM_NAMES if candidate[form])


def _read_chatgpt_names(form: str, content: str, ids: Collection[str]) -> tuple[str, ...]:
    """Return names that only ChatGPT can resolve: no rank and no id."""
    names = [content]
    if form == "turns":
        names = content.strip("\ue202").split("\ue202")
    elif form == "bare_turns":
        names = _TURN.findall(content)
    return tuple(name if name in ids else f"cite {name}" for name in names)


def _read_bracketed(
    text: str,
    candidate: re.Match[str],
    ids: Collection[str],
    *,
    after_stop: bool,
    joined: bool,
) -> tuple[str, ...]:
    form, content = _find_form(candidate)
    dagger = _DAGGER.fullmatch(content)
    if dagger:
        has_position = ":" in content.partition("†")[0]  # "3:1†source" is read as a whole
        return (content if has_position else dagger["number"],)
    if form == "square" and not joined and _is_index(text, candidate):
        return ()
    if form == "square" and not candidate["square_link"] and _is_value(text, candidate, ids):
        return ()
    is_link = bool(candidate["square_link"] or candidate["double_link"])
    return _split_names(content, ids, is_link=is_link, loose=after_stop or bool(ids))


def _follows_stop(text: str, start: int, pattern: re.Pattern[str]) -> bool:
    return pattern.search(text[max(0, start - _CHARACTERS_BEFORE) : start]) is not None


def _is_footnote(text: str, match: re.Match[str]) -> bool:
    """Return whether digits right after a stop are a footnote: "in May.1 The", not "v2.1 The"."""
    after = _AFTER_FOOTNOTE.match(text, match.end())
    if not after or (after["next"] and after["next"][0].islower()):
        return False
    start = match.start()
    if _is_after_number(text, start, after["next"] or ""):
        return True
    before = _BEFORE_FOOTNOTE.search(text[max(0, start - _CHARACTERS_BEFORE) : start])
    if not before:
        return False
    word = before["word"]
    if before["quote"] or before["closed"] or _INITIALS.fullmatch(word):
        return True
    if len(word) == 1 or "." in word or any(map(str.isdigit, word)):
        return False
    return word not in load_words(ANY_LANGUAGE, "attached")


def _is_after_number(text: str, start: int, following: str) -> bool:
    """Return whether a function word follows "in 1999.3", so that the number has no decimals.

    The number of a part has: "Section 1841.3 The buyer pays."
    """
    number = _NUMBER_BEFORE.search(text[max(0, start - _CHARACTERS_BEFORE) : start])
    if not number or following.lower() not in _words_of_all("frequent"):
        return False
    noun = number["noun"].strip("(*_").rstrip(".")
    is_part = noun in load_words(ANY_LANGUAGE, "attached") or noun.lower() in _words_of_all(
        "lettered"
    )
    return not (is_part or noun.strip("§№#") == "")


@cache
def _words_of_all(group: str) -> frozenset[str]:
    """Return the words of a group in all languages."""
    words: set[str] = set()
    for language in languages():
        words |= load_words(language, group)
    return frozenset(words)


def _is_raised_mark(text: str, match: re.Match[str]) -> bool:
    """Return whether a raised number is a mark, and not an exponent: "safe¹", but not "m²"."""
    if "[" in match[0] or "<a" in match[0].lower():
        return True
    start = match.start()
    if _LINE_START.search(text[max(0, start - _CHARACTERS_BEFORE) : start]):
        return True
    is_exponent = _SHORT_WORD.search(text[max(0, start - 3) : start]) is not None
    if start > 0 and text[start - 1].isalpha():
        return not is_exponent
    is_apart = match["superscript"] and _WORD_BEFORE_SPACE.search(
        text[max(0, start - _CHARACTERS_BEFORE) : start]
    )
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
    if YEARS.fullmatch(content.strip()) and not any(name in ids for name in names):
        return ()
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
    before = text[max(0, match.start() - _CHARACTERS_BEFORE) : match.start()]
    return numbers[0] == "0" or _VALUE.search(before) is not None


def _is_index(text: str, match: re.Match[str]) -> bool:
    """Return whether the brackets index a variable: array[1], x[0] = 2, self.rows[3]."""
    path = _INDEXED.search(text, max(0, match.start() - _CHARACTERS_BEFORE), match.start())
    if not path or match["square_link"]:
        return False
    name = path["path"]
    if not name.isascii():
        return False
    return bool(_CODE_NAME.fullmatch(name) or _CODE_AFTER.match(text, match.end()))
