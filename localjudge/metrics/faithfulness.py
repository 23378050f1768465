"""Faithfulness: how much of the response can be attributed to the retrieved contexts.

    faithfulness = sentences attributed to the retrieved contexts / sentences of the response

Thinking, lists of sources and citation marks are not part of a sentence
(`localjudge.text.responses`).

Source: RAGAS `faithfulness` (Es et al., 2023), with the response's sentences as statements.

Empty cases: no sentence in the response is `Undefined`; no context text is 0 of N without asking
the model.
"""

from localjudge.metrics.metric import (
    About,
    BuiltIn,
    Sentences,
    Steps,
    attributions,
    nothing_retrieved,
    response_statements,
    score_share,
)
from localjudge.types import Sample, context_texts


def faithfulness() -> BuiltIn:
    """Share of the response's sentences that can be attributed to the contexts."""
    return BuiltIn(
        "faithfulness",
        _steps,
        version=2,
        required_fields=frozenset({"response", "retrieved_contexts"}),
        common_tasks=frozenset({"attribution"}),
        about=About(
            question="sentence of the response: can it be attributed to the retrieved contexts?",
            unit="sentences of the response",
            headline="in an average answer, {} of the sentences are supported by the documents",
            counted="attributed",
            source="RAGAS faithfulness",
        ),
    )


def _steps(sample: Sample, sentences: Sentences) -> Steps:
    statements = response_statements(sample, sentences)
    contexts = context_texts(sample.retrieved_contexts)
    tasks = attributions(sample, "response", statements, contexts)
    return score_share(tasks, "the response has no sentence", nothing_retrieved(sample))
