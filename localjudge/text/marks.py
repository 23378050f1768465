r"""Find the citation marks of a text. `mark_names` says what they name.

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
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from localjudge.text.formulas import formula_ranges
from localjudge.text.languages import any_of
from localjudge.text.lines import Range
from localjudge.text.mark_names import (
    AFTER_STOP,
    CANDIDATE,
    CHARACTERS_BEFORE,
    DIRECTLY_AFTER_STOP,
    LINE_START,
    NO_CITATION,
    PREDICATES,
    YEARS,
    follows_stop,
    read_names,
)
from localjudge.text.markup import code_ranges, merged, overlaps

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
    for match in CANDIDATE.finditer(text):
        start, end = _with_emphasis(text, *match.span())
        joined = bool(marks) and _are_joined(text, marks[-1].end, start)
        after_stop = joined and marks[-1].after_stop
        after_stop = after_stop or follows_stop(text, start, AFTER_STOP)
        names = read_names(text, match, ids, after_stop=after_stop, joined=joined)
        if not names and match["square"] != NO_CITATION:
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
    for match in CANDIDATE.finditer(text):
        if _is_note(text, match):
            marks.setdefault(match.start(), match.end())
    for start, end in _join(text, sorted(marks.items())):
        yield Range(start, _after_pages(text, end))


def _is_note(text: str, match: re.Match[str]) -> bool:
    """Return whether brackets are an editorial note, or a link or years right after a stop."""
    if not match["square"] or match["square"] == NO_CITATION:
        return False
    if match["square_link"] or YEARS.fullmatch(match["square"]):
        return follows_stop(text, match.start(), DIRECTLY_AFTER_STOP)
    is_editorial = _EDITORIAL.fullmatch(match["square"]) is not None
    return is_editorial and follows_stop(text, match.start(), AFTER_STOP)


def removal_ranges(text: str, marks: Iterable[Mark]) -> list[Range]:
    """Return what is left out of a text: the marks, separators between and brackets around them."""
    ranges = []
    for start, end in _join(text, ((mark.start, mark.end) for mark in marks)):
        before = text[max(0, start - CHARACTERS_BEFORE) : start]
        bracket = _WRAPPED.search(before)
        if bracket and text[end : end + 1] in (")", "）"):
            ranges.append(Range(start - len(bracket[0]), end + 1))
            continue
        # A sentence needs its mark: "According to [1], it is safe", "[1] says that it is safe".
        is_subject = LINE_START.search(before) and _PREDICATE.match(text, end)
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
