"""Context precision: are the useful chunks ranked before the others?

    context_precision = sum over useful chunks i of (useful among the first i / i)  /  useful chunks
                      = sum over i of v_i x ((v_1 + ... + v_i) / i)  /  (v_1 + v_2 + ...)

This is average precision. v_i is 1 for a useful chunk, otherwise 0; the expected score takes the
probability in its place. `context_precision(against=response)` needs no reference: a chunk is
useful if the *response* can be taken from it.

Source: RAGAS `LLMContextPrecisionWithReference` and `LLMContextPrecisionWithoutReference`, which
add 1e-10 to the denominator; here the division is exact.

Empty cases: 0 without useful chunks; `Undefined` without chunks, question or reference (response).
"""

from collections.abc import Sequence
from math import fsum
from typing import Literal

from localjudge.metrics.metric import (
    About,
    BuiltIn,
    Steps,
    chunks,
    labels_of,
    name_with_option,
)
from localjudge.types import Sample, Scored, Undefined, Unit, Usefulness

_Answer = Literal["reference", "response"]
_HEADLINE = (
    "with 100 % if all useful documents come first, their order reaches {} in an average sample"
)


def context_precision(*, against: _Answer = "reference") -> BuiltIn:
    """Average precision of the useful chunks."""
    return BuiltIn(
        name_with_option("context_precision", "against", against, default="reference"),
        lambda sample, sentences: _steps(sample, against),
        options={"against": against},
        formula=_average_precision,
        required_fields=frozenset({"user_input", against, "retrieved_contexts"}),
        common_tasks=frozenset({"usefulness"}),
        about=About(
            question="context: was it useful for the reference answer (the response)?",
            unit="contexts",
            headline=_HEADLINE,
            counted="useful",
            source="RAGAS context_precision, with and without reference",
        ),
    )


def _steps(sample: Sample, against: _Answer) -> Steps:
    question = (sample.user_input or "").strip()
    answer = (getattr(sample, against) or "").strip()
    units = list(chunks(sample))
    if not question:
        return Undefined(reason="there is no question")
    if not answer:
        return Undefined(reason=f"there is no {against}")
    if not units:
        return Undefined(reason="the contexts have no chunk")
    if against == "response":
        units = [unit.model_copy(update={"against": "response"}) for unit in units]
    tasks = []
    for unit in units:
        tasks.append(Usefulness(unit=unit, user_input=question, reference=answer))
    verdicts = yield tasks
    return Scored(value=_average_precision(units, labels_of(verdicts)))


def _average_precision(_: Sequence[Unit], useful: Sequence[float]) -> float:
    """Return the mean of the precision at each useful chunk, 0 if there is none."""
    total = fsum(useful)
    if not total:
        return 0.0
    precisions: list[float] = []
    useful_so_far = 0.0
    for rank, value in enumerate(useful, start=1):
        useful_so_far += value
        precisions.append(value * (useful_so_far / rank))
    return min(1.0, fsum(precisions) / total)
