"""Answer correctness: how much of the response is in the reference, and how much of the reference is in the response.

    precision   sentences of the response attributed to the reference / sentences of the response
    recall      sentences of the reference attributed to the response / sentences of the reference
    f1          2 * precision * recall / (precision + recall), 0 if both are 0

`answer_correctness` is f1; `(mode=precision)` and `(mode=recall)` ask half of the questions. A true
sentence that the reference lacks lowers precision. Thinking, lists of sources and citation marks
are not part of a sentence.

Source: RAGChecker (Ru et al., 2024), overall precision, recall and F1, with sentences as claims.
ragas's `FactualCorrectness` computes recall from the claims of the *response* instead.

Empty cases: no sentence in the reference is `Undefined`. For a response without a sentence, recall
and f1 are 0 without asking the model, and precision is `Undefined`.
"""

from dataclasses import dataclass
from typing import Literal

from localjudge.metrics.metric import (
    About,
    Sentences,
    Steps,
    WithOptions,
    attributions,
    prepared_response,
    response_statements,
)
from localjudge.types import Sample, Scored, Undefined

_NO_RESPONSE = "the response has no sentence"
_HEADLINES = {
    "f1": "in an average answer, {} of the points for saying exactly what the right answer says are earned",
    "precision": "in an average answer, {} of the sentences are in the right answer",
    "recall": "in an average right answer, {} of the sentences are in the answer",
}


@dataclass(frozen=True, kw_only=True)
class AnswerCorrectness(WithOptions):
    """Agreement of response and reference by sentence. Raises InputError for an unknown mode."""

    mode: Literal["f1", "precision", "recall"] = "f1"
    base = "answer_correctness"
    version = 2
    required_fields = frozenset({"response", "reference"})
    common_tasks = frozenset({"attribution"})

    @property
    def about(self) -> About:
        return About(
            question="sentence of the response: is it in the reference? "
            "Sentence of the reference: is it in the response?",
            unit="sentences of response and reference",
            headline=_HEADLINES[self.mode],
            source="RAGChecker; ragas FactualCorrectness",
        )

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        response = response_statements(sample, sentences)
        reference = sentences(sample.reference or "")
        if not reference:
            return Undefined(reason="the reference has no sentence")
        stated = (prepared_response(sample, sentences).shown,) if response else ()
        precise = complete = []
        if self.mode != "recall":
            precise = attributions(sample, "response", response, (sample.reference or "",), "reference")
        if self.mode != "precision":
            complete = attributions(sample, "reference", reference, stated, "response")
        labels = [verdict.label for verdict in (yield [*precise, *complete])]
        if self.mode == "recall" or (self.mode == "precision" and precise):
            return Scored.fraction(labels)
        if self.mode == "precision":
            return Undefined(reason=_NO_RESPONSE)
        right, covered = sum(labels[: len(precise)]), sum(labels[len(precise) :])
        # 2PR / (P + R) with P = right / |precise| and R = covered / |complete|, as one division.
        value = 2 * right * covered / (right * len(complete) + covered * len(precise)) if right and covered else 0.0
        precision = f"precision {right}/{len(precise)}" if precise else _NO_RESPONSE
        return Scored(value=value, detail=f"{precision}, recall {covered}/{len(complete)}")
