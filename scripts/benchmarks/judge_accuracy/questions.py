"""Metrics that ask one question about a sample: the labelled text is not cut into sentences."""

from localjudge.metrics import Attribution, Relevance, Sample, Scored, Sentences, Steps, Unit
from localjudge.types import Span, context_texts


class WholeStatement:
    """Can the response, as one statement, be attributed to the contexts?"""

    name = "whole_statement"
    version = 1
    required_fields = frozenset({"response", "retrieved_contexts"})
    common_tasks = frozenset({"attribution"})

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask one question, like faithfulness about each sentence."""
        span = Span.whole(sample.response or "")
        unit = Unit(kind="statement", index=0, source="response", span=span)
        contexts = context_texts(sample.retrieved_contexts)
        verdicts = yield [Attribution(unit=unit, contexts=contexts)]
        return Scored.fraction(verdict.label for verdict in verdicts)


class OneSentence:
    """Is the sentence in the response, which is a part of the contexts, needed for the question?"""

    name = "one_sentence"
    version = 1
    required_fields = frozenset({"user_input", "response", "retrieved_contexts"})
    common_tasks = frozenset({"relevance_sentence"})

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask one question, like context_relevancy about each sentence."""
        contexts = context_texts(sample.retrieved_contexts)
        unit = _locate(sample.response or "", contexts)
        verdicts = yield [
            Relevance(unit=unit, user_input=sample.user_input or "", contexts=contexts)
        ]
        return Scored.fraction(verdict.label for verdict in verdicts)


def _locate(sentence: str, contexts: tuple[str, ...]) -> Unit:
    place = next(place for place, context in enumerate(contexts) if sentence in context)
    start = contexts[place].index(sentence)
    span = Span(start=start, end=start + len(sentence), text=sentence)
    return Unit(
        kind="sentence",
        index=0,
        source="retrieved_contexts",
        source_index=place,
        span=span,
    )
