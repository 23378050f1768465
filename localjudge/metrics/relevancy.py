"""Relevancy and context precision: what is needed for the question, and is it ranked first?

    context_relevancy       = sentences needed for the question / sentences of the contexts
    context_relevancy_chunk = chunks needed for the question / chunks
    answer_relevancy        = sentences needed for the question / sentences of the response
    context_precision
        = sum over useful chunks i of (useful among the first i / i)  /  useful chunks
        = sum over i of v_i x ((v_1 + ... + v_i) / i)  /  (v_1 + v_2 + ...)

Each sentence is shown with all contexts, or with the whole response, which resolves its pronouns. A
sentence of the response may be true or not, and a refusal scores 0. Thinking and lists of sources
are left out of the response, and citation marks are not part of a sentence.

Context precision is average precision. v_i is 1 for a useful chunk, otherwise 0; the expected score
takes the probability in its place. `context_precision(against=response)` needs no reference: a
chunk is useful if the *response* can be taken from it.

Source: the formula of RAGAS v0.0 to v0.1.10 (`ContextRelevancy`), where the judge copied the
relevant sentences; the formula of DeepEval's `AnswerRelevancyMetric`, with sentences as statements.
(The `ContextRelevance` of ragas 0.2 and the `ResponseRelevancy` of ragas are other metrics.) RAGAS
`LLMContextPrecisionWithReference` and `LLMContextPrecisionWithoutReference`, which add 1e-10 to the
denominator; here the division is exact.

Empty cases: no question, no sentence (chunk) in the contexts, or no sentence in the response, is
`Undefined` (RAGAS v0.1 gave 0), and for precision also no reference (response). Precision without
useful chunks is 0.

`calibrate` asks `labelled_sentences` about labelled texts as they are, and cuts no sentences.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import fsum
from typing import Literal

from localjudge.metrics.metric import (
    NO_CHUNK,
    NO_QUESTION,
    NO_RESPONSE,
    About,
    BuiltIn,
    Sentences,
    Steps,
    chunks,
    labels_of,
    name_with_option,
    prepared_response,
    response_statements,
    score_share,
    shown_if_other,
)
from localjudge.types import (
    Relevance,
    Sample,
    Scored,
    Span,
    Undefined,
    Unit,
    Usefulness,
    context_texts,
)

RELEVANCE_LABELS = "labelled_sentences"
_ARE_NEEDED = "are needed to answer the question"


def context_relevancy() -> BuiltIn:
    """Share of the contexts' sentences that are needed for the question."""

    def steps(sample: Sample, sentences: Sentences) -> Steps:
        contexts = context_texts(sample.retrieved_contexts)
        units: list[Unit] = []
        for position, text in enumerate(contexts):
            for span in sentences(text):
                unit = Unit(
                    kind="sentence",
                    index=len(units),
                    source="retrieved_contexts",
                    source_index=position,
                    span=span,
                )
                units.append(unit)
        return _share_needed(sample, units, "the contexts have no sentence", beside=contexts)

    return BuiltIn(
        "context_relevancy",
        steps,
        required_fields=frozenset({"user_input", "retrieved_contexts"}),
        common_tasks=frozenset({"relevance_sentence"}),
        about=About(
            question="sentence of the contexts: is it needed to answer the question?",
            unit="sentences of the contexts",
            headline=f"in an average sample, {{}} of the sentences in the documents {_ARE_NEEDED}",
            counted="needed",
            source="RAGAS v0.1 ContextRelevancy",
        ),
    )


def context_relevancy_chunk() -> BuiltIn:
    """Share of the contexts that are needed for the question."""
    return BuiltIn(
        "context_relevancy_chunk",
        lambda sample, _: _share_needed(sample, chunks(sample), NO_CHUNK),
        required_fields=frozenset({"user_input", "retrieved_contexts"}),
        common_tasks=frozenset({"relevance_chunk"}),
        about=About(
            question="context: is it needed to answer the question?",
            unit="contexts",
            headline=f"in an average sample, {{}} of the documents {_ARE_NEEDED}",
            counted="needed",
            source="RAGAS v0.1 ContextRelevancy, by context",
        ),
    )


def _share_needed(
    sample: Sample,
    units: Iterable[Unit],
    if_none: str,
    *,
    beside: tuple[str, ...] = (),
) -> Steps:
    """Ask which units are needed for the question, each shown with the texts `beside`."""
    question = (sample.user_input or "").strip()
    if not question:
        return Undefined(reason=NO_QUESTION)
    tasks = [Relevance(unit=unit, user_input=question, contexts=beside) for unit in units]
    return (yield from score_share(tasks, if_none))


def answer_relevancy() -> BuiltIn:
    """Share of the response's sentences that address the question."""
    return BuiltIn(
        "answer_relevancy",
        _ask_about_response,
        version=2,
        required_fields=frozenset({"user_input", "response"}),
        common_tasks=frozenset({"answer_sentence"}),
        about=About(
            question="sentence of the response: is it needed to answer the question?",
            unit="sentences of the response",
            headline=f"in an average answer, {{}} of the sentences {_ARE_NEEDED}",
            counted="needed",
            source="DeepEval AnswerRelevancyMetric, by sentence",
        ),
    )


def _ask_about_response(sample: Sample, sentences: Sentences) -> Steps:
    question = (sample.user_input or "").strip()
    if not question:
        return Undefined(reason=NO_QUESTION)
    response = prepared_response(sample, sentences)
    tasks = []
    for index, statement in enumerate(response_statements(sample, sentences)):
        shown = shown_if_other(statement)
        unit = Unit(
            kind="sentence",
            index=index,
            source="response",
            span=statement.span,
            shown=shown,
        )
        start = response.offset_in_shown(statement.span.start)
        tasks.append(
            Relevance(unit=unit, user_input=question, contexts=(response.shown,), start=start),
        )
    return (yield from score_share(tasks, NO_RESPONSE))


_Answer = Literal["reference", "response"]
_HEADLINE = (
    "with 100 % if all useful documents come first, their order reaches {} in an average sample"
)


def context_precision(*, against: _Answer = "reference") -> BuiltIn:
    """Average precision of the useful chunks."""
    return BuiltIn(
        name_with_option("context_precision", "against", against, default="reference"),
        lambda sample, sentences: _ask_about_chunks(sample, against),
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


def _ask_about_chunks(sample: Sample, against: _Answer) -> Steps:
    question = (sample.user_input or "").strip()
    answer = (getattr(sample, against) or "").strip()
    units = list(chunks(sample))
    if not question:
        return Undefined(reason=NO_QUESTION)
    if not answer:
        return Undefined(reason=f"there is no {against}")
    if not units:
        return Undefined(reason=NO_CHUNK)
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


def labelled_sentences() -> BuiltIn:
    """Which sentences of a passage are needed for the question? Each context is a sentence."""

    def steps(sample: Sample, _: Sentences) -> Steps:
        question = sample.user_input or ""
        texts = context_texts(sample.retrieved_contexts)
        passage = " ".join(texts)
        tasks = []
        for index, text in enumerate(texts):
            unit = Unit(
                kind="sentence",
                index=index,
                source="retrieved_contexts",
                source_index=index,
                span=Span.whole(text),
            )
            tasks.append(Relevance(unit=unit, user_input=question, contexts=(passage,)))
        return score_share(tasks, "there is no sentence")

    return replace(context_relevancy(), name=RELEVANCE_LABELS, steps=steps)
