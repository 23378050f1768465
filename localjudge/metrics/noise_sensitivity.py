"""Noise sensitivity: how much of the response is wrong because a context supports the error.

Lower is better.

    noise_sensitivity = wrong sentences that a relevant chunk supports / sentences of the response

A sentence is *wrong* if it cannot be attributed to the reference, even if it is true. A chunk is
*relevant* if any sentence of the reference can be attributed to it. Thinking, lists of sources and
citation marks are not part of a sentence.

Source: RAGChecker (Ru et al., 2024), as computed by ragas (`NoiseSensitivity`, `mode` relevant),
with sentences as claims.

Empty cases: no sentence in the response or in the reference, or no chunk, is `Undefined`.
"""

from localjudge.metrics.metric import (
    About,
    BuiltIn,
    Sentences,
    Steps,
    against_each_chunk,
    attributions,
    chunks,
    response_statements,
    support_table,
)
from localjudge.types import Sample, Scored, Undefined

_SENTENCES = "sentences of the response"
_UNITS = f"({_SENTENCES} + of the reference) x contexts, + {_SENTENCES}"
_ARE_WRONG = "are wrong because a document says so"


def noise_sensitivity() -> BuiltIn:
    """Share of the response's sentences that are wrong and supported by a relevant chunk."""
    return BuiltIn(
        "noise_sensitivity",
        _steps,
        version=2,
        lower_is_better=True,
        required_fields=frozenset({"response", "reference", "retrieved_contexts"}),
        common_tasks=frozenset({"attribution"}),
        about=About(
            question="sentence of the response: is it wrong, and does a relevant context say it?",
            unit=_UNITS,
            headline=f"in an average answer, {{}} of the sentences {_ARE_WRONG}",
            counted="sentences of the response wrong, and supported by a context",
            source="RAGChecker; ragas NoiseSensitivity",
        ),
    )


def _steps(sample: Sample, sentences: Sentences) -> Steps:
    response = response_statements(sample, sentences)
    reference = sentences(sample.reference or "")
    passages = list(chunks(sample))
    if not response:
        return Undefined(reason="the response has no sentence")
    if not reference:
        return Undefined(reason="the reference has no sentence")
    if not passages:
        return Undefined(reason="the contexts have no chunk")
    verdicts = yield [
        *attributions(sample, "response", response, (sample.reference or "",), "reference"),
        *against_each_chunk(sample, "response", response, passages),
        *against_each_chunk(sample, "reference", reference, passages),
    ]
    in_order = iter(verdicts)
    correct = support_table(in_order, len(response), 1)
    response_by_chunk = support_table(in_order, len(response), len(passages))
    reference_by_chunk = support_table(in_order, len(reference), len(passages))
    by_relevant = response_by_chunk[:, reference_by_chunk.any(axis=0)].any(axis=1)
    misled = int((by_relevant & ~correct[:, 0]).sum())
    return Scored(value=misled / len(response), numerator=misled, denominator=len(response))
