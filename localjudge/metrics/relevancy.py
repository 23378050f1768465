"""Relevancy: how much of the contexts, or of the response, is needed for the question.

    context_relevancy       = sentences needed for the question / sentences of the contexts
    context_relevancy_chunk = chunks needed for the question / chunks
    answer_relevancy        = sentences needed for the question / sentences of the response

Each sentence is shown with all contexts, or with the whole response, which resolves its pronouns. A
sentence of the response may be true or not, and a refusal scores 0. Thinking and lists of sources
are left out of the response, and citation marks are not part of a sentence.

Source: the formula of RAGAS v0.0 to v0.1.10 (`ContextRelevancy`), where the judge copied the
relevant sentences; the formula of DeepEval's `AnswerRelevancyMetric`, with sentences as statements.
(The `ContextRelevance` of ragas 0.2 and the `ResponseRelevancy` of ragas are other metrics.)

Empty cases: no sentence (chunk) in the contexts, no sentence in the response, or no question, is
`Undefined`. (RAGAS v0.1 gave 0.)

`calibrate` asks `labelled_sentences` about labelled texts as they are, and cuts no sentences.
"""

from collections.abc import Iterable
from dataclasses import replace

from localjudge.metrics.metric import (
    About,
    BuiltIn,
    Sentences,
    Steps,
    chunks,
    prepared_response,
    response_statements,
    score_share,
    shown_if_other,
)
from localjudge.types import Relevance, Sample, Span, Undefined, Unit, context_texts

RELEVANCE_LABELS = "labelled_sentences"
_ARE_NEEDED = "are needed to answer the question"


def context_relevancy() -> BuiltIn:
    """Share of the contexts' sentences that are needed for the question."""
    return BuiltIn(
        "context_relevancy",
        _ask_about_contexts,
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


def _ask_about_contexts(sample: Sample, sentences: Sentences) -> Steps:
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


def context_relevancy_chunk() -> BuiltIn:
    """Share of the contexts that are needed for the question."""
    return BuiltIn(
        "context_relevancy_chunk",
        lambda sample, _: _share_needed(sample, chunks(sample), "the contexts have no chunk"),
        required_fields=frozenset({"user_input", "retrieved_contexts"}),
        common_tasks=frozenset({"relevance_chunk"}),
        about=About(
            question="context: is it needed to answer the question?",
            unit="contexts",
            headline="in an average sample, {} of the documents are needed to answer the question",
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
        return Undefined(reason="there is no question")
    tasks = [Relevance(unit=unit, user_input=question, contexts=beside) for unit in units]
    return (yield from score_share(tasks, if_none))


def answer_relevancy() -> BuiltIn:
    """Share of the response's sentences that address the question."""
    return BuiltIn(
        "answer_relevancy",
        _ask_about_response,
        version=2,
        required_fields=frozenset({"user_input", "response"}),
        common_tasks=frozenset({"relevance_sentence"}),
        about=About(
            question="sentence of the response: is it needed to answer the question?",
            unit="sentences of the response",
            headline="in an average answer, {} of the sentences are needed to answer the question",
            counted="needed",
            source="DeepEval AnswerRelevancyMetric, by sentence",
        ),
    )


def _ask_about_response(sample: Sample, sentences: Sentences) -> Steps:
    question = (sample.user_input or "").strip()
    if not question:
        return Undefined(reason="there is no question")
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
    return (yield from score_share(tasks, "the response has no sentence"))


def labelled_sentences() -> BuiltIn:
    """Which sentences of a passage are needed for the question? Each context is a sentence."""
    return replace(context_relevancy(), name=RELEVANCE_LABELS, steps=_ask_about_passage)


def _ask_about_passage(sample: Sample, _: Sentences) -> Steps:
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
