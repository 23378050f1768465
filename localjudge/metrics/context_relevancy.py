"""Context relevancy, by sentence and by chunk: how much of what was retrieved is needed for the question.

    context_relevancy       = sentences of the contexts needed for the question / sentences of the contexts
    context_relevancy_chunk = chunks needed for the question / chunks

Source: the formula of RAGAS v0.0 to v0.1.10 (`ContextRelevancy`). There the judge copied the sentences that it found
relevant, or wrote "Insufficient Information", and both were counted as text: obeying the prompt scored 1/N, and copies
that were re-split scored above 1. Here the units are cut first and counted by index, and each sentence is shown beside
all contexts, as there, since they tell what its pronouns mean. (ragas 0.2 and later use the name `ContextRelevance` for
a graded rating, which is another metric.)

Sentence level punishes a long chunk that holds one good sentence, which is what a retriever returns; chunk level
counts such a chunk as needed.

Empty cases: no sentence (chunk) in the contexts, or no question, is `Undefined`. (RAGAS v0.1 gave 0.)
"""

from collections.abc import Iterator
from dataclasses import dataclass

from localjudge.metrics.metric import About, Sentences, Steps, chunks
from localjudge.types import Relevance, Sample, Scored, Undefined, Unit, context_texts


@dataclass(frozen=True)
class ContextRelevancy:
    """Share of the contexts' sentences that are needed to answer the question."""

    name = "context_relevancy"
    version = 1
    required_fields = frozenset({"user_input", "retrieved_contexts"})
    common_tasks = frozenset({"relevance_sentence"})
    said_of_a_unit = "needed"
    about = About(
        asks="sentence of the contexts: is it needed to answer the question?",
        verdicts="sentences of the contexts",
        source="RAGAS v0.1 ContextRelevancy",
    )

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask about every sentence of every context, beside all contexts."""
        units = list(_context_sentences(sample, sentences))
        contexts = context_texts(sample.retrieved_contexts)
        return _share_needed(sample, units, "the contexts have no sentence", beside=contexts)


@dataclass(frozen=True)
class ContextRelevancyChunk:
    """Share of the contexts that are needed to answer the question."""

    name = "context_relevancy_chunk"
    version = 1
    required_fields = frozenset({"user_input", "retrieved_contexts"})
    common_tasks = frozenset({"relevance_chunk"})
    said_of_a_unit = "needed"
    about = About(
        asks="context: is it needed to answer the question?",
        verdicts="contexts",
        source="RAGAS v0.1 ContextRelevancy, by context",
    )

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask about every context."""
        return _share_needed(sample, list(chunks(sample)), "the contexts have no chunk")


def _context_sentences(sample: Sample, sentences: Sentences) -> Iterator[Unit]:
    """Each sentence of each retrieved context, numbered through all of them."""
    placed = (
        (position, span)
        for position, text in enumerate(context_texts(sample.retrieved_contexts))
        for span in sentences(text)
    )
    for index, (position, span) in enumerate(placed):
        yield Unit(kind="sentence", index=index, source="retrieved_contexts", source_index=position, span=span)


def _share_needed(sample: Sample, units: list[Unit], none_found: str, *, beside: tuple[str, ...] = ()) -> Steps:
    question = (sample.user_input or "").strip()
    if not question:
        return Undefined(reason="there is no question")
    if not units:
        return Undefined(reason=none_found)
    verdicts = yield [Relevance(unit=unit, user_input=question, contexts=beside) for unit in units]
    return Scored.fraction(verdict.label for verdict in verdicts)
