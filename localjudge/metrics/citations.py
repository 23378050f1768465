"""Citations: do the cited contexts support the sentence, and do they exist?

    citation_support          sentences attributed to what they cite / sentences that cite
    citation_support(of=all)  the same sentences / all sentences of the response
    citation_validity         citations that name a retrieved context / citations      no judge

`localjudge.text.marks` defines what a mark looks like: "It is old [1]. [2, 4] [doc-7]". It names

    a number    one to three digits, also [^1], [doc1], [Source 2]: the context of this rank, from 1
    a range     [2-4]: each of them, at most 100
    an id       of a context; if contexts have ids, also any other word with a letter and a digit

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

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from localjudge.metrics.metric import (
    NO_RESPONSE,
    About,
    BuiltIn,
    Sentences,
    Steps,
    name_with_option,
    prepared_response,
    response_statements,
    statement_unit,
)
from localjudge.text.marks import ID_WITH_DIGIT, RANK, RANK_RANGE, Mark
from localjudge.types import Attribution, Context, Sample, Scored, Undefined, context_texts

_MAX_LISTED = 5


class Citation(NamedTuple):
    """A name in a mark and the index of its retrieved context, or None."""

    name: str
    context: int | None


class ContextIndex:
    """Retrieved contexts by rank and by id."""

    def __init__(self, contexts: Sequence[Context]) -> None:
        self.ids: dict[str, int] = {}
        for index, context in enumerate(contexts):
            if context.id is not None:
                self.ids.setdefault(context.id, index)
        self._count = len(contexts)
        # Numbers with a word (doc1) and without one (1) are separate kinds: both may be ids.
        self._kinds_of_ids = {_has_letter(name) for name in self.ids if RANK.fullmatch(name)}

    def resolve(self, marks: Sequence[Mark]) -> list[Citation]:
        """Return the citations in the marks, with the contexts that they name."""
        citations: list[Citation] = []
        for mark in marks:
            for name in mark.names:
                citations += self._resolve_name(name)
        return citations

    def _resolve_name(self, name: str) -> Iterator[Citation]:
        if name in self.ids:
            yield Citation(name, self.ids[name])
            return
        number = RANK.fullmatch(name)
        if number:
            yield self._resolve_number(number["number"], name)
            return
        ranks = RANK_RANGE.fullmatch(name)
        if ranks:
            for rank in range(int(ranks["first"]), int(ranks["last"]) + 1):
                yield self._resolve_number(str(rank), name)
            return
        if self.ids and ID_WITH_DIGIT.fullmatch(name):
            yield Citation(name, None)

    def _resolve_number(self, number: str, name: str) -> Citation:
        rank = int(number)
        if 1 <= rank <= self._count and _has_letter(name) not in self._kinds_of_ids:
            return Citation(number, rank - 1)
        return Citation(number, self.ids.get(number))


def _has_letter(name: str) -> bool:
    return any(map(str.isalpha, name))


_Counted = Literal["cited", "all"]
_CITING = "sentence of the response that cites"
_SUPPORT_QUESTION = f"{_CITING}: can it be attributed to the contexts that it cites?"
_ARE_SUPPORTED = "are supported by what they cite"
_SUPPORT_HEADLINES = {
    "cited": f"in an average answer, {{}} of the sentences with a citation {_ARE_SUPPORTED}",
    "all": f"in an average answer, {{}} of the sentences {_ARE_SUPPORTED}",
}


def citation_support(*, of: _Counted = "cited") -> BuiltIn:
    """Share of sentences supported by what they cite."""
    return BuiltIn(
        name_with_option("citation_support", "of", of, default="cited"),
        lambda sample, sentences: _ask_about_support(sample, sentences, of),
        version=2,
        options={"of": of},
        required_fields=frozenset({"response", "retrieved_contexts"}),
        common_tasks=frozenset({"attribution"}),
        about=About(
            question=_SUPPORT_QUESTION,
            unit="sentences of the response with a citation",
            headline=_SUPPORT_HEADLINES[of],
            counted="supported by what they cite",
            source="ALCE citation recall",
        ),
    )


def _ask_about_support(sample: Sample, sentences: Sentences, of: _Counted) -> Steps:
    statements = response_statements(sample, sentences)
    if not statements:
        return Undefined(reason=NO_RESPONSE)
    index = ContextIndex(sample.retrieved_contexts or ())
    citations = [index.resolve(statement.marks) for statement in statements]
    if not any(citations):
        return Undefined(reason="the response cites nothing")
    tasks = []
    for number, (statement, cited) in enumerate(zip(statements, citations, strict=True)):
        if cited or of == "all":
            unit = statement_unit(statement, number, "response", "cited")
            texts = context_texts(sample.retrieved_contexts)
            indices = {citation.context for citation in cited if citation.context is not None}
            contexts = tuple(texts[index] for index in sorted(indices))
            task = Attribution(unit=unit, contexts=contexts, user_input=sample.user_input)
            tasks.append(task)
    verdicts = yield tasks
    return Scored.fraction(verdict.label for verdict in verdicts)


def citation_validity() -> BuiltIn:
    """Share of citations that name a retrieved context."""

    def steps(sample: Sample, sentences: Sentences) -> Steps:
        yield from ()
        index = ContextIndex(sample.retrieved_contexts or ())
        cited = index.resolve(prepared_response(sample, sentences).marks)
        if not cited:
            return Undefined(reason="the response cites nothing")
        invalid = [citation.name for citation in cited if citation.context is None]
        total = len(cited)
        valid = total - len(invalid)
        detail = _describe_missing(list(dict.fromkeys(invalid)))
        return Scored(value=valid / total, numerator=valid, denominator=total, detail=detail)

    return BuiltIn(
        "citation_validity",
        steps,
        version=2,
        required_fields=frozenset({"response", "retrieved_contexts"}),
        about=About(
            question="citation: does it name a retrieved context?",
            unit="none",
            headline="in an average answer, {} of the citations name a document that was found",
            counted="citations name a retrieved context",
            source="citation checks of TruLens and DeepEval's community",
        ),
    )


def _describe_missing(names: Sequence[str]) -> str | None:
    if not names:
        return None
    listed = ", ".join(names[:_MAX_LISTED])
    more = len(names) - _MAX_LISTED
    if more > 0:
        listed += f" and {more} more"
    return f"not retrieved: {listed}"
