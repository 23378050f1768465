"""Rows that people labelled, asked as a run asks: the statements and sentences stand as they were labelled, uncut.

    context, statement, label         response = the statement                 one question, as of faithfulness
    question, sentences, relevant     retrieved_contexts = the sentences       one each, as of context_relevancy

The other metrics cut their texts into sentences, and a labelled statement may be two of them. The scores mean no more
than that so many are taken for 1: what a judge is worth is worked out from its verdicts (`localjudge calibrate`).
"""

from dataclasses import dataclass

from localjudge.metrics.metric import Sentences, Steps
from localjudge.types import Attribution, Relevance, Sample, Scored, Span, Undefined, Unit, context_texts

ATTRIBUTION_LABELS = "labelled_statements"
RELEVANCE_LABELS = "labelled_sentences"


@dataclass(frozen=True)
class LabelledStatements:
    """Whether the response, whole, can be attributed to the contexts."""

    name = ATTRIBUTION_LABELS
    version = 1
    required_fields = frozenset({"response", "retrieved_contexts"})
    common_tasks = frozenset({"attribution"})

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask about the response as one statement."""
        unit = Unit(kind="statement", index=0, source="response", span=Span.whole(sample.response or ""))
        contexts = context_texts(sample.retrieved_contexts)
        verdicts = yield [Attribution(unit=unit, contexts=contexts, user_input=sample.user_input)]
        return Scored.fraction(verdict.label for verdict in verdicts)


@dataclass(frozen=True)
class LabelledPassage:
    """Share of the retrieved contexts, each a sentence of one passage, that are needed to answer the question."""

    name = RELEVANCE_LABELS
    version = 1
    required_fields = frozenset({"user_input", "retrieved_contexts"})
    common_tasks = frozenset({"relevance_sentence"})

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask about every sentence, beside the passage that they make."""
        texts = context_texts(sample.retrieved_contexts)
        if not texts:
            return Undefined(reason="there is no sentence")
        verdicts = yield [
            Relevance(
                unit=Unit(kind="sentence", index=index, source="retrieved_contexts", source_index=index, span=span),
                user_input=sample.user_input or "",
                contexts=(" ".join(texts),),
            )
            for index, span in enumerate(map(Span.whole, texts))
        ]
        return Scored.fraction(verdict.label for verdict in verdicts)
