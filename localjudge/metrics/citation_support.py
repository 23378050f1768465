"""Citation support: does what a sentence cites support it?

    citation_support          sentences attributed to the contexts that they cite / sentences that cite
    citation_support(of=all)  the same sentences / all sentences of the response

A sentence is held against all contexts that it cites together, and no others; its marks are those inside it and at its
end (`citations.py` says what a mark is). The marks at its end are no part of the statement that is judged. A sentence
that cites only what was not retrieved is not supported, without asking the model.

Source: ALCE (Gao et al., "Enabling Large Language Models to Generate Text with Citations", 2023): with `of=all`,
where a sentence without a citation counts as not supported, it is its citation recall. ALCE's citation precision, which
looks for citations that a sentence does not need, is not computed. (TruLens and DeepEval's community metrics let a
model find the citations and rate them; here rules find them, and a verdict is 0 or 1.) A sentence that
cites two contexts, one of which does not exist, is not supported in ALCE; here the other one decides, and
`citation_validity` counts the missing one.

Empty cases: a response without a sentence is `Undefined`, and so is one that cites nothing, also with `of=all` (in ALCE
it is 0): to have no marks at all is another thing than to lack support.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from localjudge.errors import UsageError
from localjudge.metrics.about import About
from localjudge.metrics.citations import Citation, response_sentences
from localjudge.metrics.metric import Sentences, Steps
from localjudge.metrics.naming import with_options
from localjudge.types import Attribution, Context, Sample, Scored, Undefined, Unit

SentencesCounted = Literal["cited", "all"]


@dataclass(frozen=True, kw_only=True)
class CitationSupport:
    """Share of sentences that are supported by what they cite. Raises UsageError for another `of`."""

    of: SentencesCounted = "cited"
    version = 1
    required_fields = frozenset({"response", "retrieved_contexts"})
    common_tasks = frozenset({"attribution"})
    said_of_a_unit = "supported by what they cite"
    about = About(
        asks="sentence of the response that cites: can it be attributed to the contexts that it cites?",
        verdicts="sentences of the response with a citation",
        source="ALCE citation recall",
    )

    def __post_init__(self) -> None:
        if self.of not in get_args(SentencesCounted):
            raise UsageError(f"citation_support is not of {self.of!r}", hint="write of=cited or of=all")

    @property
    def name(self) -> str:
        """`citation_support`, `citation_support(of=all)`."""
        return with_options("citation_support", self)

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask about every sentence that cites, against what it cites."""
        stated = response_sentences(sample, sentences)
        if not stated:
            return Undefined(reason="the response has no sentence")
        if not any(sentence.citations for sentence in stated):
            return Undefined(reason="the response cites nothing")
        verdicts = yield [
            Attribution(
                unit=Unit(kind="statement", index=index, source="response", span=sentence.span, against="cited"),
                contexts=_texts(sentence.citations, sample.retrieved_contexts or ()),
                user_input=sample.user_input,
            )
            for index, sentence in enumerate(stated)
            if sentence.citations or self.of == "all"
        ]
        return Scored.fraction(verdict.label for verdict in verdicts)


def _texts(citations: Sequence[Citation], retrieved: Sequence[Context]) -> tuple[str, ...]:
    """The cited contexts, each once, in the order in which they were retrieved."""
    cited = {citation.context for citation in citations if citation.context is not None}
    return tuple(retrieved[index].text or "" for index in sorted(cited))
