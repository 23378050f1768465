"""Faithfulness: how much of the response can be attributed to the retrieved contexts.

    faithfulness = sentences attributed to the retrieved contexts / sentences of the response

Thinking, lists of sources and citation marks are not part of a sentence
(`localjudge.text.responses`). Sentences without a claim, such as "Kind regards," and refusals, are
not asked about, but counted apart; "Yes." and "No." are judged with the question
(`localjudge.text.claims`).

Source: RAGAS `faithfulness` (Es et al., 2023), with the response's sentences as statements.

Empty cases: no sentence in the response, or none with a claim, is `Undefined`; no context text is
0 of N without asking the model.
"""

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
from localjudge.types import Sample, context_texts


def faithfulness() -> BuiltIn:
    """Share of the response's sentences that can be attributed to the contexts."""
    return BuiltIn(
        "faithfulness",
        _steps,
        version=3,
        required_fields=frozenset({"response", "retrieved_contexts"}),
        common_tasks=frozenset({"attribution"}),
        about=About(
            question="sentence of the response: can it be attributed to the retrieved contexts?",
            unit="sentences of the response",
            headline="in an average answer, {} of the sentences are supported by the documents",
            counted="attributed",
            source="RAGAS faithfulness",
        ),
    )


def _steps(sample: Sample, sentences: Sentences) -> Steps:
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
