"""Context recall, faithfulness and answer correctness: how much of a text another one contains.

    context_recall = sentences attributed to the retrieved contexts / sentences of the reference
    faithfulness   = sentences attributed to the retrieved contexts / sentences of the response

    answer_correctness = 2 * precision * recall / (precision + recall), 0 if one of them is 0

    precision   sentences of the response attributed to the reference / sentences of the response
    recall      sentences of the reference attributed to the response / sentences of the reference

`answer_correctness(mode=precision)` and `(mode=recall)` ask half of the questions. The expected f1
is computed from expected counts: the sums of probabilities of each side. A true sentence that the
reference lacks lowers precision.

Thinking, lists of sources and citation marks are not part of a sentence of the response
(`localjudge.text.responses`). For faithfulness, its sentences without a claim, such as "Kind
regards," and refusals, are not asked about, but counted apart; "Yes." and "No." are judged with the
question (`localjudge.text.claims`).

Source: RAGAS `context_recall` and `faithfulness` (Es et al., 2023). There the judge re-splits the
text; here the sentences are split first and counted by index. Of answer correctness: RAGChecker (Ru
et al., 2024), overall precision, recall and F1, with sentences as claims. ragas's
`FactualCorrectness` computes recall from the claims of the *response* instead.

Empty cases: no sentence in the reference, for faithfulness no sentence in the response or none with
a claim, and for precision no sentence in the response, is `Undefined`. Without context text, the
score is 0 of N, and for a response without a sentence, recall and f1 are 0, all without asking the
model.

`calibrate` asks `labelled_statements` about labelled texts as they are, and cuts no sentences.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import fsum
from typing import Literal

from localjudge.metrics.metric import (
    NO_REFERENCE,
    NO_RESPONSE,
    About,
    BuiltIn,
    Formula,
    Sentences,
    StatementSource,
    Steps,
    attributions,
    labels_of,
    name_with_option,
    nothing_retrieved,
    prepared_response,
    response_statements,
    score_share,
    units_of,
)
from localjudge.text.claims import WITHOUT_CLAIM, has_claim, is_bare_answer
from localjudge.text.responses import Statement
from localjudge.types import Attribution, Sample, Scored, Span, Undefined, Unit, context_texts

ATTRIBUTION_LABELS = "labelled_statements"
_ARE_SUPPORTED = "are supported by the documents"


def context_recall() -> BuiltIn:
    """Share of the reference's sentences that can be attributed to the contexts."""

    def steps(sample: Sample, sentences: Sentences) -> Steps:
        statements = sentences(sample.reference or "")
        contexts = context_texts(sample.retrieved_contexts)
        tasks = attributions(sample, "reference", statements, contexts)
        return score_share(tasks, NO_REFERENCE, nothing_retrieved(sample))

    return _share_attributed("context_recall", steps, "reference", "right answer")


def faithfulness() -> BuiltIn:
    """Share of the response's sentences that can be attributed to the contexts."""
    return _share_attributed("faithfulness", _ask_about_response, "response", "answer", version=3)


def _share_attributed(
    name: str,
    steps: Callable[[Sample, Sentences], Steps],
    field: StatementSource,
    called: str,
    *,
    version: int = 1,
) -> BuiltIn:
    """Return the metric with the name of RAGAS about the sentences of a field, `called` so."""
    return BuiltIn(
        name,
        steps,
        version=version,
        required_fields=frozenset({field, "retrieved_contexts"}),
        common_tasks=frozenset({"attribution"}),
        about=About(
            question=f"sentence of the {field}: can it be attributed to the retrieved contexts?",
            unit=f"sentences of the {field}",
            headline=f"in an average {called}, {{}} of the sentences {_ARE_SUPPORTED}",
            counted="attributed",
            source=f"RAGAS {name}",
        ),
    )


def _ask_about_response(sample: Sample, sentences: Sentences) -> Steps:
    question = (sample.user_input or "").strip()
    statements: list[Statement] = []
    for statement in response_statements(sample, sentences):
        if question and is_bare_answer(statement.shown):
            statements.append(statement._replace(shown=f"{question} {statement.shown}"))
        else:
            statements.append(statement)
    contexts = context_texts(sample.retrieved_contexts)
    tasks = []
    for task in attributions(sample, "response", statements, contexts):
        if has_claim(task.unit.text):
            tasks.append(task)
    details = []
    if len(tasks) < len(statements):
        details.append(f"{len(statements) - len(tasks)} {WITHOUT_CLAIM}")
    details += filter(None, [nothing_retrieved(sample)])
    if_none = NO_RESPONSE
    if statements:
        if_none = "no sentence of the response claims anything"
    return score_share(tasks, if_none, ", ".join(details) or None)


_Mode = Literal["f1", "precision", "recall"]

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
        lambda sample, sentences: _ask_about_both(sample, sentences, mode),
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


def _ask_about_both(sample: Sample, sentences: Sentences, mode: _Mode) -> Steps:
    response = response_statements(sample, sentences)
    reference = sentences(sample.reference or "")
    if not reference:
        return Undefined(reason=NO_REFERENCE)
    if mode == "precision" and not response:
        return Undefined(reason=NO_RESPONSE)
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
    precision = NO_RESPONSE
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


def labelled_statements() -> BuiltIn:
    """Can the statement, which is the whole response, be attributed to the contexts?"""

    def steps(sample: Sample, _: Sentences) -> Steps:
        tasks = attributions(
            sample,
            "response",
            [Span.whole(sample.response or "")],
            context_texts(sample.retrieved_contexts),
        )
        return score_share(tasks, "there is no statement")

    return replace(faithfulness(), name=ATTRIBUTION_LABELS, steps=steps)
