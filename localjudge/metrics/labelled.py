"""Metrics of `calibrate`, which asks about labelled texts as they are and cuts no sentences."""

from localjudge.metrics.context_relevancy import ContextRelevancy
from localjudge.metrics.faithfulness import Faithfulness
from localjudge.metrics.metric import Sentences, Steps, attributions, score_share
from localjudge.types import Relevance, Sample, Span, Unit, context_texts

ATTRIBUTION_LABELS = "labelled_statements"
RELEVANCE_LABELS = "labelled_sentences"


class LabelledStatements(Faithfulness):
    """Can the statement, which is the whole response, be attributed to the contexts?"""

    name = ATTRIBUTION_LABELS

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        statement = Span.whole(sample.response or "")
        tasks = attributions(
            sample,
            "response",
            [statement],
            context_texts(sample.retrieved_contexts),
        )
        return score_share(tasks, "there is no statement")


class LabelledPassage(ContextRelevancy):
    """Which sentences of a passage are needed for the question? Each context is a sentence."""

    name = RELEVANCE_LABELS

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
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
