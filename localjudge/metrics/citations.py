"""Citations: do the cited contexts support the sentence, and do they exist?

    citation_support          sentences attributed to the contexts that they cite / sentences that cite
    citation_support(of=all)  the same sentences / all sentences of the response
    citation_validity         citations that name a retrieved context / citations               no judge

`localjudge.text.marks` defines what a mark looks like: "It is old [1]. [2, 4] [doc-7]". It names

    a number        of one to three digits, also as [^1], [doc1], [Source 2]: the retrieved context of that rank, from 1
    a range         [2-4]: each of them, at most 100
    an id           of a retrieved context; where contexts have ids, also any other word with a letter and a digit in it

If the id of any retrieved context looks like a number, such numbers are ids, not ranks. A number or
id without a context cites one that was not retrieved. Where contexts have no ids, a name such as
[a.pdf] cannot be checked and does not count. Marks in thinking and in the list of sources do not
count either.

A sentence is judged with exactly the contexts that it cites, without its marks. If all are missing,
it is unsupported without asking the model. Validity counts every citation, including repeated ones.

Source: ALCE (Gao et al., "Enabling Large Language Models to Generate Text with Citations", 2023).
Support with `of=all` is its citation recall, but ALCE drops citations out of range.

Empty cases: a response without a sentence or without citations is `Undefined`. Without retrieved
contexts, every citation is invalid.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from localjudge.metrics.metric import (
    About,
    BuiltIn,
    Sentences,
    Steps,
    WithOptions,
    prepared_response,
    response_statements,
    shown_if_other,
)
from localjudge.text.marks import ID_WITH_DIGIT, RANK, RANK_RANGE, Mark, find_marks
from localjudge.types import Attribution, Context, Sample, Scored, Undefined, Unit, context_texts

_LISTED = 5


class Citation(NamedTuple):
    """A name in a mark and the index of its retrieved context, or None."""

    name: str
    context: int | None


def citations_in(text: str, contexts: Sequence[Context]) -> list[Citation]:
    """Return the citations of a text in order."""
    index = ContextIndex(contexts)
    return index.cited_by(find_marks(text, index.ids))


class ContextIndex:
    """Retrieved contexts by rank and by id."""

    def __init__(self, contexts: Sequence[Context]) -> None:
        in_reverse = reversed([*enumerate(contexts)])
        self.ids: Mapping[str, int] = {context.id: index for index, context in in_reverse if context.id is not None}
        self._count = len(contexts)
        # Numbers with a word (doc1) and without one (1) are separate kinds: either may be ids or ranks.
        self._kinds_of_ids = {_has_letter(name) for name in self.ids if RANK.fullmatch(name)}

    def cited_by(self, marks: Sequence[Mark]) -> list[Citation]:
        return [citation for mark in marks for name in mark.names for citation in self._cited(name)]

    def _cited(self, name: str) -> Iterator[Citation]:
        if name in self.ids:
            yield Citation(name, self.ids[name])
        elif number := RANK.fullmatch(name):
            yield self._numbered(number["number"], name)
        elif ranks := RANK_RANGE.fullmatch(name):
            for rank in range(int(ranks["first"]), int(ranks["last"]) + 1):
                yield self._numbered(str(rank), name)
        elif self.ids and ID_WITH_DIGIT.fullmatch(name):
            yield Citation(name, None)

    def _numbered(self, number: str, name: str) -> Citation:
        rank = int(number)
        is_rank = _has_letter(name) not in self._kinds_of_ids and 1 <= rank <= self._count
        return Citation(number, rank - 1 if is_rank else self.ids.get(number))


def _has_letter(name: str) -> bool:
    return any(map(str.isalpha, name))


@dataclass(frozen=True, kw_only=True)
class CitationSupport(WithOptions):
    """Share of sentences supported by what they cite. Raises InputError for an unknown `of`."""

    of: Literal["cited", "all"] = "cited"
    base = "citation_support"
    version = 2
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
        statements = response_statements(sample, sentences)
        if not statements:
            return Undefined(reason="the response has no sentence")
        index = ContextIndex(sample.retrieved_contexts or ())
        citations = [index.cited_by(statement.marks) for statement in statements]
        if not any(citations):
            return Undefined(reason="the response cites nothing")
        texts = context_texts(sample.retrieved_contexts)
        tasks = []
        for number, (statement, cited) in enumerate(zip(statements, citations, strict=True)):
            if cited or self.of == "all":
                unit = Unit(
                    kind="statement",
                    index=number,
                    source="response",
                    span=statement.span,
                    against="cited",
                    shown=shown_if_other(statement),
                )
                places = sorted({citation.context for citation in cited if citation.context is not None})
                contexts = tuple(texts[place] for place in places)
                tasks.append(Attribution(unit=unit, contexts=contexts, user_input=sample.user_input))
        verdicts = yield tasks
        return Scored.fraction(verdict.label for verdict in verdicts)


class CitationValidity(BuiltIn):
    """Share of citations that name a retrieved context."""

    name = "citation_validity"
    version = 2
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
        index = ContextIndex(sample.retrieved_contexts or ())
        cited = index.cited_by(prepared_response(sample, sentences).marks)
        if not cited:
            return Undefined(reason="the response cites nothing")
        missing = list(dict.fromkeys(citation.name for citation in cited if citation.context is None))
        valid = sum(citation.context is not None for citation in cited)
        more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
        detail = f"not retrieved: {', '.join(missing[:_LISTED])}{more}" if missing else None
        return Scored(value=valid / len(cited), numerator=valid, denominator=len(cited), detail=detail)
