"""Context sufficiency: can the question be answered from the retrieved contexts?

    context_sufficiency = 1 if the contexts contain everything that an answer needs, otherwise 0

Source: Joren et al., "Sufficient Context: A New Lens on Retrieval Augmented Generation Systems"
(ICLR 2025). Contexts too long for the model are judged in windows, and one sufficient window is
enough.

Needs a judge that follows instructions. Empty cases: no question is `Undefined`; no context text is
0 without asking the model.
"""

from localjudge.metrics.metric import (
    About,
    BuiltIn,
    Sentences,
    Steps,
    nothing_retrieved,
)
from localjudge.types import Sample, Scored, Span, Sufficiency, Undefined, Unit, context_texts


def context_sufficiency() -> BuiltIn:
    """Whether the question can be answered from the contexts."""
    return BuiltIn(
        "context_sufficiency",
        _steps,
        required_fields=frozenset({"user_input", "retrieved_contexts"}),
        special_tasks=frozenset({"sufficiency"}),
        about=About(
            question="question: can it be answered from the retrieved contexts?",
            unit="1",
            headline="{} of the questions can be answered from the documents",
            source="Joren et al. 2025, Sufficient Context",
        ),
    )


def _steps(sample: Sample, sentences: Sentences) -> Steps:
    if not (sample.user_input or "").strip():
        return Undefined(reason="there is no question")
    [verdict] = yield [ask_sufficiency(sample)]
    return Scored.fraction([verdict.label], detail=nothing_retrieved(sample))


def ask_sufficiency(sample: Sample) -> Sufficiency:
    """Ask whether the contexts contain everything that an answer needs."""
    question = sample.user_input or ""
    unit = Unit(kind="question", index=0, source="user_input", span=Span.whole(question))
    return Sufficiency(
        unit=unit,
        contexts=context_texts(sample.retrieved_contexts),
        user_input=question.strip(),
    )
