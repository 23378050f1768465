"""Context relevancy: how much of the retrieved text is needed, by sentence and by chunk.

    context_relevancy       = sentences needed for the question / sentences of the contexts
    context_relevancy_chunk = chunks needed for the question / chunks

Each sentence is shown with all contexts, which resolves its pronouns.

Source: the formula of RAGAS v0.0 to v0.1.10 (`ContextRelevancy`), where the judge copied the
relevant sentences. (The `ContextRelevance` of ragas 0.2 is another metric.)

Empty cases: no sentence (chunk) in the contexts, or no question, is `Undefined`. (RAGAS v0.1 gave
0.)
"""

from collections.abc import Iterable

from localjudge.metrics.metric import About, BuiltIn, Sentences, Steps, chunks, score_share
from localjudge.types import Relevance, Sample, Undefined, Unit, context_texts

_ARE_NEEDED = "are needed to answer the question"


def context_relevancy() -> BuiltIn:
    """Share of the contexts' sentences that are needed for the question."""
    return BuiltIn(
        "context_relevancy",
        _ask_about_sentences,
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


def _ask_about_sentences(sample: Sample, sentences: Sentences) -> Steps:
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
