"""Refusal: does the response decline to answer?

    refusal = 1 if the response says that it cannot, may not or will not answer, or does not know, and gives no answer

The mean is the refusal rate. Whether a refusal was right is another question: `abstention` answers it. A hedged, short
or wrong answer is no refusal. It is judged, not searched for ("sorry", "I cannot"): such lists take a part for the
whole, and hold for one language. promptfoo's `is-refusal` is such a search, and takes an empty output for a refusal;
Phoenix's refusal evaluator asks a model for a word. Here it is one verdict with its probability. DeepEval and ragas
count refusals only as irrelevant or noncommittal answers.

Lower is better: of two systems that are as faithful, the one that refuses less serves better. Only a judge that reads
instructions can be asked; the question is shown to it where there is one. Empty cases: a response without a letter or
digit is `Undefined`: it says nothing, not even that.
"""

from dataclasses import dataclass

from localjudge.metrics.about import About
from localjudge.metrics.metric import Sentences, Steps
from localjudge.types import Refusal, Sample, Scored, Span, Undefined, Unit


@dataclass(frozen=True)
class ResponseRefusal:
    """Whether the response declines to answer."""

    name = "refusal"
    version = 1
    lower_is_better = True
    required_fields = frozenset({"response"})
    special_tasks = frozenset({"refusal"})
    about = About(
        asks="response: does it decline to answer?",
        verdicts="1",
        source="Phoenix, promptfoo is-refusal",
    )

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask once about the whole response."""
        if not sentences(sample.response or ""):
            return Undefined(reason="the response has no sentence")
        verdicts = yield [refusal_of(sample)]
        return Scored.fraction(verdict.label for verdict in verdicts)


def refusal_of(sample: Sample) -> Refusal:
    """Does the response decline to answer?"""
    unit = Unit(kind="response", index=0, source="response", span=Span.whole(sample.response or ""))
    return Refusal(unit=unit, user_input=sample.user_input)
