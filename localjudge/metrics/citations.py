"""Marks by which a response cites what was retrieved, found by rules that are stated here.

    Paris is the capital [1]. It lies on the Seine.[2, 4] Both are old [doc-7].

A mark is a pair of square brackets with one or several citations, separated by commas or semicolons. A citation is

    a number        of one to three digits, also as [^1], [doc1], [Source 2]: the retrieved context of that rank, from 1
    a range         [2-4]: each of them, at most 100
    an id           of a retrieved context; where contexts have ids, also any other word with a letter and a digit in it

Where the id of any retrieved context is such a number itself, numbers are ids and not ranks, and so with `doc1` and its
like. A number that is no rank and a word that is no id are citations of something that was not retrieved. Brackets with
anything else in them ([sic], [in 2019], [a link](...)) are no marks: a year has four digits, a remark a blank or no
digit.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from localjudge.metrics.metric import Sentences
from localjudge.types import Context, Sample, Span

_BRACKETS = re.compile(r"\[([^\[\]\n]{1,200})\]")
_BETWEEN = re.compile(r"\s*[,;]\s*")
_NUMBER = re.compile(
    r"(?:\^|(?:doc(?:ument)?|source|passage|context|chunk|ref(?:erence)?)\s?)?(?P<number>[0-9]{1,3})", re.IGNORECASE
)
_RANGE = re.compile(r"(?P<first>[0-9]{1,3})\s?[-\u2013]\s?(?P<last>[0-9]{1,3})")
_LIKE_AN_ID = re.compile(r"(?=.*\d)(?=.*[^\W\d_])[\w.:/#-]+")
_LONGEST_RANGE = 100
_AROUND_MARKS = re.compile(r"[\s.,;:!?\u3002]*")


class Citation(NamedTuple):
    """What a mark names, and the index of the retrieved context that this is; None if it is none."""

    name: str
    context: int | None


class Mark(NamedTuple):
    """A pair of brackets, and what it cites; offsets as in a span."""

    start: int
    end: int
    citations: tuple[Citation, ...]


class CitingSentence(NamedTuple):
    """A sentence without the marks at its ends, and what its marks cite."""

    span: Span
    citations: tuple[Citation, ...]


def marks(text: str, contexts: Sequence[Context]) -> list[Mark]:
    """All marks of a text that cites these contexts, in their order."""
    ids = {context.id: index for index, context in reversed([*enumerate(contexts)]) if context.id is not None}
    found = (
        (match, _citations(_BETWEEN.split(match[1].strip()), ids, len(contexts))) for match in _BRACKETS.finditer(text)
    )
    return [Mark(match.start(), match.end(), citations) for match, citations in found if citations]


def response_sentences(sample: Sample, sentences: Sentences) -> list[CitingSentence]:
    """The sentences of the response as statements: without the marks at their ends, which no passage says."""
    response = sample.response or ""
    return citing_sentences(response, sentences(response), marks(response, sample.retrieved_contexts or ()))


def citing_sentences(text: str, spans: Sequence[Span], found: Sequence[Mark]) -> list[CitingSentence]:
    """The sentences with their marks; one that holds nothing but marks is none, and its marks are the last one's.

    Marks at the end of a sentence are cut off; the rest is verbatim, marks inside it too.
    """
    sentences: list[CitingSentence] = []
    starts = [mark.start for mark in found]
    for span in spans:
        of_span = found[bisect_left(starts, span.start) : bisect_left(starts, span.end)]
        inside = [mark for mark in of_span if mark.end <= span.end]
        citations = tuple(citation for mark in inside for citation in mark.citations)
        end = _end_without_marks(text, span, inside)
        said = text[span.start : end]
        if any(map(str.isalnum, said)):
            sentences.append(CitingSentence(Span(start=span.start, end=end, text=said), citations))
        elif sentences:
            sentences[-1] = sentences[-1]._replace(citations=sentences[-1].citations + citations)
    return sentences


def _end_without_marks(text: str, span: Span, inside: Sequence[Mark]) -> int:
    """Where the sentence ends if the marks at its end, and the stops between and behind them, are not of it."""
    end = span.end
    for mark in reversed(inside):
        if not _AROUND_MARKS.fullmatch(text, mark.end, end):
            break
        end = mark.start
    return span.start + len(text[span.start : end].rstrip()) if end < span.end else end


def _citations(names: Sequence[str], ids: Mapping[str, int], count: int) -> tuple[Citation, ...]:
    """What the parts of a mark cite; nothing if any part is no citation."""
    ids_of_a_kind = {_is_plain(known) for known in ids if _NUMBER.fullmatch(known)}
    found: list[Citation] = []
    for name in names:
        cited = list(_cited(name, ids, 0 if _is_plain(name) in ids_of_a_kind else count))
        if not cited:
            return ()
        found += cited
    return tuple(found)


def _cited(name: str, ids: Mapping[str, int], ranks: int) -> Iterator[Citation]:
    """What one part cites; numbers are ranks up to `ranks`."""
    if name in ids:
        yield Citation(name, ids[name])
    elif number := _NUMBER.fullmatch(name):
        yield _numbered(number["number"], ids, ranks)
    elif (several := _RANGE.fullmatch(name)) and 0 <= int(several["last"]) - int(several["first"]) < _LONGEST_RANGE:
        for rank in range(int(several["first"]), int(several["last"]) + 1):
            yield _numbered(str(rank), ids, ranks)
    elif ids and _LIKE_AN_ID.fullmatch(name):
        yield Citation(name, None)


def _is_plain(name: str) -> bool:
    """Whether a number, or a range of them, stands there without a word."""
    return not any(map(str.isalpha, name))


def _numbered(number: str, ids: Mapping[str, int], ranks: int) -> Citation:
    rank = int(number)
    return Citation(number, rank - 1 if 1 <= rank <= ranks else ids.get(number))
