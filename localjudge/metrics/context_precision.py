"""Context precision: are the useful chunks ranked before the others?

    context_precision = sum over useful chunks i of (useful among the first i / i)  /  useful chunks

This is average precision. `context_precision(against=response)` needs no reference: a chunk is
useful if the *response* can be taken from it.

Source: RAGAS `LLMContextPrecisionWithReference` and `LLMContextPrecisionWithoutReference`, which
add 1e-10 to the denominator; here the division is exact.

Empty cases: 0 without useful chunks; `Undefined` without chunks, question or reference (response).
"""

from collections.abc import Sequence
from math import fsum
from typing import Literal

from localjudge.metrics.metric import About, BuiltIn, Steps, chunks, name_with_option
from localjudge.types import Sample, Scored, Undefined, Usefulness

_Answer = Literal["reference", "response"]
_RANKING = "ranking useful documents first"


def context_precision(*, against: _Answer = "reference") -> BuiltIn:
    """Average precision of the useful chunks."""
    return BuiltIn(
        name_with_option("context_precision", "against", against, default="reference"),
        lambda sample, sentences: _steps(sample, against),
        options={"against": against},
        required_fields=frozenset({"user_input", against, "retrieved_contexts"}),
        common_tasks=frozenset({"usefulness"}),
        about=About(
            question="context: was it useful for the reference answer (the response)?",
            unit="contexts",
            headline=f"in an average sample, {{}} of the points for {_RANKING} are earned",
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
    return _average_precision([verdict.label for verdict in verdicts])


def _average_precision(labels: Sequence[int]) -> Scored:
    """Return the mean of the precision at each useful chunk, 0 if there is none."""
    precisions: list[float] = []
    for rank, label in enumerate(labels, start=1):
        if label:
            useful_so_far = len(precisions) + 1
            precisions.append(useful_so_far / rank)
    if not precisions:
        return Scored(value=0.0)
    return Scored(value=fsum(precisions) / len(precisions))
