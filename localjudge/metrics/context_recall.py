"""Context recall: how much of the reference answer is in what was retrieved.

    context_recall = sentences of the reference attributed to the retrieved contexts / sentences of the reference

Source: RAGAS `context_recall` (Es et al., "RAGAS: Automated Evaluation of Retrieval Augmented Generation", 2023).
There the judge re-splits the reference and chooses how many answers to give; here the sentences
are cut first and counted by index, so the denominator is ours and a ratio above 1 cannot be expressed.

Empty cases: no sentence in the reference is `Undefined`; no context text is 0 of N without asking the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from localjudge.metrics.protocol import Sentences, Steps
from localjudge.types import Attribution, Sample, Scored, Undefined, Unit, context_texts


def attributed_sentences(
    sample: Sample, source: Literal["reference", "response"], sentences: Sentences
) -> Sequence[Attribution]:
    """One attribution task for each sentence of the field, against all retrieved contexts."""
    contexts = context_texts(sample.retrieved_contexts)
    return [
        Attribution(
            unit=Unit(kind="statement", index=index, source=source, span=span),
            contexts=contexts,
            user_input=sample.user_input,
        )
        for index, span in enumerate(sentences(getattr(sample, source) or ""))
    ]


def nothing_retrieved(sample: Sample) -> str | None:
    """Why no statement could be attributed to anything, if there is no context text."""
    return None if any(text.strip() for text in context_texts(sample.retrieved_contexts)) else "no context text"


@dataclass(frozen=True)
class ContextRecall:
    """Share of the reference's sentences that can be attributed to the retrieved contexts."""

    name: str = "context_recall"
    version: int = 1
    requires: frozenset[str] = frozenset({"reference", "retrieved_contexts"})

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask about every sentence of the reference."""
        tasks = attributed_sentences(sample, "reference", sentences)
        if not tasks:
            return Undefined(reason="the reference has no sentence")
        verdicts = yield tasks
        return Scored.fraction((verdict.label for verdict in verdicts), detail=nothing_retrieved(sample))
