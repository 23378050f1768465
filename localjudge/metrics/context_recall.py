"""Context recall: how much of the reference answer the retrieved contexts contain.

    context_recall = sentences attributed to the retrieved contexts / sentences of the reference

Source: RAGAS `context_recall` (Es et al., 2023). There the judge re-splits the reference; here the
sentences are split first and counted by index.

Empty cases: no sentence in the reference is `Undefined`; no context text is 0 of N without asking
the model.
"""

from localjudge.metrics.metric import (
    About,
    BuiltIn,
    Sentences,
    Steps,
    attributions,
    nothing_retrieved,
    score_share,
)
from localjudge.types import Sample, context_texts

_ARE_SUPPORTED = "are supported by the documents"


def context_recall() -> BuiltIn:
    """Share of the reference's sentences that can be attributed to the contexts."""
    return BuiltIn(
        "context_recall",
        _steps,
        required_fields=frozenset({"reference", "retrieved_contexts"}),
        common_tasks=frozenset({"attribution"}),
        about=About(
            question="sentence of the reference: can it be attributed to the retrieved contexts?",
            unit="sentences of the reference",
            headline=f"in an average right answer, {{}} of the sentences {_ARE_SUPPORTED}",
            counted="attributed",
            source="RAGAS context_recall",
        ),
    )


def _steps(sample: Sample, sentences: Sentences) -> Steps:
    statements = sentences(sample.reference or "")
    contexts = context_texts(sample.retrieved_contexts)
    tasks = attributions(sample, "reference", statements, contexts)
    return score_share(tasks, "the reference has no sentence", nothing_retrieved(sample))
