"""Context precision: are the useful chunks ranked before the others.

    context_precision = sum over useful chunks i of (useful among the first i / i)  /  useful chunks

This is average precision. Source: RAGAS `context_precision` (`LLMContextPrecisionWithReference`), which adds 1e-10 to
the denominator so that a perfect ranking scores just below 1; here the division is exact and the case of no
useful chunk is decided: 0, because something was retrieved and none of it served. No chunk at all is `Undefined`, and
so is a missing question or a blank reference.
"""

from dataclasses import dataclass
from itertools import accumulate
from math import fsum

from localjudge.metrics.metric import Sentences, Steps
from localjudge.metrics.units import chunks
from localjudge.types import Label, Sample, Scored, Undefined, Usefulness


@dataclass(frozen=True)
class ContextPrecision:
    """Average precision over the chunks judged useful for the reference."""

    name = "context_precision"
    version = 1
    required_fields = frozenset({"user_input", "reference", "retrieved_contexts"})

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask about every chunk."""
        question, reference = (sample.user_input or "").strip(), (sample.reference or "").strip()
        units = list(chunks(sample))
        if not question:
            return Undefined(reason="there is no question")
        if not reference:
            return Undefined(reason="there is no reference")
        if not units:
            return Undefined(reason="the contexts have no chunk")
        verdicts = yield [Usefulness(unit=unit, user_input=question, reference=reference) for unit in units]
        return Scored(value=average_precision([verdict.label for verdict in verdicts]))


def average_precision(labels: list[Label]) -> float:
    """Average precision of a ranking: shape (chunks,), 1 for a useful chunk; 0 if none is useful."""
    useful = sum(labels)
    if useful == 0:
        return 0.0
    found = accumulate(labels)
    precisions = (so_far / rank for rank, (so_far, label) in enumerate(zip(found, labels, strict=True), 1) if label)
    return fsum(precisions) / useful
