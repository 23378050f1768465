"""Noise sensitivity: how much of the response is wrong because a context supports the error.

Lower is better.

    noise_sensitivity = wrong sentences that a relevant chunk supports / sentences of the response

A sentence is *wrong* if it cannot be attributed to the reference, even if it is true. A chunk is
*relevant* if any sentence of the reference can be attributed to it. Thinking, lists of sources and
citation marks are not part of a sentence.

The expected score takes 1 - p for a sentence that is wrong with probability 1 - p, the largest
probability where the counted one asks for any, and products:

    (1 - p of the sentence by the reference) x max over chunks of (p of the sentence by the chunk
        x max over sentences of the reference of p of that sentence by the chunk)

Source: RAGChecker (Ru et al., 2024), as computed by ragas (`NoiseSensitivity`, `mode` relevant),
with sentences as claims.

Empty cases: no sentence in the response or in the reference, or no chunk, is `Undefined`.
"""

from collections.abc import Sequence
from math import fsum

import numpy as np

from localjudge.metrics.metric import (
    About,
    BuiltIn,
    Sentences,
    Steps,
    against_each_chunk,
    attributions,
    chunks,
    labels_of,
    response_statements,
    support_table,
    units_of,
)
from localjudge.types import Sample, Scored, Undefined, Unit

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
        formula=_noise,
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
    tasks = [
        *attributions(sample, "response", response, (sample.reference or "",), "reference"),
        *against_each_chunk(sample, "response", response, passages),
        *against_each_chunk(sample, "reference", reference, passages),
    ]
    verdicts = yield tasks
    misled = int(sum(_misled(units_of(tasks), labels_of(verdicts))))
    return Scored(value=misled / len(response), numerator=misled, denominator=len(response))


def _noise(units: Sequence[Unit], values: Sequence[float]) -> float:
    misled = _misled(units, values)
    return fsum(misled) / len(misled)


def _misled(units: Sequence[Unit], values: Sequence[float]) -> list[float]:
    """Return for each sentence of the response whether it is wrong by a relevant chunk."""
    correct: list[float] = []
    for unit, value in zip(units, values, strict=True):
        if unit.against == "reference":
            correct.append(value)
    response_by_chunk = support_table(units, values, "response")
    relevant = support_table(units, values, "reference").max(axis=0)
    by_relevant = (response_by_chunk * relevant).max(axis=1)
    misled: list[float] = ((1 - np.array(correct)) * by_relevant).tolist()
    return misled
