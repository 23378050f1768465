"""Answer correctness: how well the response and the reference say the same, by sentence.

    precision   sentences of the response attributed to the reference / sentences of the response
    recall      sentences of the reference attributed to the response / sentences of the reference
    f1          2 * precision * recall / (precision + recall), 0 if one of them is 0

The expected f1 is computed from expected counts: the sums of probabilities of each side.

`answer_correctness` is f1; `(mode=precision)` and `(mode=recall)` ask half of the questions. A true
sentence that the reference lacks lowers precision. Thinking, lists of sources and citation marks
are not part of a sentence.

Source: RAGChecker (Ru et al., 2024), overall precision, recall and F1, with sentences as claims.
ragas's `FactualCorrectness` computes recall from the claims of the *response* instead.

Empty cases: no sentence in the reference is `Undefined`. For a response without a sentence, recall
and f1 are 0 without asking the model, and precision is `Undefined`.
"""

from collections.abc import Sequence
from math import fsum
from typing import Literal

from localjudge.metrics.metric import (
    About,
    BuiltIn,
    Formula,
    Sentences,
    Steps,
    attributions,
    labels_of,
    name_with_option,
    prepared_response,
    response_statements,
    units_of,
)
from localjudge.types import Attribution, Sample, Scored, Undefined, Unit

_Mode = Literal["f1", "precision", "recall"]

_NO_RESPONSE = "the response has no sentence"
_HEADLINES = {
    "f1": "an average answer and its right answer agree on {} of their sentences",
    "precision": "in an average answer, {} of the sentences are in the right answer",
    "recall": "in an average right answer, {} of the sentences are in the answer",
}


def answer_correctness(*, mode: _Mode = "f1") -> BuiltIn:
    """Agreement of response and reference by sentence."""
    formula: Formula | None = None
    if mode == "f1":
        formula = _f1
    return BuiltIn(
        name_with_option("answer_correctness", "mode", mode, default="f1"),
        lambda sample, sentences: _steps(sample, sentences, mode),
        version=2,
        formula=formula,
        options={"mode": mode},
        required_fields=frozenset({"response", "reference"}),
        common_tasks=frozenset({"attribution"}),
        about=About(
            question="sentence of the response: is it in the reference? "
            "Sentence of the reference: is it in the response?",
            unit="sentences of response and reference",
            headline=_HEADLINES[mode],
            source="RAGChecker; ragas FactualCorrectness",
        ),
    )


def _steps(sample: Sample, sentences: Sentences, mode: _Mode) -> Steps:
    response = response_statements(sample, sentences)
    reference = sentences(sample.reference or "")
    if not reference:
        return Undefined(reason="the reference has no sentence")
    if mode == "precision" and not response:
        return Undefined(reason=_NO_RESPONSE)
    tasks: list[Attribution] = []
    if mode != "recall":
        whole_reference = (sample.reference or "",)
        tasks += attributions(sample, "response", response, whole_reference, "reference")
    if mode != "precision":
        whole_response: tuple[str, ...] = ()
        if response:
            whole_response = (prepared_response(sample, sentences).shown,)
        tasks += attributions(sample, "reference", reference, whole_response, "response")
    verdicts = yield tasks
    if mode != "f1":
        return Scored.fraction(verdict.label for verdict in verdicts)
    value = _f1(units_of(tasks), labels_of(verdicts))
    right = sum(verdict.label for verdict in verdicts[: len(response)])
    covered = sum(verdict.label for verdict in verdicts[len(response) :])
    precision = _NO_RESPONSE
    if response:
        precision = f"precision {right}/{len(response)}"
    return Scored(value=value, detail=f"{precision}, recall {covered}/{len(reference)}")


def _f1(units: Sequence[Unit], values: Sequence[float]) -> float:
    """Return the harmonic mean of precision and recall, 0 if one of them is 0."""
    of_response: list[float] = []
    of_reference: list[float] = []
    for unit, value in zip(units, values, strict=True):
        if unit.source == "response":
            of_response.append(value)
        else:
            of_reference.append(value)
    right = fsum(of_response)
    covered = fsum(of_reference)
    if not right or not covered:
        return 0.0
    # 2PR / (P + R) with P = right / sentences of the response and R = covered / sentences of the
    # reference, as one division.
    both = right * len(of_reference) + covered * len(of_response)
    return min(1.0, 2 * right * covered / both)
