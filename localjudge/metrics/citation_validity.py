"""Citation validity: does what the response cites exist?

    citation_validity = citations that name a retrieved context / citations

No judge: `citations.py` says what a mark is ([1], [2, 4], [doc-7]). A mark that cites two things counts twice; the same
citation again counts again. Whether the cited context supports the sentence is asked by `citation_support`.

Source: the "citation exists" half of citation checks such as TruLens's and DeepEval's community metrics; ALCE (Gao et
al., "Enabling Large Language Models to Generate Text with Citations", 2023) drops citations out of range without
counting them. ragas's `QuotedSpansAlignment` looks for quoted words, which is another question.

Empty cases: a response without a mark is `Undefined`; nothing retrieved makes every citation invalid: 0 of N.
"""

from dataclasses import dataclass

from localjudge.metrics.about import About
from localjudge.metrics.citations import marks
from localjudge.metrics.metric import Sentences, Steps
from localjudge.types import Sample, Scored, Undefined

_SHOWN = 5


@dataclass(frozen=True)
class CitationValidity:
    """Share of the response's citations that name a retrieved context."""

    name = "citation_validity"
    version = 1
    required_fields = frozenset({"response", "retrieved_contexts"})
    counts = "citations name a retrieved context"
    about = About(
        asks="citation: does it name a retrieved context?",
        verdicts="none",
        source="citation checks of TruLens and DeepEval's community",
    )

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask nothing; the detail names what does not exist."""
        yield from ()
        found = marks(sample.response or "", sample.retrieved_contexts or ())
        cited = [citation for mark in found for citation in mark.citations]
        if not cited:
            return Undefined(reason="the response cites nothing")
        missing = list(dict.fromkeys(citation.name for citation in cited if citation.context is None))
        valid = sum(citation.context is not None for citation in cited)
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        detail = f"not retrieved: {', '.join(missing[:_SHOWN])}{more}" if missing else None
        return Scored(value=valid / len(cited), numerator=valid, denominator=len(cited), detail=detail)
