"""Context recall and faithfulness: how much of a text can be attributed to the retrieved contexts.

    context_recall = sentences attributed to the retrieved contexts / sentences of the reference
    faithfulness   = sentences attributed to the retrieved contexts / sentences of the response

Thinking, lists of sources and citation marks are not part of a sentence of the response
(`localjudge.text.responses`). Its sentences without a claim, such as "Kind regards," and refusals,
are not asked about, but counted apart; "Yes." and "No." are judged with the question
(`localjudge.text.claims`).

Source: RAGAS `context_recall` and `faithfulness` (Es et al., 2023). There the judge re-splits the
text; here the sentences are split first and counted by index.

Empty cases: no sentence in the reference, no sentence in the response, or none with a claim, is
`Undefined`; no context text is 0 of N without asking the model.

`calibrate` asks `labelled_statements` about labelled texts as they are, and cuts no sentences.
"""

from dataclasses import replace

from localjudge.metrics.metric import (
    About,
    BuiltIn,
    Sentences,
    Steps,
    attributions,
    nothing_retrieved,
    response_statements,
    score_share,
)
from localjudge.text.claims import WITHOUT_CLAIM, has_claim, is_bare_answer
from localjudge.text.responses import Statement
from localjudge.types import Sample, Span, context_texts

ATTRIBUTION_LABELS = "labelled_statements"
_ARE_SUPPORTED = "are supported by the documents"


def context_recall() -> BuiltIn:
    """Share of the reference's sentences that can be attributed to the contexts."""
    return BuiltIn(
        "context_recall",
        _ask_about_reference,
        required_fields=frozenset({"reference", "retrieved_contexts"}),
        common_tasks=frozenset({"attribution"}),
        about=About(
            question="sentence of the reference: can it be attributed to the retrieved contexts?",
            unit="sentences of the reference",
            headline=f"in an average right answer, {{}} of the sentences {_ARE_SUPPORTED}",
            counted="attributed",
            source="RAGAS context_recall",
        ),
    )


def _ask_about_reference(sample: Sample, sentences: Sentences) -> Steps:
    statements = sentences(sample.reference or "")
    contexts = context_texts(sample.retrieved_contexts)
    tasks = attributions(sample, "reference", statements, contexts)
    return score_share(tasks, "the reference has no sentence", nothing_retrieved(sample))


def faithfulness() -> BuiltIn:
    """Share of the response's sentences that can be attributed to the contexts."""
    return BuiltIn(
        "faithfulness",
        _ask_about_response,
        version=3,
        required_fields=frozenset({"response", "retrieved_contexts"}),
        common_tasks=frozenset({"attribution"}),
        about=About(
            question="sentence of the response: can it be attributed to the retrieved contexts?",
            unit="sentences of the response",
            headline=f"in an average answer, {{}} of the sentences {_ARE_SUPPORTED}",
            counted="attributed",
            source="RAGAS faithfulness",
        ),
    )


def _ask_about_response(sample: Sample, sentences: Sentences) -> Steps:
    question = (sample.user_input or "").strip()
    statements: list[Statement] = []
    for statement in response_statements(sample, sentences):
        if question and is_bare_answer(statement.shown):
            statements.append(statement._replace(shown=f"{question} {statement.shown}"))
        else:
            statements.append(statement)
    contexts = context_texts(sample.retrieved_contexts)
    tasks = []
    for task in attributions(sample, "response", statements, contexts):
        if has_claim(task.unit.text):
            tasks.append(task)
    details = []
    if len(tasks) < len(statements):
        details.append(f"{len(statements) - len(tasks)} {WITHOUT_CLAIM}")
    details += filter(None, [nothing_retrieved(sample)])
    if_none = "the response has no sentence"
    if statements:
        if_none = "no sentence of the response claims anything"
    return score_share(tasks, if_none, ", ".join(details) or None)


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
