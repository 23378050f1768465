"""Citations: do the cited contexts support the sentence, and do they exist?

    citation_support          sentences attributed to the contexts that they cite / sentences that cite
    citation_support(of=all)  the same sentences / all sentences of the response
    citation_validity         citations that name a retrieved context / citations               no judge

A mark is a pair of square brackets with citations, separated by commas or semicolons: "It is old [1]. [2, 4] [doc-7]"

    a number        of one to three digits, also as [^1], [doc1], [Source 2]: the retrieved context of that rank, from 1
    a range         [2-4]: each of them, at most 100
    an id           of a retrieved context; where contexts have ids, also any other word with a letter and a digit in it

If the id of any retrieved context looks like a number, such numbers are ids, not ranks. A number or id without a
context cites one that was not retrieved. Other brackets ([sic], [a link](...)) do not count.

A sentence is judged with exactly the contexts that it cites; marks at its end are not part of it. If all are missing,
it is unsupported without asking the model. Validity counts every citation, including repeated ones.

Source: ALCE (Gao et al., "Enabling Large Language Models to Generate Text with Citations", 2023). Support with `of=all`
is its citation recall, but ALCE drops citations out of range.

Empty cases: a response without a sentence or without citations is `Undefined`. Without retrieved contexts, every
citation is invalid.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple

from localjudge.metrics.metric import About, BuiltIn, Sentences, Steps, WithOptions
from localjudge.types import Attribution, Context, Sample, Scored, Span, Undefined, Unit, context_texts

_BRACKETS = re.compile(r"\[([^\[\]\n]{1,200})\]")
_BETWEEN = re.compile(r"\s*[,;]\s*")
_NUMBER = re.compile(
    r"(?:\^|(?:doc(?:ument)?|source|passage|context|chunk|ref(?:erence)?)\s?)?(?P<number>[0-9]{1,3})", re.IGNORECASE
)
_RANGE = re.compile(r"(?P<first>[0-9]{1,3})\s?[-\u2013]\s?(?P<last>[0-9]{1,3})")
_LIKE_AN_ID = re.compile(r"(?=.*\d)(?=.*[^\W\d_])[\w.:/#-]+")
_LONGEST_RANGE = 100
_LISTED = 5
_AROUND_MARKS = re.compile(r"[\s.,;:!?\u3002]*")


class Citation(NamedTuple):
    """A name in a mark and the index of its retrieved context, or None."""

    name: str
    context: int | None


class Mark(NamedTuple):
    """A pair of brackets: offsets and citations."""

    start: int
    end: int
    citations: tuple[Citation, ...]


class CitingSentence(NamedTuple):
    """A sentence without the marks at its ends, and its citations."""

    span: Span
    citations: tuple[Citation, ...]


def marks(text: str, contexts: Sequence[Context]) -> list[Mark]:
    ids = {context.id: index for index, context in reversed([*enumerate(contexts)]) if context.id is not None}
    # Numbers with a word (doc1) and without one (1) are separate kinds: either may be ids or ranks.
    ids_like_ranks = {any(map(str.isalpha, name)) for name in ids if _NUMBER.fullmatch(name)}
    in_order = []
    for match in _BRACKETS.finditer(text):
        names = _BETWEEN.split(match[1].strip())
        ranks = [0 if any(map(str.isalpha, name)) in ids_like_ranks else len(contexts) for name in names]
        parts = [list(_cited(name, ids, most)) for name, most in zip(names, ranks, strict=True)]
        if all(parts):
            in_order.append(Mark(match.start(), match.end(), tuple(chain.from_iterable(parts))))
    return in_order


def _cited(name: str, ids: Mapping[str, int], ranks: int) -> Iterator[Citation]:
    """Yield the citations of one part of a mark; numbers up to `ranks` are ranks."""

    def numbered(number: str) -> Citation:
        rank = int(number)
        return Citation(number, rank - 1 if 1 <= rank <= ranks else ids.get(number))

    if name in ids:
        yield Citation(name, ids[name])
    elif number := _NUMBER.fullmatch(name):
        yield numbered(number["number"])
    elif (several := _RANGE.fullmatch(name)) and 0 <= int(several["last"]) - int(several["first"]) < _LONGEST_RANGE:
        yield from (numbered(str(rank)) for rank in range(int(several["first"]), int(several["last"]) + 1))
    elif ids and _LIKE_AN_ID.fullmatch(name):
        yield Citation(name, None)


def response_sentences(sample: Sample, sentences: Sentences) -> list[CitingSentence]:
    """Return the response's sentences as statements, without the marks at their ends.

    Marks between sentences belong to the previous one.
    """
    text, statements = sample.response or "", list[CitingSentence]()
    marked = marks(text, sample.retrieved_contexts or ())
    starts = [mark.start for mark in marked]
    for span in sentences(text):
        of_span = marked[bisect_left(starts, span.start) : bisect_left(starts, span.end)]
        inside = [mark for mark in of_span if mark.end <= span.end]
        citations = tuple(citation for mark in inside for citation in mark.citations)
        end = span.end
        for mark in reversed(inside):
            if not _AROUND_MARKS.fullmatch(text, mark.end, end):
                break
            end = mark.start
        stated = text[span.start : end].rstrip() if end < span.end else text[span.start : end]
        if any(map(str.isalnum, stated)):
            cut = Span(start=span.start, end=span.start + len(stated), text=stated)
            statements.append(CitingSentence(cut, citations))
        elif statements:
            last = statements[-1]
            statements[-1] = last._replace(citations=last.citations + citations)
    return statements


@dataclass(frozen=True, kw_only=True)
class CitationSupport(WithOptions):
    """Share of sentences supported by what they cite. Raises InputError for an unknown `of`."""

    of: Literal["cited", "all"] = "cited"
    base = "citation_support"
    required_fields = frozenset({"response", "retrieved_contexts"})
    common_tasks = frozenset({"attribution"})

    @property
    def about(self) -> About:
        which = "sentences with a citation" if self.of == "cited" else "sentences"
        return About(
            question="sentence of the response that cites: can it be attributed to the contexts that it cites?",
            unit="sentences of the response with a citation",
            headline=f"in an average answer, {{}} of the {which} are supported by what they cite",
            counted="supported by what they cite",
            source="ALCE citation recall",
        )

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        stated = response_sentences(sample, sentences)
        if not stated:
            return Undefined(reason="the response has no sentence")
        if not any(sentence.citations for sentence in stated):
            return Undefined(reason="the response cites nothing")
        texts = context_texts(sample.retrieved_contexts)
        tasks = []
        for index, (span, citations) in enumerate(stated):
            if citations or self.of == "all":
                unit = Unit(kind="statement", index=index, source="response", span=span, against="cited")
                places = sorted({citation.context for citation in citations if citation.context is not None})
                contexts = tuple(texts[place] for place in places)
                tasks.append(Attribution(unit=unit, contexts=contexts, user_input=sample.user_input))
        verdicts = yield tasks
        return Scored.fraction(verdict.label for verdict in verdicts)


class CitationValidity(BuiltIn):
    """Share of citations that name a retrieved context."""

    name = "citation_validity"
    required_fields = frozenset({"response", "retrieved_contexts"})
    about = About(
        question="citation: does it name a retrieved context?",
        unit="none",
        headline="in an average answer, {} of the citations name a document that was found",
        counted="citations name a retrieved context",
        source="citation checks of TruLens and DeepEval's community",
    )

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        yield from ()
        marked = marks(sample.response or "", sample.retrieved_contexts or ())
        cited = [citation for mark in marked for citation in mark.citations]
        if not cited:
            return Undefined(reason="the response cites nothing")
        missing = list(dict.fromkeys(citation.name for citation in cited if citation.context is None))
        valid = sum(citation.context is not None for citation in cited)
        more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
        detail = f"not retrieved: {', '.join(missing[:_LISTED])}{more}" if missing else None
        return Scored(value=valid / len(cited), numerator=valid, denominator=len(cited), detail=detail)
