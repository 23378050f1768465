"""Metrics of `calibrate`, which asks about labelled texts as they are and cuts no sentences."""

from dataclasses import replace

from localjudge.metrics.context_relevancy import context_relevancy
from localjudge.metrics.faithfulness import faithfulness
from localjudge.metrics.metric import BuiltIn, Sentences, Steps, attributions, score_share
from localjudge.types import Relevance, Sample, Span, Unit, context_texts

ATTRIBUTION_LABELS = "labelled_statements"
RELEVANCE_LABELS = "labelled_sentences"


def labelled_statements() -> BuiltIn:
    """Can the statement, which is the whole response, be attributed to the contexts?"""
    return replace(faithfulness(), name=ATTRIBUTION_LABELS, steps=_ask_about_statement)


def _ask_about_statement(sample: Sample, _: Sentences) -> Steps:
    tasks = attributions(
        sample,
        "response",
        [Span.whole(sample.response or "")],
        context_texts(sample.retrieved_contexts),
    )
    return score_share(tasks, "there is no statement")


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
