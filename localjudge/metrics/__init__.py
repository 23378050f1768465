'''Metrics: one file, one definition, its questions and its arithmetic. `catalog` is the one table of them.

The author of a metric needs only this module. A whole one, judged:

    """Correctness: how much of the response can be attributed to the reference."""

    from localjudge.metrics import Attribution, Sample, Scored, Sentences, Steps, Undefined, Unit


    class Correctness:
        """How much of the response is in the reference?"""

        name = "correctness"
        version = 1  # raise it whenever the same verdicts could give another number
        required_fields = frozenset({"response", "reference"})  # a sample where one is null is Undefined

        def steps(self, sample: Sample, sentences: Sentences) -> Steps:
            statements = sentences(sample.response or "")
            if not statements:
                return Undefined(reason="the response has no sentence")
            verdicts = yield [
                Attribution(
                    unit=Unit(kind="statement", index=index, source="response", span=span, against="reference"),
                    contexts=(sample.reference or "",),
                    user_input=sample.user_input,
                )
                for index, span in enumerate(statements)
            ]
            return Scored.fraction(verdict.label for verdict in verdicts)


    correctness = Correctness()

It is installed by an entry point under its name:

    [project.entry-points."localjudge.metrics"]
    correctness = "own_metrics:correctness"

`steps` may yield several times, or nothing (`yield from ()`). A task is one question about one unit of text:
`Attribution` (can it be attributed to these contexts?), `Relevance` (is it needed for the question?), `Usefulness`
(does it help to arrive at the reference?), or a `CustomQuestion` in any words. That one needs a judge that reads
instructions, so its metric has `special_tasks = frozenset({"criterion"})`; with `common_tasks =
frozenset({"attribution"})` it is refused by judges of other tasks before anything is asked. Optionally, `about =
About(question=..., unit=..., source=...)` is what `run --list-metrics` shows and annotators are asked. An exception
fails the sample; SampleError gives the reason.
'''

from localjudge.errors import SampleError
from localjudge.metrics.metric import About, Metric, Sentences, Steps
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
]
