'''Metrics. A file defines one, or a family: questions and arithmetic. `catalog` lists them all.

To write a metric, you need only this module. A complete example:

    """Correctness: how much of the response can be attributed to the reference."""

    from localjudge.metrics import Attribution, Sample, Scored, Sentences, Steps, Undefined, Unit


    class Correctness:
        """How much of the response is in the reference?"""

        name = "correctness"
        version = 1  # increase it when the same verdicts could give another score
        required_fields = frozenset({"response", "reference"})  # if one is null: Undefined

        def steps(self, sample: Sample, sentences: Sentences) -> Steps:
            statements = sentences(sample.response or "")
            if not statements:
                return Undefined(reason="the response has no sentence")
            verdicts = yield [
                Attribution(
                    unit=Unit(
                        kind="statement",
                        index=index,
                        source="response",
                        span=span,
                        against="reference",
                    ),
                    contexts=(sample.reference or "",),
                    user_input=sample.user_input,
                )
                for index, span in enumerate(statements)
            ]
            return Scored.share(verdicts)


    correctness = Correctness()

Register it with an entry point of the same name:

    [project.entry-points."localjudge.metrics"]
    correctness = "own_metrics:correctness"

`sentences` cuts any text verbatim. `response_statements(sample, sentences)` returns the sentences
of the response as the built-in metrics judge them: each has a `span` and its text `shown` to the
judge, without thinking, lists of sources and citation marks. Give both to the unit.

`steps` may yield several times, or never (`yield from ()`). A task is one question about one unit
of text:

    Attribution       can it be attributed to these contexts?
    Relevance         is it needed for the question?
    Usefulness        does it help to reach the reference?
    CustomQuestion    your own question; needs a judge that follows instructions

A judge that cannot do a metric's declared tasks is refused before the run: `common_tasks =
frozenset({"attribution"})`, or `special_tasks = frozenset({"criterion"})` for custom questions.
Optionally, `about = About(question=..., unit=..., source=...)` describes the metric to users and
annotators. `Scored.share` also gives the expected score, with probabilities in place of labels;
another formula gives it as `Scored(value=..., expected=...)`. An exception makes the sample
`Failed`; raise SampleError to give the reason.
'''

from localjudge.errors import SampleError
from localjudge.metrics.metric import About, Metric, Sentences, Steps, response_statements
from localjudge.types import (
    Attribution,
    Context,
    CustomQuestion,
    Failed,
    Label,
    Outcome,
    Relevance,
    Sample,
    Scored,
    Span,
    Task,
    Undefined,
    Unit,
    Usefulness,
    Verdict,
)

__all__ = [
    "About",
    "Attribution",
    "Context",
    "CustomQuestion",
    "Failed",
    "Label",
    "Metric",
    "Outcome",
    "Relevance",
    "Sample",
    "SampleError",
    "Scored",
    "Sentences",
    "Span",
    "Steps",
    "Task",
    "Undefined",
    "Unit",
    "Usefulness",
    "Verdict",
    "response_statements",
]
