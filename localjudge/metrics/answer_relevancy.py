"""Answer relevancy: how much of the response addresses the question, true or not.

    answer_relevancy = sentences needed to answer the question / sentences of the response

Each sentence is shown with the whole response, which resolves its pronouns. A refusal scores 0.
Thinking and lists of sources are left out, and citation marks are not part of a sentence.

Source: the formula of DeepEval's `AnswerRelevancyMetric`, with sentences as statements. (ragas's
`ResponseRelevancy` is another metric.)

Empty cases: no sentence in the response, or no question, is `Undefined`.
"""

from localjudge.metrics.metric import (
    About,
    BuiltIn,
    Sentences,
    Steps,
    prepared_response,
    response_statements,
    score_share,
    shown_if_other,
)
from localjudge.types import Relevance, Sample, Undefined, Unit


def answer_relevancy() -> BuiltIn:
    """Share of the response's sentences that address the question."""
    return BuiltIn(
        "answer_relevancy",
        _steps,
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


def _steps(sample: Sample, sentences: Sentences) -> Steps:
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
