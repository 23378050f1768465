"""Context relevancy, by sentence and by chunk: how much of what was retrieved is needed for the question.

    context_relevancy       = sentences of the contexts needed for the question / sentences of the contexts
    context_relevancy_chunk = chunks needed for the question / chunks

Source: the formula of RAGAS v0.0 to v0.1.10 (`ContextRelevancy`). There the judge copied the sentences that it took for
relevant; here they are cut first and counted by index, and each is shown beside all contexts, which tell what its
pronouns mean. (ragas 0.2 and later use the name `ContextRelevance` for a graded rating, which is another metric.)

Empty cases: no sentence (chunk) in the contexts, or no question, is `Undefined`. (RAGAS v0.1 gave 0.)
"""

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
        contexts = context_texts(sample.retrieved_contexts)
        placed = [(position, span) for position, text in enumerate(contexts) for span in sentences(text)]
        units = [
            Unit(kind="sentence", index=index, source="retrieved_contexts", source_index=position, span=span)
            for index, (position, span) in enumerate(placed)
        ]
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


def _share_needed(sample: Sample, units: list[Unit], if_none: str, *, beside: tuple[str, ...] = ()) -> Steps:
    question = (sample.user_input or "").strip()
    if not question:
        return Undefined(reason="there is no question")
    if not units:
        return Undefined(reason=if_none)
    verdicts = yield [Relevance(unit=unit, user_input=question, contexts=beside) for unit in units]
    return Scored.fraction(verdict.label for verdict in verdicts)
