"""Context precision: are the useful chunks ranked before the others?

    context_precision = sum over useful chunks i of (useful among the first i / i)  /  useful chunks

This is average precision. `context_precision(against=response)` needs no reference: a chunk is
useful if the *response* can be taken from it.

Source: RAGAS `LLMContextPrecisionWithReference` and `LLMContextPrecisionWithoutReference`, which
add 1e-10 to the denominator; here the division is exact.

Empty cases: 0 without useful chunks; `Undefined` without chunks, question or reference (response).
"""

from dataclasses import dataclass
from math import fsum
from typing import Literal

from localjudge.metrics.metric import About, Sentences, Steps, WithOptions, chunks
from localjudge.types import Sample, Scored, Undefined, Usefulness

_RANKING = "ranking useful documents first"


@dataclass(frozen=True, kw_only=True)
class ContextPrecision(WithOptions):
    """Average precision of the useful chunks. Raises InputError for an unknown `against`."""

    against: Literal["reference", "response"] = "reference"
    base = "context_precision"
    common_tasks = frozenset({"usefulness"})
    about = About(
        question="context: was it useful for the reference answer (the response)?",
        unit="contexts",
        headline=f"in an average sample, {{}} of the points for {_RANKING} are earned",
        counted="useful",
        source="RAGAS context_precision, with and without reference",
    )

    @property
    def required_fields(self) -> frozenset[str]:
        return frozenset({"user_input", self.against, "retrieved_contexts"})

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        question = (sample.user_input or "").strip()
        answer = (getattr(sample, self.against) or "").strip()
        units = list(chunks(sample))
        if not question:
            return Undefined(reason="there is no question")
        if not answer:
            return Undefined(reason=f"there is no {self.against}")
        if not units:
            return Undefined(reason="the contexts have no chunk")
        if self.against == "response":
            units = [unit.model_copy(update={"against": "response"}) for unit in units]
        tasks = []
        for unit in units:
            tasks.append(Usefulness(unit=unit, user_input=question, reference=answer))
        verdicts = yield tasks
        precisions: list[float] = []
        for rank, verdict in enumerate(verdicts, start=1):
            if verdict.label:
                useful_so_far = len(precisions) + 1
                precisions.append(useful_so_far / rank)
        if not precisions:
            return Scored(value=0.0)
        return Scored(value=fsum(precisions) / len(precisions))
