"""Abstention: does the system answer when it can, and refuse when it cannot?

                             response answers      response refuses
    contexts suffice         answered rightly      over-refused
    contexts do not          made up               refused rightly

    context_sufficiency             1 if the contexts have all that an answer needs, otherwise 0
    refusal                         1 if the response refuses, otherwise 0; lower is better
    abstention                      answered or refused rightly / all
    abstention(mode=over_refused)   over-refused / samples with sufficient contexts; lower is better
    abstention(mode=made_up)        made up / samples with insufficient contexts; lower is better

With s and r, the probabilities that the contexts suffice and that the response refuses, the
expected scores are s (1 - r) + (1 - s) r, r, and 1 - r. The labels decide the row of a sample.

A response refuses if it says that it cannot, may not or will not answer, or does not know, and
gives no answer. The judge decides this, not a list of phrases. A "made up" answer cannot come from
the contexts, but may be true. A mode is `Undefined` for samples of the other row.

Source: Joren et al., "Sufficient Context: A New Lens on Retrieval Augmented Generation Systems"
(ICLR 2025), with its table. Contexts too long for the model are judged in windows, and one
sufficient window is enough.

Needs a judge that follows instructions. Empty cases: a missing question is `Undefined`, except for
`refusal`, and a response without a sentence, except for `context_sufficiency`. Without context
text, the contexts do not suffice, and the model is not asked.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal

from localjudge.metrics.metric import (
    NO_QUESTION,
    NO_RESPONSE,
    About,
    BuiltIn,
    Sentences,
    Steps,
    name_with_option,
    nothing_retrieved,
    prepared_response,
    response_statements,
    score_share,
)
from localjudge.types import (
    Refusal,
    Sample,
    Scored,
    Span,
    Sufficiency,
    Undefined,
    Unit,
    context_texts,
)


def context_sufficiency() -> BuiltIn:
    """Whether the question can be answered from the contexts."""

    def steps(sample: Sample, sentences: Sentences) -> Steps:
        if not (sample.user_input or "").strip():
            return Undefined(reason=NO_QUESTION)
        [verdict] = yield [_ask_sufficiency(sample)]
        return Scored.fraction([verdict.label], detail=nothing_retrieved(sample))

    return BuiltIn(
        "context_sufficiency",
        steps,
        required_fields=frozenset({"user_input", "retrieved_contexts"}),
        special_tasks=frozenset({"sufficiency"}),
        about=About(
            question="question: can it be answered from the retrieved contexts?",
            unit="1",
            headline="{} of the questions can be answered from the documents",
            source="Joren et al. 2025, Sufficient Context",
        ),
    )


def _ask_sufficiency(sample: Sample) -> Sufficiency:
    """Ask whether the contexts contain everything that an answer needs."""
    question = sample.user_input or ""
    unit = Unit(kind="question", index=0, source="user_input", span=Span.whole(question))
    return Sufficiency(
        unit=unit,
        contexts=context_texts(sample.retrieved_contexts),
        user_input=question.strip(),
    )


def refusal() -> BuiltIn:
    """Whether the response declines to answer."""

    def steps(sample: Sample, sentences: Sentences) -> Steps:
        tasks = []
        if response_statements(sample, sentences):
            tasks.append(_ask_refusal(sample, sentences))
        return score_share(tasks, NO_RESPONSE)

    return BuiltIn(
        "refusal",
        steps,
        version=2,
        lower_is_better=True,
        required_fields=frozenset({"response"}),
        special_tasks=frozenset({"refusal"}),
        about=About(
            question="response: does it decline to answer?",
            unit="1",
            headline="{} of the answers decline to answer",
            source="Phoenix, promptfoo is-refusal",
        ),
    )


def _ask_refusal(sample: Sample, sentences: Sentences) -> Refusal:
    """Ask about the response without its thinking and its list of sources."""
    response = prepared_response(sample, sentences)
    shown = response.shown if response.left_out else None
    unit = Unit(
        kind="response",
        index=0,
        source="response",
        span=Span.whole(response.text),
        shown=shown,
    )
    return Refusal(unit=unit, user_input=sample.user_input)


_Mode = Literal["right", "over_refused", "made_up"]
_CELLS = {
    (1, 0): "answered rightly",
    (1, 1): "over-refused",
    (0, 0): "made up",
    (0, 1): "refused rightly",
}
"""By (the contexts suffice, the response refuses)."""
_SUFFICIENT = "question: can it be answered from the contexts?"
_HEADLINES = {
    "right": "{} of the questions are answered or declined correctly, given the documents",
    "over_refused": "{} of the questions that the documents answer are declined",
    "made_up": "{} of the questions that the documents do not answer are answered anyway",
}


def abstention(*, mode: _Mode = "right") -> BuiltIn:
    """Whether answering or refusing was right for the contexts."""
    return BuiltIn(
        name_with_option("abstention", "mode", mode, default="right"),
        lambda sample, sentences: _ask_whether_right(sample, sentences, mode),
        version=2,
        formula=partial(_probability_of_cell, mode),
        options={"mode": mode},
        lower_is_better=mode != "right",
        required_fields=frozenset({"user_input", "response", "retrieved_contexts"}),
        special_tasks=frozenset({"sufficiency", "refusal"}),
        about=About(
            question=f"{_SUFFICIENT} Response: does it decline to answer?",
            unit="2",
            headline=_HEADLINES[mode],
            source="Joren et al. 2025, Sufficient Context",
        ),
    )


def _ask_whether_right(sample: Sample, sentences: Sentences, mode: _Mode) -> Steps:
    if not (sample.user_input or "").strip():
        return Undefined(reason=NO_QUESTION)
    if not response_statements(sample, sentences):
        return Undefined(reason=NO_RESPONSE)
    sufficient, refused = yield [_ask_sufficiency(sample), _ask_refusal(sample, sentences)]
    cell = _CELLS[sufficient.label, refused.label]
    if sufficient.label and mode == "made_up":
        return Undefined(reason=f"the contexts suffice: {cell}")
    if not sufficient.label and mode == "over_refused":
        return Undefined(reason=f"the contexts do not suffice: {cell}")
    is_right = sufficient.label != refused.label
    counted = int(is_right == (mode == "right"))
    return Scored(value=counted, numerator=counted, denominator=1, detail=cell)


def _probability_of_cell(mode: _Mode, _: Sequence[Unit], values: Sequence[float]) -> float:
    sufficient, refused = values
    if mode == "over_refused":
        return refused
    if mode == "made_up":
        return 1 - refused
    return sufficient * (1 - refused) + (1 - sufficient) * refused
