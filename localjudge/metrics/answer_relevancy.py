"""Answer relevancy: how much of the response addresses the question, true or not.

    answer_relevancy = sentences of the response that are needed to answer the question / sentences of the response

Each sentence is shown with the whole response, which resolves its pronouns. A refusal scores 0. Citation marks at the
end of a sentence are not part of it.

Source: the formula of DeepEval's `AnswerRelevancyMetric`, with sentences as statements. (ragas's `ResponseRelevancy` is
another metric.)

Empty cases: no sentence in the response, or no question, is `Undefined`.
"""

from localjudge.metrics.citations import response_sentences
from localjudge.metrics.context_relevancy import share_needed
from localjudge.metrics.metric import About, BuiltIn, Sentences, Steps
from localjudge.types import Sample, Unit


class AnswerRelevancy(BuiltIn):
    """Share of the response's sentences that address the question."""

    name = "answer_relevancy"
    required_fields = frozenset({"user_input", "response"})
    common_tasks = frozenset({"relevance_sentence"})
    about = About(
        question="sentence of the response: is it needed to answer the question?",
        unit="sentences of the response",
        headline="in an average answer, {} of the sentences are needed to answer the question",
        counted="needed",
        source="DeepEval AnswerRelevancyMetric, by sentence",
    )

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        units = [
            Unit(kind="sentence", index=index, source="response", span=sentence.span)
            for index, sentence in enumerate(response_sentences(sample, sentences))
        ]
        return share_needed(sample, units, "the response has no sentence", beside=(sample.response or "",))
